"""Jobs as rows: who gets a slot, who waits for one, who is claimed, cancelled, taken over - in one batch or in many."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from conftest import Run
from fairlead.domain.accounts.rights import Actor, ActorKind
from fairlead.domain.jobs.entries import (
    Claimed,
    JobCancel,
    JobEnding,
    JobEntry,
    JobProgress,
    JobVerdict,
    Moved,
    NewEvent,
    Submission,
    Submitted,
)
from fairlead.domain.jobs.faults import JobQueueFull, SubscriptionInactive
from fairlead.domain.jobs.jobs import JobQuery
from fairlead.domain.jobs.states import WAITING, WORKING, JobState, JobTransition
from fairlead.domain.work.entries import Claim, Release, Superseded, TakeOver
from fairlead.storage.accounts.audit_log import Act, AuditFilter, list_entries
from fairlead.storage.db.opening import open_database
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import WrittenJobs, write_job_entries
from fairlead.storage.ledger import ledger
from storage.bookings import LAB, NOW, SERVER, Books

KEPT: Final = 1000
OTHER: Final = "office-id"
BOSS: Final = Actor(ActorKind.MEMBER, "boss-id", "Boss", "203.0.113.7")


def submission(job_id: str, workspace_id: str = LAB, **changes: Any) -> Submission:
    """Return a small job of the lab."""
    usual: dict[str, Any] = {
        "workflow": jobs.deflate(b'{"1":{}}'), "extra": jobs.deflate(b"{}"), "wanted": '["1"]', "nodes": 1,
        "created_at": NOW, "backlog": 100,
    }  # fmt: skip
    return Submission(job_id, workspace_id, **{**usual, **changes})


def claim(job_id: str, server_id: str = SERVER) -> Claim:
    """Return a server's claim to a job of the lab."""
    return Claim(job_id, LAB, server_id, NOW + 1)


def ending(job_id: str, state: JobState = JobState.SUCCEEDED, attempt: int = 1, **changes: Any) -> JobEnding:
    """Return the end of a job of the lab."""
    usual: dict[str, Any] = {
        "outputs": jobs.deflate(b"{}"), "failure": None, "progress": "{}", "events": (), "at": NOW + 5,
        "expires_at": NOW + KEPT,
    }  # fmt: skip
    return JobEnding(job_id, LAB, attempt, state, **{**usual, **changes})


def cancel(job_id: str, workspace_id: str = LAB, **changes: Any) -> JobCancel:
    """Return the request that a job of the lab ends."""
    return JobCancel(job_id, workspace_id, NOW + 3, NOW + KEPT, **changes)


def take_over(job_id: str, attempt: int = 1) -> TakeOver:
    """Return the loss of a job's server."""
    return TakeOver(job_id, LAB, attempt, None, NOW + 4, NOW + KEPT)


def released_jobs(batch: WrittenJobs) -> Sequence[tuple[str, str]]:
    """Return which jobs, of which workspaces, may be claimed since a batch."""
    return [(one.id, one.workspace_id) for one in batch.released]


def write(books: Books, *entries: JobEntry) -> WrittenJobs:
    """Write a batch, and prove the books."""
    found: WrittenJobs = books.do(lambda c: write_job_entries(c, entries))
    assert books.do(ledger.disagreements) == []
    return found


def verdicts(books: Books, *entries: JobEntry) -> Sequence[JobVerdict]:
    """Write a batch; what became of each entry."""
    return write(books, *entries).verdicts


def states(books: Books, workspace_id: str = LAB) -> dict[str, str]:
    """Return the state of each job of a workspace."""
    rows = books.rows("SELECT id, state FROM jobs WHERE workspace_id = :id ORDER BY number", id=workspace_id)
    return {row["id"]: row["state"] for row in rows}


