"""Deployments as rows: made, moved, deleted, and what becomes of their jobs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from sqlalchemy import Connection, event

from conftest import Run
from fairlead.domain.deployments import (
    DeploymentEvent,
    DeploymentFaultError,
    DeploymentNotFound,
    DeploymentNotReady,
    DeploymentState,
    DeploymentStopped,
    DeploymentUnavailable,
    PackSet,
    Placement,
    ReleaseState,
    TooManyDeployments,
)
from fairlead.domain.jobs.entries import JobVerdict, Moved, Submitted
from fairlead.domain.jobs.listing import ListQuery
from fairlead.domain.jobs.states import JobState, JobTransition
from fairlead.storage import deployments
from fairlead.storage.db.database import Database
from fairlead.storage.jobs import jobs
from storage.bookings import LAB, NOW, SERVER, Books
from storage.jobs.test_jobs import KEPT, OTHER, cancel, ending, states, submission, verdicts

ONE: Final = "pictures-00000001"
_MANY: Final = 100
_PACKS: Final = ("blur", "crop")


def make_deployment(books: Books, id_: str = ONE, workspace_id: str = LAB, packs: PackSet = _PACKS) -> None:
    """Make a deployment."""
    new = {"id": id_, "workspace_id": workspace_id, "name": "pictures"}
    books.do(lambda c: deployments.create_deployment(c, new, packs, NOW, _MANY))


def ready(books: Books, id_: str = ONE, workspace_id: str = LAB) -> Placement:
    """Make a deployment whose first release is prepared."""
    make_deployment(books, id_, workspace_id)
    books.do(lambda c: deployments.settle_release(c, id_, 1, 3, None, NOW + 1))
    return Placement(id_, 1, _PACKS)


def state(books: Books, id_: str = ONE, workspace_id: str = LAB) -> tuple[str, str | None, int | None]:
    """Return the state of a deployment, why it is there, and which release serves."""
    found = books.do(lambda c: deployments.get_deployment(c, workspace_id, id_))
    return found.state.value, found.reason, found.serving


def fault_of(books: Books, work: Any) -> Any:
    """Return the fault with which something is refused."""
    with pytest.raises(DeploymentFaultError) as caught:
        books.do(work)
    return caught.value.fault


def send_jobs(books: Books, placement: Placement, *ids: str, **changes: Any) -> Sequence[JobVerdict]:
    """Send jobs to a deployment."""
    return verdicts(books, *(submission(id_, placement=placement, **changes) for id_ in ids))


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return books with two workspaces, the first of which may have two parallel jobs."""
    books = Books(database, run)
    books.open(jobs_limit=2)
    books.open(id_=OTHER, jobs_limit=1)
    return books


@pytest.mark.req("J-15")
def test_deployment_is_ready_once_its_release_is(books: Books) -> None:
    """Its first release has the version 1, and serves once it is prepared."""
    make_deployment(books)
    assert state(books) == ("not_ready", None, None)
    (waiting,) = books.do(lambda c: deployments.releases_to_prepare(c, 10))
    assert (waiting.deployment_id, waiting.version, waiting.packs) == (ONE, 1, _PACKS)
    moved = books.do(lambda c: deployments.settle_release(c, ONE, 1, 3, None, NOW + 1))
    assert moved == deployments.Moved(DeploymentState.READY, None)
    assert state(books) == ("ready", None, 1)
    assert books.do(lambda c: deployments.releases_to_prepare(c, 10)) == []
    assert books.do(lambda c: deployments.settle_release(c, ONE, 1, 3, "again", NOW + 2)) is None


@pytest.mark.req("J-15")
def test_failed_release_leaves_the_earlier_one_serving(books: Books) -> None:
    """The one before serves until the next is prepared; the version says which."""
    ready(books)
    published = books.do(lambda c: deployments.publish_release(c, LAB, ONE, ("broken",), NOW + 2, _MANY))
    assert (published.version, published.state) == (2, ReleaseState.PREPARING)
    books.do(lambda c: deployments.settle_release(c, ONE, 2, None, "it is broken", NOW + 3))
    assert state(books) == ("ready", None, 1)
    books.do(lambda c: deployments.publish_release(c, LAB, ONE, None, NOW + 4, _MANY))
    books.do(lambda c: deployments.settle_release(c, ONE, 3, 0, None, NOW + 5))
    assert state(books) == ("ready", None, 3)
    found = books.do(lambda c: deployments.list_releases(c, LAB, ONE))
    assert [(one.version, one.state.value, one.packs, one.reason) for one in found] == [
        (3, "prepared", None, None), (2, "failed", ("broken",), "it is broken"), (1, "prepared", _PACKS, None),
    ]  # fmt: skip


