"""Assets of the jobs API: sent, made from a hash, fetched, deleted, and named in workflows (J-14)."""

import io
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from blake3 import blake3
from PIL import Image

from api.cloud.clients import holding
from api.jobs.callers import NOBODY, JobsCaller, refusal_of
from api.jobs.conftest import NewJobsCaller
from cases import for_each
from damage import blob_file, flip
from fairlead.server.settings import BadSettingError, read_settings

_ASSETS: Final = "/api/v2/assets"
_UNKNOWN: Final = "blake3:" + "0" * 64


def draw(colour: int) -> bytes:
    """Return a small picture."""
    content = io.BytesIO()
    Image.new("RGB", (8, 8), (colour, 0, 0)).save(content, "PNG")
    return content.getvalue()


def hash_of(content: bytes) -> str:
    """Return the hash of bytes as this API writes it."""
    return f"blake3:{blake3(content).hexdigest()}"


def send(caller: JobsCaller, content: bytes, name: str = "photo.png", **fields: str) -> httpx.Response:
    """Send an asset."""
    return caller.ask("POST", _ASSETS, data=fields, files={"file": (name, content)})


def upload(caller: JobsCaller, content: bytes, name: str = "photo.png", **fields: str) -> dict[str, Any]:
    """Send an asset that there was not before, and return its document."""
    response = send(caller, content, name, **fields)
    assert response.status_code == 201, response.text
    document: dict[str, Any] = response.json()
    return document


def fetch(caller: JobsCaller, asset: dict[str, Any]) -> bytes:
    """Return the bytes of an asset, as clients do that follow redirects."""
    response = caller.ask("GET", f"{_ASSETS}/{asset['id']}/content")
    assert response.status_code == 302
    return caller.server.client.get(response.headers["location"], headers={"X-API-Key": ""}).content


def reference(asset: dict[str, Any], **info: str) -> dict[str, Any]:
    """Return a workflow that shows an asset, which it names by id."""
    value = {"__type": "core/ASSET", "info": {"id": asset["id"], **info}}
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": value}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "copied"}},
    }


@pytest.mark.req("J-14")
def test_asset_is_what_was_sent(caller: JobsCaller) -> None:
    """What was said of an asset is told again, with its hash; the same bytes of the same name are one asset."""
    content = draw(1)
    more = {"file_path": "set/a.png", "tags": "red, small", "expires_in": "600", "content_type": "image/png"}
    asset = upload(caller, content, expected_hash=hash_of(content), **more)
    assert asset["hash"] == hash_of(content)
    assert (asset["file_path"], asset["name"], asset["content_type"]) == ("set/a.png", "a.png", "image/png")
    assert (asset["tags"], asset["size_bytes"]) == (["red", "small"], len(content))
    assert asset["expires_at"] > asset["created_at"]
    read = caller.get(f"{_ASSETS}/{asset['id']}")
    assert {**asset, **read} == {**asset, "url": read["url"], "url_expires_at": read["url_expires_at"]}
    again = send(caller, content, file_path="set/a.png")
    assert (again.status_code, again.json()["id"]) == (200, asset["id"])
    assert upload(caller, draw(2), file_path="set/a.png")["name"] == "a (1).png"


@pytest.mark.req("J-14")
def test_asset_made_from_a_hash_has_its_bytes(caller: JobsCaller) -> None:
    """Bytes the workspace has need not be sent again; they are told apart from those it has not."""
    first = upload(caller, draw(3), "first.png")
    body = {"hash": first["hash"], "file_path": "second.png", "tags": ["b"], "expires_in": 60}
    made = caller.ask("POST", f"{_ASSETS}/from-hash", json=body)
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["size_bytes"], made.json()["tags"]) == ("second.png", len(draw(3)), ["b"])
    assert fetch(caller, made.json()) == draw(3)
    assert caller.ask("POST", f"{_ASSETS}/from-hash", json=body).status_code == 200
    assert caller.ask("HEAD", f"{_ASSETS}/by-hash/{first['hash']}").status_code == 200
    assert caller.ask("HEAD", f"{_ASSETS}/by-hash/{_UNKNOWN}").status_code == 404
    unknown = caller.ask("POST", f"{_ASSETS}/from-hash", json={"hash": _UNKNOWN})
    assert refusal_of(unknown) == (404, "blob_not_found")