def allow(books: Books, parallel: int) -> None:
    """Give the lab another subscription."""
    books.sql(
        "UPDATE workspaces SET jobs_limit = :jobs, subscription = 'another' WHERE id = :id", jobs=parallel, id=LAB
    )


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces, each with one parallel job."""
    books.open(jobs_limit=1)
    books.open(id_=OTHER, jobs_limit=1)
    return books


def test_job_that_finds_a_slot_is_released_and_the_next_is_parked(books: Books) -> None:
    """Numbers count the jobs of a workspace, and only the released one may be claimed."""
    first = write(books, submission("a"), submission("b"), submission("c", OTHER))
    assert first.verdicts == [
        Submitted(1, JobState.RELEASED), Submitted(2, JobState.PARKED), Submitted(1, JobState.RELEASED),
    ]  # fmt: skip
    assert sorted(released_jobs(first)) == [("a", LAB), ("c", OTHER)]
    assert first.remaining == {LAB: 2, OTHER: 1}


def test_server_with_room_claims_a_job_with_its_submission(books: Books) -> None:
    """One transaction less for the job, and its attempt is the first."""
    assert verdicts(books, submission("a", server_id=SERVER)) == [Submitted(1, JobState.RUNNING)]
    (row,) = books.rows("SELECT state, attempt, server_id, started_at FROM jobs")
    assert row == {"state": "running", "attempt": 1, "server_id": SERVER, "started_at": NOW}


@pytest.mark.req("T-07")
def test_submission_that_is_repeated_is_one_job(books: Books) -> None:
    """Nobody knows whether a COMMIT that broke off was written: its job is the one that it made, or is made now."""
    first, second = (submission(name, server_id=SERVER, idempotency_id=f"key of {name}") for name in ("one", "two"))
    (made,) = write(books, first).verdicts
    assert isinstance(made, Submitted)
    again = [msgspec.structs.replace(one, is_repeated=True) for one in (first, second)]
    known, new = write(books, *again).verdicts
    assert known == made
    assert isinstance(new, Submitted)
    assert new.number == made.number + 1
    write(books, take_over("one"))
    assert write(books, again[0]).verdicts == [Submitted(made.number, JobState.RELEASED)]


@pytest.mark.req("C-13")
def test_end_of_a_job_releases_the_one_that_has_waited_longest(books: Books) -> None:
    """Exactly one job is released, in the same transaction."""
    write(books, submission("a", server_id=SERVER), submission("b"), submission("c"))
    done = write(books, ending("a"))
    assert done.verdicts == [Moved(JobState.SUCCEEDED, "a")]
    assert released_jobs(done) == [("b", LAB)]
    assert states(books) == {"a": "succeeded", "b": "released", "c": "parked"}


@pytest.mark.req("C-13")
def test_workspace_without_a_subscription_submits_nothing(books: Books) -> None:
    """The submission leaves nothing behind."""
    allow(books, 0)
    assert verdicts(books, submission("a")) == [SubscriptionInactive("another")]
    assert states(books) == {}


@pytest.mark.req("C-13")
def test_jobs_of_an_ended_subscription_are_claimed_and_refused(books: Books) -> None:
    """They would wait forever otherwise."""
    write(books, submission("a", server_id=SERVER), submission("b"), submission("c"))
    allow(books, 0)
    assert sorted(released_jobs(write(books, Release(LAB)))) == [("b", LAB), ("c", LAB)]
    assert verdicts(books, claim("b")) == [Claimed(1, 0, is_inactive=True)]


@pytest.mark.req("C-13")
def test_raised_subscription_is_noticed_at_once(books: Books) -> None:
    """The workspace is found by anyone who looks for room."""
    write(books, *(submission(name) for name in "abcd"))
    allow(books, 3)
    assert books.do(lambda c: jobs.QUEUE.room(c, 10, NOW).workspace_ids) == [LAB]
    assert released_jobs(write(books, Release(LAB))) == [("b", LAB), ("c", LAB)]


def test_more_jobs_than_may_wait_are_refused(books: Books) -> None:
    """The one with a slot is not among those that wait."""
    assert verdicts(books, *(submission(name, backlog=1) for name in "abc"))[2] == JobQueueFull(1)


def test_second_claim_of_a_job_is_outdated(books: Books) -> None:
    """Two servers were told of the job."""
    write(books, submission("a"))
    assert verdicts(books, claim("a"), claim("a", "server-2")) == [Claimed(1, 0), Superseded()]


def test_server_presumed_dead_writes_nothing(books: Books) -> None:
    """The job was taken over and is claimed again: the old attempt is nobody's."""
    event = NewEvent(1, "Started", b"{}", NOW)
    write(books, submission("a", server_id=SERVER))
    assert verdicts(books, JobProgress("a", LAB, 1, "{}", (event,), NOW + 2)) == [None]
    again = verdicts(books, take_over("a"), claim("a", "server-2"))
    assert again == [Moved(JobState.RELEASED, "a"), Claimed(2, 1, crashes=1)]
    assert (
        verdicts(books, ending("a"), JobProgress("a", LAB, 1, "{}", (event,), NOW), take_over("a"))
        == [Superseded()] * 3
    )
    assert verdicts(books, ending("a", attempt=2)) == [Moved(JobState.SUCCEEDED, "a")]