@pytest.mark.req("J-15")
def test_deployment_stops_when_its_first_release_fails(books: Books) -> None:
    """Nobody need ask again until somebody does something: another release, or a start that tries the same again."""
    make_deployment(books)
    books.do(lambda c: deployments.settle_release(c, ONE, 1, None, "it is broken", NOW + 1))
    assert state(books) == ("stopped", "it is broken", None)
    assert send_jobs(books, Placement(ONE, 1, _PACKS), "a") == [DeploymentStopped("it is broken")]
    books.do(lambda c: deployments.start_deployment(c, LAB, ONE, NOW + 2))
    assert state(books) == ("not_ready", None, None)
    assert [one.version for one in books.do(lambda c: deployments.releases_to_prepare(c, 10))] == [1]
    books.do(lambda c: deployments.settle_release(c, ONE, 1, None, "still", NOW + 3))
    books.do(lambda c: deployments.publish_release(c, LAB, ONE, (), NOW + 4, _MANY))
    assert state(books) == ("not_ready", None, None)
    books.do(lambda c: deployments.settle_release(c, ONE, 2, 0, None, NOW + 5))
    assert state(books) == ("ready", None, 2)


@pytest.mark.req("J-15")
def test_newest_prepared_release_serves(books: Books) -> None:
    """The newest prepared one serves, whichever was through first."""
    make_deployment(books)
    books.do(lambda c: deployments.publish_release(c, LAB, ONE, (), NOW + 1, _MANY))
    books.do(lambda c: deployments.settle_release(c, ONE, 2, 0, None, NOW + 2))
    assert state(books) == ("ready", None, 2)
    books.do(lambda c: deployments.settle_release(c, ONE, 1, 3, None, NOW + 3))
    assert state(books) == ("ready", None, 2)


@pytest.mark.req("J-15")
def test_job_is_refused_by_a_deployment_that_is_not_ready(books: Books) -> None:
    """Whatever was seen before, the transaction that submits a job looks again; nothing is left of one it refuses."""
    placement = ready(books)
    books.do(lambda c: deployments.move_deployment(c, placement, DeploymentEvent.LOSE, "no engine", NOW + 2))
    assert send_jobs(books, placement, "a") == [DeploymentUnavailable()]
    assert [one.id for one in books.do(lambda c: deployments.deployments_to_probe(c, 10))] == [ONE]
    books.do(lambda c: deployments.move_deployment(c, placement, DeploymentEvent.PREPARE, None, NOW + 3))
    assert send_jobs(books, placement, "b") == [Submitted(1, JobState.RELEASED)]
    books.do(lambda c: deployments.stop_deployment(c, LAB, ONE, NOW + 4))
    assert send_jobs(books, placement, "c") == [DeploymentStopped(None)]
    books.do(lambda c: deployments.start_deployment(c, LAB, ONE, NOW + 5))
    assert send_jobs(books, placement, "d") == [DeploymentNotReady()]
    assert states(books) == {"b": "released"}
    (row,) = books.rows("SELECT deployment_id, release_version FROM jobs")
    assert row == {"deployment_id": ONE, "release_version": 1}


def test_late_event_does_not_move_a_deployment(books: Books) -> None:
    """What was found of a release that serves no more says nothing about the one that does."""
    earlier = ready(books)
    books.do(lambda c: deployments.publish_release(c, LAB, ONE, (), NOW + 2, _MANY))
    books.do(lambda c: deployments.settle_release(c, ONE, 2, 0, None, NOW + 3))
    assert books.do(lambda c: deployments.move_deployment(c, earlier, DeploymentEvent.LOSE, "gone", NOW + 4)) is None
    assert state(books) == ("ready", None, 2)


def test_deployment_of_another_workspace_is_unknown(books: Books) -> None:
    """Everything that names it answers as if there were no such deployment, and changes nothing."""
    placement = ready(books)
    for work in (
        lambda c: deployments.get_deployment(c, OTHER, ONE),
        lambda c: deployments.publish_release(c, OTHER, ONE, None, NOW, _MANY),
        lambda c: deployments.list_releases(c, OTHER, ONE),
        lambda c: deployments.stop_deployment(c, OTHER, ONE, NOW),
        lambda c: deployments.start_deployment(c, OTHER, ONE, NOW),
        lambda c: deployments.delete_deployment(c, OTHER, ONE, NOW),
    ):
        assert fault_of(books, work) == DeploymentNotFound(ONE)
    assert books.do(lambda c: deployments.list_deployments(c, OTHER, 10)) == []
    assert verdicts(books, submission("a", OTHER, placement=placement)) == [DeploymentNotFound(ONE)]
    assert state(books) == ("ready", None, 1)


