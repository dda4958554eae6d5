"""The registry as a released command line reads it: each answer decodes with a strict model (K-08).

ROWS is the contract of what is read; publishing is walked through as a command line does it.
"""

import io
import zipfile
from typing import Annotated, Any, Final

import httpx
import msgspec
import pytest

from api.registry.conftest import NewPublishing
from api.registry.publishing import Publishing, refusal_of

Text = Annotated[str, msgspec.Meta(min_length=1)]
Address = Annotated[str, msgspec.Meta(pattern="^https?://")]


class Version(msgspec.Struct):
    """A version of a node."""

    id: Text
    version: Text
    changelog: str
    dependencies: list[str]
    deprecated: bool
    downloadUrl: Address  # noqa: N815 -- as command lines read it


class Node(msgspec.Struct):
    """A node; what it has not said of itself is empty, and a latest version is absent, never null, before the first."""

    id: Text
    name: Text
    description: str
    author: str
    license: str
    icon: str
    repository: str
    tags: list[str]
    latest_version: Version | msgspec.UnsetType = msgspec.UNSET


class Nodes(msgspec.Struct):
    """A page of nodes."""

    nodes: list[Node]
    total: int
    page: int
    limit: int
    totalPages: int  # noqa: N815 -- as command lines read it


class Published(msgspec.Struct, forbid_unknown_fields=True):
    """A version that was announced, and where its archive goes."""

    node_version: Version
    signedUrl: Address  # noqa: N815 -- as command lines read it


ROWS: Final = (
    pytest.param("/nodes?search={word}", Nodes, id="list"),
    pytest.param("/nodes/{node}", Node, id="node"),
    pytest.param("/nodes/{bare}", Node, id="node without a version"),
    pytest.param("/nodes/{node}/install", Version, id="installation"),
    pytest.param("/nodes/{node}/install?version=1.0.0", Version, id="installation of a version"),
)


