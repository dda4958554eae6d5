"""Workspaces' own provider keys over HTTP: stored, told of by a hint, deleted, and never seen again (R-17)."""

import re
import socket
from typing import Any, Final

import httpx
import pytest

from api.conftest import MakeToken, NewName
from fake_partner import FakePartner, reply
from servers import Server, wait_until

KEY: Final = "sk-distinctive-7d1f0c1e5a"
_PATH: Final = "/v2/provider-keys/fake"
_VERBS: Final = (("GET", "/v2/provider-keys"), ("GET", _PATH), ("PUT", _PATH), ("DELETE", _PATH))


def ask(router: Server, api_key: str, method: str, path: str, **options: Any) -> httpx.Response:
    """Call with a key of a workspace of one's own."""
    if method == "PUT" and not options:
        options = {"json": {"key": KEY}}
    headers = {"X-API-Key": api_key, **options.pop("headers", {})}
    return router.client.request(method, path, headers=headers, **options)


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and bucket of a refusal, which repeats no key."""
    assert response.json()["error_type"] == response.headers["x-service-error-type"]
    assert response.headers["x-service-request-id"]
    assert KEY not in response.text
    return response.status_code, response.json()["error_type"]


@pytest.mark.req("R-17")
def test_key_is_stored_replaced_and_deleted(router: Server, new_name: NewName) -> None:
    """PUT stores and replaces, GET tells, DELETE forgets; none of them answers the key."""
    mine = router.new_workspace(new_name())
    stored, told, listed = (ask(router, mine, *verb) for verb in (("PUT", _PATH), ("GET", _PATH), _VERBS[0]))
    assert [answer.status_code for answer in (stored, told, listed)] == [201, 200, 200]
    assert set(stored.json()) == {"provider", "hint", "created_at"}
    assert (stored.json()["provider"], stored.json()["hint"]) == ("fake", KEY[-4:])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", stored.json()["created_at"])
    assert told.json() == stored.json()
    assert listed.json() == {"data": [stored.json()]}
    again = ask(router, mine, "PUT", _PATH, json={"key": "another-key-of-mine"})
    assert (again.status_code, again.json()["hint"]) == (200, "mine")
    deleted = ask(router, mine, "DELETE", _PATH)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert refusal(ask(router, mine, "DELETE", _PATH)) == (404, "request_not_found")
    assert refusal(ask(router, mine, "GET", _PATH)) == (404, "request_not_found")
    for answer in (stored, told, listed, again, deleted):
        assert answer.headers["x-service-request-id"]
        assert KEY not in answer.text
        if answer.status_code != 204:
            assert (answer.headers["content-type"], answer.headers["cache-control"]) == ("application/json", "no-store")


@pytest.mark.req("R-17")
def test_workspace_sees_its_own_keys_alone(router: Server, new_name: NewName) -> None:
    """What one workspace stored, another neither sees nor deletes."""
    mine, yours = router.new_workspace(new_name()), router.new_workspace(new_name())
    assert ask(router, mine, "PUT", _PATH).status_code == 201
    assert ask(router, yours, "GET", "/v2/provider-keys").json() == {"data": []}
    assert refusal(ask(router, yours, "GET", _PATH)) == (404, "request_not_found")
    assert refusal(ask(router, yours, "DELETE", _PATH)) == (404, "request_not_found")
    assert ask(router, mine, "GET", _PATH).status_code == 200


@pytest.mark.req("R-17")
def test_service_account_is_stored(router: Server, new_name: NewName) -> None:
    """A JSON object of some KiB with lines in it is a key, and is told of as a document."""
    document = '{\n  "private_key": "' + "x" * 8000 + '"\n}\n'
    stored = ask(router, router.new_workspace(new_name()), "PUT", _PATH, json={"key": document})
    assert (stored.status_code, stored.json()["hint"]) == (201, "{…}")


@pytest.mark.req("R-17")
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"content": b""}, 400),
        ({"content": b'{"key": "sk-distinctive-7d1f0c1e5a"'}, 400),
        ({"content": b'{"key":"a","key":"sk-distinctive-7d1f0c1e5a"}'}, 400),
        ({"content": b'{"sk-distinctive-7d1f0c1e5a":1,"sk-distinctive-7d1f0c1e5a":2}'}, 400),
        ({"json": KEY}, 400),
        ({"json": {}}, 400),
        ({"json": {"key": None}}, 400),
        ({"json": {"key": ""}}, 400),
        ({"json": {"key": [KEY]}}, 400),
        ({"json": {"key": f"{KEY}\n"}}, 400),
        ({"json": {"key": KEY * 300}}, 400),
        ({"json": {"key": KEY, "more": 1}}, 400),
        ({"content": b'{"key":"\\ud800"}'}, 400),
        ({"data": {"key": KEY}}, 400),
        ({"content": b" " * (64 * 1024 + 1)}, 413),
    ],
)
def test_malformed_key_is_refused_and_not_repeated(
    router: Server, new_name: NewName, options: dict[str, Any], status: int
) -> None:
    """Anything but one strict object with one good key is invalid, and nothing of it is answered."""
    mine = router.new_workspace(new_name())
    assert refusal(ask(router, mine, "PUT", _PATH, **options)) == (status, "invalid_input")
    assert ask(router, mine, "GET", "/v2/provider-keys").json() == {"data": []}


@pytest.mark.req("R-17")
@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("nobody", (404, "model_not_found")),
        ("Fake", (404, "model_not_found")),
        ("x" * 100, (404, "model_not_found")),
        ("%00", (404, "model_not_found")),
        ("local", (400, "invalid_input")),
    ],
)
def test_key_for_an_unknown_provider_is_refused(router: Server, provider: str, expected: tuple[int, str]) -> None:
    """An unknown provider is `model_not_found`; the built-in partner is only ours to call."""
    path = f"/v2/provider-keys/{provider}"
    assert refusal(ask(router, router.key, "PUT", path)) == expected
    assert refusal(ask(router, router.key, "GET", path)) == (404, "request_not_found")
    assert refusal(ask(router, router.key, "DELETE", path)) == (404, "request_not_found")


@pytest.mark.req("R-17", "R-37")
@pytest.mark.parametrize(("method", "path"), _VERBS)
def test_stranger_cannot_manage_keys(
    router: Server, new_name: NewName, token: MakeToken, method: str, path: str
) -> None:
    """Every route wants a credential of the workspace that is not limited to some models."""
    assert refusal(httpx.request(method, router.url + path)) == (401, "unauthorized")
    name = new_name()
    limited = router.new_workspace(name, models="fake/*")
    assert refusal(ask(router, limited, method, path)) == (403, "forbidden")
    for claims, status in (({"models": ["fake/*"]}, {403}), ({}, {200, 201, 404})):
        bearer = {"Authorization": f"Bearer {token(name, **claims)}"}
        body = {"key": KEY} if method == "PUT" else None
        assert httpx.request(method, router.url + path, headers=bearer, json=body).status_code in status


@pytest.mark.req("R-17", "R-38")
@pytest.mark.parametrize(("method", "path"), _VERBS)
def test_workspace_without_the_router_cannot_manage_keys(
    router: Server, new_name: NewName, method: str, path: str
) -> None:
    """A closed gate is 403 `not_enabled` on every route."""
    key = router.new_workspace(new_name(), "--gate", "router=off")
    assert refusal(ask(router, key, method, path)) == (403, "not_enabled")


@pytest.mark.req("R-17", "R-38")
def test_key_for_a_provider_outside_the_policy_is_refused(router: Server, new_name: NewName) -> None:
    """A key is stored only for a provider the workspace may use; it can be deleted all the same."""
    name = new_name()
    key = router.new_workspace(name, "--gate", "provider:other=off")
    assert refusal(ask(router, key, "PUT", "/v2/provider-keys/other")) == (403, "not_enabled")
    assert ask(router, key, "PUT", _PATH).status_code == 201
    router.cli("workspaces", "change", name, "--providers", "other")
    wait_until(lambda: ask(router, key, "PUT", _PATH).status_code == 403, "the policy is in force")
    assert refusal(ask(router, key, "PUT", _PATH)) == (403, "forbidden")
    assert ask(router, key, "DELETE", _PATH).status_code == 204


def test_wrong_method_is_405_with_the_methods_of_the_path(router: Server) -> None:
    """A 405 lists every method of its path, and v1 has none of these routes."""
    response = router.client.post(_PATH)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}
    assert router.client.head("/v2/provider-keys").status_code == 200
    assert router.client.get("/v1/provider-keys").status_code == 404


def test_caller_who_leaves_is_no_unexpected_error(router: Server) -> None:
    """A connection that closes before its key is whole is recorded as such, and stores nothing."""
    host, port = router.url.removeprefix("http://").split(":")
    before = len(router.logged_events("UnexpectedError"))
    with socket.create_connection((host, int(port))) as connection:
        head = f"PUT {_PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: {router.key}\r\nContent-Length: 99\r\n\r\n"
        connection.sendall(head.encode() + b'{"key":')
        wait_until(lambda: router.client.get("/healthz").status_code == 200, "the server has read on")
    wait_until(
        lambda: any(record["result"] == "client_disconnected" for record in router.logged_events("FaultAnswered")),
        "recorded",
    )
    assert len(router.logged_events("UnexpectedError")) == before


@pytest.mark.req("R-17")
def test_stored_key_is_never_seen_again(router: Server, partner: FakePartner, new_name: NewName) -> None:
    """Through stores, runs that succeed and runs that fail: no log, no metric, no file and no answer has the key."""
    mine = router.new_workspace(new_name())
    answers = [ask(router, mine, *verb) for verb in (("PUT", _PATH), *_VERBS, ("PUT", _PATH))]
    answers.append(ask(router, mine, "PUT", _PATH, json={"key": f"{KEY}\n"}))
    for status in (200, 401, 500):
        partner.script("/json", reply(status, b'{"error":{"message":"no"}}'))
        answers.append(ask(router, mine, "POST", "/v2/models/fake/json-1", json={"prompt": "x"}))
    answers += [router.client.get("/metrics"), router.client.get("/the-last-line-of-keys")]
    wait_until(lambda: "/the-last-line-of-keys" in router.log.read_text("utf-8"), "the log is written")
    seen = {str(index): answer.content + repr(answer.headers).encode() for index, answer in enumerate(answers)}
    seen |= {path.name: path.read_bytes() for path in (router.log, *router.data.iterdir()) if path.is_file()}
    assert {"fairlead.db", "fairlead.db-wal", "secret-key"} <= set(seen)
    assert [name for name, content in seen.items() if KEY.encode() in content] == []


@pytest.mark.req("R-17")
def test_secret_file_is_readable_by_its_owner_alone(router: Server) -> None:
    """The server made its secret for its owner alone, and logs none of it."""
    path = router.data / "secret-key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in router.log.read_text("utf-8")
