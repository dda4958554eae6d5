"""The shape of every error of the router.

An error is a JSON object. It has `detail`, a sentence fit for end users, and `error_type`, the bucket: one of nineteen
in v2, one of fifteen in v1. Two more fields exist: `upstream_detail`, the provider's reason, only beside
`invalid_input`; and `refusal_subject`, only beside `content_policy_violation`. There is never any other field.

A 422 differs: its `detail` is an array, and each entry has `loc`, `msg` and `type`, and may have `ctx` and `input`. It
has no `error_type`; the header alone carries the bucket, which is `invalid_input`.

Every error has `X-Service-Request-Id` (a UUID of its own), `X-Service-Error-Type` (the bucket again) and
`Content-Type: application/json`. `Retry-After`, where there is one, is a positive integer. What went wrong inside is
never told: no traceback, no path of a file, no name of a class.
"""

import re
import uuid
from typing import Any, Final

import httpx
import pytest

from api.conftest import MakeToken, NewName
from fake_partner import FakePartner, hang, reply, reply_json
from servers import Server

_V1: Final = {
    "invalid_input",
    "content_policy_violation",
    "provider_error",
    "provider_timeout",
    "insufficient_credits",
    "model_not_found",
    "unauthorized",
    "forbidden",
    "concurrency_limit_exceeded",
    "client_disconnected",
    "internal_error",
    "deadline_exceeded",
    "not_enabled",
    "service_unavailable",
    "rate_limited",
}
_V2: Final = _V1 | {"cancelled", "queue_timeout", "request_not_found", "queue_backlog_full"}
_FIELDS: Final = {"detail", "error_type", "upstream_detail", "refusal_subject"}
_INSIDE: Final = re.compile(r"Traceback|\.py\b|/src/|Error\(|Exception|sqlalchemy|<class|0x[0-9a-f]{6}")


def _is_well_formed(response: httpx.Response, names: set[str]) -> None:
    """Assert the shape that the module's first lines describe."""
    assert response.status_code >= 400
    assert response.headers["content-type"] == "application/json"
    assert str(uuid.UUID(response.headers["x-service-request-id"])) == response.headers["x-service-request-id"]
    name = response.headers["x-service-error-type"]
    assert name in names
    body = response.json()
    if response.status_code == 422:
        assert (list(body), name) == (["detail"], "invalid_input")
        for entry in body["detail"]:
            assert {"loc", "msg", "type"} <= set(entry) <= {"loc", "msg", "type", "ctx", "input"}
    else:
        assert {"detail", "error_type"} <= set(body) <= _FIELDS
        assert body["error_type"] == name
        assert isinstance(body["detail"], str)
        assert body["detail"]
        assert ("upstream_detail" not in body) or name == "invalid_input"
        assert ("refusal_subject" not in body) or name == "content_policy_violation"
    assert not _INSIDE.search(response.text)
    assert re.fullmatch(r"[1-9]\d*", response.headers.get("retry-after", "1"))


_RUN: Final = "/v2/models/fake/json-1"
_WAYS: Final[list[Any]] = [
    pytest.param("GET", "/nowhere", {}, 404, id="a path nobody answers"),
    pytest.param("POST", "/", {}, 405, id="the root"),
    pytest.param("GET", "/v2/models/fake", {}, 404, id="one segment"),
    pytest.param("GET", "/v2/models/", {}, 404, id="a slash too many"),
    pytest.param("POST", "/v2/models", {}, 405, id="a method of another path"),
    pytest.param("PUT", _RUN, {}, 405, id="a method nobody knows here"),
    pytest.param("DELETE", "/healthz", {}, 405, id="a method on an operator's path"),
    pytest.param("GET", "/v2/models", {"headers": {"X-API-Key": "no"}}, 401, id="a bad key"),
    pytest.param("POST", _RUN, {"headers": {"X-API-Key": "no"}}, 401, id="a bad key for a run"),
    pytest.param("GET", "/v2/models/fake/none-1", {}, 404, id="an unknown model"),
    pytest.param("GET", "/v2/models/fake/None", {}, 404, id="no model id"),
    pytest.param("POST", "/v2/models/fake/none-1", {"json": {}}, 404, id="a run of an unknown model"),
    pytest.param("POST", "/v2/models/fake/retired-1", {"json": {}}, 404, id="a run of a retired model"),
    pytest.param("GET", "/router-schemas/fake/none-1.json", {}, 404, id="an unknown snapshot"),
    pytest.param("GET", "/v2/models?cursor=x", {}, 400, id="a bad cursor"),
    pytest.param("GET", "/v2/models?limit=x", {}, 400, id="a bad limit"),
    pytest.param("POST", f"{_RUN}?strict_mode=x", {"json": {}}, 400, id="a bad parameter"),
    pytest.param("POST", _RUN, {"content": b"{"}, 400, id="a bad body"),
    pytest.param("POST", "/v2/models/fake/closed-1", {"json": {"x": 1}}, 422, id="a violation"),
    pytest.param("POST", "/v2/models/lockbox/json-1", {"json": {}}, 503, id="a provider without our key"),
]


