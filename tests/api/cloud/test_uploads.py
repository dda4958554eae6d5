"""Uploads over real sockets, on both databases: named as the engine names them, bounded, and whole or not there."""

import hashlib
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL.PngImagePlugin import PngInfo

from api.cloud.file_site import LIMIT, UPLOADS_SHARE, Site, open_picture, png, running_site
from servers import wait_until

BYTES: Final = hashlib.shake_256(b"a file").digest(1_500_000)
BOUNDARY: Final = b"a-boundary"


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """Return a running server of files."""
    with running_site(tmp_path / "blobs", database_url) as site:
        yield site


@pytest.fixture(scope="module")
def bare(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return one for the tests that leave nothing in it."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copy(sqlite_template, folder / "fairlead.db")
    with running_site(folder / "blobs", f"sqlite:///{folder}/fairlead.db") as site:
        yield site


@pytest.fixture
def lite(sqlite_url: str, tmp_path: Path) -> Iterator[Site]:
    """Return one over SQLite, where the database is not what the test is about."""
    with running_site(tmp_path / "blobs", sqlite_url) as site:
        yield site


def upload(site: Site, content: bytes, name: str = "photo.png", who: int = 0, **fields: str) -> httpx.Response:
    """Upload a file as clients do."""
    with site.client(who) as client:
        return client.post("/api/upload/image", files={"image": (name, content)}, data=fields)


def mask(site: Site, content: bytes, original: Any, name: str = "mask.png", **fields: str) -> httpx.Response:
    """Upload a mask as editors do."""
    ref = {} if original is None else {"original_ref": original if isinstance(original, str) else json.dumps(original)}
    with site.client() as client:
        data = {"type": "input", "subfolder": "clipspace", **ref, **fields}
        return client.post("/api/upload/mask", files={"image": (name, content, "image/png")}, data=data)


def download(site: Site, name: str, kind: str = "input", who: int = 0) -> bytes | None:
    """Download a file; None when there is none."""
    with site.client(who) as client:
        answer = client.get("/api/view", params={"filename": name, "type": kind})
        return httpx.get(answer.headers["location"]).content if answer.status_code == 302 else None


def part(name: str, content: bytes, filename: str | None = None, more: str = "") -> bytes:
    """Return one part of a form."""
    file = "" if filename is None else f'; filename="{filename}"'
    head = f'Content-Disposition: form-data; name="{name}"{file}\r\n{more}\r\n'
    return b"--" + BOUNDARY + b"\r\n" + head.encode() + content + b"\r\n"


def send(site: Site, body: bytes, path: str = "image", type_: str | None = None) -> httpx.Response:
    """Post a body that is made by hand."""
    headers = {"Content-Type": type_ or f"multipart/form-data; boundary={BOUNDARY.decode()}"}
    with site.client() as client:
        return client.post(f"/api/upload/{path}", content=body, headers=headers)


END: Final = b"--" + BOUNDARY + b"--\r\n"


@pytest.mark.req("C-02")
def test_upload_keeps_its_name_or_gets_a_number(site: Site) -> None:
    """A file keeps its name; the same bytes are the same file, other bytes get a number, overwriting replaces."""
    first = upload(site, BYTES, type="input", subfolder="pasted")
    assert first.status_code == 200
    assert first.json() == {
        "name": "photo.png", "subfolder": "", "type": "input", "size": len(BYTES),
        "hash": f"blake3:{blake3(BYTES).hexdigest()}",
    }  # fmt: skip
    assert upload(site, BYTES).json() == first.json()
    assert upload(site, b"other").json()["name"] == "photo (1).png"
    assert upload(site, b"newer", overwrite="true").json()["name"] == "photo.png"
    assert download(site, "photo.png") == b"newer"
    assert download(site, "photo (1).png") == b"other"
    assert upload(site, b"newest", overwrite="1").json()["name"] == "photo.png"
    assert upload(site, b"temporary", type="temp").json()["type"] == "temp"
    assert download(site, "photo.png", "temp") == b"temporary"


@pytest.mark.req("C-02")
def test_workspace_sees_its_own_files_alone(site: Site) -> None:
    """Names are of a workspace; the same bytes are kept once for all, and are nobody's to find."""
    upload(site, BYTES)
    assert download(site, "photo.png", who=1) is None
    assert download(site, f"blake3:{blake3(BYTES).hexdigest()}", who=1) is None
    assert upload(site, BYTES, who=1).json()["name"] == "photo.png"
    assert len(site.left_files()) == 1
    assert download(site, "photo.png", who=1) == BYTES


@pytest.mark.req("C-14")
def test_upload_needs_a_key(bare: Site) -> None:
    """Without a key, or with a wrong one, nothing is kept."""
    for headers in ({}, {"X-API-Key": "flk_wrong"}):
        with bare.client(None) as client:
            answer = client.post("/api/upload/image", files={"image": ("a.png", b"x")}, headers=headers)
        assert answer.status_code == 401
    assert bare.left_files() == []


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("C:\\\\boot.ini", "boot.ini"),
        ("..%2f..%2fpasswd", "..%2f..%2fpasswd"),
        ("photo.png [output]", "photo.png"),
        ("fjörd.png", "fjörd.png"),
    ],
)
def test_path_in_a_name_is_cut_off(lite: Site, sent: str, name: str) -> None:
    """Paths in names are cut off, and files are found by what is left."""
    answer = send(lite, part("image", b"x", sent) + END)
    assert (answer.status_code, answer.json()["name"]) == (200, name)
    assert [len(left) for left in lite.left_files()] == [64]


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    "body",
    [
        END,
        part("type", b"input") + END,
        part("image", b"not a file") + END,
        part("photo", b"x", "a.png") + END,
        part("image", b"x", "") + END,
        part("image", b"x", "..") + END,
        part("image", b"", "a.png") + END,
        part("image", b"x", "a.png") + part("type", b"models") + END,
        part("image", b"x", "a.png") + part("type", b"../output") + END,
        part("image", b"x", "a.png") + part("image", b"y", "b.png") + END,
        part("image", b"x", "a.png") + part("type", b"x" * 70_000) + END,
        part("image", b"x", "a.png") + part("type", b"\xff") + END,
        part("image", b"x", "a.png", "X-More: " + "x" * 8_000 + "\r\n") + END,
        part("image", b"x", "a.png", "".join(f"X-{n}: 1\r\n" for n in range(20))) + END,
        b"".join(part(f"f{n}", b"") for n in range(40)) + END,
        part("image", b"x" * 100_000, "a.png"),
        part("image", b"x" * 100_000, "a.png") + END[:6],
        b"--" + BOUNDARY + b"\r\nContent-Disposition: attachment\r\n\r\nx\r\n" + END,
        b"garbage",
        b"",
        b"\0" * 100_000,
    ],
)
def test_malformed_form_is_400_and_leaves_nothing(bare: Site, body: bytes) -> None:
    """A form without a file, with two, cut short, or past any bound is 400 with words, and nothing of it is kept."""
    answer = send(bare, body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_file")
    assert answer.json()["error"]["message"]
    assert bare.left_files() == []


@pytest.mark.parametrize("type_", ["application/json", "multipart/form-data", "text/plain; boundary=x", "x"])
def test_body_that_is_no_form_is_400(bare: Site, type_: str) -> None:
    """Another content type, or none with a boundary, is 400."""
    assert send(bare, part("image", b"x", "a.png") + END, type_=type_).status_code == 400
    assert send(bare, part("image", b"x", "a.png") + END, type_=f"multipart/form-data; boundary={'b' * 5000}"
                ).status_code == 400  # fmt: skip
    assert bare.left_files() == []


@pytest.mark.req("C-02")
def test_file_past_the_limit_is_413_and_not_kept(lite: Site) -> None:
    """One byte more than a file may have is 413, and so is a body that is mostly around it; at the limit it is kept."""
    assert upload(lite, b"x" * LIMIT).status_code == 200
    left = lite.left_files()
    for body in (
        part("image", b"x" * (LIMIT + 1), "b.png") + END,
        part("other", b"x" * (LIMIT + 2**20 + 1), "b.png") + END,
    ):
        answer = send(lite, body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "file_too_large")
    assert lite.left_files() == left


@pytest.mark.req("S-03")
def test_slow_uploads_of_one_workspace_leave_places_for_another(lite: Site) -> None:
    """A workspace that fills its share is told to wait; the next one's upload is taken in, and all places come back."""
    body = part("image", b"x" * LIMIT, "a.png") + END
    head = (
        f"POST /api/upload/image HTTP/1.1\r\nHost: x\r\nX-API-Key: {lite.key}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(UPLOADS_SHARE):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", lite.port)))
            connection.sendall(head.encode() + body[:1_000])
        wait_until(lambda: lite.uploads.in_use == UPLOADS_SHARE, "the share to be used")
        refused = upload(lite, b"one more")
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "too_many_uploads")
        assert int(refused.headers["retry-after"]) > 0
        assert upload(lite, b"another's", who=1).status_code == 200
    wait_until(lambda: lite.uploads.in_use == 0, "the places to come back")
    assert upload(lite, b"one more").status_code == 200


