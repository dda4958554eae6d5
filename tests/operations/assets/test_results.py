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
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Assets
from fairlead.domain.faults import FaultError, Forbidden, InternalError, RequestNotFound, ServiceUnavailable
from fairlead.domain.pointers import parse_pointer
from fairlead.http_client.transport import Transport
from fairlead.identity.links import Links
from fairlead.observing.blobs import AssetsSwept, BlobTrouble
from fairlead.observing.observations import AssetCopied, AssetCopyFailed, DatabaseTrouble, Observation
from fairlead.operations.assets.results import (
    COPIES_MAX,
    AssetCopier,
    AssetReader,
    AssetSweeper,
    CopiedResult,
    CopyOrder,
)
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.blobs.store import FAN_OUT, StoredBlobs
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
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


class AssetSetup:
    """All that copies, reads and sweeps, over one database, one folder and one real partner."""

    def __init__(self, database: Database, folder: Path, partner: FakePartner) -> None:
        """Wire it as the server does."""
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

    def observations_of(self, kind: type) -> list[Any]:
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
def setup(database: Database, books: Books, tmp_path: Path, cdn: FakePartner, run: Run) -> Iterator[AssetSetup]:
    """Return the setup, with a workspace."""
    books.open()
    made = AssetSetup(database, tmp_path / "blobs", cdn)
    yield made
    run(made.transport.close())


def links_of(result: CopiedResult) -> list[str]:
    """Read the links out of a result."""
    return [item["url"] for item in json.loads(result.content)["data"]]


@pytest.mark.req("R-36")
def test_listed_link_is_replaced_by_one_of_ours(setup: AssetSetup, run: Run) -> None:
    """A listed asset is copied and its link is ours; everything else in the answer stays, byte by byte."""
    setup.partner.script("/a.png", reply(200, PNG, "image/png"))
    url = f"{setup.partner.url}/a.png?sig=secret&x=1"
    content = ('{ "data": [ {"url":"' + url + '", "b64": "aGk="} ],\t"seed": 1.50, "url": "' + url + '" }').encode()

    async def copy_and_get() -> None:
        result = await setup.copy(json.loads(content), content=content)
        (link,) = links_of(result)
        assert link.startswith(f"{BASE}/assets/")
        assert result.content == content.replace(url.encode(), link.encode(), 1)
        assert result.left == 0
        assert await setup.get(link) == PNG

    run(copy_and_get())
    assert setup.observations_of(AssetCopied) == [AssetCopied("run-12345678", "acme", "image/png", len(PNG))]
    assert [request.headers.get("authorization") for request in setup.partner.requests()] == [None]


@pytest.mark.req("R-36")
def test_inline_bytes_stay_where_they_are(setup: AssetSetup, run: Run) -> None:
    """The video family's members: a link is copied, inline bytes and what is not a web address stay where they are."""
    setup.partner.script("/clip", reply(200, b"\0\0\0\x20ftypisom" + b"film" * 100, "application/octet-stream"))
    videos = [{"gcsUri": f"{setup.partner.url}/clip"}, {"bytesBase64Encoded": "aGk="}, {"gcsUri": "gs://bucket/clip"}]
    answer = {"response": {"videos": videos}, "done": True}

    async def copy() -> None:
        result = await setup.copy(answer, lifetime=24 * 3600)
        first, *others = json.loads(result.content)["response"]["videos"]
        assert others == videos[1:]
        assert result.left == 1
        query = dict(parse_qsl(urlsplit(first["gcsUri"]).query))
        assert int(query["expires"]) == setup.now_ms // 1000 + 24 * 3600
        assert (query["disposition"], query["name"]) == ("inline", "pictures-1-12345678-1.mp4")
        nothing = await setup.copy({"data": [{"b64_json": "aGk="}]}, content=b'{ "whatever": 1 }')
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
    setup: AssetSetup, behaviour: Behaviour, reason: str | None, run: Run
) -> None:
    """An asset that cannot be copied keeps its link, the one beside it is copied, and nothing is left of the first."""
    setup.partner.script("/bad", behaviour)
    setup.partner.script("/good", reply(200, PNG, "image/png"))
    answer = {"data": [{"url": f"{setup.partner.url}/{name}?token=secret"} for name in ("bad", "good")]}

    async def copy() -> None:
        result = await setup.copy(answer)
        bad, good = links_of(result)
        assert bad == answer["data"][0]["url"]
        assert await setup.get(good) == PNG
        assert (result.left, len(result.copied)) == (1, 1)

    run(copy())
    (failed,) = setup.observations_of(AssetCopyFailed)
    assert failed.reason == reason or reason is None
    assert "secret" not in repr(setup.seen)
    assert failed.url == "http://127.0.0.1/bad"
    assert len(setup.files()) == 1


