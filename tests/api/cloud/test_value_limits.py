"""Workflows and documents of very many values: refused before anything is made of them (S-02)."""

import json
import re
from typing import Any, Final

import pytest

from api.cloud.clients import Client, picture, refusal_of
from fairlead.documents.fitting import ERROR_BYTES

_SHOWN: Final = {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}}
_NODE: Final = {"class_type": "EmptyImage", "inputs": {}}


@pytest.mark.req("S-02")
def test_workflow_of_too_many_values_is_refused(visitor: Client) -> None:
    """A body with more values than a workflow may hold is answered with 413 and the limit."""
    body = b'{"prompt":{},"extra_data":{"a":[' + b",".join([b"{}"] * 100_000) + b"]}}"
    response = visitor.ask("POST", "/api/prompt", content=body)
    assert refusal_of(response) == (413, "invalid_input")
    assert response.json()["message"] == "The request body holds more than 100000 values."


@pytest.mark.req("S-02")
@pytest.mark.parametrize(("path", "form"), [("/api/settings", b'{"a":%b}'), ("/api/settings/a", b"%b")])
def test_setting_of_too_many_values_is_refused(visitor: Client, path: str, form: bytes) -> None:
    """What an editor keeps is held to a limit of its own."""
    content = form % (b"[" + b",".join([b"0"] * 50_001) + b"]")
    assert refusal_of(visitor.ask("POST", path, content=content)) == (413, "invalid_input")


@pytest.mark.req("S-02")
@pytest.mark.parametrize("path", ["/api/queue", "/api/history", "/api/interrupt", "/api/jobs/cancel"])
def test_small_body_of_too_many_values_is_refused(visitor: Client, path: str) -> None:
    """The other bodies of the API hold twenty thousand values at most."""
    content = b'{"delete":[' + b",".join([b"0"] * 20_001) + b"]}"
    assert refusal_of(visitor.ask("POST", path, content=content)) == (413, "invalid_input")


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "prompt",
    [
        {str(number): {**_NODE, "inputs": {"width": "w" * 10_000}} for number in range(100)} | {"o": picture()["2"]},
        {"1": {**_NODE, "inputs": {"width": ["w" * 1_000_000]}}, "2": picture()["2"]},
        {"1" * 100_000: {"class_type": "x" * 1_000_000, "inputs": {}}},
        {**picture(), "2": {**picture()["2"], "inputs": {"images": ["n" * 1_000_000, 0], "filename_prefix": 0}}},
    ],
    ids=["many nodes", "a long value", "a long class", "a long link"],
)
def test_refused_workflow_is_not_repeated(visitor: Client, prompt: Any) -> None:
    """An error about a workflow has at most 64 KiB, in the shape editors know."""
    response = visitor.ask("POST", "/api/prompt", json={"prompt": prompt})
    assert response.status_code == 400
    assert len(response.content) <= ERROR_BYTES
    for found in json.loads(response.content)["node_errors"].values():
        assert set(found) == {"class_type", "errors", "dependent_outputs"}


@pytest.mark.req("S-02", "C-04")
def test_large_workflow_is_taken_in_as_it_was_sent(caller: Client) -> None:
    """A submission of over 256 KiB is read by a process; the job has every byte of its workflow."""
    text = 'é\n"' * 100_000
    graph = {"1": {"class_type": "PrimitiveString", "inputs": {"value": text}}, "2": _SHOWN}
    taken = caller.ask("POST", "/api/prompt", json={"prompt": graph, "extra_data": {"note": "x" * 300_000}})
    assert taken.status_code == 200, taken.text
    job = caller.ask("GET", f"/api/jobs/{taken.json()['prompt_id']}").json()
    assert job["workflow"]["prompt"] == graph
    assert job["workflow"]["extra_data"]["note"] == "x" * 300_000


@pytest.mark.req("S-02", "C-04")
@pytest.mark.parametrize("end", [b"", b'"}', b'"}}trailing', b'\xff"}}'])
def test_large_body_that_is_no_json_is_refused(visitor: Client, end: bytes) -> None:
    """The refusal is that of a small body."""
    body = b'{"prompt":{"1":"%b'
    small, large = (visitor.ask("POST", "/api/prompt", content=body % (b"x" * size) + end) for size in (9, 300_000))
    assert refusal_of(large) == refusal_of(small) == (400, "invalid_json")
    words = [re.sub("[0-9]+", "n", answer.json()["error"]["message"]) for answer in (small, large)]
    assert words[0] == words[1]


@pytest.mark.req("S-02")
def test_left_out_outputs_are_told_within_a_bound(caller: Client) -> None:
    """A workflow that is taken with some outputs left out is answered in a few KiB, however many those are."""
    wrong = {
        f"o{number}": {"class_type": "SaveImage", "inputs": {"images": ["9", 0], "filename_prefix": "p" * 1000}}
        for number in range(400)
    }
    submitted = caller.ask("POST", "/api/prompt", json={"prompt": {**picture(), **wrong}})
    assert submitted.status_code == 200
    assert len(submitted.content) <= ERROR_BYTES
    assert submitted.json()["node_errors"]
    assert caller.reaches(submitted.json()["prompt_id"], "completed", "failed") == "completed"
