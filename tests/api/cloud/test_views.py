"""`/api/view` and signed links over real sockets: who may see what, as what, and for how long."""

import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from PIL import Image

from api.cloud.file_site import Site, open_picture, png, running_site
from damage import blob_files, flip
from fairlead.identity.links import Links

PNG: Final = png((200, 100, 50, 77), (300, 100), "RGBA")
PAGE: Final = b"<html><script>alert(1)</script></html>"


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """Return a running server of files with one output."""
    with running_site(tmp_path / "blobs", database_url) as site:
        site.make(PNG, "p_00001_.png")
        yield site


@pytest.fixture
def lite(sqlite_url: str, tmp_path: Path) -> Iterator[Site]:
    """Return one over SQLite, where the database is not what the test is about."""
    with running_site(tmp_path / "blobs", sqlite_url) as site:
        fill(site)
        yield site


@pytest.fixture(scope="module")
def shared(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return one for the tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(sqlite_template, folder / "fairlead.db")
    with running_site(folder / "blobs", f"sqlite:///{folder}/fairlead.db") as site:
        fill(site)
        yield site


def fill(site: Site) -> None:
    """Make a picture and a page."""
    site.make(PNG, "p_00001_.png")
    site.make(PAGE, "page.html")


def view(site: Site, filename: str = "p_00001_.png", *, who: int | None = 0, **query: Any) -> httpx.Response:
    """Ask for a file, following nothing."""
    with site.client(who) as client:
        return client.get("/api/view", params={"filename": filename, **query})


@pytest.mark.req("C-06")
def test_signed_link_needs_no_key(site: Site) -> None:
    """A file is 302 to an absolute link that is fetched without the key, and gives its very bytes."""
    answer = view(site, subfolder="ignored")
    assert (answer.status_code, answer.content) == (302, b"")
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["vary"] == "X-API-Key, Authorization"
    location = answer.headers["location"]
    assert location.startswith(f"{site.base_url}/files/")
    whole = httpx.get(location)
    assert (whole.status_code, whole.content) == (200, PNG)
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["content-disposition"] == 'inline; filename="p_00001_.png"'
    assert whole.headers["content-security-policy"] == "sandbox"
    assert httpx.head(location).headers["content-length"] == str(len(PNG))
    etag = whole.headers["etag"]
    assert httpx.get(location, headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.req("C-06")
def test_part_of_a_file_is_its_slice(shared: Site) -> None:
    """Players ask for parts; a part behind the end is 416 with the size."""
    location = view(shared).headers["location"]
    part = httpx.get(location, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, PNG[10:20])
    behind = httpx.get(location, headers={"Range": "bytes=1000000-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(PNG)}")
    assert behind.json()["error"]["type"] == "invalid_range"


@pytest.mark.req("C-06")
def test_link_is_good_for_an_hour(site: Site) -> None:
    """A link is good for an hour, in its one spelling, and for its own file; it ends with the file."""
    location = view(site).headers["location"]
    query = dict(parse_qsl(urlsplit(location).query))
    assert int(query["expires"]) == site.now_ms // 1000 + 3600
    for altered in (location[:-1], location.replace("inline", "attachment"), location.split("?")[0], location + "&a=1",
                    location.replace("/files/", "/files/x"), location.replace("p_00001_", "p_00002_")):  # fmt: skip
        assert httpx.get(altered).status_code == 403
    site.now_ms += 3600 * 1000
    assert httpx.get(location).status_code == 403
    late = view(site).headers["location"]
    site.now_ms += 24 * 3600 * 1000
    assert httpx.get(late).status_code == 403
    assert view(site).status_code == 404
    file_id = urlsplit(late).path.removeprefix("/files/")
    still_signed = site.links.sign(file_id, site.now_ms // 1000 + 60, "p_00001_.png", "inline")
    assert httpx.get(site.base_url + still_signed).status_code == 404


def test_link_to_an_asset_is_no_link_to_a_file(shared: Site) -> None:
    """A link that was signed for another path, with the same key, is not one to a file."""
    location = view(shared).headers["location"]
    file_id = urlsplit(location).path.removeprefix("/files/")
    other = Links(shared.links._keys).sign(file_id, shared.now_ms // 1000 + 60, "p_00001_.png", "inline")
    assert httpx.get(shared.base_url + other.replace("/assets/", "/files/")).status_code == 403


@pytest.mark.req("C-06")
def test_file_needs_the_key_of_its_workspace(site: Site) -> None:
    """Without a key it is 401; with another workspace's there is no such file."""
    assert view(site, who=None).status_code == 401
    assert view(site, who=1).status_code == 404
    missing = view(site, "missing.png")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "file_not_found")


@pytest.mark.req("C-06")
@pytest.mark.parametrize(
    ("filename", "query"),
    [
        ("", {}),
        ("/etc/passwd", {}),
        ("../../secret-key", {}),
        ("a/../../b.png", {}),
        ("..\\secret-key", {}),
        ("\\\\server\\share", {}),
        ("p_00001_.png\0", {}),
        ("..", {}),
        ("x" * 3000, {}),
        ("p_00001_.png", {"type": "models"}),
        ("p_00001_.png", {"type": "../output"}),
        ("p_00001_.png", {"res": "63"}),
        ("p_00001_.png", {"res": "1025"}),
        ("p_00001_.png", {"res": "large"}),
        ("p_00001_.png", {"res": ""}),
        ("p_00001_.png", {"channel": "cmyk"}),
        ("page.html", {"channel": "a"}),
    ],
)
def test_malformed_view_is_400(shared: Site, filename: str, query: dict[str, Any]) -> None:
    """A name that is a path, and a way of showing there is not, are 400 with words."""
    answer = view(shared, filename, **query)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_file")
    assert answer.json()["error"]["message"]


def test_view_without_a_name_is_400(shared: Site) -> None:
    """No file name at all is 400."""
    with shared.client() as client:
        assert client.get("/api/view").status_code == 400


@pytest.mark.req("C-06")
def test_channel_of_a_picture_is_sent_alone(site: Site) -> None:
    """A channel of a picture is sent at once: alpha over black, colours without alpha, or everything as it is."""
    alpha = view(site, channel="a")
    assert (alpha.status_code, alpha.headers["content-type"]) == (200, "image/png")
    assert open_picture(alpha.content).convert("RGBA").getpixel((0, 0)) == (0, 0, 0, 77)
    colours = open_picture(view(site, channel="rgb").content)
    assert (colours.mode, colours.getpixel((0, 0))) == ("RGB", (200, 100, 50))
    everything = view(site, channel="rgba")
    assert (everything.status_code, everything.content) == (200, PNG)
    assert everything.headers["vary"] == "X-API-Key, Authorization"


@pytest.mark.req("C-06")
def test_thumbnail_has_the_size_asked_for(lite: Site) -> None:
    """`res` is a JPEG within that edge, made once; a preview is the picture in another format."""
    small = view(lite, res="64")
    assert (small.status_code, small.headers["content-type"]) == (200, "image/jpeg")
    assert small.headers["content-disposition"] == 'inline; filename="p_00001_.jpg"'
    assert open_picture(small.content).size == (64, 21)
    assert view(lite, res="64").content == small.content
    assert lite.renders == 1
    for asked, kind in (("webp;90", "image/webp"), ("jpeg;50", "image/jpeg"), ("avif", "image/webp"),
                        ("webp;999", "image/webp")):  # fmt: skip
        preview = view(lite, preview=asked)
        assert (preview.status_code, preview.headers["content-type"]) == (200, kind)
        assert open_picture(preview.content).size == (300, 100)
    assert view(lite, "page.html", preview="webp;90").status_code == 302
    assert view(lite, "page.html", res="64").status_code == 302


def test_rendered_pictures_leave_no_files(lite: Site) -> None:
    """Nothing of a picture that was made, or could not be, is left where it was made."""
    bomb = bytearray(png())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    lite.make(bytes(bomb), "bomb.png")
    assert view(lite, res="64").status_code == 200
    assert view(lite, "bomb.png", res="64").status_code == 400
    assert list((lite.folder / "spool").iterdir()) == []


@pytest.mark.req("C-06")
def test_page_is_served_as_a_file_to_save(lite: Site) -> None:
    """A page, a script and an SVG are files to be saved, whatever they are called."""
    for name, content in (("page.html", PAGE), ("a.js", b"alert(1)"), ("a.png", b"<svg onload='alert(1)'/>")):
        lite.make(content, name)
        shown = httpx.get(view(lite, name).headers["location"])
        assert shown.headers["content-type"] == "application/octet-stream"
        assert shown.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert shown.content == content


def test_file_is_found_by_its_current_name_or_content(lite: Site) -> None:
    """Names may say their folder, and content may stand for a name; what was overwritten is not shown any more."""
    with lite.client() as client:
        saved = client.post("/api/upload/image", files={"image": ("a.png", PNG)}).json()
    for name in ("a.png [input]", saved["hash"], saved["hash"].removeprefix("blake3:") + ".png", "sub/a.png [input]"):
        assert httpx.get(view(lite, name).headers["location"]).content == PNG
    old = view(lite, "a.png", type="input").headers["location"]
    with lite.client() as client:
        client.post("/api/upload/image", files={"image": ("a.png", b"other")}, data={"overwrite": "true"})
    assert httpx.get(old).status_code == 404
    assert httpx.get(view(lite, "a.png", type="input").headers["location"]).content == b"other"


def test_file_without_its_bytes_is_an_error(lite: Site) -> None:
    """A file whose bytes are gone is 500, before the first byte: a 404 would hide the loss."""
    location = view(lite).headers["location"]
    for path in lite.folder.rglob("*"):
        if path.is_file():
            path.unlink()
    assert httpx.get(location).status_code == 500
    assert view(lite, channel="rgba").status_code == 500
    assert view(lite, res="64").status_code == 500


@pytest.mark.req("S-08", "C-06")
def test_damaged_file_is_an_error_however_it_is_looked_at(site: Site) -> None:
    """Whole, in part, as a picture made of it, or under a mask: 500 in the envelope of this API, never its bytes."""
    location = view(site).headers["location"]
    assert view(site, res="64").status_code == 200
    (path,) = (path for path in blob_files(site.folder) if path.read_bytes() == PNG)
    flip(path, len(PNG) // 2)
    answers = [
        httpx.get(location),
        httpx.head(location),
        httpx.get(location, headers={"Range": "bytes=0-3"}),
        view(site, channel="rgba"),
        view(site, channel="rgb"),
        view(site, preview="webp;90"),
        view(site, res="65"),
    ]
    assert [answer.status_code for answer in answers] == [500] * len(answers)
    assert {answer.json()["error"]["type"] for answer in answers if answer.content} == {"internal_error"}
    assert all("damaged" in answer.json()["message"] for answer in answers if answer.content)
    with site.client() as client:  # the same bytes, sent again, mend it for everybody
        assert client.post("/api/upload/image", files={"image": ("again.png", PNG)}).status_code == 200
    assert httpx.get(location).content == PNG


@pytest.mark.req("S-08", "C-06")
def test_damaged_thumbnail_is_made_again(lite: Site) -> None:
    """A picture that was made of another needs no backup."""
    known = set(blob_files(lite.folder))
    good = view(lite, res="64")
    (made,) = set(blob_files(lite.folder)) - known
    flip(made, 20)
    assert (view(lite, res="64").content, lite.renders) == (good.content, 2)


def test_thumbnail_of_a_jpeg_is_upright(lite: Site) -> None:
    """A thumbnail is upright, as its camera says."""
    exif = Image.Exif()
    exif[0x0112] = 6
    out = BytesIO()
    Image.new("RGB", (300, 100), (9, 9, 9)).save(out, "JPEG", exif=exif)
    lite.make(out.getvalue(), "turned.jpg")
    assert open_picture(view(lite, "turned.jpg", res="100").content).size == (33, 100)