@pytest.mark.req("J-14")
def test_asset_of_another_workspace_looks_unknown(new_jobs_caller: NewJobsCaller) -> None:
    """Neither ids nor hashes of another workspace can be told from those there never were."""
    owner, other = new_jobs_caller(), new_jobs_caller()
    asset = upload(owner, draw(4))
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        theirs = other.ask(method, f"{_ASSETS}/{asset['id']}{path}")
        nobodys = other.ask(method, f"{_ASSETS}/{NOBODY}{path}")
        assert refusal_of(theirs) == (404, "not_found")
        assert theirs.content == nobodys.content
    theirs = other.ask("POST", f"{_ASSETS}/from-hash", json={"hash": asset["hash"]})
    nobodys = other.ask("POST", f"{_ASSETS}/from-hash", json={"hash": _UNKNOWN})
    assert refusal_of(theirs) == (404, "blob_not_found")
    assert theirs.content == nobodys.content
    assert other.ask("HEAD", f"{_ASSETS}/by-hash/{asset['hash']}").status_code == 404
    assert refusal_of(other.ask("POST", "/api/v2/jobs", json={"workflow": reference(asset)})) == (422, "missing_asset")
    assert fetch(owner, asset) == draw(4)
    assert send(other, draw(4)).status_code == 201


@pytest.mark.req("J-14")
def test_deleted_asset_is_not_found(caller: JobsCaller) -> None:
    """An asset that was deleted is not found, by id or by hash; nor is it deleted twice."""
    asset = upload(caller, draw(6))
    path = f"{_ASSETS}/{asset['id']}"
    assert caller.ask("DELETE", path).status_code == 204
    assert refusal_of(caller.ask("GET", path)) == (404, "not_found")
    assert refusal_of(caller.ask("DELETE", path)) == (404, "not_found")
    assert caller.ask("HEAD", f"{_ASSETS}/by-hash/{asset['hash']}").status_code == 404


@pytest.mark.req("J-14")
@for_each(
    ("fields", "status", "code"),
    [
        ({"expected_hash": _UNKNOWN}, 409, "hash_mismatch"),
        ({"expected_hash": "0" * 64}, 422, "invalid_request"),
        ({"expected_hash": ""}, 422, "invalid_request"),
        ({"expires_in": "59"}, 422, "invalid_request"),
        ({"expires_in": "604801"}, 422, "invalid_request"),
        ({"expires_in": "1e3"}, 422, "invalid_request"),
        ({"expires_in": "-60"}, 422, "invalid_request"),
        ({"tags": ",".join("abcdefghijklmnopq")}, 422, "invalid_request"),
        ({"tags": "a" * 65}, 422, "invalid_request"),
        ({"tags": "a,,b"}, 422, "invalid_request"),
        ({"tags": '["a", 1]'}, 422, "invalid_request"),
        ({"tags": '["\\u202e"]'}, 422, "invalid_request"),
        ({"content_type": "picture"}, 422, "invalid_request"),
        ({"file_path": "a" * 1025}, 422, "invalid_request"),
        ({"file_path": "a\0b"}, 422, "invalid_request"),
        ({"file_path": "../.."}, 422, "invalid_request"),
    ],
    ids=str,
)
def test_asset_that_breaks_a_rule_is_refused(
    visitor: JobsCaller, fields: dict[str, str], status: int, code: str
) -> None:
    """What breaks a rule is refused, and nothing of it can be found."""
    content = draw(7)
    assert refusal_of(send(visitor, content, **fields)) == (status, code)
    assert visitor.ask("HEAD", f"{_ASSETS}/by-hash/{hash_of(content)}").status_code == 404


