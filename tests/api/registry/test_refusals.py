"""One envelope for everything that goes wrong in the registry, and nothing is changed by any of it (G-02).

An error has an `error`, a name of a closed list, and a `message`, a sentence.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import text
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from api.conftest import SETTINGS, MakeToken
from api.registry.conftest import NewPublishing
from api.registry.publishing import DOWNLOAD, Publishing, refusal_of
from databases import Postgres, opened_database
from servers import Server

_WRITES: Final = (
    ("POST", "/publishers"),
    ("PUT", "/publishers/{publisher}"),
    ("DELETE", "/publishers/{publisher}"),
    ("POST", "/publishers/{publisher}/nodes"),
    ("DELETE", "/publishers/{publisher}/nodes/{node}"),
    ("POST", "/publishers/{publisher}/nodes/{node}/versions"),
)
_READS: Final = (
    "/publishers",
    "/publishers/{publisher}",
    "/publishers/{publisher}/nodes",
    "/nodes",
    "/nodes/{node}",
    "/nodes/{node}/versions",
)


def body_for(path: str, publishing: Publishing, node_id: str) -> dict[str, Any] | None:
    """Return a body that is fine for the path of a POST or PUT."""
    if path.endswith("/versions"):
        return {"version": "9.0.0", "download_url": DOWNLOAD}
    if path.endswith("/nodes"):
        return {"id": f"{node_id}-more", "name": "More"}
    if path == "/publishers":
        return {"id": f"{publishing.publisher}-more", "name": "More"}
    return {"name": "Changed"}


def everything(publishing: Publishing, node_id: str) -> list[Any]:
    """Return all that can be read of a publisher and its node."""
    paths = [path.format(publisher=publishing.publisher, node=node_id) for path in _READS if "{" in path]
    return [publishing.read(path) for path in paths]


@pytest.mark.req("G-01", "G-02")
@pytest.mark.parametrize("credential", ["none", "unknown", "foreign", "expired", "basic", "empty"])
def test_every_change_needs_a_credential(publishing: Publishing, token: MakeToken, credential: str) -> None:
    """Every change takes a good credential: 401 in the registry's envelope, and nothing is changed."""
    node_id = publishing.make_node("blur")
    before = everything(publishing, node_id)
    sent = {
        "none": {},
        "unknown": {"Authorization": "Bearer flk_" + "a" * 43},
        "foreign": {"Authorization": f"Bearer {token(publishing.workspace, secret='x' * 64)}"},
        "expired": {"Authorization": f"Bearer {token(publishing.workspace, exp=1)}"},
        "basic": {"Authorization": "Basic YTpi"},
        "empty": {"Authorization": "Bearer"},
    }[credential]
    for method, path in _WRITES:
        where = path.format(publisher=publishing.publisher, node=node_id)
        body = None if method == "DELETE" else body_for(path, publishing, node_id)
        assert refusal_of(publishing.client.request(method, where, headers=sent, json=body)) == (401, "unauthorized"), (
            where
        )
    assert everything(publishing, node_id) == before


