"""Credentials over HTTP: which wins, which generation takes what, and what each refusal is (R-37, R-38, R-40)."""

import time
from typing import Any

import httpx
import pytest

from api.conftest import MakeToken, NewName
from servers import PLAIN, Server, wait_until

_BAD = "flk_" + "0" * 43
_PATHS = ("/v2/models", "/v2/models/fake/json-1", "/v2/models/fake/closed-1/openapi.json")


def _ask(router: Server, headers: Any, path: str = "/v2/models/fake/json-1", method: str = "POST") -> httpx.Response:
    with httpx.Client(base_url=router.url, timeout=60, verify=PLAIN) as stranger:
        return stranger.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)


def _refusal(response: httpx.Response) -> tuple[int, str]:
    assert response.json()["error_type"] == response.headers["x-service-error-type"]
    assert response.headers["x-service-request-id"]
    return response.status_code, response.json()["error_type"]


@pytest.mark.req("R-37", "R-38")
@pytest.mark.parametrize("path", [*_PATHS, "run"])
@pytest.mark.parametrize("generation", ["v1", "v2"])
def test_every_route_needs_a_credential(router: Server, path: str, generation: str) -> None:
    """Without a credential every route of both generations is 401 `unauthorized`."""
    method, target = ("POST", _PATHS[1]) if path == "run" else ("GET", path)
    assert _refusal(_ask(router, {}, target.replace("v2", generation), method)) == (401, "unauthorized")


@pytest.mark.req("R-37")
@pytest.mark.parametrize("order", [1, -1], ids=["key first", "key last"])
@pytest.mark.parametrize(
    ("api_key", "bearer", "status"),
    [
        ("good", None, 200),
        (None, "good key", 200),
        (None, "good token", 200),
        ("bad", None, 401),
        (None, "bad key", 401),
        (None, "bad token", 401),
        ("good", "good key", 200),
        ("good", "bad key", 200),
        ("good", "bad token", 200),
        ("bad", "good key", 401),
        ("bad", "good token", 401),
        ("empty", "good token", 401),
        ("token", None, 401),
    ],
)
def test_api_key_header_wins(  # every part of the table
    router: Server, token: MakeToken, api_key: str | None, bearer: str | None, status: int, order: int
) -> None:
    """`X-API-Key` decides alone where it is sent, whatever else is sent and in whichever order."""
    words = {
        "good": router.key,
        "bad": _BAD,
        "empty": "",
        "token": token(),
        "good key": router.key,
        "bad key": _BAD,
        "good token": token(),
        "bad token": token(secret="y" * 64),
    }
    headers = [] if api_key is None else [("X-API-Key", words[api_key])]
    headers += [] if bearer is None else [("Authorization", f"Bearer {words[bearer]}")]
    for path, method in ((_PATHS[1], "POST"), (_PATHS[1], "GET")):
        assert _ask(router, headers[::order], path, method).status_code == status


@pytest.mark.req("R-37")
@pytest.mark.parametrize(
    "authorization",
    ["{key}", "Basic {key}", "Bearer", "Token {key}", "Bearer {key} x", "Bearer flk_", "Bearer é", "Bearer {long}"],
)
def test_only_bearer_is_an_accepted_scheme(router: Server, authorization: str) -> None:
    """`Authorization` is `Bearer` and one credential, or nothing."""
    value = authorization.format(key=router.key, long="x" * 9000)
    assert _refusal(_ask(router, {"Authorization": value.encode()})) == (401, "unauthorized")


@pytest.mark.req("R-37")
@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer ", "Bearer  "])
def test_case_of_the_scheme_does_not_matter(router: Server, scheme: str) -> None:
    """The scheme is read without regard to case, and spaces behind it are nothing."""
    assert _ask(router, {"Authorization": f"{scheme} {router.key}"}).status_code == 200


@pytest.mark.req("R-37")
def test_v1_takes_bearer_tokens_alone(router: Server, token: MakeToken) -> None:
    """v1 takes a bearer token and nothing else; a key beside it changes nothing."""
    for path, method in (("/v1/models/fake/json-1", "POST"), ("/v1/models", "GET"), ("/v1/models/fake/json-1", "GET")):
        assert _ask(router, {"X-API-Key": router.key}, path, method).status_code == 401
        assert _ask(router, {"Authorization": f"Bearer {router.key}"}, path, method).status_code == 401
        good = {"Authorization": f"Bearer {token()}"}
        assert _ask(router, good, path, method).status_code == 200
        assert _ask(router, {**good, "X-API-Key": _BAD}, path, method).status_code == 200


_NOW = int(time.time())


@pytest.mark.req("R-37")
@pytest.mark.parametrize("generation", ["v1", "v2"])
@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"exp": _NOW - 3600}, id="expired"),
        pytest.param({"exp": None}, id="without an end"),
        pytest.param({"exp": "tomorrow"}, id="with an end that is not a time"),
        pytest.param({"nbf": _NOW + 3600}, id="not valid yet"),
        pytest.param({"secret": "another secret, as long as the one that is right!"}, id="foreign"),
        pytest.param({"secret": "", "algorithm": "none"}, id="unsigned"),
        pytest.param({"algorithm": "HS512"}, id="of another algorithm"),
        pytest.param({"workspace": None}, id="of no workspace"),
        pytest.param({"sub": None}, id="of nobody"),
        pytest.param({"models": "all"}, id="with models that are not a list"),
    ],
)
def test_worthless_token_is_401(router: Server, token: MakeToken, claims: Any, generation: str) -> None:
    """A token that proves nothing is 401, and the answer does not say why."""
    sent = {"Authorization": f"Bearer {token(**claims)}"}
    response = _ask(router, sent, f"/{generation}/models/fake/json-1")
    assert _refusal(response) == (401, "unauthorized")
    assert response.json()["detail"] == "This token is not valid."


