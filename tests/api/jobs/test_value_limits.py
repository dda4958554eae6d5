"""Submissions of very many values, and refusals of large ones: both are bounded (S-02)."""

from typing import Any

import pytest

from api.jobs.callers import JobsCaller, refusal_of
from fairlead.documents.fitting import ERROR_BYTES


@pytest.mark.req("S-02")
@pytest.mark.parametrize(("path", "values"), [("/api/v2/jobs", 100_000), ("/api/v2/assets/from-hash", 20_000)])
def test_body_of_too_many_values_is_refused(visitor: JobsCaller, path: str, values: int) -> None:
    """The jobs API answers 413 in its own envelope."""
    content = b'{"a":[' + b",".join([b"0"] * values) + b"]}"
    response = visitor.ask("POST", path, content=content)
    assert refusal_of(response) == (413, "invalid_request")
    assert response.json()["error"]["message"] == f"The request body holds more than {values} values."


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "workflow",
    [
        {f"{'é' * 990}{number}": {"class_type": "😀" * 990, "inputs": {}} for number in range(60)},
        {str(number): {"class_type": "EmptyImage", "inputs": {"width": "w" * 9_000}} for number in range(60)},
    ],
    ids=["unknown classes", "wrong values"],
)
def test_refused_workflow_is_not_repeated(visitor: JobsCaller, workflow: Any) -> None:
    """What is told of a refused workflow has at most 64 KiB."""
    response = visitor.ask("POST", "/api/v2/jobs", json={"workflow": workflow})
    assert refusal_of(response) == (422, "invalid_workflow")
    assert len(response.content) <= ERROR_BYTES


@pytest.mark.req("S-02", "J-12")
def test_large_workflow_is_taken_in_as_it_was_sent(caller: JobsCaller) -> None:
    """A submission of over 256 KiB is read by a process; its workflow is kept byte by byte."""
    text = 'é\n"' * 100_000
    workflow = {
        "1": {"class_type": "PrimitiveString", "inputs": {"value": text}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }
    taken = caller.ask("POST", "/api/v2/jobs", json={"workflow": workflow, "metadata": {"a": "b"}})
    assert taken.status_code == 201, taken.text
    assert caller.ask("GET", f"/api/v2/jobs/{taken.json()['id']}/workflow").json()["workflow"] == workflow


@pytest.mark.req("S-02", "J-12")
def test_large_drawing_is_refused_as_a_small_one(visitor: JobsCaller) -> None:
    """What an editor draws is not a workflow, whatever its size; nor are bytes that are not JSON."""
    drawn = {"workflow": {"nodes": [], "links": [], "more": "x" * 300_000}}
    response = visitor.ask("POST", "/api/v2/jobs", json=drawn)
    assert refusal_of(response) == (422, "workflow_format_ui")
    broken = visitor.ask("POST", "/api/v2/jobs", content=b'{"workflow":{"1":"' + b"x" * 300_000)
    assert refusal_of(broken) == (422, "invalid_request")
