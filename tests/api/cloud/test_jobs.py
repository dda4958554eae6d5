"""Jobs over HTTP: how they stand, lists of them, and giving them up (C-05)."""

import uuid
from typing import Any

import pytest

from api.cloud.clients import Client, failing, holding, picture, refusal_of
from api.cloud.conftest import NewCloudClient
from cases import for_each


@pytest.mark.req("C-05")
def test_failed_job_says_why_it_failed(caller: Client) -> None:
    """A job whose node fails is failed, and says why wherever it is told of."""
    job_id = caller.runs(failing("out of paint"))
    status = caller.get(f"/api/job/{job_id}/status")
    assert status["status"] == "failed"
    assert "out of paint" in status["error_message"]
    detail = caller.get(f"/api/jobs/{job_id}")
    assert detail["status"] == "failed"
    assert detail["execution_error"]["exception_type"] == "ValueError"
    assert detail["execution_error"]["node_id"] == "1"
    assert detail["execution_status"]["status_str"] == "error"


@pytest.mark.req("C-05")
def test_completed_job_shows_its_outputs(caller: Client) -> None:
    """A completed job has its workflow as it was executed, its outputs, and one of them to show."""
    job_id = caller.runs(picture(prefix="shown"), extra_data={"extra_pnginfo": {"workflow": {"id": "drawn-1"}}})
    detail = caller.get(f"/api/jobs/{job_id}")
    image = {"filename": "shown_00001_.png", "subfolder": "", "type": "output"}
    assert detail["outputs"]["2"]["images"] == [image]
    assert detail["preview_output"] == {**image, "nodeId": "2", "mediaType": "images"}
    assert (detail["outputs_count"], detail["workflow_id"]) == (1, "drawn-1")
    assert detail["workflow"]["prompt"]["2"]["class_type"] == "SaveImage"
    assert detail["create_time"] <= detail["execution_start_time"] <= detail["execution_end_time"]
    view = caller.ask("GET", "/api/view", params=image)
    assert view.status_code == 302


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    "job_id", ["0191d3a5-7c5e-7b7e-8f35-0c6f6a4b1c2d", "1", "%00", "x" * 500, "..", "%F0%9F%98%80"]
)
@for_each("path", ["/api/job/{}/status", "/api/jobs/{}", "/api/history_v2/{}"])
def test_unknown_job_is_not_found(visitor: Client, path: str, job_id: str) -> None:
    """An id that is nobody's is not found, whatever it looks like."""
    assert refusal_of(visitor.ask("GET", path.format(job_id)))[0] == 404


@pytest.mark.req("C-05")
def test_job_of_another_workspace_is_invisible(caller: Client, new_cloud_client: NewCloudClient) -> None:
    """Nobody else can see, list or cancel a job, or learn that it exists."""
    job_id, other = caller.submit(holding()), new_cloud_client()
    for path in (f"/api/job/{job_id}/status", f"/api/jobs/{job_id}", f"/api/history_v2/{job_id}"):
        assert refusal_of(other.ask("GET", path)) == (404, "job_not_found")
    assert refusal_of(other.ask("POST", f"/api/jobs/{job_id}/cancel")) == (404, "job_not_found")
    assert refusal_of(other.ask("POST", "/api/jobs/cancel", json={"job_ids": [job_id]})) == (404, "job_not_found")
    assert other.post("/api/queue", {"delete": [job_id], "clear": True}) == {"deleted": [], "cleared": True}
    assert other.post("/api/interrupt", {"prompt_id": job_id}) == {"interrupted": []}
    assert other.get("/api/jobs")["jobs"] == []
    assert other.get("/api/queue") == {"queue_running": [], "queue_pending": []}
    assert other.get("/api/history_v2") == {"history": []}
    assert caller.status(job_id) in {"pending", "in_progress"}


def test_list_of_jobs_is_in_order(caller: Client) -> None:
    """Jobs are listed by their submission, the newest first unless asked, in pages that leave none out."""
    made = [caller.runs(failing(str(number))) for number in range(3)] + [caller.runs(picture())]
    listed = caller.get("/api/jobs")
    assert [job["id"] for job in listed["jobs"]] == made[::-1]
    assert [job["priority"] for job in listed["jobs"]] == [4, 3, 2, 1]
    assert listed["pagination"] == {"offset": 0, "limit": 100, "total": 4, "has_more": False}
    page = caller.get("/api/jobs?limit=2&offset=1&sort_order=asc&sort_by=created_at")
    assert [job["id"] for job in page["jobs"]] == made[1:3]
    assert page["pagination"] == {"offset": 1, "limit": 2, "total": 4, "has_more": True}
    failed = caller.get("/api/jobs?status=failed,cancelled")
    assert [job["id"] for job in failed["jobs"]] == made[2::-1]
    assert failed["pagination"]["total"] == 3
    assert caller.get("/api/jobs?status=pending,in_progress")["jobs"] == []


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "limit=-1", "limit=a", "limit=1_0", "limit=%D9%A1", "offset=-1", "offset=99999999999",
        "status=done", "sort_by=execution_time", "sort_order=up", "workflow_id=a", "output_type=image",
    ],
)  # fmt: skip
def test_malformed_list_request_is_refused(visitor: Client, query: str) -> None:
    """A list that is asked for otherwise than it can be told is refused, and not another one told."""
    assert refusal_of(visitor.ask("GET", f"/api/jobs?{query}")) == (400, "invalid_input")


@pytest.mark.req("C-05", "C-07")
def test_cancelled_job_stops(caller: Client) -> None:
    """A job is cancelled once, whether it waits or is executed; then it is left as it is."""
    job_id = caller.submit(holding())
    caller.reaches(job_id, "in_progress")
    assert caller.post(f"/api/jobs/{job_id}/cancel") == {"cancelled": True}
    assert caller.reaches(job_id, "cancelled") == "cancelled"
    assert caller.post(f"/api/jobs/{job_id}/cancel") == {"cancelled": False}
    detail = caller.get(f"/api/jobs/{job_id}")
    assert detail["execution_status"]["messages"][-1][0] == "execution_interrupted"


@pytest.mark.req("C-05")
def test_jobs_are_cancelled_together_or_not_at_all(caller: Client) -> None:
    """Jobs are cancelled together, or none of them where one is unknown."""
    jobs = [caller.submit(holding(number)) for number in range(2)]
    unknown = caller.ask("POST", "/api/jobs/cancel", json={"job_ids": [*jobs, str(uuid.uuid4())]})
    assert refusal_of(unknown) == (404, "job_not_found")
    assert {caller.status(job_id) for job_id in jobs} <= {"pending", "in_progress"}
    done = caller.post("/api/jobs/cancel", {"job_ids": jobs})
    assert (done["cancelled"], sorted(done["job_ids"])) == (True, sorted(jobs))
    assert [caller.reaches(job_id, "cancelled") for job_id in jobs] == ["cancelled"] * 2
    assert caller.post("/api/jobs/cancel", {"job_ids": jobs}) == {"cancelled": False, "job_ids": []}


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    "body", [{}, {"job_ids": []}, {"job_ids": "a"}, {"job_ids": [1]}, {"job_ids": ["a"]}, {"job_ids": ["a"] * 101}, []]
)
def test_list_to_cancel_names_1_to_100_jobs(visitor: Client, body: Any) -> None:
    """A body must name 1 to 100 ids."""
    assert refusal_of(visitor.ask("POST", "/api/jobs/cancel", json=body)) == (400, "invalid_request")