@pytest.mark.req("J-15")
def test_waiting_jobs_of_a_deleted_deployment_fail_and_running_ones_are_cancelled(books: Books) -> None:
    """Those that wait fail, and tell why; the one that is executed is canceling; others are left alone."""
    placement = ready(books)
    ready(books, "other-00000001")
    send_jobs(books, placement, "running", server_id=SERVER)
    send_jobs(books, placement, "released", "parked", "unwanted")
    verdicts(books, cancel("unwanted"), submission("elsewhere", placement=Placement("other-00000001", 1, _PACKS)))
    books.do(lambda c: deployments.delete_deployment(c, LAB, ONE, NOW + 2))
    assert books.do(lambda c: deployments.deleted_deployments(c, 10)) == [(ONE, LAB)]
    found = books.do(lambda c: deployments.abandoned_jobs(c, LAB, ONE, 10))
    assert sorted(found) == ["parked", "released", "running"]
    said = [cancel(id_, cause=JobTransition.ABANDON, failure=b"why") for id_ in found]
    moved = [one.state for one in verdicts(books, *said) if isinstance(one, Moved)]
    assert sorted(moved) == [JobState.CANCELING, JobState.FAILED, JobState.FAILED]
    assert states(books) == {
        "running": "canceling", "released": "failed", "parked": "failed", "unwanted": "canceled",
        "elsewhere": "released",
    }  # fmt: skip
    failed = books.do(lambda c: jobs.find_job(c, LAB, "parked", whole=False))
    assert failed is not None
    assert (failed.failure, failed.expires_at) == (b"why", NOW + KEPT)
    assert books.do(lambda c: deployments.abandoned_jobs(c, LAB, ONE, 10)) == []
    assert verdicts(books, ending("running", JobState.CANCELED)) == [Moved(JobState.CANCELED, "running")]


@pytest.mark.req("J-15")
def test_deleted_deployment_takes_no_job(books: Books) -> None:
    """It is as if it had never been; its releases are known only to its jobs, until those are forgotten."""
    placement = ready(books)
    send_jobs(books, placement, "a", server_id=SERVER)
    books.do(lambda c: deployments.delete_deployment(c, LAB, ONE, NOW + 2))
    assert send_jobs(books, placement, "b") == [DeploymentNotFound(ONE)]
    assert fault_of(books, lambda c: deployments.get_deployment(c, LAB, ONE)) == DeploymentNotFound(ONE)
    assert fault_of(books, lambda c: deployments.delete_deployment(c, LAB, ONE, NOW)) == DeploymentNotFound(ONE)
    assert books.do(lambda c: deployments.settle_release(c, ONE, 1, 3, None, NOW)) is None
    job, packs = books.do(lambda c: jobs.find_claimed(c, LAB, "a"))
    assert (job is not None and job.deployment_id, packs) == (ONE, _PACKS)
    verdicts(books, ending("a"))
    books.do(lambda c: deployments.clear_deployment(c, ONE, NOW + 3))
    assert books.do(lambda c: deployments.deleted_deployments(c, 10)) == []
    assert books.do(lambda c: deployments.forget_deployments(c, 10)) == 0
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + KEPT, 10)).count == 1
    assert books.do(lambda c: deployments.forget_deployments(c, 10)) == 1
    assert books.rows("SELECT version FROM releases") == []


def test_number_of_deployments_and_releases_is_bounded(books: Books) -> None:
    """One more than the bound is refused, of deployments and of releases; deleting makes room."""
    make_deployment(books)
    new = {"id": "second-00000001", "workspace_id": LAB, "name": "second"}
    assert fault_of(books, lambda c: deployments.create_deployment(c, new, (), NOW, 1)) == TooManyDeployments(
        "deployments of the workspace", 1
    )
    assert fault_of(books, lambda c: deployments.publish_release(c, LAB, ONE, (), NOW, 1)) == TooManyDeployments(
        "releases of the deployment", 1
    )
    books.do(lambda c: deployments.delete_deployment(c, LAB, ONE, NOW + 1))
    books.do(lambda c: deployments.create_deployment(c, new, (), NOW + 2, 1))
    assert [one.id for one in books.do(lambda c: deployments.list_deployments(c, LAB, 10))] == ["second-00000001"]


