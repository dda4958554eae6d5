"""Copies of result assets: from a real server to real blobs, each as well as it can, and swept when they expire."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from conftest import Run
from damage import flip
from fairlead.domain.catalog.models import Assets
from fairlead.domain.faults import FaultError, Forbidden, InternalError, RequestNotFound, ServiceUnavailable
from fairlead.domain.pointers import parse_pointer
from fairlead.http_client.transport import Transport
from fairlead.identity.links import Links
from fairlead.observing.observations import (
    AssetCopied,
    AssetCopyFailed,
    AssetsSwept,
    BlobTrouble,
    DatabaseTrouble,
    Observation,
)
from fairlead.operations.assets import COPIES_MAX, AssetCopier, AssetReader, AssetSweeper, CopiedResult, CopyOrder
from fairlead.operations.clock import Clock
from fairlead.storage.blobs import FAN_OUT, StoredBlobs, local_blobs
from fairlead.storage.database import Database, DatabaseUnavailableError, Work
from fake_partner import (
    Behaviour,
    FakePartner,
    cut_chunks,
    drop,
    endless,
    half,
    hang,
    redirect,
    reply,
    running_partner,
    trickle,
)
from storage.bookings import LAB, Books

PNG: Final = b"\x89PNG\r\n\x1a\n" + b"a picture" * 1000
BASE: Final = "https://media.example"
DAY_MS: Final = 24 * 3600 * 1000
LIMIT: Final = 1024 * 1024
RULES: Final = ("/data/*/url", "/response/videos/*/gcsUri")


class Away:
    """A database that is away while `refusing`."""

    def __init__(self, database: Database) -> None:
        """Stand before a real one."""
        self._database = database
        self.refusing = False

    async def write(self, work: Work[Any], *, durable: bool = True) -> Any:
        """Write, unless the database is away."""
        if self.refusing:
            raise DatabaseUnavailableError("away")
        return await self._database.write(work, durable=durable)

    async def read(self, work: Work[Any]) -> Any:
        """Read, unless the database is away."""
        if self.refusing:
            raise DatabaseUnavailableError("away")
        return await self._database.read(work)

    async def close(self) -> None:
        """Leave the real one open."""


class Desk:
    """All that copies, reads and sweeps, over one database, one folder and one real partner."""

    def __init__(self, database: Database, folder: Path, partner: FakePartner) -> None:
        """Wire it as assembly does."""
        self.seen: list[Observation] = []
        self.now_ms = int(time.time()) * 1000
        self.partner = partner
        self.database = Away(database)
        self.folder = folder
        self.blobs: StoredBlobs = local_blobs(folder)
        self.links = Links(bytes(32))
        self.clock = Clock(lambda: self.now_ms * 1_000_000)
        self.transport = Transport(trusted=[partner.url])
        self.reader = AssetReader(self.links, self.blobs, self.database, self.clock)
        self.sweeper = AssetSweeper(self.database, self.blobs, self.clock, self.seen.append)

    def copier(self, seconds: float = 20) -> AssetCopier:
        """Make a copier that gives up after so long."""
        return AssetCopier(
            self.transport.fetch, lambda provider, url: provider == "acme" and "//elsewhere." not in url,
            self.blobs, self.database, self.links, self.clock, self.seen.append,
            limit=LIMIT, lifetime=7 * 24 * 3600, seconds=seconds,
        )  # fmt: skip

    async def copy(
        self, answer: Any, *, seconds: float = 20, lifetime: int | None = None, content: bytes | None = None
    ) -> CopiedResult:
        """Copy the assets of an answer."""
        rules = Assets(tuple(parse_pointer(place) for place in RULES), lifetime)
        order = CopyOrder("run-12345678", LAB, "acme", "acme/pictures-1", rules, BASE)
        return await self.copier(seconds).copy(order, answer, content or json.dumps(answer).encode())

    async def get(self, link: str) -> bytes:
        """Follow one of our links."""
        parts = urlsplit(link.removeprefix(BASE))
        asset = await self.reader.find(parts.path.removeprefix("/assets/"), **dict(parse_qsl(parts.query)))
        return b"".join([chunk async for chunk in await self.reader.read(asset, 0, asset.size)])

    async def sweep_all(self) -> None:
        """Sweep every part of the store once."""
        for _ in FAN_OUT:
            await self.sweeper.sweep()

    def observed(self, kind: type) -> list[Any]:
        """Return what was observed of one kind."""
        return [seen for seen in self.seen if type(seen) is kind]

    def files(self) -> Sequence[Path]:
        """List every file of the store, the spool's included."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def age_files(self, ms: int) -> None:
        """Make every file older."""
        for path in self.files():
            os.utime(path, (path.stat().st_mtime - ms / 1000,) * 2)


