"""Submissions of very many values, and refusals of large ones: both are bounded (S-02)."""

from typing import Any

import pytest

from fairlead.documents.fitting import ERROR_BYTES
from surfaces.jobs.callers import JobsCaller, refused


@pytest.mark.req("S-02")
@pytest.mark.parametrize(("path", "values"), [("/api/v2/jobs", 100_000), ("/api/v2/assets/from-hash", 20_000)])
def test_body_of_too_many_values_is_refused(visitor: JobsCaller, path: str, values: int) -> None:
    """The jobs API answers 413 in its own envelope."""
    content = b'{"a":[' + b",".join([b"0"] * values) + b"]}"
    response = visitor.ask("POST", path, content=content)
    assert refused(response) == (413, "invalid_request")
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
    assert refused(response) == (422, "invalid_workflow")
    assert len(response.content) <= ERROR_BYTES
