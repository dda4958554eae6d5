"""Ids that callers choose for their jobs: those of a workspace are its own, whatever others choose (C-04, C-13)."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from api.cloud.clients import Client, holding, json_of, picture, refusal_of
from api.cloud.conftest import NewCloudClient
from api.cloud.test_socket_jobs import message, until_over, watching
from api.jobs.callers import JobsCaller

pytestmark = pytest.mark.req("C-04", "C-13")


@pytest.fixture
def both(new_cloud_client: NewCloudClient) -> Sequence[Client]:
    """Return callers in two workspaces, of whose jobs one is executed at a time."""
    return [new_cloud_client("--subscription", "standard") for _ in range(2)]


@pytest.fixture
def chosen() -> str:
    """Return an id that nobody has chosen before."""
    return str(uuid.uuid4())


def jobs_api(caller: Client) -> JobsCaller:
    """Return the same caller, as one of the jobs API."""
    return JobsCaller(caller.server, caller.workspace, caller.key)


def submission(caller: Client, chosen: str) -> tuple[int, str]:
    """Return how a submission with a chosen id is refused."""
    return refusal_of(caller.ask("POST", "/api/prompt", json={"prompt": picture(), "prompt_id": chosen}))


def test_chosen_id_is_kept_and_used_once(caller: Client, chosen: str) -> None:
    """A client may choose the id of its job; the same id again is a conflict, and makes no job."""
    assert caller.submit(picture(), prompt_id=chosen) == chosen
    assert submission(caller, chosen) == (409, "duplicate_prompt_id")
    caller.reaches(chosen, "completed")
    assert submission(caller, chosen) == (409, "duplicate_prompt_id")
    assert caller.get("/api/jobs")["pagination"]["total"] == 1


def test_given_id_cannot_be_chosen_for_another_job(caller: Client) -> None:
    """A job is known by the id it was given, so that no other of its workspace can be."""
    given = caller.runs(picture())
    assert submission(caller, given) == (409, "duplicate_prompt_id")
    assert caller.get("/api/jobs")["pagination"]["total"] == 1


def test_id_chosen_by_another_workspace_is_free(both: Sequence[Client], chosen: str) -> None:
    """Whatever stands under it there: live, waiting, ended, or given to its job; the answer is that to any other id."""
    mine, theirs = both
    waiting, ended, given = (str(uuid.uuid4()) for _ in range(3))
    mine.runs(picture(1), prompt_id=ended)
    given = mine.runs(picture(2))
    mine.submit(holding(), prompt_id=chosen)
    mine.submit(holding(1), prompt_id=waiting)
    expected = 1
    for taken in (chosen, waiting, ended, given, str(uuid.uuid4())):
        answer = theirs.ask("POST", "/api/prompt", json={"prompt": picture(), "prompt_id": taken})
        assert json_of(answer) == {"prompt_id": taken, "number": expected, "node_errors": {}}
        theirs.reaches(taken, "completed")
        expected += 1
    assert [mine.status(job) for job in (waiting, ended, given)] == ["pending", "completed", "completed"]
    assert mine.reaches(chosen, "in_progress") == "in_progress"


def until_executing(socket: ClientConnection) -> list[tuple[str, Any]]:
    """Everything that is told up to the first node that is executed."""
    told_so_far: list[tuple[str, Any]] = []
    while not told_so_far or told_so_far[-1][0] != "executing":
        heard = message(socket)
        told_so_far.append((heard["type"], heard["data"]))
    return told_so_far


def test_jobs_of_one_chosen_id_are_watched_apart(both: Sequence[Client], chosen: str) -> None:
    """Both are executed at once; each is told of, stopped and ended for its own workspace alone."""
    mine, theirs = both
    with watching(mine.server, mine.key) as my_socket, watching(theirs.server, theirs.key) as their_socket:
        mine.submit(holding(1), prompt_id=chosen)
        theirs.submit(holding(2), prompt_id=chosen)
        my_events, their_events = until_executing(my_socket), until_executing(their_socket)
        with watching(mine.server, mine.key) as newcomer, jobs_api(theirs).watches(chosen) as stream:
            begun = message(newcomer)
            assert (begun["type"], begun["data"]["prompt_id"]) == ("executing", chosen)
            assert stream.next() == ("status", {"status": "running"})
            assert mine.post("/api/interrupt", {"prompt_id": chosen}) == {"interrupted": [chosen]}
            my_events += until_over(my_socket, chosen)
            assert mine.status(chosen) == "cancelled"
            assert [theirs.status(chosen), jobs_api(theirs).job(chosen)["status"]] == ["in_progress", "running"]
            assert theirs.post("/api/queue", {"delete": [chosen]}) == {"deleted": [chosen], "cleared": False}
            their_events += until_over(their_socket, chosen)
            assert stream.rest()[-1] == ("status", {"status": "canceled"})
    for events in (my_events, their_events):
        kinds = [kind for kind, _ in events if kind not in {"progress_state", "status"}]
        assert kinds == ["execution_start", "execution_cached", "executing", "execution_interrupted", "executing"]
        assert {data["prompt_id"] for kind, data in events if kind != "status"} == {chosen}


def test_jobs_of_one_chosen_id_show_their_own_work(both: Sequence[Client], chosen: str) -> None:
    """Wherever a job is shown, it is the workspace's own, under the id that was chosen, with what it has made."""
    colours = 10, 20
    for caller, colour in zip(both, colours, strict=True):
        caller.submit(picture(colour, prefix="same"), prompt_id=chosen)
    made = []
    for caller, colour in zip(both, colours, strict=True):
        assert caller.reaches(chosen, "completed", "failed") == "completed"
        job = caller.get(f"/api/jobs/{chosen}")
        assert (job["id"], job["workflow"]["prompt"]["1"]["inputs"]["color"]) == (chosen, colour)
        (file,) = job["outputs"]["2"]["images"]
        link = caller.ask("GET", "/api/view", params=file).headers["location"]
        made.append(caller.server.client.get(link).content)
        assert _shown_ids(caller, chosen) == {chosen}
        document = jobs_api(caller).job(chosen)
        assert document["id"] == chosen
        assert all(f"/jobs/{chosen}" in url for url in document["urls"].values())
        assert jobs_api(caller).get(f"/api/v2/jobs/{chosen}/workflow")["workflow"]["1"]["inputs"]["color"] == colour
        log = jobs_api(caller).get(f"/api/v2/jobs/{chosen}/logs")["text"]
        assert log.endswith(" The execution has succeeded.\n")
    assert len(set(made)) == 2


