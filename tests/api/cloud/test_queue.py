"""The queue over HTTP: what waits, what is executed, and giving it up (C-07)."""

import uuid
from typing import Any

import pytest

from api.cloud.clients import Client, holding, picture, refusal_of
from api.cloud.conftest import NewCloudClient


@pytest.fixture
def standard(new_cloud_client: NewCloudClient) -> Client:
    """Return a caller of whose jobs one is executed at a time."""
    return new_cloud_client("--subscription", "standard")


@pytest.mark.req("C-07")
@pytest.mark.parametrize("path", ["/api/queue", "/queue"])
def test_queue_tells_running_and_waiting_jobs_apart(standard: Client, path: str) -> None:
    """What is executed and what waits are told apart, each in the order of its submission, as editors read it."""
    first, *waiting = [standard.submit(holding(number), client_id="tab") for number in range(3)]
    standard.reaches(first, "in_progress")
    queue = standard.get(path)
    assert [entry[:2] for entry in queue["queue_running"]] == [[1, first]]
    assert [entry[:2] for entry in queue["queue_pending"]] == [[2, waiting[0]], [3, waiting[1]]]
    _, _, workflow, extra, outputs = queue["queue_pending"][1]
    assert workflow["1"]["inputs"] == {"number": 2}
    assert (extra["client_id"], set(extra), outputs) == ("tab", {"client_id", "create_time"}, ["1"])


@pytest.mark.req("C-07")
def test_deleted_job_is_not_executed(standard: Client) -> None:
    """Jobs are deleted whether they wait or are executed; ids that are not a job's are simply not among them."""
    jobs = [standard.submit(holding(number)) for number in range(3)]
    standard.reaches(jobs[0], "in_progress")
    gone = standard.post("/api/queue", {"delete": [jobs[0], jobs[2], str(uuid.uuid4()), "x", "\0"]})
    assert gone["cleared"] is False
    assert sorted(gone["deleted"]) == sorted([jobs[0], jobs[2]])
    assert standard.reaches(jobs[0], "cancelled") == standard.status(jobs[2]) == "cancelled"
    assert standard.reaches(jobs[1], "in_progress") == "in_progress"
    assert standard.post("/api/queue", {"delete": [jobs[0]]}) == {"deleted": [], "cleared": False}


@pytest.mark.req("C-07")
def test_clearing_the_queue_spares_the_running_job(standard: Client) -> None:
    """Clearing the queue ends what waits, and nothing else."""
    jobs = [standard.submit(holding(number)) for number in range(3)]
    standard.reaches(jobs[0], "in_progress")
    assert standard.post("/api/queue", {"clear": True}) == {"deleted": [], "cleared": True}
    assert [standard.status(job_id) for job_id in jobs] == ["in_progress", "cancelled", "cancelled"]
    queue = standard.get("/api/queue")
    assert (len(queue["queue_running"]), queue["queue_pending"]) == (1, [])


@pytest.mark.req("C-07")
@pytest.mark.parametrize("path", ["/api/interrupt", "/interrupt"])
def test_interrupt_stops_the_running_job_alone(standard: Client, path: str) -> None:
    """An interrupt stops what is executed, and the next begins; without anything to stop it is fine, too."""
    assert standard.post(path) == {"interrupted": []}
    first, second = (standard.submit(holding(number)) for number in range(2))
    standard.reaches(first, "in_progress")
    assert standard.post(path, {"prompt_id": second}) == {"interrupted": []}
    assert standard.ask("POST", path).json() == {"interrupted": [first]}
    assert standard.reaches(first, "cancelled") == "cancelled"
    assert standard.reaches(second, "in_progress") == "in_progress"
    assert standard.post(path, {"prompt_id": second}) == {"interrupted": [second]}
    assert standard.reaches(second, "cancelled") == "cancelled"
    done = standard.runs(picture())
    assert standard.post(path, {"prompt_id": done}) == {"interrupted": []}


@pytest.mark.req("C-13")
def test_subscription_bounds_the_jobs_that_run(standard: Client, caller: Client) -> None:
    """As many jobs of a workspace run as its subscription allows; the next begins when one has ended."""
    jobs = [standard.submit(holding(number)) for number in range(2)]
    standard.reaches(jobs[0], "in_progress")
    assert caller.reaches(caller.submit(picture()), "completed", "failed") == "completed"
    assert [standard.status(job_id) for job_id in jobs] == ["in_progress", "pending"]
    standard.post("/api/interrupt")
    assert standard.reaches(jobs[1], "in_progress") == "in_progress"


@pytest.mark.req("C-14")
@pytest.mark.parametrize("path", ["/api/queue", "/api/history"])
@pytest.mark.parametrize(
    "body", ["x", [], {"delete": "a"}, {"delete": [1]}, {"clear": "yes"}, {"delete": ["a"] * 1001}]
)
def test_malformed_change_of_the_queue_is_refused(visitor: Client, path: str, body: Any) -> None:
    """A body that is none is refused."""
    assert refusal_of(visitor.ask("POST", path, json=body)) == (400, "invalid_request")
    assert refusal_of(visitor.ask("POST", path, content=b"{")) == (400, "invalid_request")