def test_waiting_job_is_cancelled_at_once_and_a_running_one_is_asked_to_stop(books: Books) -> None:
    """A slot that becomes free goes to the next; what has ended stays as it is."""
    write(books, submission("a", server_id=SERVER), submission("b"), submission("c"))
    assert verdicts(books, cancel("b"), cancel("a")) == [
        Moved(JobState.CANCELED, "b"), Moved(JobState.CANCELING, "a", SERVER),
    ]  # fmt: skip
    assert books.do(lambda c: jobs.QUEUE.find_cancelled(c, SERVER)) == ["a"]
    assert verdicts(books, cancel("a"), cancel("b")) == [Superseded(), Superseded()]
    assert released_jobs(write(books, ending("a", JobState.CANCELED))) == [("c", LAB)]
    assert verdicts(books, cancel("c"), cancel("a")) == [Moved(JobState.CANCELED, "c"), Superseded()]
    assert states(books) == {"a": "canceled", "b": "canceled", "c": "canceled"}


@pytest.mark.req("A-01")
def test_job_whose_cancel_cannot_enter_the_audit_log_is_not_cancelled(books: Books) -> None:
    """Neither one that waits nor one that is executed; what a caller cancels has no entry."""
    write(books, submission("a", server_id=SERVER), submission("b"))
    books.do(lambda c: c.execute(text("ALTER TABLE audit_entries RENAME TO away")))
    try:
        for job_id in ("a", "b"):
            with pytest.raises(SQLAlchemyError):
                write(books, cancel(job_id, by=BOSS))
        assert states(books) == {"a": "running", "b": "parked"}
        write(books, cancel("b"))
    finally:
        books.do(lambda c: c.execute(text("ALTER TABLE away RENAME TO audit_entries")))
    write(books, cancel("a", by=BOSS))
    (entry,) = books.do(lambda c: list_entries(c, AuditFilter(), 9))
    assert (entry.at, entry.actor, entry.act) == (NOW + 3, BOSS, Act("job.cancelled", LAB, "a"))


def test_cancelled_job_whose_server_dies_ends_cancelled(books: Books) -> None:
    """Nobody wants it executed again."""
    write(books, submission("a", server_id=SERVER))
    write(books, cancel("a"))
    assert verdicts(books, take_over("a")) == [Moved(JobState.CANCELED, "a")]


def test_job_that_ends_while_it_is_cancelled_keeps_its_end(books: Books) -> None:
    """What was made is not thrown away; but what was never cancelled cannot end as if."""
    write(books, submission("a", server_id=SERVER), submission("b"))
    assert verdicts(books, ending("a", JobState.CANCELED)) == [Superseded()]
    assert verdicts(books, cancel("a"), ending("a")) == [
        Moved(JobState.CANCELING, "a", SERVER), Moved(JobState.SUCCEEDED, "a"),
    ]  # fmt: skip


