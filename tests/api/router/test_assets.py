"""`/assets/{asset_id}` over real sockets: whole, in parts, or refused; safe to show, and never a page."""

import asyncio
import hashlib
import inspect
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
import uvicorn
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from damage import blob_file, flip
from databases import migrate_url
from fairlead.api.application import Application
from fairlead.api.assets import AssetHandlers, content_disposition
from fairlead.api.http.headers import HeaderNames
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Billing
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.identity.links import Links
from fairlead.observing.observations import FaultAnswered, Observation
from fairlead.operations.assets.results import AssetReader
from fairlead.storage.accounts import workspaces
from fairlead.storage.assets.results import Asset, insert_assets
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from servers import wait_until

CONTENT: Final = hashlib.shake_256(b"an asset").digest(1_500_000)
BLAKE3: Final = blake3(CONTENT).hexdigest()
SIZE: Final = len(CONTENT)
CONTENT_TYPES: Final = {"picture": "image/png", "model": "model/gltf-binary", "bytes": "application/octet-stream"}


class _Absent:
    """The routes this file is not about."""

    def __getattr__(self, name: str) -> Any:
        async def answer() -> None:
            """Never called."""

        return answer


@dataclass
class Site:
    """A server of assets, and what it takes to make links to them."""

    links: Links
    seen: list[Observation]
    blobs: Path
    client: httpx.Client
    server: uvicorn.Server

    def link(self, asset_id: str = "picture", left: int = 600, name: str = "a.png", disposition: str = "inline") -> str:
        """Sign a link that is good for so many seconds."""
        return self.links.sign(asset_id, int(time.time()) + left, name, disposition)

    def get(self, link: str | None = None, method: str = "GET", **headers: str) -> httpx.Response:
        """Follow a link."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, link or self.link(), headers=named)

    async def serve(self, database: Database, folder: Path) -> None:
        """Fill the database and the store, then serve until told to stop."""
        blobs = local_blobs(folder)
        writer = blobs.writer(SIZE)
        await writer.write(CONTENT)
        blob = await writer.commit()
        new = workspaces.NewWorkspace(name="lab", billing=Billing.PREPAID, cap=0, in_flight_limit=UNLIMITED)
        await database.write(lambda c: workspaces.create_workspace(c, "lab", new, 0))
        rows = [
            Asset(name, "lab", "run", blob, SIZE, type_, "x", 0, int(time.time() + left) * 1000)
            for name, type_, left in [*((n, t, 10_000) for n, t in CONTENT_TYPES.items()), ("expired", "image/png", -1)]
        ]
        await database.write(lambda c: insert_assets(c, rows))
        await self.server.serve()
        await database.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a running site."""
    folder = tmp_path_factory.mktemp("site")
    asyncio.run(migrate_url(f"sqlite:///{folder}/fairlead.db"))
    database = open_database(f"sqlite:///{folder}/fairlead.db")
    seen: list[Observation] = []
    links = Links(os.urandom(32))
    handlers = AssetHandlers(AssetReader(links, local_blobs(folder / "blobs"), database, Clock()), HeaderNames())
    parts: dict[str, Any] = dict.fromkeys(inspect.signature(Application).parameters, _Absent())
    given = {
        "bind": lambda handler: partial(handler, handlers),
        "names": HeaderNames(),
        "observe": seen.append,
        "others": (),
    }
    application = Application(**{**parts, **given})
    server = uvicorn.Server(uvicorn.Config(cast("Any", application), port=0, log_level="warning"))
    made = Site(links, seen, folder / "blobs", httpx.Client(timeout=60), server)
    thread = threading.Thread(target=lambda: asyncio.run(made.serve(database, folder / "blobs")))
    thread.start()
    wait_until(lambda: server.started, "the site")
    made.client.base_url = httpx.URL(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    yield made
    made.client.close()
    server.should_exit = True
    thread.join()


@pytest.mark.req("R-36")
def test_signed_link_needs_no_key(site: Site) -> None:
    """A good link is all it takes; the bytes come whole, with all that makes them safe to show and to keep."""
    response = site.get()
    assert (response.status_code, response.content) == (200, CONTENT)
    assert response.headers["content-type"] == "image/png"
    assert response.headers["content-length"] == str(SIZE)
    assert response.headers["content-disposition"] == 'inline; filename="a.png"'
    assert response.headers["etag"] == f'"{BLAKE3}"'
    assert response.headers["accept-ranges"] == "bytes"
    assert response.headers["content-security-policy"] == "sandbox"
    assert response.headers["access-control-allow-origin"] == "*"
    private, age = response.headers["cache-control"].split(", max-age=")
    assert private == "private"
    assert 590 <= int(age) <= 600
    assert len(response.headers["x-service-request-id"]) == 36


def test_head_says_what_get_says(site: Site) -> None:
    """HEAD says what GET says, without the bytes; a range means nothing to it."""
    link = site.link()
    head, whole = site.get(link, "HEAD", Range="bytes=0-1"), site.get(link)
    ours = ("x-service-request-id", "date", "cache-control")  # the last one says how many seconds are left
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["cache-control"].startswith("private, max-age=")
    assert {k: v for k, v in head.headers.items() if k not in ours} == {
        k: v for k, v in whole.headers.items() if k not in ours
    }


@pytest.mark.req("R-36")
@given(first=st.integers(0, SIZE - 1), length=st.integers(1, SIZE), kind=st.sampled_from(["both", "open", "suffix"]))
def test_part_is_the_slice_of_the_bytes(site: Site, first: int, length: int, kind: str) -> None:
    """A range gets exactly the slice of the bytes, and says which."""
    match kind:
        case "both":
            header, start, end = f"bytes={first}-{first + length - 1}", first, min(SIZE, first + length)
        case "open":
            header, start, end = f"bytes={first}-", first, SIZE
        case _:
            header, start, end = f"bytes=-{length}", SIZE - length, SIZE
    response = site.get(Range=header)
    assert response.status_code == 206
    assert response.content == CONTENT[start:end]
    assert response.headers["content-range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert response.headers["content-length"] == str(end - start)


def test_several_ranges_are_answered_with_the_whole(site: Site) -> None:
    """Several ranges, or one that cannot be read, are answered with the whole."""
    for header in ("bytes=0-1,5-6", "bytes=5-2", "lines=1-2"):
        response = site.get(Range=header)
        assert (response.status_code, len(response.content)) == (200, SIZE)
        assert "content-range" not in response.headers


def test_range_behind_the_end_is_416(site: Site) -> None:
    """A range behind the end is 416, which says how much there is."""
    response = site.get(Range=f"bytes={SIZE}-")
    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{SIZE}"
    assert response.headers["x-service-error-type"] == "invalid_input" == response.json()["error_type"]
    assert len(response.headers["x-service-request-id"]) == 36


@pytest.mark.parametrize(
    ("condition", "status"),
    [(f'"{BLAKE3}"', 206), ('"other"', 200), (f'W/"{BLAKE3}"', 200), ("Sun, 06 Nov 1994 08:49:37 GMT", 200)],
)
def test_if_range_needs_the_very_tag(site: Site, condition: str, status: int) -> None:
    """If-Range: only the very tag gets a part (strong comparison); anything else the whole."""
    assert site.get(Range="bytes=0-4", If_Range=condition).status_code == status


@pytest.mark.parametrize("wanted", [f'"{BLAKE3}"', f'W/"{BLAKE3}"', f'"x", "{BLAKE3}"', "*"])
def test_known_bytes_are_304(site: Site, wanted: str) -> None:
    """If-None-Match with the tag is 304, without a body."""
    response = site.get(If_None_Match=wanted)
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == f'"{BLAKE3}"'
    assert site.get(If_None_Match='"other"').status_code == 200


@pytest.mark.req("R-36")
def test_altered_link_is_403(site: Site) -> None:
    """Every part of a link can only be what was signed; parts are neither doubled, nor left out, nor added."""
    link = site.link()
    head, _, query = link.partition("?")
    for altered in (
        link.replace("picture", "model"),
        link.replace("inline", "attachment"),
        link.replace("a.png", "b.png"),
        link.replace("expires=1", "expires=2"),
        link[:-1],
        link + "A",
        link + "&more=1",
        link + "&name=a.png",
        head,
        f"{head}?{'&'.join(query.split('&')[:3])}",
        f"{head}?{query}&{query}",
    ):
        response = site.get(altered)
        assert response.status_code == 403, altered
        assert response.headers["x-service-error-type"] == "forbidden" == response.json()["error_type"]
        assert response.json()["detail"].startswith("This link is not good")
        assert CONTENT[:20] not in response.content


@pytest.mark.req("R-36")
def test_expired_link_is_403_and_a_missing_asset_404(site: Site) -> None:
    """An expired link is 403 and says so; an asset that is not there is 404, one whose time is up 410."""
    expired = site.get(site.link(left=-1))
    assert (expired.status_code, expired.json()["detail"]) == (403, "This link is not good: the link has expired.")
    for asset_id, status in (("no-such-asset", 404), ("expired", 410)):
        response = site.get(site.link(asset_id))
        assert (response.status_code, response.json()["error_type"]) == (status, "request_not_found")


def test_refused_link_is_logged_without_its_signature(site: Site) -> None:
    """What was refused is observed by its path: a query holds a credential."""
    site.get(site.link(left=-1))
    last = [seen for seen in site.seen if isinstance(seen, FaultAnswered)][-1]
    assert (last.path, last.result) == ("/assets/picture", "forbidden")


@pytest.mark.req("R-36")
@pytest.mark.parametrize(("asset_id", "shown"), [("picture", True), ("model", False), ("bytes", False)])
def test_only_what_is_safe_is_shown(site: Site, asset_id: str, *, shown: bool) -> None:
    """A link may ask for saving what could be shown; it cannot ask for showing what is to be saved."""
    for disposition in ("inline", "attachment"):
        response = site.get(site.link(asset_id, disposition=disposition))
        expected = "inline" if shown and disposition == "inline" else "attachment"
        assert response.headers["content-disposition"] == f'{expected}; filename="a.png"'
        assert response.headers["content-type"] == CONTENT_TYPES[asset_id]


@given(name=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_file_name_never_breaks_out_of_its_header(name: str) -> None:
    """Whatever a file is called, the header stays one line of ASCII with a name in quotes and no path in it."""
    header = content_disposition("attachment", name)
    assert header.isascii()
    assert header.isprintable()
    plain = header.removeprefix('attachment; filename="').partition('"')[0]
    assert not set(plain) & set('"\\/%')
    rest = header.removeprefix(f'attachment; filename="{plain}"')
    assert rest == "" or rest.startswith("; filename*=UTF-8''")
    assert not set(rest.removeprefix("; filename*=UTF-8''")) & set("\"' /;\\")


def test_name_in_another_script_is_kept() -> None:
    """A name that is not plain is sent in both forms of RFC 6266."""
    assert content_disposition("inline", "fjörd.png") == (
        "inline; filename=\"fj_rd.png\"; filename*=UTF-8''fj%C3%B6rd.png"
    )


def test_other_methods_on_assets_are_405(site: Site) -> None:
    """Assets are read, and nothing else."""
    response = site.get(method="POST")
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.req("R-36")
def test_missing_blob_is_an_error_before_the_first_byte(site: Site) -> None:
    """A blob that is gone is 500 before the first byte: neither an answer that ends early, nor one that hides it."""
    path = site.blobs / BLAKE3[:2] / BLAKE3[2:4] / BLAKE3
    away = path.rename(path.with_name("away"))
    try:
        assert (site.get().status_code, site.get().json()["detail"].partition(".")[0]) == (
            500,
            "The stored bytes are lost",
        )
    finally:
        away.rename(path)
    assert site.get().content == CONTENT


@pytest.mark.req("S-08", "R-36")
def test_damaged_asset_is_an_error_before_the_first_byte(site: Site) -> None:
    """Flipped bytes are never sent, whole or in part, nor promised to HEAD; who has the asset already keeps it."""
    path = blob_file(site.blobs, BLAKE3)
    flip(path, 1_000_000)
    try:
        for response in (site.get(), site.get(Range="bytes=5-9"), site.get(Range="bytes=1400000-")):
            assert response.status_code == 500
            assert response.headers["x-service-error-type"] == response.json()["error_type"] == "internal_error"
            assert "damaged" in response.json()["detail"]
        assert site.get(method="HEAD").status_code == 500
        assert site.get(If_None_Match=f'"{BLAKE3}"').status_code == 304
    finally:
        flip(path, 1_000_000)
    assert site.get().content == CONTENT


@pytest.mark.req("S-08", "R-36")
def test_cut_off_asset_is_an_error(site: Site) -> None:
    """A file that has lost its end is damaged, not an asset that nobody knows."""
    path = blob_file(site.blobs, BLAKE3)
    path.chmod(0o600)
    os.truncate(path, SIZE - 1)
    try:
        assert [site.get(method=method).status_code for method in ("GET", "HEAD")] == [500, 500]
    finally:
        path.write_bytes(CONTENT)
    assert site.get().content == CONTENT
