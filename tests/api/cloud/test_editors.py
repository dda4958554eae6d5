"""What editors ask for when they start, and what they keep, over HTTP."""

from typing import Any

import pytest

from api.cloud.clients import Client, refusal_of
from api.cloud.conftest import NewCloudClient
from cases import for_each
from servers import Server

MIB = 2**20


@pytest.mark.parametrize("prefix", ["/api", ""])
def test_editor_starts(visitor: Client, prefix: str) -> None:
    """What editors ask for at first is answered as they expect."""
    assert visitor.get(f"{prefix}/users") == {"storage": "server", "migrated": True}
    for path in ("/extensions", "/embeddings"):
        assert visitor.get(prefix + path) == []
    for path in ("/settings", "/node_replacements"):
        assert visitor.get(prefix + path) == {}
    stats = visitor.get(f"{prefix}/system_stats")
    assert {
        "os",
        "python_version",
        "embedded_python",
        "comfyui_version",
        "pytorch_version",
        "argv",
        "ram_total",
    } <= set(stats["system"])
    assert stats["devices"] == []
    assert visitor.post(f"{prefix}/free", {"unload_models": True}) == {}
    assert visitor.get("/api/user") == {"status": "active"}


def test_features_need_no_key(cloud: Server) -> None:
    """What a server can do is told to anybody, and says how large an upload may be."""
    features = cloud.client.get("/api/features", headers={"X-API-Key": ""}).json()
    assert features["supports_preview_metadata"] is True
    assert features["max_upload_size"] == 100 * MIB


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    "path", ["users", "user", "system_stats", "settings", "settings/a", "userdata", "userdata/a", "extensions"]
)
def test_stranger_sees_nothing_that_editors_keep(visitor: Client, path: str) -> None:
    """Everything but the features is for callers."""
    response = visitor.ask("GET", f"/api/{path}", headers={"X-API-Key": "flk_nobody"})
    assert refusal_of(response) == (401, "unauthorized")


def test_setting_is_kept_as_it_was_changed(caller: Client, new_cloud_client: NewCloudClient) -> None:
    """Settings are changed one by one or several at once, whatever JSON they are; others have their own."""
    assert caller.get("/api/settings/Comfy.Locale") is None
    caller.post("/api/settings/Comfy.Locale", "fr")
    caller.post("/api/settings", {"Comfy.Locale": "de", "Comfy/Odd id %": {"deep": [1, None]}})
    assert caller.get("/api/settings") == {"Comfy.Locale": "de", "Comfy/Odd id %": {"deep": [1, None]}}
    assert caller.get("/api/settings/Comfy.Locale") == "de"
    assert new_cloud_client().get("/api/settings") == {}


@pytest.mark.req("C-14")
@for_each(
    ("path", "content", "status", "kind"),
    [
        ("settings", b"[]", 400, "invalid_request"),
        ("settings", b"{", 400, "invalid_request"),
        ("settings", b'{"": 1}', 400, "invalid_input"),
        ("settings", b'{"a": "%s"}' % (b"x" * 20_000), 413, "file_too_large"),
        ("settings", b'{"a": "%s"}' % (b"x" * MIB), 413, "invalid_input"),
        ("settings/a", b"", 400, "invalid_request"),
        ("settings/a", b"{", 400, "invalid_request"),
        ("settings/%00", b"1", 400, "invalid_input"),
        ("userdata/a", b"x" * (MIB + 1), 413, "invalid_input"),
        ("userdata/..%2Fa", b"x", 400, "invalid_input"),
        ("userdata/%2Fetc%2Fpasswd", b"x", 400, "invalid_input"),
        ("userdata/a%5Cb", b"x", 400, "invalid_input"),
        ("userdata/%00", b"x", 400, "invalid_input"),
        ("userdata/%FF", b"x", 400, "invalid_input"),
        ("userdata/%ED%A0%80", b"x", 400, "invalid_input"),
    ],
)
def test_malformed_document_is_refused_and_not_kept(
    visitor: Client, path: str, content: bytes, status: int, kind: str
) -> None:
    """What is too large, is not JSON or has an odd name is refused, and nothing of it is kept."""
    assert refusal_of(visitor.ask("POST", f"/api/{path}", content=content)) == (status, kind)
    assert visitor.get("/api/settings") == {}
    assert visitor.get("/api/userdata?recurse=true") == []


def test_file_of_a_user_is_put_listed_moved_and_deleted(caller: Client, new_cloud_client: NewCloudClient) -> None:
    """Files are put, listed, read, moved and deleted, with the slashes of their names encoded as editors do it."""
    info = caller.post("/api/userdata/workflows%2Fa%20b.json?overwrite=false&full_info=true", {"nodes": []})
    assert (info["path"], info["size"]) == ("workflows/a b.json", 12)
    again = caller.ask("POST", "/api/userdata/workflows%2Fa%20b.json?overwrite=false", content=b"x")
    assert refusal_of(again) == (409, "file_exists")
    assert caller.post("/api/userdata/workflows%2Fa%20b.json", {"nodes": 1}) == "workflows/a b.json"
    assert _list_ids(caller, "dir=workflows") == ["a b.json"]
    assert _list_ids(caller, "dir=workflows&split=true") == [["a b.json", "a b.json"]]
    (full,) = _list_ids(caller, "dir=workflows&recurse=true&split=false&full_info=true")
    assert set(full) == {"path", "size", "modified", "created"}
    assert caller.post("/api/userdata/workflows%2Fa%20b.json/move/move%2Fc.json") == "move/c.json"
    assert caller.post("/api/userdata/move%2Fmove%2Fd.json", 1) == "move/move/d.json"
    assert sorted(_list_ids(caller, "recurse=true")) == ["move/c.json", "move/move/d.json"]
    read = caller.ask("GET", "/api/userdata/move%2Fc.json")
    assert (read.json(), read.headers["content-type"]) == ({"nodes": 1}, "application/json")
    assert new_cloud_client().ask("GET", "/api/userdata/move%2Fc.json").status_code == 404
    assert caller.ask("DELETE", "/api/userdata/move%2Fc.json").status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/move/e")):
        assert refusal_of(caller.ask(method, f"/api/userdata/move%2Fc.json{path}"))[0] == 404


@pytest.mark.parametrize("name", ["page.html", "script.js", "picture.svg", "plain"])
def test_file_of_a_user_is_never_served_as_a_page(caller: Client, name: str) -> None:
    """What users have put here never runs with our name on it."""
    caller.ask("POST", f"/userdata/{name}", content=b"<script>")
    read = caller.ask("GET", f"/userdata/{name}")
    assert read.content == b"<script>"
    assert read.headers["content-type"] == "application/octet-stream"
    assert read.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in read.headers["content-security-policy"]


def _list_ids(caller: Client, query: str) -> list[Any]:
    found: list[Any] = caller.get(f"/api/userdata?{query}")
    return found