@pytest.mark.req("C-02")
def test_upload_that_is_cut_off_leaves_nothing(lite: Site) -> None:
    """A caller who leaves in the middle of a file leaves nothing behind."""
    body = part("image", b"x" * LIMIT, "a.png") + END
    head = (
        f"POST /api/upload/image HTTP/1.1\r\nHost: x\r\nX-API-Key: {lite.key}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", lite.port)) as connection:
        connection.sendall(head.encode() + body[: LIMIT * 3 // 4])
        wait_until(lambda: lite.left_files() != [], "half a file")
    wait_until(lambda: lite.left_files() == [], "nothing of it")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=300), cut=st.integers(1, 40), dashes=st.booleans())
def test_boundary_inside_a_file_does_not_end_it(lite: Site, content: bytes, cut: int, *, dashes: bool) -> None:
    """Whatever is in a file and however it is cut into pieces, its bytes arrive as they were."""
    content += b"\r\n--" + BOUNDARY[:-1] if dashes else b""
    body = part("overwrite", b"true") + part("image", content, "a.bin") + END

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), cut):
            yield body[start : start + cut]

    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
    with lite.client() as client:
        answer = client.post("/api/upload/image", content=pieces(), headers=headers)
    assert answer.json()["hash"] == f"blake3:{blake3(content).hexdigest()}"


