"""Submitting workflows over HTTP (C-04, C-13, C-14)."""

import json
from typing import Any, Final

import pytest

from api.cloud.clients import Client, failing, holding, picture, refusal_of
from api.cloud.conftest import BACKLOG, NewCloudClient
from api.conftest import MakeToken
from servers import Server

_MIB: Final = 2**20


def submit(caller: Client, **body: Any) -> tuple[int, str]:
    """Submit what must be refused."""
    return refusal_of(caller.ask("POST", "/api/prompt", json=body))


@pytest.mark.req("C-04", "C-05", "C-15")
@pytest.mark.parametrize("path", ["/api/prompt", "/prompt"])
def test_submitted_workflow_is_executed(caller: Client, path: str) -> None:
    """A submitted workflow is a job, whose id is the prompt's, and which is completed at last."""
    submitted = caller.post(path, {"prompt": picture()})
    assert set(submitted) == {"prompt_id", "number", "node_errors"}
    assert (submitted["number"], submitted["node_errors"]) == (1, {})
    assert caller.reaches(submitted["prompt_id"], "completed", "failed") == "completed"
    assert caller.submit(picture()) != submitted["prompt_id"]


@pytest.mark.req("C-04")
def test_invalid_output_is_named_and_the_others_are_made(caller: Client) -> None:
    """Outputs that are wrong are left out and named; the others are made."""
    graph = {**picture(), "3": {"class_type": "SaveImage", "inputs": {"images": ["9", 0], "filename_prefix": "x"}}}
    submitted = caller.post("/api/prompt", {"prompt": graph})
    assert set(submitted["node_errors"]) == {"3"}
    assert caller.reaches(submitted["prompt_id"], "completed", "failed") == "completed"
    only = caller.post("/api/prompt", {"prompt": picture(), "partial_execution_targets": ["2"]})
    assert caller.reaches(only["prompt_id"], "completed", "failed") == "completed"


@pytest.mark.req("C-04", "C-14")
@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ({}, "prompt_no_outputs"),
        ({"1": {"class_type": "NoSuchNode", "inputs": {}}}, "missing_node_type"),
        ({"1": {"inputs": {}}}, "missing_node_type"),
        ({"1": picture()["1"]}, "prompt_no_outputs"),
        ({"2": picture()["2"]}, "prompt_outputs_failed_validation"),
        ({**picture(), "1": {"class_type": "EmptyImage", "inputs": {}}}, "prompt_outputs_failed_validation"),
    ],
)
def test_workflow_that_cannot_be_executed_is_refused(visitor: Client, prompt: Any, kind: str) -> None:
    """A workflow that is wrong is refused, with what is wrong by node, and no job is made."""
    response = visitor.ask("POST", "/api/prompt", json={"prompt": prompt})
    assert refusal_of(response) == (400, kind)
    for node, found in response.json()["node_errors"].items():
        assert set(found) == {"class_type", "errors", "dependent_outputs"}, node
        assert all(set(error) == {"type", "message", "details", "extra_info"} for error in found["errors"])
    assert visitor.get("/api/jobs")["jobs"] == []


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    ("content", "status", "kind"),
    [
        (b"", 400, "invalid_json"),
        (b"hello", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b"{}", 400, "no_prompt"),
        (b'{"prompt": null}', 400, "invalid_prompt"),
        (b'{"prompt": []}', 400, "invalid_prompt"),
        (b'{"prompt": {}, "prompt_id": "1"}', 400, "invalid_prompt_id"),
        (b'{"prompt": {}, "extra_data": 1}', 400, "invalid_extra_data"),
        (b'{"prompt": "' + b"x" * (2 * _MIB) + b'"}', 413, "invalid_input"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else value,
)
def test_unreadable_submission_is_the_callers_fault(visitor: Client, content: bytes, status: int, kind: str) -> None:
    """What cannot be read is the caller's fault, and says so."""
    assert refusal_of(visitor.ask("POST", "/api/prompt", content=content)) == (status, kind)


@pytest.mark.req("C-14")
def test_stranger_cannot_submit(cloud: Server, caller: Client, token: MakeToken) -> None:
    """A call needs a key, in either header, or a token of the issuer; without one nothing is told."""
    url, body = f"{cloud.url}/api/prompt", {"prompt": picture()}
    for headers in ({}, {"X-API-Key": "flk_nobody"}, {"X-API-Key": ""}, {"Authorization": "Bearer flk_nobody"}):
        response = cloud.client.post(url, json=body, headers={"X-API-Key": "", **headers})
        assert refusal_of(response) == (401, "unauthorized"), headers
    for credential in (caller.key, token(caller.workspace)):
        request = cloud.client.build_request("POST", url, json=body, headers={"Authorization": f"Bearer {credential}"})
        del request.headers["X-API-Key"]
        assert cloud.client.send(request).status_code == 200
    caller.stops()


@pytest.mark.req("C-13", "C-14")
def test_inactive_subscription_cannot_submit(new_cloud_client: NewCloudClient) -> None:
    """A workspace whose subscription allows no job is told so with 429, and can still read."""
    free = new_cloud_client("--subscription", "free")
    response = free.ask("POST", "/api/prompt", json={"prompt": picture()})
    assert refusal_of(response) == (429, "subscription_inactive")
    assert "retry-after" not in response.headers
    assert free.get("/api/jobs")["jobs"] == []
    assert "EmptyImage" in free.get("/api/object_info")


@pytest.mark.req("C-13")
def test_queue_of_jobs_is_bounded(new_cloud_client: NewCloudClient) -> None:
    """A bounded number of jobs of a workspace may wait; one more is refused until later."""
    standard = new_cloud_client("--subscription", "standard")
    first = standard.submit(holding())
    waiting = [standard.submit(holding(number)) for number in range(1, BACKLOG + 1)]
    response = standard.ask("POST", "/api/prompt", json={"prompt": holding(99)})
    assert refusal_of(response) == (429, "queue_full")
    assert int(response.headers["retry-after"]) > 0
    assert standard.get("/api/prompt") == {"exec_info": {"queue_remaining": 1 + BACKLOG}}
    assert standard.reaches(first, "in_progress") == "in_progress"
    assert {standard.status(job_id) for job_id in waiting} == {"pending"}


@pytest.mark.req("C-11")
def test_key_sent_with_a_workflow_is_not_kept(cloud: Server, caller: Client) -> None:
    """Keys that come with a workflow are in no answer and in no file of the server."""
    secrets = {name: f"flk_hidden-{name}" for name in ("api_key_service_org", "auth_token_service_org", "api_key_x")}
    job_id = caller.runs(failing("on purpose"), extra_data={**secrets, "extra_pnginfo": {"workflow": {}}})
    for path in (f"/api/jobs/{job_id}", f"/api/history_v2/{job_id}", f"/api/history/{job_id}", "/api/history_v2"):
        text = json.dumps(caller.get(path))
        assert "hidden" not in text
        assert "extra_pnginfo" in text
    assert "hidden" not in cloud.log.read_text("utf-8")
    assert not any(b"flk_hidden" in path.read_bytes() for path in cloud.data.rglob("*") if path.is_file())


@pytest.mark.req("C-04")
def test_client_id_is_kept_with_its_job(caller: Client) -> None:
    """What a client calls itself is kept with its job, beside what it sent along."""
    job_id = caller.submit(picture(), client_id="tab-1", extra_data={"preview_method": "auto"})
    extra = caller.get(f"/api/jobs/{job_id}")["workflow"]["extra_data"]
    assert extra.items() >= {"client_id": "tab-1", "preview_method": "auto"}.items()
