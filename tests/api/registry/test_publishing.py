"""Publishing over HTTP: what is sent is what everybody reads, until it is deleted."""

from typing import Final

import httpx
import pytest

from api.conftest import MakeToken
from api.registry.publishing import DOWNLOAD, Publishing, refusal_of

_TIMES: Final = {"created_at", "updated_at"}


@pytest.mark.req("G-03")
def test_publisher_is_made_read_changed_and_deleted(publishing: Publishing) -> None:
    """A publisher is made, read by anybody, changed whole, and deleted."""
    path = f"/publishers/{publishing.publisher}"
    said = {"name": "Acme", "description": "One\ntwo.", "website": "https://example.com", "support": "help@example.com"}
    changed = publishing.ask("PUT", path, json=said)
    assert changed.status_code == 200
    found = publishing.read(path)
    assert found == changed.json()
    assert set(found) - set(said) == {"id", *_TIMES}
    assert said.items() <= found.items()
    again = publishing.ask("PUT", path, json={"id": publishing.publisher, "name": "Acme"})
    assert set(again.json()) == {"id", "name", *_TIMES}
    deleted = publishing.ask("DELETE", path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert refusal_of(publishing.client.get(path)) == (404, "not_found")


@pytest.mark.req("G-03")
def test_node_says_what_was_said_of_it(publishing: Publishing) -> None:
    """A node is made under a publisher, and read by anybody with the version that was published last."""
    node_id = publishing.make_node("blur", description="Softly.", tags=["filter"], license="MIT", category="image")
    assert "latest_version" not in publishing.read(f"/nodes/{node_id}")
    first = publishing.publish(node_id, "1.0.0")
    assert first.status_code == 201
    second = publishing.publish(node_id, "1.1.0-rc.1", changelog="More.", dependencies=["numpy>=2"], deprecated=True)
    found = publishing.read(f"/nodes/{node_id}")
    assert found["latest_version"] == second.json()
    assert (found["publisher_id"], found["tags"], found["name"]) == (publishing.publisher, ["filter"], "Blur")
    versions = publishing.read(f"/nodes/{node_id}/versions")
    assert versions == [second.json(), first.json()]
    assert second.json()["download_url"] == DOWNLOAD
    assert publishing.read(f"/publishers/{publishing.publisher}/nodes") == [found]
    assert publishing.read("/nodes", search=f"{node_id} SOFTLY")["data"] == [found]


@pytest.mark.req("G-01")
@pytest.mark.parametrize("kind", ["key", "token", "x-api-key"])
def test_one_node_alone_is_deleted(publishing: Publishing, token: MakeToken, kind: str) -> None:
    """A token, a key as bearer or a key in its own header deletes that node: 204, no body, and nothing else is gone."""
    kept, gone = publishing.make_node("kept"), publishing.make_node("gone")
    publishing.publish(kept, "1.0.0")
    headers = {
        "key": {},
        "token": {"Authorization": f"Bearer {token(publishing.workspace)}"},
        "x-api-key": {"Authorization": "", "X-API-Key": publishing.credential},
    }[kind]
    nodes = f"/publishers/{publishing.publisher}/nodes"
    before = publishing.read(f"/nodes/{kept}")
    deleted = publishing.ask("DELETE", f"{nodes}/{gone}", headers=headers)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert "content-type" not in deleted.headers
    assert deleted.headers["x-service-request-id"]
    assert refusal_of(publishing.client.get(f"/nodes/{gone}")) == (404, "not_found")
    assert publishing.read(nodes) == [before]
    assert publishing.read("/nodes", search=gone)["data"] == []
    assert len(publishing.read(f"/nodes/{kept}/versions")) == 1
    assert refusal_of(publishing.ask("DELETE", f"{nodes}/{gone}")) == (404, "not_found")


@pytest.mark.req("G-01")
def test_version_number_is_published_once(publishing: Publishing) -> None:
    """A number is refused that a node has, and one it had before it was deleted and made again."""
    node_id = publishing.make_node("blur")
    assert publishing.publish(node_id, "1.0.0").status_code == 201
    assert refusal_of(publishing.publish(node_id, "1.0.0")) == (409, "version_taken")
    publishing.ask("DELETE", f"/publishers/{publishing.publisher}/nodes/{node_id}")
    assert publishing.make_node("blur") == node_id
    assert refusal_of(publishing.publish(node_id, "1.0.0")) == (409, "version_taken")
    assert publishing.read(f"/nodes/{node_id}/versions") == []
    assert publishing.publish(node_id, "1.0.1").status_code == 201


@pytest.mark.req("G-03")
def test_pages_hold_each_entry_once(publishing: Publishing) -> None:
    """Each list is read to its end by its links or cursors, in steps of any size, and has each entry once."""
    names = [publishing.make_node(f"n{number}") for number in range(5)]
    for number in range(5):
        publishing.publish(names[0], f"1.{number}.0")

    def pages(path: str, key: str, **query: str) -> list[list[str]]:
        found: list[list[str]] = []
        address = str(httpx.URL(publishing.server.url + path, params={"limit": "2", **query}))
        while True:
            response = publishing.client.get(address)
            page = response.json()
            listed = page if isinstance(page, list) else page["data"]
            found.append([entry[key] for entry in listed])
            if isinstance(page, dict):
                assert (page["limit"], page["has_more"]) == (2, "next_cursor" in page)
                following = page.get("next_cursor")
                after = following and str(httpx.URL(address).copy_merge_params({"cursor": following}))
            else:
                after = response.links.get("next", {}).get("url")
            if after is None:
                return found
            address = after

    expected = [names[:2], names[2:4], names[4:]]
    assert pages(f"/publishers/{publishing.publisher}/nodes", "id") == expected
    assert pages("/nodes", "id", search=publishing.publisher) == expected
    assert pages(f"/nodes/{names[0]}/versions", "version") == [["1.4.0", "1.3.0"], ["1.2.0", "1.1.0"], ["1.0.0"]]
    assert [publishing.publisher] == [
        id_ for page in pages("/publishers", "id") for id_ in page if id_ == publishing.publisher
    ]


def test_ban_takes_effect_at_once(publishing: Publishing) -> None:
    """What an operator bans is gone for everybody at once, and its owner is told why it cannot be changed."""
    node_id = publishing.make_node("blur")
    server, path = publishing.server, f"/publishers/{publishing.publisher}"
    server.cli("registry", "ban", "node", node_id)
    assert refusal_of(publishing.ask("DELETE", f"{path}/nodes/{node_id}")) == (403, "banned")
    assert refusal_of(publishing.publish(node_id, "1.0.0")) == (403, "banned")
    assert refusal_of(publishing.client.get(f"/nodes/{node_id}")) == (404, "not_found")
    server.cli("registry", "unban", "node", node_id)
    server.cli("registry", "ban", "publisher", publishing.publisher)
    for method, where in (("DELETE", path), ("DELETE", f"{path}/nodes/{node_id}")):
        assert refusal_of(publishing.ask(method, where)) == (403, "banned")
    assert refusal_of(publishing.client.get(path)) == (404, "not_found")
    server.cli("registry", "unban", "publisher", publishing.publisher)
    assert publishing.read(f"/nodes/{node_id}")["id"] == node_id


@pytest.mark.req("G-01")
def test_operator_sees_who_deleted_a_node(publishing: Publishing, token: MakeToken) -> None:
    """An operator sees what was done, when, from which workspace, and with which key or for whom."""
    node_id = publishing.make_node("blur")
    bearer = {"Authorization": f"Bearer {token(publishing.workspace, sub='ann')}"}
    publishing.ask("DELETE", f"/publishers/{publishing.publisher}/nodes/{node_id}", headers=bearer)
    acts = publishing.server.cli("registry", "acts", "--publisher", publishing.publisher, "--json")
    assert [(act["act"], act["node_id"], act["subject"]) for act in acts] == [
        ("node_deleted", node_id, "ann"),
        ("node_created", node_id, None),
        ("publisher_created", None, None),
    ]
    assert acts[0]["at"].endswith("Z")
    assert (acts[0]["key_id"], acts[1]["key_id"]) == (None, acts[2]["key_id"])
    keys = publishing.server.cli("keys", "list", "--json")
    assert acts[1]["key_id"] in {key["id"] for key in keys if key["workspace"] == publishing.workspace}
    assert "node_deleted" in publishing.server.cli("registry", "acts", "--limit", "1000")