@pytest.mark.req("R-36")
@pytest.mark.parametrize("slow", [hang(), trickle(0.02)])
def test_slow_asset_delays_a_result_for_a_bounded_time(setup: AssetSetup, slow: Behaviour, run: Run) -> None:
    """All copies of a run together take no longer than their time; what was copied in it is kept."""
    setup.partner.script("/slow", slow)
    setup.partner.script("/good", reply(200, PNG, "image/png"))
    answer = {
        "data": [{"url": f"{setup.partner.url}/{name}"} for name in ("slow", "good", "slow?2", "slow?3", "slow?4")]
    }

    async def copy() -> None:
        result = await setup.copy(answer, seconds=2.0)
        assert (result.left, len(result.copied)) == (4, 1)

    run(copy())
    assert {failed.reason for failed in setup.observations_of(AssetCopyFailed)} <= {"too_slow", "timeout"}
    assert len(setup.files()) == 1


def test_downloads_of_assets_are_bounded(setup: AssetSetup, run: Run) -> None:
    """Four downloads at a time, at most so many of a run, and one for a link that stands in two places."""
    for number in range(COPIES_MAX + 3):
        setup.partner.script(f"/{number}", setup.partner.hold(reply(200, b"%d" % number, "image/png")))
    urls = [f"{setup.partner.url}/{number}" for number in range(COPIES_MAX + 3)]

    async def copy() -> None:
        task = asyncio.create_task(setup.copy({"data": [{"url": url} for url in (*urls, urls[0])]}))
        while len(setup.partner.requests()) < 4:  # noqa: ASYNC110 -- the partner is in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(setup.partner.requests()) == 4
        setup.partner.release()
        result = await task
        links = links_of(result)
        assert (links[0], links[-4:-1], result.left) == (links[-1], urls[-3:], 3)
        assert await setup.get(links[7]) == b"7"

    run(copy())
    assert len(setup.partner.requests()) == COPIES_MAX
    assert [failed.reason for failed in setup.observations_of(AssetCopyFailed)] == ["too_many"] * 3


def test_result_whose_rows_cannot_be_written_keeps_its_links(setup: AssetSetup, run: Run) -> None:
    """When the rows cannot be written, the result keeps the partner's links, whole."""
    setup.partner.script("/a", reply(200, PNG))
    answer = {"data": [{"url": f"{setup.partner.url}/a"}]}
    setup.database.refusing = True
    result = run(setup.copy(answer))
    assert result == CopiedResult(json.dumps(answer).encode(), (), 1)
    assert len(setup.observations_of(DatabaseTrouble)) == 1
    assert [failed.reason for failed in setup.observations_of(AssetCopyFailed)] == ["not_recorded"]


def test_result_keeps_its_links_when_the_disk_is_full(setup: AssetSetup, run: Run) -> None:
    """When the store cannot be written, the result keeps the partner's links."""
    setup.partner.script("/a", reply(200, PNG))
    (setup.folder / "spool").rmdir()
    assert run(setup.copy({"data": [{"url": f"{setup.partner.url}/a"}]})).left == 1
    assert [failed.reason for failed in setup.observations_of(AssetCopyFailed)] == ["blobs_unavailable"]


def test_cancelled_copy_leaves_no_files(setup: AssetSetup, run: Run) -> None:
    """A server that stops in the middle of copies leaves nothing of them behind."""
    setup.partner.script("/a", trickle(0.01))

    async def cancel() -> None:
        task = asyncio.create_task(setup.copy({"data": [{"url": f"{setup.partner.url}/a"}]}))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert setup.files() == []


@pytest.mark.req("R-36")
def test_page_is_served_as_an_attachment(setup: AssetSetup, run: Run) -> None:
    """A page or an SVG is a file to be saved, whatever its link says."""
    setup.partner.script("/a", reply(200, b"<svg onload=alert(1)>", "image/svg+xml"))

    async def copy() -> None:
        (link,) = links_of(await setup.copy({"data": [{"url": f"{setup.partner.url}/a"}]}))
        asset_id = urlsplit(link).path.removeprefix("/assets/")
        expires = setup.now_ms // 1000 + 60
        for made in (link, setup.links.sign(asset_id, expires, "a.svg", "inline")):
            found = await setup.reader.find(asset_id, **dict(parse_qsl(urlsplit(made).query)))
            assert (found.content_type, found.disposition) == ("application/octet-stream", "attachment")

    run(copy())