@pytest.fixture(scope="module")
def shared_partner() -> Iterator[FakePartner]:
    """Return the partner all tests of this file share."""
    with running_partner() as running:
        yield running


@pytest.fixture
def cdn(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner with nothing remembered."""
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def desk(database: Database, books: Books, tmp_path: Path, cdn: FakePartner, run: Run) -> Iterator[Desk]:
    """Return the desk, with a workspace."""
    books.open()
    made = Desk(database, tmp_path / "blobs", cdn)
    yield made
    run(made.transport.close())


def links_of(result: CopiedResult) -> list[str]:
    """Read the links out of a result."""
    return [item["url"] for item in json.loads(result.content)["data"]]


@pytest.mark.req("R-36")
def test_listed_link_is_replaced_by_one_of_ours(desk: Desk, run: Run) -> None:
    """A listed asset is copied and its link is ours; everything else in the answer stays, byte by byte."""
    desk.partner.script("/a.png", reply(200, PNG, "image/png"))
    url = f"{desk.partner.url}/a.png?sig=secret&x=1"
    content = ('{ "data": [ {"url":"' + url + '", "b64": "aGk="} ],\t"seed": 1.50, "url": "' + url + '" }').encode()

    async def copy_and_get() -> None:
        result = await desk.copy(json.loads(content), content=content)
        (link,) = links_of(result)
        assert link.startswith(f"{BASE}/assets/")
        assert result.content == content.replace(url.encode(), link.encode(), 1)
        assert result.left == 0
        assert await desk.get(link) == PNG

    run(copy_and_get())
    assert desk.observed(AssetCopied) == [AssetCopied("run-12345678", "acme", "image/png", len(PNG))]
    assert [request.headers.get("authorization") for request in desk.partner.requests()] == [None]


@pytest.mark.req("R-36")
def test_inline_bytes_stay_where_they_are(desk: Desk, run: Run) -> None:
    """The video family's members: a link is copied, inline bytes and what is no web address stay where they are."""
    desk.partner.script("/clip", reply(200, b"\0\0\0\x20ftypisom" + b"film" * 100, "application/octet-stream"))
    videos = [{"gcsUri": f"{desk.partner.url}/clip"}, {"bytesBase64Encoded": "aGk="}, {"gcsUri": "gs://bucket/clip"}]
    answer = {"response": {"videos": videos}, "done": True}

    async def copy() -> None:
        result = await desk.copy(answer, lifetime=24 * 3600)
        first, *others = json.loads(result.content)["response"]["videos"]
        assert others == videos[1:]
        assert result.left == 1
        query = dict(parse_qsl(urlsplit(first["gcsUri"]).query))
        assert int(query["expires"]) == desk.now_ms // 1000 + 24 * 3600
        assert (query["disposition"], query["name"]) == ("inline", "pictures-1-12345678-1.mp4")
        nothing = await desk.copy({"data": [{"b64_json": "aGk="}]}, content=b'{ "whatever": 1 }')
        assert nothing == CopiedResult(b'{ "whatever": 1 }', (), 0)

    run(copy())


@pytest.mark.req("R-36")
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (reply(404, b"gone"), "status_404"),
        (reply(403, b"<Error>expired</Error>", "application/xml"), "status_403"),
        (reply(500), "status_500"),
        (reply(200, b"", "image/png"), "empty"),
        (reply(200, b"x" * (LIMIT + 1), "image/png"), None),
        (endless(b"x" * 65536), None),
        (half(b"x", 100), "broken_off"),
        (cut_chunks(b"x" * 70_000), "broken_off"),
        (drop(), "broken_off"),
        (redirect("http://127.0.0.1:1/"), "status_302"),
    ],
)
def test_failed_copy_keeps_its_link_and_the_others_are_copied(
    desk: Desk, behaviour: Behaviour, reason: str | None, run: Run
) -> None:
    """An asset that cannot be copied keeps its link, the one beside it is copied, and nothing is left of the first."""
    desk.partner.script("/bad", behaviour)
    desk.partner.script("/good", reply(200, PNG, "image/png"))
    answer = {"data": [{"url": f"{desk.partner.url}/{name}?token=secret"} for name in ("bad", "good")]}

    async def copy() -> None:
        result = await desk.copy(answer)
        bad, good = links_of(result)
        assert bad == answer["data"][0]["url"]
        assert await desk.get(good) == PNG
        assert (result.left, len(result.copied)) == (1, 1)

    run(copy())
    (failed,) = desk.observed(AssetCopyFailed)
    assert failed.reason == reason or reason is None
    assert "secret" not in repr(desk.seen)
    assert failed.url == "http://127.0.0.1/bad"
    assert len(desk.files()) == 1


