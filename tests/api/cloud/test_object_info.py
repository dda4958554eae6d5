"""The classes of nodes over HTTP (C-01)."""

import gzip
import json

import httpx
import pytest

from api.cloud.clients import Client, refusal_of


@pytest.mark.req("C-01")
@pytest.mark.parametrize("path", ["/api/object_info", "/object_info"])
def test_every_class_of_nodes_is_listed(visitor: Client, path: str) -> None:
    """Every class is there, those of packs too, with what editors need to know of it."""
    found = visitor.get(path)
    assert {"EmptyImage", "SaveImage", "LoadImage", "HoldOn"} <= set(found)
    blank = found["EmptyImage"]
    assert set(blank["input"]["required"]) >= {"width", "height"}
    assert blank["input"]["required"]["width"][0] == "INT"
    assert (blank["output"], blank["name"], blank["output_node"]) == (["IMAGE"], "EmptyImage", False)
    for name in ("input_order", "output_is_list", "output_name", "display_name", "description", "category"):
        assert name in blank


@pytest.mark.req("C-01")
def test_single_class_is_told_as_in_the_list(visitor: Client) -> None:
    """A class by itself is under its name; one that there is not is nothing, as clients expect."""
    whole = visitor.get("/api/object_info")
    assert visitor.get("/api/object_info/SaveImage") == {"SaveImage": whole["SaveImage"]}
    for name in ("NoSuchNode", "a%2Fb", "%00"):
        assert visitor.get(f"/object_info/{name}") == {}


@pytest.mark.req("C-01")
def test_known_document_is_not_sent_again(visitor: Client) -> None:
    """Who has the document is told so; who takes gzip is sent the same, smaller."""
    plain = visitor.ask("GET", "/api/object_info", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert (plain.headers["vary"], plain.headers["cache-control"]) == ("Accept-Encoding", "private, no-cache")
    etag = plain.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}'):
        again = visitor.ask("GET", "/api/object_info", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    other = visitor.ask("GET", "/api/object_info", headers={"If-None-Match": '"other"'})
    assert other.status_code == 200
    packed = _raw(visitor, "gzip;q=0.5, br")
    assert packed.headers["content-encoding"] == "gzip"
    sent = b"".join(packed.iter_raw())
    assert len(sent) < len(plain.content) / 4
    assert json.loads(gzip.decompress(sent)) == plain.json()
    assert "content-encoding" not in _raw(visitor, "br, gzip;q=0").headers


@pytest.mark.req("C-14")
def test_stranger_sees_no_classes(visitor: Client) -> None:
    """The classes are for callers."""
    response = visitor.ask("GET", "/api/object_info", headers={"X-API-Key": "flk_nobody"})
    assert refusal_of(response) == (401, "unauthorized")


def _raw(caller: Client, encodings: str) -> httpx.Response:
    """Ask for the document, and leave what is sent as it is."""
    client = caller.server.client
    headers = {"X-API-Key": caller.key, "Accept-Encoding": encodings}
    return client.send(client.build_request("GET", "/api/object_info", headers=headers), stream=True)