@pytest.mark.req("G-02")
def test_workspaces_cannot_change_each_others_entries(new_publishing: NewPublishing, token: MakeToken) -> None:
    """Whatever one workspace sends to what is another's, with a key or a token, is refused and changes nothing."""
    one, two = new_publishing(), new_publishing()
    nodes = {one: one.make_node("blur"), two: two.make_node("blur")}
    for owner in (one, two):
        owner.publish(nodes[owner], "1.0.0")
    before = [everything(owner, nodes[owner]) for owner in (one, two)]
    forbidden, missing, taken = (403, "forbidden"), (404, "not_found"), (409, "id_taken")
    for attacker, victim in ((one, two), (two, one)):
        mine, own = f"/publishers/{attacker.publisher}", nodes[attacker]
        theirs, node_id = f"/publishers/{victim.publisher}", nodes[victim]
        version = {"version": "6.6.6", "download_url": DOWNLOAD}
        attacks: list[tuple[str, str, Any, tuple[int, str]]] = [
            ("POST", "/publishers", {"id": victim.publisher, "name": "Mine"}, taken),
            ("PUT", theirs, {"name": "Mine"}, forbidden),
            ("PUT", mine, {"id": victim.publisher, "name": "Mine"}, (400, "invalid_request")),
            ("DELETE", theirs, None, forbidden),
            ("POST", f"{theirs}/nodes", {"id": f"{node_id}-more", "name": "Mine"}, forbidden),
            ("POST", f"{theirs}/nodes", {"id": own, "name": "Mine"}, forbidden),
            ("POST", f"{mine}/nodes", {"id": node_id, "name": "Mine"}, taken),
            ("DELETE", f"{theirs}/nodes/{node_id}", None, forbidden),
            ("DELETE", f"{theirs}/nodes/{own}", None, forbidden),
            ("DELETE", f"{theirs}/nodes/nothing", None, forbidden),
            ("DELETE", f"{mine}/nodes/{node_id}", None, missing),
            ("POST", f"{theirs}/nodes/{node_id}/versions", version, forbidden),
            ("POST", f"{mine}/nodes/{node_id}/versions", version, missing),
        ]
        for method, path, body, expected in attacks:
            for credential in (attacker.credential, token(attacker.workspace)):
                bearer = {"Authorization": f"Bearer {credential}"}
                answered = attacker.ask(method, path, json=body, headers=bearer)
                assert refusal_of(answered) == expected, (method, path)
                assert victim.workspace not in answered.text.replace(victim.publisher, "").replace(node_id, "")
    assert [everything(owner, nodes[owner]) for owner in (one, two)] == before


@pytest.mark.req("G-02")
def test_unknown_entries_are_not_found(publishing: Publishing) -> None:
    """Unknown ids, and texts that are none, are not found, no matter who asks for them."""
    node_id = publishing.make_node("blur")
    before = everything(publishing, node_id)
    for odd in ("nothing", "A", "a_b", "%00", "%2e%2e", "-", "a" * 101, "a%2fb", "%ff", "%0a"):
        paths = [f"/publishers/{odd}", f"/publishers/{odd}/nodes", f"/nodes/{odd}", f"/nodes/{odd}/versions"]
        for path in paths:
            assert refusal_of(publishing.ask("GET", path)) == (404, "not_found"), path
        assert refusal_of(publishing.ask("PUT", paths[0], json={"name": "A"})) == (404, "not_found"), odd
        assert refusal_of(publishing.ask("DELETE", paths[0])) == (404, "not_found"), odd
        for path in (f"/publishers/{odd}/nodes/{node_id}", f"/publishers/{publishing.publisher}/nodes/{odd}"):
            assert refusal_of(publishing.ask("DELETE", path)) == (404, "not_found"), path
            said = {"version": "1.0.0", "download_url": DOWNLOAD}
            assert refusal_of(publishing.ask("POST", f"{path}/versions", json=said)) == (404, "not_found"), path
    assert everything(publishing, node_id) == before


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"name":"\\ud800"}', b"[" * 5000, b"{}", b'{"id":"a"}',
        b'{"id":"a","name":1}', b'{"id":"A","name":"A"}', b'{"id":"a","name":"A","more":1}', b'{"id":null,"name":"A"}',
        b'{"id":"a","name":"\\u0000"}', b'{"id":"a","name":"a\\u202eb"}', b'{"id":"..","name":"A"}',
        b'{"id":"a","name":"A","logo":"http://example.com"}', b'{"id":"a","name":"A","icon":"ftp://example.com"}',
        b'{"version":"1","download_url":"https://example.com"}', b'{"version":"1.0.0","download_url":"x"}',
        b'{"version":"1.0.0"}',
    ],
)  # fmt: skip
def test_malformed_body_is_refused(publishing: Publishing, content: bytes) -> None:
    """What cannot be read, or cannot be said, is refused with what is wrong with it, and nothing is made."""
    node_id = publishing.make_node("blur")
    before = everything(publishing, node_id)
    for method, path in _WRITES:
        if method != "DELETE" and not (method == "PUT" and content == b'{"id":"a"}'):
            where = path.format(publisher=publishing.publisher, node=node_id)
            assert refusal_of(publishing.ask(method, where, content=content)) == (400, "invalid_request"), where
    assert everything(publishing, node_id) == before