@pytest.mark.req("R-36")
@pytest.mark.parametrize("slow", [hang(), trickle(0.02)])
def test_slow_asset_delays_a_result_for_a_bounded_time(desk: Desk, slow: Behaviour, run: Run) -> None:
    """All copies of a run together take no longer than their time; what was copied in it is kept."""
    desk.partner.script("/slow", slow)
    desk.partner.script("/good", reply(200, PNG, "image/png"))
    answer = {
        "data": [{"url": f"{desk.partner.url}/{name}"} for name in ("slow", "good", "slow?2", "slow?3", "slow?4")]
    }

    async def copy() -> None:
        result = await desk.copy(answer, seconds=0.5)
        assert (result.left, len(result.copied)) == (4, 1)

    run(copy())
    assert {failed.reason for failed in desk.observed(AssetCopyFailed)} <= {"too_slow", "timeout"}
    assert len(desk.files()) == 1


def test_downloads_of_assets_are_bounded(desk: Desk, run: Run) -> None:
    """Four downloads at a time, at most so many of a run, and one for a link that stands in two places."""
    for number in range(COPIES_MAX + 3):
        desk.partner.script(f"/{number}", desk.partner.held(reply(200, b"%d" % number, "image/png")))
    urls = [f"{desk.partner.url}/{number}" for number in range(COPIES_MAX + 3)]

    async def copy() -> None:
        task = asyncio.create_task(desk.copy({"data": [{"url": url} for url in (*urls, urls[0])]}))
        while len(desk.partner.requests()) < 4:  # noqa: ASYNC110 -- the partner is in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(desk.partner.requests()) == 4
        desk.partner.release()
        result = await task
        links = links_of(result)
        assert (links[0], links[-4:-1], result.left) == (links[-1], urls[-3:], 3)
        assert await desk.get(links[7]) == b"7"

    run(copy())
    assert len(desk.partner.requests()) == COPIES_MAX
    assert [failed.reason for failed in desk.observed(AssetCopyFailed)] == ["too_many"] * 3


def test_result_whose_rows_cannot_be_written_keeps_its_links(desk: Desk, run: Run) -> None:
    """When the rows cannot be written, the result keeps the partner's links, whole."""
    desk.partner.script("/a", reply(200, PNG))
    answer = {"data": [{"url": f"{desk.partner.url}/a"}]}
    desk.database.refusing = True
    result = run(desk.copy(answer))
    assert result == CopiedResult(json.dumps(answer).encode(), (), 1)
    assert len(desk.observed(DatabaseTrouble)) == 1
    assert [failed.reason for failed in desk.observed(AssetCopyFailed)] == ["not_recorded"]


def test_result_keeps_its_links_when_the_disk_is_full(desk: Desk, run: Run) -> None:
    """When the store cannot be written, the result keeps the partner's links."""
    desk.partner.script("/a", reply(200, PNG))
    (desk.folder / "spool").rmdir()
    assert run(desk.copy({"data": [{"url": f"{desk.partner.url}/a"}]})).left == 1
    assert [failed.reason for failed in desk.observed(AssetCopyFailed)] == ["blobs_unavailable"]


def test_cancelled_copy_leaves_no_files(desk: Desk, run: Run) -> None:
    """A server that stops in the middle of copies leaves nothing of them behind."""
    desk.partner.script("/a", trickle(0.01))

    async def cancel() -> None:
        task = asyncio.create_task(desk.copy({"data": [{"url": f"{desk.partner.url}/a"}]}))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert desk.files() == []


@pytest.mark.req("R-36")
def test_page_is_served_as_an_attachment(desk: Desk, run: Run) -> None:
    """A page or an SVG is a file to be saved, whatever its link says."""
    desk.partner.script("/a", reply(200, b"<svg onload=alert(1)>", "image/svg+xml"))

    async def copy() -> None:
        (link,) = links_of(await desk.copy({"data": [{"url": f"{desk.partner.url}/a"}]}))
        asset_id = urlsplit(link).path.removeprefix("/assets/")
        expires = desk.now_ms // 1000 + 60
        for made in (link, desk.links.sign(asset_id, expires, "a.svg", "inline")):
            found = await desk.reader.find(asset_id, **dict(parse_qsl(urlsplit(made).query)))
            assert (found.content_type, found.disposition) == ("application/octet-stream", "attachment")

    run(copy())