@pytest.mark.req("C-03")
def test_mask_keeps_the_colours_of_the_original(site: Site) -> None:
    """A mask is the original with the alpha of what is sent; its colours are thrown away, the original's texts kept."""
    texts = PngInfo()
    texts.add_text("workflow", '{"a": 1}')
    upload(site, png((255, 0, 0), pnginfo=texts))
    saved = mask(site, png((10, 20, 30, 77), mode="RGBA"), {"filename": "photo.png [input]", "subfolder": "x"})
    assert saved.status_code == 200
    assert {name: saved.json()[name] for name in ("name", "subfolder", "type")} == {
        "name": "mask.png", "subfolder": "", "type": "input",
    }  # fmt: skip
    content = download(site, "mask.png")
    assert content is not None
    picture = open_picture(content)
    assert (picture.mode, picture.getpixel((0, 0))) == ("RGBA", (255, 0, 0, 77))
    assert picture.info["workflow"] == '{"a": 1}'
    assert mask(site, png((1, 1, 1, 9), mode="RGBA"), {"filename": "photo.png", "type": "input"}
                ).json()["name"] == "mask (1).png"  # fmt: skip


@pytest.mark.req("C-03")
def test_original_of_a_mask_is_an_output_by_default(lite: Site) -> None:
    """The original is an output where nothing else is said; the mask may be drawn over a preview, too."""
    lite.make(png((0, 0, 255)), "p_00001_.png")
    lite.make(png((0, 255, 0)), "p_00001_.png", "temp")
    for original, color in (
        ({"filename": "p_00001_.png"}, (0, 0, 255, 5)),
        ({"filename": "p_00001_.png", "type": "temp", "subfolder": ""}, (0, 255, 0, 5)),
    ):
        name = mask(lite, png((0, 0, 0, 5), mode="RGBA"), original).json()["name"]
        assert open_picture(download(lite, name) or b"").getpixel((0, 0)) == color


@pytest.mark.req("C-03")
@pytest.mark.parametrize(
    ("original", "word"),
    [
        (None, "original_ref"),
        ("", "original_ref"),
        ("no json", "original_ref"),
        ("[]", "original_ref"),
        ('{"type": "input"}', "original_ref"),
        ('{"filename": 5}', "original_ref"),
        ("[" * 60_000, "original_ref"),
        ({"filename": "missing.png", "type": "input"}, "missing.png"),
        ({"filename": "photo.png", "type": "models"}, "models"),
        ({"filename": "../photo.png", "type": "input"}, "name"),
        ({"filename": "", "type": "input"}, "name"),
        ({"filename": "notes.txt", "type": "input"}, ""),
    ],
)
def test_mask_without_its_picture_is_refused(lite: Site, original: Any, word: str) -> None:
    """A mask of nothing, of what is not a picture, or of an unreadable reference is 400; no file has its name."""
    upload(lite, png())
    upload(lite, b"words", "notes.txt")
    answer = mask(lite, png((0, 0, 0, 5), mode="RGBA"), original)
    assert answer.status_code == 400, answer.text
    assert word in answer.json()["error"]["message"]
    assert download(lite, "mask.png") is None


@pytest.mark.req("C-03")
def test_mask_that_is_no_picture_is_refused(lite: Site) -> None:
    """What is sent must be a picture, of a size that can be held; a bomb is known by its header."""
    upload(lite, png())
    bomb = bytearray(png())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    for content in (b"no picture", png()[:40], bytes(bomb)):
        answer = mask(lite, content, {"filename": "photo.png", "type": "input"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_file")
    assert download(lite, "mask.png") is None
    assert list((lite.folder / "spool").iterdir()) == []