@pytest.mark.req("R-37")
def test_token_in_another_spelling_is_401(router: Server, token: MakeToken) -> None:
    """A token is good as it was signed and in no other spelling."""
    good = token()
    for spoilt in (good[:-1], good + "A", good + "=", good.replace(".", "..", 1), good.rpartition(".")[0] + "."):
        assert _refusal(_ask(router, {"Authorization": f"Bearer {spoilt}"}))[0] == 401


@pytest.mark.req("R-38")
def test_token_of_an_unknown_workspace_is_403(router: Server, token: MakeToken) -> None:
    """A good token for a workspace that does not exist is 403 `forbidden`."""
    assert _refusal(_ask(router, {"Authorization": f"Bearer {token('nowhere')}"})) == (403, "forbidden")


@pytest.mark.req("R-38")
def test_token_runs_only_the_models_it_names(router: Server, token: MakeToken) -> None:
    """The models a token names limit it, in the catalog as in runs."""
    sent = {"Authorization": f"Bearer {token(models=['fake/json-1'])}"}
    assert _ask(router, sent).status_code == 200
    assert _refusal(_ask(router, sent, "/v2/models/fake/closed-1")) == (403, "forbidden")
    listed = _ask(router, sent, "/v2/models", "GET").json()["data"]
    assert [entry["id"] for entry in listed] == ["fake/json-1"]


@pytest.mark.req("R-37", "R-38")
def test_revoked_key_is_refused_at_once(router: Server, new_name: NewName) -> None:
    """The very next run of a revoked key is refused, however fresh the server's memory of it is."""
    key = router.new_workspace(new_name())
    made = next(row for row in router.cli("keys", "list", "--json") if row["hint"] == f"{key[:6]}…{key[-2:]}")
    assert _ask(router, {"X-API-Key": key}).status_code == 200
    router.cli("keys", "revoke", made["id"])
    assert _refusal(_ask(router, {"X-API-Key": key})) == (401, "unauthorized")
    wait_until(lambda: _ask(router, {"X-API-Key": key}, "/v2/models", "GET").status_code == 401, "reads refused too")


@pytest.mark.req("R-38")
def test_model_outside_the_entitlement_is_403(router: Server, new_name: NewName) -> None:
    """A model outside the list of the key, or of its workspace, is 403 `forbidden`; the others run."""
    key = router.new_workspace(new_name(), "--models", "fake/*", models="fake/json-1,local/*")
    sent = {"X-API-Key": key}
    assert _ask(router, sent).status_code == 200
    for path in ("fake/closed-1", "local/procedural-image-1"):
        assert _refusal(_ask(router, sent, f"/v2/models/{path}")) == (403, "forbidden")
        assert _refusal(_ask(router, sent, f"/v2/models/{path}", "GET")) == (403, "forbidden")


@pytest.mark.req("R-38")
def test_workspace_without_the_router_is_403(router: Server, new_name: NewName, token: MakeToken) -> None:
    """A closed gate is 403 `not_enabled` on every route, before anything else is told."""
    name = new_name()
    key = router.new_workspace(name, "--gate", "router=off", "--models", "nothing/*")
    for path in _PATHS:
        assert _refusal(_ask(router, {"X-API-Key": key}, path, "GET")) == (403, "not_enabled")
    assert _refusal(_ask(router, {"X-API-Key": key})) == (403, "not_enabled")
    old = {"Authorization": f"Bearer {token(name)}"}
    assert _refusal(_ask(router, old, "/v1/models/fake/json-1")) == (403, "not_enabled")


@pytest.mark.req("R-38")
def test_closed_provider_gate_is_403(router: Server, new_name: NewName) -> None:
    """A provider that is not rolled out to a workspace is 403 `not_enabled`, and only that provider."""
    key = router.new_workspace(new_name(), "--gate", "provider:other=off")
    assert _refusal(_ask(router, {"X-API-Key": key}, "/v2/models/other/json-1")) == (403, "not_enabled")
    assert _ask(router, {"X-API-Key": key}).status_code == 200


@pytest.mark.req("R-38")
def test_provider_outside_the_policy_is_403(router: Server, new_name: NewName, partner: Any) -> None:
    """A provider outside the workspace's policy is 403 `forbidden`, and is sent nothing."""
    key = router.new_workspace(new_name(), "--providers", "fake")
    assert _refusal(_ask(router, {"X-API-Key": key}, "/v2/models/other/json-1")) == (403, "forbidden")
    assert partner.requests() == []
    assert _ask(router, {"X-API-Key": key}).status_code == 200


@pytest.mark.req("R-38", "R-39")
def test_missing_key_of_ours_is_503(router: Server) -> None:
    """Where this server lacks the provider's key it is 503 `service_unavailable`, not a matter of capacity."""
    response = _ask(router, {"X-API-Key": router.key}, "/v2/models/lockbox/json-1")
    assert _refusal(response) == (503, "service_unavailable")
    assert "retry-after" not in response.headers


@pytest.mark.req("R-37")
def test_no_secret_is_logged(router: Server, token: MakeToken) -> None:
    """No key, no token and no partner's secret is ever logged, good or bad."""
    secrets = [router.key, _BAD, token(), token(secret="z" * 64)]
    for secret in secrets:
        _ask(router, {"X-API-Key": secret})
        _ask(router, {"Authorization": f"Bearer {secret}"})
    router.client.get("/the-last-line")
    wait_until(lambda: "/the-last-line" in router.log.read_text("utf-8"), "the log is written")
    log = router.log.read_text("utf-8")
    assert [secret for secret in [*secrets, "fake-partner-secret"] if secret in log] == []
