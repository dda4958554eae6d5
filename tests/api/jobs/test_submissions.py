"""What cannot be submitted, and submitting twice (J-07, J-08, J-12)."""

import concurrent.futures
import json
from typing import Any, Final

import pytest

from api.cloud.clients import failing, picture
from api.jobs.callers import JobsCaller, refusal_of
from cases import for_each
from servers import Server

_JOBS: Final = "/api/v2/jobs"
_MIB: Final = 2**20


def refusal(caller: JobsCaller, workflow: Any) -> dict[str, Any]:
    """Submit a workflow that must be refused with 422, and return the error."""
    response = caller.ask("POST", _JOBS, json={"workflow": workflow})
    assert refusal_of(response)[0] == 422
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.req("J-12")
@for_each(
    ("content", "status", "code"),
    [
        (b"", 422, "invalid_request"),
        (b"hello", 422, "invalid_request"),
        (b"[]", 422, "invalid_request"),
        (b'"\xff"', 422, "invalid_request"),
        (b"{}", 422, "invalid_workflow"),
        (b'{"workflow": null}', 422, "invalid_workflow"),
        (b'{"workflow": []}', 422, "invalid_workflow"),
        (b'{"workflow": {}}', 422, "invalid_workflow"),
        (b'{"workflow": {"nodes": [], "links": []}}', 422, "workflow_format_ui"),
        (b'{"workflow": {"nodes": [], "links": [], "\\ud800": 1}}', 422, "invalid_request"),
        (
            b'{"workflow": {"1": {"class_type": "A", "inputs": ' + b"[" * 900 + b"]" * 900 + b"}}}",
            422,
            "invalid_workflow",
        ),
        (b'{"workflow": {}, "metadata": {"a": "\\ud800"}}', 422, "invalid_request"),
        (b'{"workflow": {}, "webhook_url": "https://example.com"}', 422, "invalid_request"),
        (b'{"workflow": {}, "inputs": {}}', 422, "invalid_request"),
        (b'{"workflow": {}, "extra_data": []}', 422, "invalid_request"),
        (b'{"workflow": {}, "extra_data": {"preview_method": "auto"}}', 422, "invalid_request"),
        (b'{"workflow": {}, "extra_data": {"api_key_service_org": 1}}', 422, "invalid_request"),
        (b'{"workflow": ' + b"[" * 90_000, 422, "invalid_request"),
        (b'{"workflow": ' + b"[" * 200_000, 413, "invalid_request"),
        (b'{"workflow": "' + b"x" * (2 * _MIB) + b'"}', 413, "invalid_request"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_malformed_submission_is_refused(visitor: JobsCaller, content: bytes, status: int, code: str) -> None:
    """What cannot be read is the caller's fault, and says so; no job is made."""
    assert refusal_of(visitor.ask("POST", _JOBS, content=content)) == (status, code)
    assert visitor.get(_JOBS) == {"jobs": []}


@pytest.mark.req("J-16")
def test_unknown_member_of_a_body_is_ignored(caller: JobsCaller) -> None:
    """What a later version may have is passed by; nulls are as if they were absent."""
    body = {"workflow": picture(), "priority": 3, "webhook_url": None, "inputs": None, "extra_data": None}
    assert caller.ask("POST", _JOBS, json=body).status_code == 201


@pytest.mark.req("J-07", "J-12")
def test_invalid_workflow_is_explained_by_node(visitor: JobsCaller) -> None:
    """What the engine finds wrong is told by node; one faulty output is enough."""
    faulty = {**picture(), "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x"}}}
    error = refusal(visitor, faulty)
    assert error["code"] == "invalid_workflow"
    assert set(error["details"]) == {"node_errors"}
    assert error["details"]["node_errors"]["9"]["class_type"] == "SaveImage"
    assert error["details"]["node_errors"]["9"]["errors"][0]["type"] == "required_input_missing"


@pytest.mark.req("J-12")
def test_missing_file_has_its_own_code(visitor: JobsCaller) -> None:
    """A file there is not has its own code, unless something else is wrong too."""
    load = {"class_type": "LoadImage", "inputs": {"image": "nowhere.png"}}
    save = {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}}
    error = refusal(visitor, {"1": load, "2": save})
    assert error["code"] == "missing_asset"
    assert set(error["details"]["node_errors"]) == {"1"}
    other = {"class_type": "SaveImage", "inputs": {}}
    assert refusal(visitor, {"1": load, "2": save, "3": other})["code"] == "invalid_workflow"