def archive(text: str = "the code") -> bytes:
    """Return a zip file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("__init__.py", text)
    return content.getvalue()


def announce(publishing: Publishing, node: str, version: str, token: str | None = None, **said: Any) -> httpx.Response:
    """Publish as a command line does: without a header, and with members that are none of ours."""
    supported = {"supported_os": ["Linux"], "supported_accelerators": [], "supported_comfyui_version": ""}
    body = {
        "personal_access_token": publishing.credential if token is None else token,
        "node": {
            "id": node, "name": "", "description": "Draws.", "icon": "", "license": '{"file": "LICENSE"}',
            "repository": "https://example.com/draws", "banner_url": "", **supported, **said,
        },
        "node_version": {"version": version, "dependencies": ["numpy"], "changelog": "New.", **supported},
    }  # fmt: skip
    return publishing.client.post(f"/publishers/{publishing.publisher}/nodes/{node}/versions", json=body)


def publish(publishing: Publishing, node: str, version: str, content: bytes, **said: Any) -> Published:
    """Publish a version with its archive."""
    response = announce(publishing, node, version, **said)
    assert response.status_code == 201, response.text
    told = msgspec.json.decode(response.content, type=Published)
    sent = httpx.put(told.signedUrl, content=content, headers={"Content-Type": "application/zip"})
    assert (sent.status_code, sent.content) == (200, b"")
    return told


@pytest.fixture
def node(publishing: Publishing) -> str:
    """Return the id of a node that nobody has."""
    return f"{publishing.publisher}-draws"


@pytest.mark.req("K-08")
@pytest.mark.parametrize(("path", "model"), ROWS)
def test_answer_has_every_member_that_command_lines_require(
    publishing: Publishing, node: str, path: str, model: type
) -> None:
    """Whatever was said of a node when it was published."""
    publish(publishing, node, "1.0.0", archive())
    bare = publishing.make_node("bare")
    response = publishing.client.get(path.format(node=node, bare=bare, word=publishing.publisher))
    assert response.status_code == 200, response.text
    msgspec.json.decode(response.content, type=model)


@pytest.mark.req("K-08")
def test_version_is_shown_once_its_archive_has_come(publishing: Publishing, node: str) -> None:
    """Until then it may be announced again; afterwards anybody downloads what was sent, and its number is used."""
    first = announce(publishing, node, "1.0.0")
    waiting = msgspec.json.decode(first.content, type=Published)
    assert "latest_version" not in publishing.read(f"/nodes/{node}")
    assert publishing.read(f"/nodes/{node}/versions") == []
    refused = publishing.client.get(f"/nodes/{node}/install")
    assert refusal_of(refused) == (404, "not_found")
    assert refused.json()["message"] == f"{node} has no version to install yet: publish one with its archive."
    assert refusal_of(publishing.client.get(waiting.node_version.downloadUrl)) == (404, "not_found")
    content = archive("the code, mended")
    told = publish(publishing, node, "1.0.0", content)
    assert httpx.put(told.signedUrl, content=content).status_code == 200
    assert refusal_of(httpx.put(told.signedUrl, content=archive("others"))) == (409, "version_taken")
    assert refusal_of(announce(publishing, node, "1.0.0")) == (409, "version_taken")
    found = msgspec.convert(publishing.read(f"/nodes/{node}"), Node)
    assert found.latest_version == told.node_version
    assert (found.name, found.description, found.license) == (node, "Draws.", '{"file": "LICENSE"}')
    downloaded = httpx.get(told.node_version.downloadUrl)
    assert (downloaded.content, downloaded.headers["content-type"]) == (content, "application/zip")
    part = httpx.get(told.node_version.downloadUrl, headers={"Range": "bytes=0-1"})
    assert (part.status_code, part.content) == (206, b"PK")
    assert httpx.get(told.node_version.downloadUrl, headers={"Range": "bytes=99999-"}).status_code == 416


@pytest.mark.req("K-08")
def test_publishing_again_changes_what_is_said_of_the_node(publishing: Publishing, node: str) -> None:
    """What is not said stays; the version that was published last is the latest, and each has its archive."""
    one, two = archive("one"), archive("two")
    publish(publishing, node, "1.0.0", one, author="Ann")
    publish(publishing, node, "1.1.0", two, description="Paints.", author=None)
    found = msgspec.convert(publishing.read(f"/nodes/{node}"), Node)
    assert (found.description, found.author) == ("Paints.", "Ann")
    assert publishing.read("/nodes", search=f"{node} ann")["total"] == 1
    versions = [msgspec.convert(one, Version) for one in publishing.read(f"/nodes/{node}/versions")]
    assert [one.version for one in versions] == ["1.1.0", "1.0.0"]
    assert [httpx.get(one.downloadUrl).content for one in versions] == [two, one]
    assert [one.id for one in versions] == [f"{node}@1.1.0", f"{node}@1.0.0"]


@pytest.mark.req("K-08")
def test_each_installation_counts(publishing: Publishing, node: str) -> None:
    """The last published or a named version is installed and counted; an unknown one is not found."""
    publish(publishing, node, "1.0.0", archive())
    publish(publishing, node, "2.0.0", archive())
    for query, version in (("", "2.0.0"), ("?version=1.0.0", "1.0.0")):
        found = msgspec.json.decode(publishing.client.get(f"/nodes/{node}/install{query}").content, type=Version)
        assert found.version == version
    for path in (f"/nodes/{node}/install?version=3.0.0", f"/nodes/{node}/install?version=x", "/nodes/none/install"):
        assert refusal_of(publishing.client.get(path)) == (404, "not_found")
    assert publishing.read(f"/nodes/{node}")["installs"] == 2


@pytest.mark.req("K-08")
def test_list_is_told_by_page_and_by_cursor(publishing: Publishing) -> None:
    """Both tell how many there are, and which page of how many this is."""
    made = [publishing.make_node(name) for name in "abcde"]
    word = publishing.publisher
    pages = [msgspec.convert(publishing.read("/nodes", search=word, limit=2, page=n), Nodes) for n in (1, 2, 3, 4)]
    assert [[one.id for one in page.nodes] for page in pages] == [made[:2], made[2:4], made[4:], []]
    assert {(page.total, page.totalPages, page.limit) for page in pages} == {(5, 3, 2)}
    assert [page.page for page in pages] == [1, 2, 3, 4]
    first = publishing.read("/nodes", search=word, limit=2)
    second = publishing.read("/nodes", search=word, limit=2, cursor=first["next_cursor"])
    assert (second["page"], [one["id"] for one in second["nodes"]]) == (2, made[2:4])
    assert second["data"] == second["nodes"]
    for page in ("0", "-1", "x", "1234567"):
        assert refusal_of(publishing.client.get("/nodes", params={"page": page})) == (400, "invalid_request")


@pytest.mark.req("K-08")
def test_token_is_taken_in_the_body_or_in_the_header(
    publishing: Publishing, new_publishing: NewPublishing, node: str
) -> None:
    """The header wins; a wrong one is refused, and so is that of another workspace, before anything is changed."""
    assert refusal_of(announce(publishing, node, "1.0.0", token="flk_wrong")) == (401, "unauthorized")
    assert refusal_of(announce(publishing, node, "1.0.0", token="")) == (401, "unauthorized")
    assert refusal_of(announce(publishing, node, "1.0.0", token=new_publishing().credential)) == (403, "forbidden")
    assert publishing.client.get(f"/nodes/{node}").status_code == 404
    path = f"/publishers/{publishing.publisher}/nodes/{node}/versions"
    body = {"personal_access_token": "flk_wrong", "node": {"id": node}, "node_version": {"version": "1.0.0"}}
    assert publishing.ask("POST", path, json=body).status_code == 201
    for wrong in (
        {**body, "node": {"id": "another"}},
        {**body, "node_version": {"version": "one"}},
        {**body, "node": {"repository": "http://example.com"}},
        {**body, "node": {"name": "x" * 101}},
        {**body, "node": {"name": 1}},
    ):
        assert refusal_of(publishing.ask("POST", path, json=wrong)) == (400, "invalid_request")


@pytest.mark.req("K-08", "S-09")
def test_archive_is_a_zip_file_by_a_good_link_within_the_limits(publishing: Publishing, node: str) -> None:
    """Anything else is refused, and the version goes on waiting for its archive."""
    told = msgspec.json.decode(announce(publishing, node, "1.0.0").content, type=Published)
    for content in (b"", b"PK", b"#!/bin/sh"):
        assert refusal_of(httpx.put(told.signedUrl, content=content)) == (400, "invalid_request")
    other = told.signedUrl.replace("1.0.0", "1.0.1")
    for url in (other, told.signedUrl + "0", told.signedUrl.partition("?")[0]):
        assert refusal_of(httpx.put(url, content=archive())) == (403, "forbidden")
    publishing.server.cli("workspaces", "limit-storage", publishing.workspace, "--files", "1")
    assert httpx.put(told.signedUrl, content=archive()).status_code == 200
    second = msgspec.json.decode(announce(publishing, node, "1.0.1").content, type=Published)
    assert refusal_of(httpx.put(second.signedUrl, content=archive())) == (413, "storage_full")
    assert publishing.read(f"/nodes/{node}")["latest_version"]["version"] == "1.0.0"


@pytest.mark.req("K-08", "G-01")
def test_deleted_node_takes_its_archives_along(publishing: Publishing, node: str) -> None:
    """Nobody downloads them, and they count no more; an announced version is forgotten too."""
    told = publish(publishing, node, "1.0.0", archive())
    waiting = msgspec.json.decode(announce(publishing, node, "2.0.0").content, type=Published)
    path = f"/publishers/{publishing.publisher}/nodes/{node}"
    assert publishing.ask("DELETE", path).status_code == 204
    assert refusal_of(httpx.get(told.node_version.downloadUrl)) == (404, "not_found")
    assert refusal_of(httpx.put(waiting.signedUrl, content=archive())) == (404, "not_found")
    kept = publishing.server.cli("workspaces", "storage", "--json")
    assert next(row for row in kept if row["name"] == publishing.workspace)["files"] == 0