def test_cancelling_can_be_limited_to_waiting_or_running_jobs(books: Books) -> None:
    """A queue that is cleared leaves the running job alone, and an interrupt the waiting ones."""
    write(books, submission("a", server_id=SERVER), submission("b"))
    assert verdicts(books, cancel("a", only=WAITING), cancel("b", only=WORKING)) == [Superseded(), Superseded()]


def test_jobs_of_another_workspace_cannot_be_touched(books: Books) -> None:
    """They are as if they were not there."""
    write(books, submission("a", server_id=SERVER))
    assert verdicts(books, cancel("a", OTHER), Claim("a", OTHER, SERVER, NOW), cancel("nobody's")) == [Superseded()] * 3
    assert books.do(lambda c: jobs.find_job(c, OTHER, "a", whole=True)) is None
    assert books.do(lambda c: jobs.events_of(c, OTHER, "a")) == []


def test_job_that_waited_too_long_expires(books: Books) -> None:
    """One that is executed does not."""
    write(books, submission("a", server_id=SERVER), submission("b"))
    assert books.do(lambda c: jobs.QUEUE.waiting_since(c, NOW + 1, 10)) == [("b", LAB)]
    assert verdicts(books, cancel("a", cause=JobTransition.EXPIRE), cancel("b", cause=JobTransition.EXPIRE)) == [
        Superseded(),
        Moved(JobState.EXPIRED, "b"),
    ]


@pytest.mark.req("J-06")
def test_job_that_is_executed_for_too_long_expires_once(books: Books) -> None:
    """Its server says when it expires; one that was cancelled by then fails, one that waits again goes on.

    A server that was not told so says it again, and hears the same.
    """
    allow(books, 3)
    write(books, *(submission(job_id, server_id=SERVER) for job_id in "abc"), cancel("b"), take_over("c"))
    expired = [ending(job_id, JobState.EXPIRED) for job_id in "abc"]
    assert verdicts(books, *expired) == [Moved(JobState.EXPIRED, "a"), Moved(JobState.FAILED, "b"), Superseded()]
    assert states(books) == {"a": "expired", "b": "failed", "c": "released"}
    again = verdicts(books, *expired[:2], ending("a"), cancel("a"))
    assert again == [Moved(JobState.EXPIRED, "a"), Moved(JobState.FAILED, "b"), Superseded(), Superseded()]


def test_job_is_read_as_it_was_submitted_and_as_it_ended(books: Books) -> None:
    """Its documents are kept deflated and read as they were; its events come in order."""
    events = (NewEvent(2, "Succeeded", b'{"type":"Succeeded"}', NOW + 5), NewEvent(1, "Started", b"{}", NOW + 2))
    write(books, submission("a", workflow=jobs.deflate(b'{"9":{}}'), server_id=SERVER))
    write(books, ending("a", outputs=jobs.deflate(b'{"9":{"ui":{}}}'), events=events))
    found = books.do(lambda c: jobs.find_job(c, LAB, "a", whole=True))
    assert (found.workflow, found.outputs, found.wanted) == (b'{"9":{}}', b'{"9":{"ui":{}}}', ("1",))
    assert [event.kind for event in books.do(lambda c: jobs.events_of(c, LAB, "a"))] == ["Started", "Succeeded"]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 70_000])