@pytest.mark.req("J-08")
def test_malformed_node_is_named(visitor: JobsCaller) -> None:
    """Nodes that are none are told apart, before anything else."""
    workflow = {
        "1": [], "2": {"inputs": {}}, "3": {"class_type": "SaveImage"}, "4": {"class_type": 4, "inputs": {}},
        "5": {"class_type": "SaveImage", "inputs": []}, "6": {"class_type": "Nobody", "inputs": {}},
    }  # fmt: skip
    errors = refusal(visitor, workflow)["details"]["node_errors"]
    assert {node: found["errors"][0]["type"] for node, found in errors.items()} == {
        "1": "invalid_node", "2": "invalid_class_type", "3": "invalid_inputs", "4": "invalid_class_type",
        "5": "invalid_inputs",
    }  # fmt: skip
    assert errors["3"]["class_type"] == "SaveImage"


@pytest.mark.req("J-08")
@pytest.mark.parametrize("nodes", [49, 50, 51])
def test_at_most_fifty_nodes_are_named(visitor: JobsCaller, nodes: int) -> None:
    """A refusal names fifty nodes of unknown classes at most, and counts more."""
    workflow = {str(number): {"class_type": "Nobody", "inputs": {}} for number in range(nodes)}
    details = refusal(visitor, workflow)["details"]
    assert len(details["node_errors"]) == min(nodes, 50)
    assert details["unknown_node_classes"] == ["Nobody"]
    more = {"node_errors_truncated": True, "unknown_node_count": 51} if nodes > 50 else {}
    assert {
        name: value for name, value in details.items() if name not in {"node_errors", "unknown_node_classes"}
    } == more


@pytest.mark.req("J-08")
def test_node_that_waits_for_a_browser_is_refused(visitor: JobsCaller) -> None:
    """A class that records in a browser is refused for that."""
    save = {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "x"}}
    workflow = {"1": {"class_type": "RecordAudio", "inputs": {"audio": "x"}}, "2": save}
    details = refusal(visitor, workflow)["details"]
    assert details["browser_wait_node_classes"] == ["RecordAudio"]
    assert details["node_errors"]["1"]["errors"][0]["type"] == "waits_for_browser"


@pytest.mark.req("J-12")
def test_key_makes_one_job(caller: JobsCaller) -> None:
    """A key is used once, whatever is sent with it then; of many at once one wins; another workspace has its own."""
    headers = {"Idempotency-Key": "order-1"}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        sent = [
            pool.submit(caller.ask, "POST", _JOBS, json={"workflow": picture(number)}, headers=headers)
            for number in range(4)
        ]
        statuses = sorted(one.result().status_code for one in sent)
    assert statuses == [201, 422, 422, 422]
    again = caller.ask("POST", _JOBS, json={"workflow": {}}, headers=headers)
    assert refusal_of(again) == (422, "idempotency_key_reuse")
    assert len(caller.get(_JOBS)["jobs"]) == 1


@pytest.mark.req("J-12")
def test_key_of_a_refused_submission_is_free(caller: JobsCaller) -> None:
    """Where no job was made, the key is free."""
    headers = {"Idempotency-Key": "k" * 255}
    assert caller.ask("POST", _JOBS, json={"workflow": {}}, headers=headers).status_code == 422
    assert caller.ask("POST", _JOBS, json={"workflow": picture()}, headers=headers).status_code == 201
    for key in ("", "k" * 256):
        response = caller.ask("POST", _JOBS, json={"workflow": picture()}, headers={"Idempotency-Key": key})
        assert refusal_of(response) == (422, "invalid_request")


@pytest.mark.req("J-12")
def test_partner_key_is_never_kept(jobs_server: Server, caller: JobsCaller) -> None:
    """The key in extra_data is in no answer and in no file of the server."""
    job = caller.runs(failing("x"), extra_data={"api_key_service_org": "flk_hidden-of-jobs"})
    assert "hidden-of-jobs" not in json.dumps([job, caller.get(f"{_JOBS}/{job['id']}/workflow")])
    assert not any(b"hidden-of-jobs" in path.read_bytes() for path in jobs_server.data.rglob("*") if path.is_file())