@pytest.mark.req("R-36")
def test_link_ends_with_its_time(desk: Desk, run: Run) -> None:
    """A link ends with its time; a good link to what is no more is told apart from a bad one."""
    desk.partner.script("/a", reply(200, PNG))

    async def ask() -> None:
        result = await desk.copy({"data": [{"url": f"{desk.partner.url}/a"}]})
        (link,) = links_of(result)
        late = desk.links.sign(result.copied[0].id, desk.now_ms // 1000 + 10**7, "a.png", "inline")
        unknown = desk.links.sign("no-such-id", desk.now_ms // 1000 + 10, "a.png", "inline")
        await refused(desk, unknown, RequestNotFound())
        await refused(desk, link.replace("inline", "attachment"), Forbidden("This link is not good: …"))
        desk.now_ms += 7 * DAY_MS - 1
        assert await desk.get(link) == PNG
        desk.now_ms += 1
        await refused(desk, link, Forbidden("This link is not good: …"))
        await refused(desk, late, RequestNotFound(expired=True))
        desk.database.refusing = True
        await refused(desk, late, ServiceUnavailable("…"))

    run(ask())


async def refused(desk: Desk, link: str, fault: Any) -> None:
    """Follow a link that leads to a fault."""
    with pytest.raises(FaultError) as raised:
        await desk.get(link)
    assert type(raised.value.fault) is type(fault)
    if isinstance(fault, RequestNotFound):
        assert raised.value.fault == fault


@pytest.mark.req("S-08")
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (Path.unlink, RequestNotFound()),
        (lambda path: path.write_bytes(b"half"), InternalError()),
        (flip, InternalError()),
    ],
    ids=["gone", "shorter", "flipped"],
)
def test_lost_blob_is_a_fault_until_it_is_copied_again(
    desk: Desk, damage: Callable[[Path], Any], fault: Any, run: Run
) -> None:
    """A blob that is gone is not found, a damaged one is an error; another copy of the same bytes mends both."""
    desk.partner.script("/a", reply(200, PNG))
    answer = {"data": [{"url": f"{desk.partner.url}/a"}]}

    async def ask() -> None:
        (link,) = links_of(await desk.copy(answer))
        damage(desk.files()[0])
        await refused(desk, link, fault)
        await desk.copy(answer)
        assert await desk.get(link) == PNG

    run(ask())


def test_sweep_removes_only_old_blobs_that_nothing_names(desk: Desk, books: Books, run: Run) -> None:
    """A blob goes when nothing live names it and it is a day old, and not before; a half-written one as well."""
    desk.partner.script("/a", reply(200, PNG))
    desk.partner.script("/b", reply(200, b"bytes of two assets"))

    async def fill() -> None:
        await desk.copy({"data": [{"url": f"{desk.partner.url}/{name}"} for name in "ab"]}, lifetime=3 * 24 * 3600)
        await desk.copy({"data": [{"url": f"{desk.partner.url}/b"}]}, lifetime=5 * 24 * 3600)
        writer = desk.blobs.writer(LIMIT)
        await writer.write(b"nobody will name these")
        await writer.commit()

    run(fill())
    assert len(desk.files()) == 3
    run(desk.sweep_all())
    assert len(desk.files()) == 3
    (desk.folder / "spool" / "left").write_bytes(b"by a crash")
    desk.age_files(2 * DAY_MS)
    run(desk.sweep_all())
    assert len(desk.files()) == 2
    desk.now_ms += 3 * DAY_MS
    run(desk.sweep_all())
    assert len(desk.files()) == 1
    desk.now_ms += 3 * DAY_MS
    run(desk.sweep_all())
    assert desk.files() == []
    assert books.rows("SELECT id FROM assets") == []
    swept = desk.observed(AssetsSwept)
    assert [sum(getattr(one, name) for one in swept) for name in ("expired", "blobs", "spooled")] == [3, 3, 1]


def test_sweeping_survives_an_unavailable_database_or_store(desk: Desk, run: Run) -> None:
    """A database or a store that is away is observed, and the next part is swept the next time."""
    desk.database.refusing = True
    run(desk.sweeper.sweep())
    desk.database.refusing = False
    (desk.folder / "01").mkdir()
    (desk.folder / "01").chmod(0)
    run(desk.sweeper.sweep())
    if os.geteuid() != 0:  # nothing is closed to root
        assert len(desk.observed(BlobTrouble)) == 1
    assert len(desk.observed(DatabaseTrouble)) == 1
    (desk.folder / "01").chmod(0o700)
    run(desk.sweep_all())
    assert len(desk.observed(DatabaseTrouble)) == 1