def test_document_is_read_as_it_was_whatever_its_size(size: int) -> None:
    """Small ones are kept as they are, with eleven bytes around them; larger ones are compressed."""
    document = b"[1]" * (size // 3) + b"x" * (size % 3)
    kept = jobs.deflate(document)
    assert jobs.inflate(kept) == document
    assert len(kept) <= min(size, 512) + 11


def test_jobs_are_listed_by_number_and_from_any_place(books: Books) -> None:
    """Pages go on behind a number, however many jobs were added since."""
    write(books, *(submission(name) for name in "abcde"))
    write(books, claim("a"))
    write(books, ending("a"))

    def ids(**query: Any) -> list[str]:
        return [job.id for job in books.do(lambda c: jobs.find_jobs(c, LAB, JobQuery(**query)))]

    assert ids(limit=2) == ["e", "d"]
    assert ids(limit=2, after=4) == ["c", "b"]
    assert ids(is_newest_first=False, limit=2, offset=1) == ["b", "c"]
    assert ids(states=frozenset({JobState.SUCCEEDED})) == ["a"]
    assert books.do(lambda c: jobs.count_jobs(c, LAB, frozenset({JobState.PARKED}))) == 3
    assert [job.id for job in books.do(lambda c: jobs.live_jobs(c, LAB, 10, whole=False))] == ["b", "c", "d", "e"]


def test_only_jobs_of_silent_servers_are_found(books: Books) -> None:
    """A server that was never announced is silent, too."""
    allow(books, -1)
    write(books, submission("a", server_id="living"), submission("b", server_id="silent"), submission("c"))
    books.sql("INSERT INTO servers (id, seen_at) VALUES ('living', :now), ('silent', :then)", now=NOW, then=NOW - 100)
    orphans = books.do(lambda c: jobs.QUEUE.orphans(c, "mine", NOW - 50, 10))
    assert [(orphan.id, orphan.attempt) for orphan in orphans] == [("b", 1)]
    assert [stray.id for stray in books.do(lambda c: jobs.QUEUE.find_owned(c, "living", NOW + 1))] == ["a"]


def test_jobs_are_forgotten_when_their_time_is_up(books: Books) -> None:
    """Their events are forgotten with them; a job that goes on is kept."""
    write(books, submission("a", server_id=SERVER), submission("b"))
    write(books, ending("a", events=(NewEvent(1, "Started", b"{}", NOW),)))
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + KEPT - 1, 10)).count == 0
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + KEPT, 10)).count == 1
    assert (states(books), books.rows("SELECT * FROM job_events")) == ({"b": "released"}, [])


@pytest.fixture
def sqlite_books(sqlite_url: str, run: Run) -> Iterator[Books]:
    """Return the books of a SQLite database with the lab in it."""
    database = open_database(sqlite_url)
    books = Books(database, run)
    books.open()
    yield books
    run(database.close())


_NAMES: Final = st.sampled_from("abcdef")
_ENDS: Final = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.EXPIRED)
_ENTRIES: Final = st.one_of(
    st.builds(
        lambda name, server_id: submission(name, chosen_id=name, server_id=server_id),
        _NAMES,
        st.sampled_from([None, SERVER]),
    ),
    st.builds(claim, _NAMES),
    st.builds(ending, _NAMES, st.sampled_from(_ENDS), st.just(1)),
    st.builds(
        cancel, _NAMES, cause=st.sampled_from((JobTransition.CANCEL, JobTransition.EXPIRE, JobTransition.ABANDON))
    ),
    st.builds(take_over, _NAMES),
    st.just(Release(LAB)),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(_ENTRIES, min_size=1, max_size=6), max_size=8), parallel=st.integers(-1, 3))
def test_job_slots_are_right_after_any_sequence(
    sqlite_books: Books, batches: list[list[JobEntry]], parallel: int
) -> None:
    """The audit holds after every batch, no more jobs have a slot than may, and nobody waits beside a free one."""
    sqlite_books.sql("DELETE FROM job_events")
    sqlite_books.sql("DELETE FROM jobs")
    sqlite_books.sql("UPDATE workspaces SET jobs_active = 0, jobs_parked = 0, jobs_limit = :n", n=parallel)
    for batch in batches:
        write(sqlite_books, *batch)
        (row,) = sqlite_books.rows("SELECT jobs_active, jobs_parked FROM workspaces WHERE id = :id", id=LAB)
        if parallel >= 0:
            assert row["jobs_active"] <= parallel
        assert row["jobs_parked"] == 0 or row["jobs_active"] == parallel