def _shown_ids(caller: Client, job_id: str) -> set[str]:
    """Every id under which lists and histories of a workspace show its jobs, and its job is told of."""
    of_one, in_v2 = caller.get(f"/api/history/{job_id}"), caller.get(f"/api/history_v2/{job_id}")
    entries = [*of_one.values(), *caller.get("/api/history").values()]
    statuses = [entry["status"] for entry in (*entries, *in_v2.values())]
    messages = [data for status in statuses for _, data in status["messages"]]
    listed = [*caller.get("/api/jobs")["jobs"], *jobs_api(caller).get("/api/v2/jobs")["jobs"]]
    past: Sequence[Any] = caller.get("/api/history_v2")["history"]
    return {
        *of_one, *in_v2, *caller.get("/api/history"),
        *(entry["prompt"][1] for entry in entries),
        *(data["prompt_id"] for data in messages),
        *(job["id"] for job in listed),
        *(name for entry in past for name in (entry["prompt_id"], entry["prompt"]["prompt_id"])),
        caller.get(f"/api/job/{job_id}/status")["id"],
    }  # fmt: skip


def test_cancelling_a_chosen_id_spares_the_other_workspace(both: Sequence[Client], chosen: str) -> None:
    """The queue shows the ids that were chosen, and what is deleted, cancelled or cleared is the workspace's own."""
    for caller in both:
        caller.submit(holding())
    mine, theirs = both
    with watching(mine.server, mine.key) as socket:
        for caller in both:
            caller.submit(holding(1), prompt_id=chosen)
            assert [entry[:2] for entry in caller.get("/api/queue")["queue_pending"]] == [[2, chosen]]
        assert mine.post("/api/jobs/cancel", {"job_ids": [chosen]}) == {"cancelled": True, "job_ids": [chosen]}
        kinds = [kind for kind, data in until_over(socket, chosen) if data.get("prompt_id") == chosen]
    assert kinds == ["notification", "execution_interrupted", "executing"]
    assert [mine.status(chosen), theirs.status(chosen)] == ["cancelled", "pending"]
    assert mine.post(f"/api/jobs/{chosen}/cancel") == {"cancelled": False}
    assert theirs.post("/api/interrupt", {"prompt_id": chosen}) == {"interrupted": []}
    assert theirs.post(f"/api/jobs/{chosen}/cancel") == {"cancelled": True}
    assert theirs.status(chosen) == "cancelled"
