"""The cloud API as released editors and command lines read it: each answer decodes with a strict model (K-06, K-07).

ROWS is the contract of what is only read: a path, the model of its answer, and its type.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
import pytest

from api.cloud.clients import Client, failing, holding, picture
from api.cloud.conftest import ORIGIN

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """An object without members."""


class Status(msgspec.Struct, forbid_unknown_fields=True):
    """How a job has ended, and what befell it."""

    status_str: Literal["success", "error"]
    completed: bool
    messages: list[tuple[Text, dict[str, Any]]]


class Record(msgspec.Struct):
    """A job of the history."""

    prompt_id: Text
    create_time: int
    prompt: dict[str, Any]
    outputs: dict[str, dict[str, Any]]
    status: Status
    error_message: Text | None = None


class History(msgspec.Struct):
    """A part of the history."""

    history: list[Record]


_JSON: Final = "application/json"
_CSS: Final = "text/css; charset=utf-8"
NOTHING: Final = Annotated[list[Any], msgspec.Meta(max_length=0)]
ROWS: Final = (
    pytest.param("/api/i18n", Empty, _JSON, id="translations"),
    pytest.param("/api/global_subgraphs", Empty, _JSON, id="subgraphs"),
    pytest.param("/api/workflow_templates", Empty, _JSON, id="templates"),
    pytest.param("/api/experiment/models", NOTHING, _JSON, id="folders of models"),
    pytest.param("/api/userdata/user.css", None, _CSS, id="style"),
    pytest.param("/api/userdata/comfy.templates.json", NOTHING, _JSON, id="templates of nodes"),
    pytest.param("/api/userdata/workflows%2F.index.json", Empty, _JSON, id="index of workflows"),
)


@pytest.mark.req("K-07")
@pytest.mark.parametrize(("path", "model", "content_type"), ROWS)
def test_calls_of_an_editor_that_starts_are_answered(
    visitor: Client, path: str, model: type | None, content_type: str
) -> None:
    """Callers get empty documents of the right type, others 401."""
    response = visitor.ask("GET", path)
    assert (response.status_code, response.headers["content-type"]) == (200, content_type)
    if model is None:
        assert response.content == b""
    else:
        msgspec.json.decode(response.content, type=model)
    assert visitor.ask("GET", path, headers={"X-API-Key": "flk_nobody"}).status_code == 401


@pytest.mark.req("K-07")
def test_file_of_an_editor_is_empty_until_it_is_put(caller: Client) -> None:
    """The same holds after an empty file was put; a file that no editor reads at its start is missing."""
    path = "/api/userdata/comfy.templates.json"
    assert caller.ask("POST", path, content=b"").status_code == 200
    assert caller.ask("GET", path).content == b""
    assert caller.ask("DELETE", path).status_code == 204
    assert caller.ask("GET", path).content == b"[]"
    assert caller.ask("DELETE", path).status_code == 404
    assert caller.ask("GET", "/api/userdata/other.json").status_code == 404


@pytest.mark.req("K-06")
def test_history_says_why_a_job_has_failed(caller: Client) -> None:
    """The list and the entry say it in one sentence with the node; a job that has not failed has none."""
    failed, made, held = caller.runs(failing("no paint")), caller.runs(picture()), caller.submit(holding())
    caller.post(f"/api/jobs/{held}/cancel")
    caller.reaches(held, "cancelled")
    listed = caller.ask("GET", "/api/history_v2").content
    by_id = {record.prompt_id: record for record in msgspec.json.decode(listed, type=History).history}
    for job_id, message in ((failed, "FallOver (node 1): no paint"), (made, None), (held, None)):
        whole = msgspec.json.decode(caller.ask("GET", f"/api/history_v2/{job_id}").content, type=dict[str, Record])
        assert by_id[job_id].error_message == whole[job_id].error_message == message
        assert whole[job_id].status.status_str == ("success" if job_id == made else "error")


@pytest.mark.req("K-07")
def test_pages_of_named_origins_may_call(visitor: Client) -> None:
    """Whatever they ask beforehand needs no credential; every answer is marked for them, and for nobody else."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key,comfy-user"}
    client = visitor.server.client
    before = client.options("/api/prompt", headers={"Origin": ORIGIN, "X-API-Key": "", **asked})
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "POST" in before.headers["access-control-allow-methods"]
    assert before.headers["access-control-allow-headers"] == "x-api-key,comfy-user"
    for path, status in (("/api/users", 200), ("/api/nothing", 404), ("/v2/models", 200), ("/api/v2/jobs/x", 404)):
        answered = visitor.ask("GET", path, headers={"Origin": ORIGIN})
        assert (answered.status_code, answered.headers["access-control-allow-origin"]) == (status, ORIGIN)
        assert "x-service-request-id" in answered.headers["access-control-expose-headers"].lower()
    run = visitor.ask("POST", "/v2/models/no/model", json={}, headers={"Origin": ORIGIN})
    assert (run.status_code, run.headers["access-control-allow-origin"]) == (404, ORIGIN)
    strange = {"Origin": "https://elsewhere.example"}
    assert client.options("/api/prompt", headers={**strange, **asked}).status_code == 400
    for headers in ({}, strange):
        assert "access-control-allow-origin" not in visitor.ask("GET", "/api/users", headers=headers).headers