def test_concurrent_deployments_never_pass_the_bound(database: Database, books: Books, run: Run) -> None:
    """Of more deployments than allowed, the allowed number is made and the others are refused."""

    def make(number: int) -> Callable[[Connection], object]:
        new = {"id": f"pictures-{number:08x}", "workspace_id": LAB, "name": "pictures"}
        return lambda c: deployments.create_deployment(c, new, (), NOW, 3)

    async def together() -> Sequence[object]:
        return await asyncio.gather(*(database.write(make(number)) for number in range(8)), return_exceptions=True)

    refusals = [one for one in run(together()) if isinstance(one, DeploymentFaultError)]
    assert [one.fault for one in refusals] == [TooManyDeployments("deployments of the workspace", 3)] * 5
    assert len(books.do(lambda c: deployments.list_deployments(c, LAB, _MANY))) == 3


@pytest.mark.req("J-10")
def test_list_at_a_deployment_has_its_jobs_alone(books: Books) -> None:
    """At a deployment's address only its jobs are listed, page by page; at the workspace's all of them."""
    placement, other = ready(books), ready(books, "other-00000001")
    for number in range(6):
        send_jobs(books, other if number % 2 else placement, f"job-{number}", labels={"team": "a"})
    verdicts(books, submission("bare"))

    def page(**query: Any) -> tuple[list[str], int | None]:
        found = books.do(lambda c: jobs.list_jobs(c, LAB, ListQuery(**query)))
        return [job.public_id for job in found.jobs], found.next_before

    assert page(limit=10)[0] == ["bare", "job-5", "job-4", "job-3", "job-2", "job-1", "job-0"]
    first, position = page(limit=2, deployment_id=ONE)
    assert first == ["job-4", "job-2"]
    assert page(limit=2, before=position, deployment_id=ONE) == (["job-0"], None)
    assert page(limit=2, deployment_id="other-00000001")[0] == ["job-5", "job-3"]
    assert page(limit=2, deployment_id="unknown-00000001") == ([], None)


def test_reason_is_noted_only_while_a_deployment_is_not_ready(books: Books) -> None:
    """A reason is noted while it is not ready, and gone when it is."""
    make_deployment(books)
    books.do(lambda c: deployments.note_waiting(c, ONE, "the engine is being started", NOW + 1))
    assert state(books) == ("not_ready", "the engine is being started", None)
    books.do(lambda c: deployments.settle_release(c, ONE, 1, 3, None, NOW + 2))
    books.do(lambda c: deployments.note_waiting(c, ONE, "too late", NOW + 3))
    assert state(books) == ("ready", None, 1)


_ASKED_AGAIN: Final[Mapping[str, Callable[[Connection], Any]]] = {
    "releases to prepare": lambda c: deployments.releases_to_prepare(c, 10),
    "deployments to probe": lambda c: deployments.deployments_to_probe(c, 10),
    "deleted deployments": lambda c: deployments.deleted_deployments(c, 10),
    "jobs of a deleted deployment": lambda c: deployments.abandoned_jobs(c, LAB, ONE, 10),
    "deleted deployments without jobs": lambda c: deployments.forget_deployments(c, 10),
    "jobs of a deployment": lambda c: jobs.list_jobs(c, LAB, ListQuery(deployment_id=ONE)),
}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # PostgreSQL reads small tables whole
@pytest.mark.parametrize("asked", _ASKED_AGAIN.values(), ids=_ASKED_AGAIN)
def test_deployment_statements_use_indexes(books: Books, asked: Callable[[Connection], Any]) -> None:
    """Each statement, as it is executed, finds its rows by an index; what goes through one, by one of them alone."""

    def plans(connection: Connection) -> list[str]:
        executed: list[tuple[str, Any]] = []
        event.listen(connection, "before_cursor_execute", lambda *said: executed.append((said[2], said[3])))
        asked(connection)
        assert executed
        return [
            row[3]
            for sql, given in list(executed)
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given)
        ]

    assert [step for step in books.do(plans) if step.startswith("SCAN") and " USING " not in step] == []
    assert [step for step in books.do(plans) if "SCAN" in step and "INDEX ix_" not in step] == []