@pytest.mark.req("R-19", "R-20", "R-21")
@pytest.mark.parametrize(("method", "path", "options", "status"), _WAYS)
def test_refusal_of_the_router_has_the_error_shape(
    router: Server, method: str, path: str, options: Any, status: int
) -> None:
    """Every way to be refused by the router."""
    response = router.client.request(method, path, **options)
    assert response.status_code == status
    _is_well_formed(response, _V2)


@pytest.mark.req("R-19")
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 413),
        (["--in-flight-limit", "0"], 403),
        (["--billing", "prepaid"], 402),
        (["--gate", "router=off"], 403),
        (["--models", "none"], 403),
    ],
)
def test_refusal_of_a_workspace_has_the_error_shape(
    router: Server, new_name: NewName, options: list[str], status: int
) -> None:
    """Every way a workspace is refused; and a body too large."""
    key = router.new_workspace(new_name(), *options)
    content = b"{}" if options else b" " * (64 * 1024 * 1024 + 1)
    response = httpx.post(router.url + _RUN, content=content, headers={"X-API-Key": key}, timeout=60)
    assert response.status_code == status
    _is_well_formed(response, _V2)


@pytest.mark.req("R-19", "R-20", "R-22")
@pytest.mark.parametrize(
    ("path", "behaviour", "status"),
    [
        ("json", reply(500), 502),
        ("json", reply(429), 503),
        ("json", reply(504), 504),
        ("json", reply_json({"error": {"message": "Traceback is a word"}}, 404), 400),
        ("json", reply_json({"error": {"message": "no"}}, 400), 400),
        ("json", reply_json({"error": {"param": "a", "message": "no"}}, 422), 422),
        ("json", reply_json({"error": {"code": "refused", "side": "prompt"}}, 400), 400),
        ("hasty", hang(), 504),
    ],
)
def test_partner_fault_has_the_error_shape(
    router: Server, partner: FakePartner, token: MakeToken, path: str, behaviour: Any, status: int
) -> None:
    """Every way a partner can fail, in both generations."""
    bearer = {"Authorization": f"Bearer {token()}"}
    for generation, names in (("v1", _V1), ("v2", _V2)):
        partner.script(f"/{path}", behaviour)
        response = httpx.post(f"{router.url}/{generation}/models/fake/{path}-1", json={}, headers=bearer)
        assert response.status_code == status
        _is_well_formed(response, names)


@pytest.mark.req("R-19")
@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/v1/nowhere", 404, "model_not_found"),
        ("GET", "/v1/models/fake/none-1", 404, "model_not_found"),
        ("POST", "/v1/models/fake/none-1", 404, "model_not_found"),
        ("GET", "/v1/models?limit=x", 400, "invalid_input"),
        ("PUT", "/v1/models", 405, "invalid_input"),
    ],
)
def test_v1_has_the_error_shape(
    router: Server, token: MakeToken, method: str, path: str, status: int, name: str
) -> None:
    """v1 has the same shape with fifteen buckets: a path nobody answers is a model nobody has."""
    response = httpx.request(method, router.url + path, headers={"Authorization": f"Bearer {token()}"})
    assert (response.status_code, response.json()["error_type"]) == (status, name)
    _is_well_formed(response, _V1)


@pytest.mark.req("R-19")
@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v2/models", {"GET", "HEAD"}),
        (_RUN, {"GET", "HEAD", "POST"}),
        (f"{_RUN}/openapi.json", {"GET", "HEAD"}),
        ("/metrics", {"GET", "HEAD"}),
    ],
)
def test_wrong_method_is_405_with_the_methods_of_the_path(router: Server, path: str, methods: set[str]) -> None:
    """A 405 lists every method of its path in `Allow`, runs included."""
    response = router.client.delete(path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == methods