@pytest.mark.req("J-14")
def test_asset_needs_bytes_in_a_whole_form(visitor: JobsCaller) -> None:
    """An asset has bytes, and comes as a whole form."""
    assert refusal_of(send(visitor, b"")) == (422, "invalid_request")
    assert refusal_of(visitor.ask("POST", _ASSETS, files={"other": ("a", b"b")})) == (422, "invalid_request")
    assert refusal_of(visitor.ask("POST", _ASSETS, json={})) == (422, "invalid_request")
    cut = {"Content-Type": "multipart/form-data; boundary=x"}
    start = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'
    assert refusal_of(visitor.ask("POST", _ASSETS, content=start, headers=cut)) == (422, "invalid_request")


@pytest.mark.req("J-14")
@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b'"\xff"', b"[" * 9_000, b'{"hash": 1}', b'{"hash": "sha256:00"}',
        b'{"hash": "%s", "expires_in": 59}' % _UNKNOWN.encode(),
        b'{"hash": "%s", "tags": ["\\u0000"]}' % _UNKNOWN.encode(),
        b'{"hash": "%s", "file_path": ".."}' % _UNKNOWN.encode(),
    ],
    ids=lambda content: content[:60].decode("latin-1"),
)  # fmt: skip
def test_body_without_a_hash_is_refused(visitor: JobsCaller, content: bytes) -> None:
    """What cannot be read is the caller's fault, and says so."""
    assert refusal_of(visitor.ask("POST", f"{_ASSETS}/from-hash", content=content)) == (422, "invalid_request")


@pytest.mark.req("J-14")
def test_wrong_method_on_assets_is_405(visitor: JobsCaller) -> None:
    """Whether there are bytes is asked with HEAD alone."""
    response = visitor.ask("GET", f"{_ASSETS}/by-hash/{_UNKNOWN}")
    assert refusal_of(response) == (405, "method_not_allowed")
    assert visitor.ask("HEAD", f"{_ASSETS}/by-hash/none").status_code == 404
    assert refusal_of(visitor.ask("GET", f"{_ASSETS}/..")) == (404, "not_found")


@pytest.mark.req("J-14", "K-03")
def test_reference_in_a_workflow_stands_for_its_asset(caller: JobsCaller) -> None:
    """A reference stands for the file, also for one that a job has made; so does the plain name of it."""
    asset = upload(caller, draw(8), "dir/mine.png")
    job = caller.runs(reference(asset, hash=asset["hash"], file_path="elsewhere.png"))
    assert job["status"] == "succeeded", job
    made = job["outputs"][0]
    assert caller.get(f"{_ASSETS}/{made['id']}")["hash"] == made["hash"]
    again = caller.runs(reference(made))
    assert again["status"] == "succeeded", again
    named = reference(asset)
    named["1"]["inputs"]["image"] = asset["name"]
    assert caller.runs(named)["status"] == "succeeded"


@pytest.mark.req("J-14", "J-12")
@pytest.mark.parametrize(
    "info",
    [
        {"id": NOBODY}, {"id": "none\0"}, {}, {"id": 1}, {"id": None}, {"hash": _UNKNOWN}, None,
    ],
    ids=str,
)  # fmt: skip
def test_reference_to_a_missing_asset_is_refused(visitor: JobsCaller, info: Any) -> None:
    """The refusal says which nodes name an asset that there is not."""
    workflow = {"7": {"class_type": "LoadImage", "inputs": {"image": {"__type": "core/ASSET", "info": info}}}}
    response = visitor.ask("POST", "/api/v2/jobs", json={"workflow": workflow})
    assert refusal_of(response) == (422, "missing_asset")
    errors = response.json()["error"]["details"]["node_errors"]
    assert errors["7"]["class_type"] == "LoadImage"
    assert [error["type"] for error in errors["7"]["errors"]] == ["missing_asset"]


