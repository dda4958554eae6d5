"""The history over HTTP: ended jobs, as the cloud and as the engine it follows tell of them."""

import uuid

import pytest

from api.cloud.clients import Client, failing, holding, picture, refusal_of


@pytest.mark.req("C-15")
def test_completed_job_is_in_the_history(caller: Client) -> None:
    """A completed job is told under its id, with its outputs and how it went, whole and light."""
    drawn = {"extra_pnginfo": {"workflow": {"id": "w"}}}
    job_id = caller.runs(picture(prefix="told"), extra_data=drawn, client_id="tab")
    image = {"filename": "told_00001_.png", "subfolder": "", "type": "output"}
    entry = caller.get(f"/api/history_v2/{job_id}")[job_id]
    assert entry["outputs"] == {"2": {"images": [image]}}
    assert entry["status"]["status_str"] == "success"
    assert entry["status"]["completed"] is True
    names = [message[0] for message in entry["status"]["messages"]]
    assert names == ["execution_start", "execution_cached", "execution_success"]
    assert entry["prompt"]["extra_data"]["extra_pnginfo"] == drawn["extra_pnginfo"]
    assert entry["prompt"]["prompt"]["1"]["class_type"] == "EmptyImage"
    (light,) = caller.get("/api/history_v2")["history"]
    assert (light["prompt_id"], light["prompt"]["priority"]) == (job_id, 1)
    assert light["prompt"]["extra_data"]["extra_pnginfo"] == {}
    assert "prompt" not in light["prompt"]
    assert light["outputs"] == entry["outputs"]


@pytest.mark.parametrize("path", ["/api/history", "/history"])
def test_client_that_polls_the_history_sees_the_end(caller: Client, path: str) -> None:
    """The engine's own history is empty until the job has ended; then it has the prompt in five parts."""
    job_id = caller.submit(holding())
    assert caller.get(f"{path}/{job_id}") == caller.get(f"/api/history_v2/{job_id}") == {}
    assert caller.get(f"{path}/{uuid.uuid4()}") == caller.get(f"{path}/x") == {}
    caller.post("/api/interrupt")
    caller.post(f"/api/jobs/{job_id}/cancel")
    caller.reaches(job_id, "cancelled")
    entry = caller.get(f"{path}/{job_id}")[job_id]
    assert entry["prompt"][:2] == [1, job_id]
    assert (entry["prompt"][4], entry["outputs"]) == (["1"], {})
    assert entry["status"]["status_str"] == "error"
    assert entry["status"]["messages"][-1][0] == "execution_interrupted"


def test_history_is_in_order_and_paged(caller: Client) -> None:
    """The cloud tells the newest first, the engine the oldest; both in pages."""
    made = [caller.runs(failing(str(number))) for number in range(3)]
    live = caller.submit(holding())

    def light(query: str = "") -> list[str]:
        return [entry["prompt_id"] for entry in caller.get(f"/api/history_v2{query}")["history"]]

    assert light() == made[::-1]
    assert light("?max_items=1&offset=1") == [made[1]]
    assert list(caller.get("/api/history")) == made
    assert list(caller.get("/api/history?max_items=2")) == made[1:]
    assert list(caller.get("/api/history?max_items=2&offset=0")) == made[:2]
    assert list(caller.get("/api/history?offset=5")) == []
    assert live not in light()
    error = caller.get(f"/api/history/{made[0]}")[made[0]]["status"]["messages"][-1]
    assert (error[0], error[1]["exception_message"].strip()) == ("execution_error", "0")


def test_history_cannot_be_deleted(caller: Client) -> None:
    """Nothing is deleted from the history, and an answer says just that."""
    job_id = caller.runs(failing("kept"))
    assert caller.post("/api/history", {"delete": [job_id]}) == {"deleted": [], "cleared": False}
    assert caller.post("/api/history", {"clear": True}) == {"deleted": [], "cleared": False}
    assert list(caller.get("/api/history")) == [job_id]


@pytest.mark.req("C-14")
@pytest.mark.parametrize("path", ["/api/history", "/api/history_v2"])
@pytest.mark.parametrize("query", ["max_items=0", "max_items=1001", "max_items=x", "offset=-1"])
def test_page_of_the_history_is_bounded(visitor: Client, path: str, query: str) -> None:
    """A page has 1 to 1,000 jobs."""
    assert refusal_of(visitor.ask("GET", f"{path}?{query}")) == (400, "invalid_input")
