"""Files of workflows over real databases, blobs and hosts of links: found, made, downloaded, and forgotten."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.faults import BadFile, FileTooLarge, JobFaultError
from fairlead.engine.hosts.service import DeclinedError
from fairlead.fair_shares import FairShares
from fairlead.http_client.transport import Transport
from fairlead.observing.observations import DatabaseTrouble, Observation
from fairlead.operations.assets.downloads import Downloads
from fairlead.operations.assets.files import SavedName, WorkflowFiles
from fairlead.operations.assets.moderation import Moderation
from fairlead.operations.assets.results import AssetSweeper
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.blobs.store import FAN_OUT
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fake_partner import Behaviour, FakePartner, endless, half, hang, redirect, reply
from storage.bookings import LAB, Books

PNG: Final = b"\x89PNG\r\n\x1a\n" + b"a picture" * 1000
LIMIT: Final = 100_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


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


class Cabinet:
    """Files, and all they are made of."""

    def __init__(self, database: Database, folder: Path, partner: FakePartner, *, seconds: float = 20) -> None:
        """Wire it as the server does."""
        self.seen: list[Observation] = []
        self.now_ms = int(time.time()) * 1000
        self.folder = folder
        self.partner = partner
        self.database = Away(database)
        self.clock = Clock(lambda: self.now_ms * 1_000_000)
        self.blobs = local_blobs(folder)
        self.transport = Transport(trusted=[partner.url])
        self.downloads = Downloads(self.transport.fetch, self.blobs, limit=LIMIT, seconds=seconds)
        self.files = WorkflowFiles(
            self.database, self.blobs, self.downloads, self.clock, self.seen.append, Moderation(self.seen.append),
            FairShares(10, 0), upload_bytes=LIMIT, output_bytes=LIMIT, kept_ms=7 * DAY_MS,
        )  # fmt: skip

    async def upload(self, content: bytes, name: str = "a.png", kind: str = "input", **how: Any) -> SavedName:
        """Send a file in pieces."""
        intake = self.files.receive(LAB)
        try:
            for start in range(0, len(content), 999):
                await intake.write(content[start : start + 999])
            return await intake.commit(name, kind, **how)
        finally:
            await intake.abort()

    async def read_named(self, name: str, workspace_id: str = LAB) -> bytes:
        """Read what a workflow means by a name."""
        return (await self.files.find(workspace_id, name)).read_bytes()

    async def make(self, content: bytes, beginning: str = "p", kind: str = "output", *, exact: bool = False) -> str:
        """Make a file as a job does."""
        name = await self.files.name(LAB, beginning, "png", kind, exact=exact)
        path = self.folder.parent / "made"
        path.write_bytes(content)
        adopted = await self.files.adopt(path, name, kind)
        await self.files.keep(LAB, "job", adopted, name, kind, self.now_ms + DAY_MS)
        assert not path.exists()
        return name

    def blob_files(self) -> list[Path]:
        """List every file of the store, the spool's included."""
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
def cdn(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return a host of files with nothing remembered."""
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def cabinet(database: Database, books: Books, tmp_path: Path, cdn: FakePartner, run: Run) -> Iterator[Cabinet]:
    """Return files of one workspace."""
    books.open()
    made = Cabinet(database, tmp_path / "blobs", cdn)
    yield made
    run(made.transport.close())


async def wait_for_decline(answer: Any) -> tuple[str, str]:
    """Wait for an answer that is declined."""
    with pytest.raises(DeclinedError) as raised:
        await answer
    return raised.value.exception_type, raised.value.message


@pytest.mark.req("C-02")
def test_upload_is_found_by_its_name_and_content(cabinet: Cabinet, run: Run) -> None:
    """An upload is found by its name, with its folder or one it never had, and by its content; nobody else's is."""

    async def use() -> None:
        saved = await cabinet.upload(PNG, "../my photo.png")
        assert saved == SavedName("my photo.png", "input", len(PNG), saved.hash, "")
        for name in ("my photo.png", "my photo.png [input]", "pasted/my photo.png", f"blake3:{saved.hash}",
                     f"{saved.hash}.png"):  # fmt: skip
            assert await cabinet.read_named(name) == PNG
        for name in ("my photo.png [output]", "other.png", "", "../../secret-key", f"blake3:{'0' * 64}"):
            assert (await wait_for_decline(cabinet.files.find(LAB, name)))[0] == "FileNotFoundError"
        assert (await wait_for_decline(cabinet.files.find("other", f"blake3:{saved.hash}")))[0] == "FileNotFoundError"
        assert await cabinet.files.list_inputs(LAB, "") == ["my photo.png"]
        assert (await wait_for_decline(cabinet.files.list_inputs(LAB, "sub")))[0] == "FileNotFoundError"

    run(use())


@pytest.mark.req("C-02")
def test_same_bytes_under_one_name_are_one_file(cabinet: Cabinet, run: Run) -> None:
    """Same bytes, same name; other bytes, a number; overwriting replaces what the name stands for."""

    async def use() -> None:
        names = [(await cabinet.upload(content)).name for content in (b"1", b"1", b"2")]
        assert names == ["a.png", "a.png", "a (1).png"]
        assert (await cabinet.upload(b"3", overwrite=True)).name == "a.png"
        assert await cabinet.read_named("a.png") == b"3"
        assert await cabinet.read_named("a (1).png") == b"2"

    run(use())


def test_refused_upload_leaves_nothing(cabinet: Cabinet, books: Books, run: Run) -> None:
    """What is too large, empty, nameless or of an unknown type is refused, and nothing of it is left."""

    async def use() -> None:
        for content, name, kind, fault in (
            (b"x" * (LIMIT + 1), "a", "input", FileTooLarge(LIMIT)),
            (b"", "a", "input", BadFile("The file is empty.")),
            (b"x", "..", "input", BadFile("The file has no name that can be used.")),
            (b"x", "a", "models", BadFile("'models' is not a type of file; types are input, output, temp.")),
        ):
            with pytest.raises(JobFaultError) as raised:
                await cabinet.upload(content, name, kind)
            assert raised.value.fault == fault

    run(use())
    assert cabinet.blob_files() == []
    assert books.rows("SELECT * FROM workflow_files") == []


@pytest.mark.req("C-06")
def test_files_of_a_job_are_numbered_and_never_overwritten(cabinet: Cabinet, run: Run) -> None:
    """A job's files are numbered, whatever folder they were to be in; exact names keep theirs and replace."""

    async def use() -> None:
        assert [await cabinet.make(PNG, beginning) for beginning in ("p", "p", "video/p")] == [
            "p_00001_.png", "p_00002_.png", "p_00003_.png",
        ]  # fmt: skip
        assert await cabinet.make(b"1", "set/1.png", exact=True) == "set_1.png"
        assert await cabinet.make(b"2", "set/1.png", exact=True) == "set_1.png"
        assert await cabinet.read_named("set_1.png [output]") == b"2"
        assert await cabinet.read_named("p_00003_.png [output]") == PNG
        long = await cabinet.make(b"3", "ü" * 300)
        assert await cabinet.read_named(f"{long} [output]") == b"3"

    run(use())


def test_bad_output_name_is_declined(cabinet: Cabinet, tmp_path: Path, run: Run) -> None:
    """What can be no name, what was never written and what is too large is declined."""
    path = tmp_path / "made"

    async def use() -> None:
        for beginning, extension, kind, exact in (
            ("..", "png", "output", False), ("a", "p/g", "output", False), ("a", "png", "input", False),
            ("/", "", "output", True), ("a", "", "models", True),
        ):  # fmt: skip
            assert (await wait_for_decline(cabinet.files.name(LAB, beginning, extension, kind, exact=exact)))[
                0
            ] == "ValidationError"
        for name in ("../a.png", "a/b.png", "", "..", "a\nb", "x" * 256):
            assert (await wait_for_decline(cabinet.files.adopt(path, name, "output")))[0] == "ValidationError"
        kept = cabinet.files.adopt(path, "a.png", "output")
        assert (await wait_for_decline(kept))[0] == "FileNotFoundError"
        path.write_bytes(b"x" * (LIMIT + 1))
        kept = cabinet.files.adopt(path, "a.png", "output")
        assert (await wait_for_decline(kept))[0] == "TooMuchOutputError"

    run(use())
    assert cabinet.blob_files() == []


def test_database_that_is_away_is_said_to_be(cabinet: Cabinet, run: Run) -> None:
    """Callers and jobs hear that it is, and may ask again; the sweep comes again by itself."""

    async def use() -> None:
        name = await cabinet.make(PNG)
        cabinet.database.refusing = True
        with pytest.raises(FaultError) as raised:
            await cabinet.upload(PNG)
        assert isinstance(raised.value.fault, ServiceUnavailable)
        for question in (
            cabinet.files.find(LAB, "a.png"),
            cabinet.files.name(LAB, "p", "png", "output", exact=False),
            cabinet.files.keep_longer(LAB, [("output", name)], cabinet.now_ms),
        ):
            with pytest.raises(FaultError) as raised:
                await question
            assert isinstance(raised.value.fault, ServiceUnavailable)
        assert await cabinet.files.forget_expired() == 0

    run(use())
    assert [seen.doing for seen in cabinet.seen if isinstance(seen, DatabaseTrouble)] == ["sweep workflow files"]


def test_bytes_of_a_live_file_are_kept(cabinet: Cabinet, run: Run) -> None:
    """Blobs stay while files name them, go when those have expired, and a missing one is said to be gone."""
    sweeper = AssetSweeper(cabinet.database, cabinet.blobs, cabinet.clock, cabinet.seen.append)

    async def use() -> None:
        await cabinet.upload(b"input")
        name = await cabinet.make(b"output")
        again = await cabinet.make(b"shown again")
        await cabinet.upload(b"temp", kind="temp")
        await cabinet.files.keep_longer(LAB, [("output", again)], cabinet.now_ms + 9 * DAY_MS)
        cabinet.now_ms += 3 * DAY_MS
        assert await cabinet.files.forget_expired() == 2
        for _ in FAN_OUT:
            await sweeper.sweep()
        assert sorted(path.read_bytes() for path in cabinet.blob_files()) == [b"input", b"shown again"]
        assert (await wait_for_decline(cabinet.files.find(LAB, f"{name} [output]")))[0] == "FileNotFoundError"
        assert await cabinet.read_named(f"{again} [output]") == b"shown again"
        for path in cabinet.blob_files():
            path.unlink()
        assert "gone" in (await wait_for_decline(cabinet.files.find(LAB, "a.png")))[1]

    run(use())


@pytest.mark.req("C-12")
def test_linked_picture_is_downloaded_once(cabinet: Cabinet, run: Run) -> None:
    """A link is downloaded once for all that ask within a while, redirections followed; it is in no workspace."""
    cabinet.partner.script("/moved", redirect(f"{cabinet.partner.url}/a.png"))
    cabinet.partner.script("/a.png", reply(200, PNG, "image/png"))

    async def use() -> None:
        url = f"{cabinet.partner.url}/moved?token=secret"
        assert await asyncio.gather(*(cabinet.read_named(url) for _ in range(5))) == [PNG] * 5
        assert await cabinet.read_named(url) == PNG
        assert await cabinet.files.list_inputs(LAB, "") == []

    run(use())
    assert [request.path for request in cabinet.partner.requests()] == ["/moved", "/a.png"]


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (reply(404, b"gone"), "answered 404"),
        (reply(200, b"x" * (LIMIT + 1)), "more than"),
        (endless(b"x" * 65536), "more than"),
        (half(b"x", 100), "broke off"),
        (redirect("file:///etc/passwd"), "none of http"),
        (redirect("http://10.0.0.1/"), "not public"),
        (redirect("/bad"), "without end"),
    ],
)
def test_link_that_leads_nowhere_is_an_image_download_error(
    cabinet: Cabinet, behaviour: Behaviour, words: str, run: Run
) -> None:
    """A link that cannot be downloaded is an ImageDownloadError, in words without its query; nothing is left."""
    cabinet.partner.script("/bad", behaviour)
    kind, message = run(wait_for_decline(cabinet.files.find(LAB, f"{cabinet.partner.url}/bad?token=secret")))
    assert kind == "ImageDownloadError"
    assert words in message
    assert "secret" not in message
    assert cabinet.blob_files() == []


def test_link_to_our_own_network_is_refused(cabinet: Cabinet, run: Run) -> None:
    """Addresses that are not public are refused before anything is sent there."""
    for url in ("http://127.0.0.1:1/", "http://[::1]/", "http://169.254.169.254/latest/", "http://user@10.0.0.1/"):
        assert run(wait_for_decline(cabinet.files.find(LAB, url)))[0] == "ImageDownloadError"


def test_download_has_a_time_limit(database: Database, tmp_path: Path, cdn: FakePartner, run: Run) -> None:
    """A download has a time."""
    cdn.script("/slow", hang())

    async def use() -> None:
        cabinet = Cabinet(database, tmp_path / "blobs", cdn, seconds=0.2)
        assert "within" in (await wait_for_decline(cabinet.files.find(LAB, f"{cdn.url}/slow")))[1]
        await cabinet.transport.close()

    run(use())