@pytest.mark.req("J-14")
def test_reference_with_another_hash_is_refused(caller: JobsCaller) -> None:
    """A reference that says other bytes is not the asset that is meant."""
    asset = upload(caller, draw(9))
    response = caller.ask("POST", "/api/v2/jobs", json={"workflow": reference(asset, hash=_UNKNOWN)})
    assert refusal_of(response) == (422, "missing_asset")


@pytest.mark.req("J-14")
def test_asset_of_a_live_job_cannot_be_deleted(caller: JobsCaller) -> None:
    """What a job needs that has not ended cannot be deleted; afterwards it can."""
    asset = upload(caller, draw(10))
    job = caller.submit({**reference(asset), "9": holding()["1"]})
    path = f"{_ASSETS}/{asset['id']}"
    assert refusal_of(caller.ask("DELETE", path)) == (409, "asset_in_use")
    caller.cancel(job["id"])
    caller.reaches(job["id"], "canceled", "succeeded")
    assert caller.ask("DELETE", path).status_code == 204


@pytest.mark.req("J-14")
def test_malformed_blocked_hash_stops_the_start() -> None:
    """The list of what is not taken in has whole hashes; a wrong one stops the server, and is not passed over."""
    setting = "FAIRLEAD_BLOCKED_HASHES"
    assert read_settings({}).blocked_hashes == frozenset()
    assert read_settings({setting: f"{_UNKNOWN}, {hash_of(b'a')}"}).blocked_hashes == {
        "0" * 64,
        blake3(b"a").hexdigest(),
    }
    for wrong in ("blake3:00", "0" * 64, f"{_UNKNOWN},", "sha256:" + "0" * 64):
        with pytest.raises(BadSettingError, match=setting):
            read_settings({setting: wrong})


def _store(caller: JobsCaller) -> Path:
    return caller.server.data / "blobs"


@pytest.mark.req("S-08", "J-14")
@pytest.mark.parametrize(
    ("lost", "status", "code"), [("damaged", 500, "upstream_error"), ("missing", 500, "upstream_error")]
)
def test_lost_asset_is_an_error_to_callers_and_to_jobs(caller: JobsCaller, lost: str, status: int, code: str) -> None:
    """Its content is refused in whole and in part, a job that needs it fails and says why, and operators are told."""
    asset = upload(caller, draw(201 if lost == "damaged" else 202))
    path = blob_file(_store(caller), asset["hash"].removeprefix("blake3:"))
    content, kind = f"{_ASSETS}/{asset['id']}/content", f"Blob{lost.capitalize()}"
    assert caller.ask("GET", content).status_code == 302
    before = caller.server.metric("fairlead_events_total", kind=kind)
    if lost == "damaged":
        flip(path, 30)
    else:
        path.unlink()
    assert refusal_of(caller.ask("GET", content)) == (status, code)
    assert caller.ask("HEAD", content).status_code == status
    assert caller.server.client.get(asset["url"], headers={"X-API-Key": ""}).status_code == status
    assert caller.server.metric("fairlead_events_total", kind=kind) >= before + 3
    assert len(caller.server.logged_events(kind)) >= 3
    assert caller.ask("HEAD", f"{_ASSETS}/by-hash/{asset['hash']}").status_code == 404
    submitted = caller.ask("POST", "/api/v2/jobs", json={"workflow": reference(asset)})
    assert refusal_of(submitted) == (422, "invalid_workflow" if lost == "damaged" else "missing_asset")
    assert lost == "missing" or "damaged" in submitted.text
    assert send(caller, draw(201 if lost == "damaged" else 202), "again.png").status_code == 201
    assert fetch(caller, asset) == draw(201 if lost == "damaged" else 202)