@pytest.mark.req("R-36")
def test_link_ends_with_its_time(setup: AssetSetup, run: Run) -> None:
    """A link ends with its time; a good link to what is no more is told apart from a bad one."""
    setup.partner.script("/a", reply(200, PNG))

    async def ask() -> None:
        result = await setup.copy({"data": [{"url": f"{setup.partner.url}/a"}]})
        (link,) = links_of(result)
        late = setup.links.sign(result.copied[0].id, setup.now_ms // 1000 + 10**7, "a.png", "inline")
        unknown = setup.links.sign("no-such-id", setup.now_ms // 1000 + 10, "a.png", "inline")
        await expect_fault(setup, unknown, RequestNotFound())
        await expect_fault(setup, link.replace("inline", "attachment"), Forbidden("This link is not good: …"))
        setup.now_ms += 7 * DAY_MS - 1
        assert await setup.get(link) == PNG
        setup.now_ms += 1
        await expect_fault(setup, link, Forbidden("This link is not good: …"))
        await expect_fault(setup, late, RequestNotFound(expired=True))
        setup.database.refusing = True
        await expect_fault(setup, late, ServiceUnavailable("…"))

    run(ask())


async def expect_fault(setup: AssetSetup, link: str, fault: Any) -> None:
    """Follow a link that leads to a fault."""
    with pytest.raises(FaultError) as raised:
        await setup.get(link)
    assert type(raised.value.fault) is type(fault)
    if isinstance(fault, RequestNotFound):
        assert raised.value.fault == fault


@pytest.mark.req("S-08")
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (Path.unlink, InternalError()),
        (lambda path: path.write_bytes(b"half"), InternalError()),
        (flip, InternalError()),
    ],
    ids=["gone", "shorter", "flipped"],
)
def test_lost_blob_is_a_fault_until_it_is_copied_again(
    setup: AssetSetup, damage: Callable[[Path], Any], fault: Any, run: Run
) -> None:
    """A blob that is gone or damaged is an error, not an asset that never was; another copy of its bytes mends both."""
    setup.partner.script("/a", reply(200, PNG))
    answer = {"data": [{"url": f"{setup.partner.url}/a"}]}

    async def ask() -> None:
        (link,) = links_of(await setup.copy(answer))
        damage(setup.files()[0])
        await expect_fault(setup, link, fault)
        await setup.copy(answer)
        assert await setup.get(link) == PNG

    run(ask())


def test_sweep_removes_only_old_blobs_that_nothing_names(setup: AssetSetup, books: Books, run: Run) -> None:
    """A blob goes when nothing live names it and it is a day old, and not before; a half-written one as well."""
    setup.partner.script("/a", reply(200, PNG))
    setup.partner.script("/b", reply(200, b"bytes of two assets"))

    async def fill() -> None:
        await setup.copy({"data": [{"url": f"{setup.partner.url}/{name}"} for name in "ab"]}, lifetime=3 * 24 * 3600)
        await setup.copy({"data": [{"url": f"{setup.partner.url}/b"}]}, lifetime=5 * 24 * 3600)
        writer = setup.blobs.writer(LIMIT)
        await writer.write(b"nobody will name these")
        await writer.commit()

    run(fill())
    assert len(setup.files()) == 3
    run(setup.sweep_all())
    assert len(setup.files()) == 3
    (setup.folder / "spool" / "left").write_bytes(b"by a crash")
    setup.age_files(2 * DAY_MS)
    run(setup.sweep_all())
    assert len(setup.files()) == 2
    setup.now_ms += 3 * DAY_MS
    run(setup.sweep_all())
    assert len(setup.files()) == 1
    setup.now_ms += 3 * DAY_MS
    run(setup.sweep_all())
    assert setup.files() == []
    assert books.rows("SELECT id FROM assets") == []
    swept = setup.observations_of(AssetsSwept)
    assert [sum(getattr(one, name) for one in swept) for name in ("expired", "blobs", "spooled")] == [3, 3, 1]


def test_sweeping_survives_an_unavailable_database_or_store(setup: AssetSetup, run: Run) -> None:
    """A database or a store that is away is observed, and the next part is swept the next time."""
    setup.database.refusing = True
    run(setup.sweeper.sweep())
    setup.database.refusing = False
    (setup.folder / "01").mkdir()
    (setup.folder / "01").chmod(0)
    run(setup.sweeper.sweep())
    if os.geteuid() != 0:  # nothing is closed to root
        assert len(setup.observations_of(BlobTrouble)) == 1
    assert len(setup.observations_of(DatabaseTrouble)) == 1
    (setup.folder / "01").chmod(0o700)
    run(setup.sweep_all())
    assert len(setup.observations_of(DatabaseTrouble)) == 1