def test_body_of_the_registry_is_bounded(publishing: Publishing) -> None:
    """A body of 64 KiB is read, and one of a byte more is not."""
    path = f"/publishers/{publishing.publisher}"
    assert publishing.ask("PUT", path, content=b'{"name":"A"}'.ljust(65_536)).status_code == 200
    too_much = b'{"name":"B"}'.ljust(65_537)
    assert refusal_of(publishing.ask("PUT", path, content=too_much)) == (413, "body_too_large")
    chunks = iter([too_much[:40_000], too_much[40_000:]])
    assert refusal_of(publishing.ask("PUT", path, content=chunks)) == (413, "body_too_large")
    assert publishing.read(path)["name"] == "A"


@pytest.mark.req("G-02")
def test_earlier_refusal_answers_first(new_publishing: NewPublishing) -> None:
    """Of two that apply the earlier one answers, in the order of docs/registry.md."""
    mine, theirs = new_publishing(), new_publishing()
    node_id = mine.make_node("blur")
    mine.publish(node_id, "1.0.0")
    node, other = f"/publishers/{mine.publisher}/nodes/{node_id}", f"/publishers/{theirs.publisher}/nodes/nothing"
    version, bad = {"version": "1.0.0", "download_url": DOWNLOAD}, {"version": "1", "download_url": DOWNLOAD}
    nobody = {"Authorization": "Bearer nobody"}

    def answer(path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        return refusal_of(mine.ask("POST", f"{path}/versions", json=body, **more))

    assert answer(other, bad, headers=nobody) == (401, "unauthorized")
    assert answer(other, {"x": "y" * 65_536}, headers=nobody) == (401, "unauthorized")
    assert answer(other, {"x": "y" * 65_536}) == (413, "body_too_large")
    assert answer(other, bad) == answer("/publishers/nothing/nodes/nothing", bad) == (400, "invalid_request")
    theirs.server.cli("registry", "ban", "publisher", theirs.publisher)
    assert answer(other, version) == (403, "forbidden")
    mine.server.cli("registry", "ban", "node", node_id)
    assert answer(node, version) == (403, "banned")
    assert refusal_of(mine.ask("POST", f"/publishers/{mine.publisher}/nodes", json={"id": node_id, "name": "A"})) == (
        409,
        "id_taken",
    )
    mine.server.cli("registry", "ban", "publisher", mine.publisher)
    assert answer(f"/publishers/{mine.publisher}/nodes/nothing", version) == (403, "banned")


def test_malformed_query_is_refused(publishing: Publishing) -> None:
    """Limits are 1 to 100, a cursor is one of the same list, a search is short and can be typed."""
    node_id = publishing.make_node("blur")
    for number in range(2):
        publishing.make_node(f"n{number}")
        publishing.publish(node_id, f"1.{number}.0")
    cursor = publishing.next_cursor(f"/nodes/{node_id}/versions")
    elsewhere = publishing.next_cursor(f"/publishers/{publishing.publisher}/nodes")
    bad: list[dict[str, str]] = [
        {"limit": text} for text in ("0", "101", "-1", "1.0", "", "x", "1e1", "\u0661", "9" * 99)
    ]
    bad += [{"cursor": text} for text in ("", "x", cursor[:-1], cursor + "=", cursor + "A", "A" * 600, "é")]
    for path in _READS:
        where = path.format(publisher=publishing.publisher, node=node_id)
        if where in ("/publishers", "/nodes") or where.endswith(("/nodes", "/versions")):
            foreign = elsewhere if where.endswith("versions") else cursor
            for query in (*bad, {"cursor": foreign}):
                assert refusal_of(publishing.ask("GET", where, params=query)) == (400, "invalid_request"), (
                    where,
                    query,
                )
    for search in ("x" * 101, "a\x00b", "\u202e"):
        answered = publishing.ask("GET", "/nodes", params={"search": search})
        assert refusal_of(answered) == (400, "invalid_request")


def test_wrong_method_is_405_with_the_methods_of_the_path(publishing: Publishing) -> None:
    """A path takes its own methods and says which; HEAD is GET without a body; what nobody serves is not found."""
    node_id = publishing.make_node("blur")
    allowed = {
        "/publishers": {"GET", "HEAD", "POST"},
        f"/publishers/{publishing.publisher}": {"GET", "HEAD", "PUT", "DELETE"},
        f"/publishers/{publishing.publisher}/nodes": {"GET", "HEAD", "POST"},
        f"/publishers/{publishing.publisher}/nodes/{node_id}": {"DELETE"},
        f"/publishers/{publishing.publisher}/nodes/{node_id}/versions": {"POST"},
        "/nodes": {"GET", "HEAD"},
        f"/nodes/{node_id}": {"GET", "HEAD"},
        f"/nodes/{node_id}/versions": {"GET", "HEAD"},
    }
    for path, methods in allowed.items():
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - methods:
            response = publishing.ask(method, path)
            assert refusal_of(response) == (405, "method_not_allowed"), (method, path)
            assert set(response.headers["allow"].replace(",", " ").split()) == methods
        if "HEAD" in methods:
            head, whole = publishing.ask("HEAD", path), publishing.ask("GET", path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == str(len(whole.content))
    for path in ("/nodes/", "/publishers/", f"/nodes/{node_id}/more", "/publishers/a/nodes/b/versions/c", "/nodes//"):
        assert refusal_of(publishing.ask("GET", path)) == (404, "not_found"), path
    head = publishing.ask("HEAD", "/nodes/nothing")
    assert (head.status_code, head.content) == (404, b"")


def test_registry_has_no_sockets(publishing: Publishing) -> None:
    """The registry has no sockets, and says so instead of holding one."""
    address = publishing.server.url.replace("http", "ws", 1)
    with pytest.raises(InvalidStatus) as raised, connect(f"{address}/nodes"):
        pass
    assert raised.value.response.status_code == 404


@pytest.mark.req("G-02")
def test_deletion_that_cannot_be_recorded_is_500_and_not_made(postgres: Postgres, tmp_path: Path) -> None:
    """When the act of a deletion cannot be written, the answer is 500, and the node is there as before."""
    url = postgres.url(postgres.create())
    with _alone(tmp_path / "data", url) as publishing:
        assert publishing.ask("POST", "/publishers", json={"id": "acme", "name": "Acme"}).status_code == 201
        node_id = publishing.make_node("blur")
        publishing.publish(node_id, "1.0.0")
        before = everything(publishing, node_id)
        asyncio.run(_execute(url, "ALTER TABLE registry_acts RENAME TO lost_acts"))
        for path in (f"/publishers/acme/nodes/{node_id}", "/publishers/acme"):
            assert refusal_of(publishing.ask("DELETE", path)) == (500, "internal_error")
        asyncio.run(_execute(url, "ALTER TABLE lost_acts RENAME TO registry_acts"))
        assert everything(publishing, node_id) == before
        assert publishing.ask("DELETE", f"/publishers/acme/nodes/{node_id}").status_code == 204


def test_changes_count_towards_the_quota_and_reads_do_not(tmp_path: Path) -> None:
    """What changes something counts as a request of its workspace; what everybody reads does not."""
    with _alone(tmp_path / "data", FAIRLEAD_REQUESTS_PER_DAY="2") as publishing:
        for _ in range(2):
            assert refusal_of(publishing.ask("DELETE", "/publishers/nothing")) == (404, "not_found")
        limited = publishing.ask("DELETE", "/publishers/nothing")
        assert refusal_of(limited) == (429, "rate_limited")
        assert int(limited.headers["retry-after"]) > 0
        assert publishing.read("/nodes")["data"] == []


@contextmanager
def _alone(data: Path, database: str | None = None, **env: str) -> Iterator[Publishing]:
    """Run a server for one test, which may be told of failures that another would not forgive."""
    server = Server(data, database, None, {**SETTINGS, **env}, ("--no-local-partner",))
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            yield Publishing(server, client, "default", server.key, "acme")
    finally:
        assert server.stop() == 0


async def _execute(url: str, statement: str) -> None:
    async with opened_database(url) as database:
        await database.write(lambda c: c.execute(text(statement)).close())
