"""Files that bodies name: measured where they are surely those the partner gets, so that less is held for a run."""

import asyncio
import base64
import http.server
import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, cast

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.models import Model
from fairlead.domain.pointers import parse_pointer
from fairlead.http_client.transport import Transport
from fairlead.identity.links import Links
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.runs.given_files import FILES_MAX, GivenFiles
from fairlead.storage.assets.results import Asset, insert_assets
from fairlead_partners.simulator.media import clip, mp3, wav
from operations.queueing import enqueue
from operations.servers import BASE_URL, Server
from storage.queued_runs import run_id

LAB: Final = "lab"
PLACE: Final = ("clip",)
CLIP: Final = clip().content

pytestmark = [pytest.mark.req("R-28"), pytest.mark.req("X-02")]


class Files(http.server.BaseHTTPRequestHandler):
    """Serves a file at each path, by parts where it is asked for them, but below /whole."""

    files: ClassVar[Mapping[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer with a file, or a part of it."""
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        part = self.headers["Range"]
        self.asked.append(part)
        if self.path.startswith("/whole"):
            self.send_response(200)
        else:
            start, end = (int(text) for text in part.removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{min(end, len(content) - 1)}/{len(content)}")
            content = content[start : end + 1]
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as it is called
        """Say nothing."""


def late_index(content: bytes, filling: int) -> bytes:
    """Return a clip with its index behind so many bytes of samples."""
    index = content.index(b"moov") - 4
    size = int.from_bytes(content[index : index + 4])
    rest = content[:index] + content[index + size :]
    return rest + (filling + 8).to_bytes(4) + b"free" + bytes(filling) + content[index : index + size]


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Return the address of a server of files."""
    Files.files = {
        "/clip.mp4": CLIP,
        "/late.mp4": late_index(CLIP, 1_000_000),
        "/whole.mp4": CLIP,
        "/whole-large.mp4": late_index(CLIP, 1_000_000),
        "/sound.mp3": mp3(3.0).content,
        "/text": b"words",
    }
    Files.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def model_with(*places: str) -> Model:
    """Return what is asked of a model here."""

    class Priced:
        measured_files = tuple(parse_pointer(place) for place in places)

    return cast("Model", Priced())


def files_of(server: Server, transport: Transport | None = None) -> GivenFiles:
    """Return what measures, over the store of a server."""
    reader = AssetReader(Links(bytes(32)), server.blobs, server.database, server.clock)
    return GivenFiles(reader, server.blobs, BASE_URL, None if transport is None else transport.fetch)


async def measured(files: GivenFiles, value: object) -> Mapping[str, str]:
    """Return what is known of the one file of a body."""
    return (await files.measure(LAB, model_with("/clip"), {"clip": value})).get(PLACE, {})


@pytest.mark.parametrize("prefix", ["data:video/mp4;base64,", "data:;base64,", "data:video/mp4;a=b;base64,", ""])
def test_bytes_in_the_body_are_measured(server: Server, run: Run, prefix: str) -> None:
    """A data URI, or base64 alone, as some vendors take it."""
    found = run(measured(files_of(server), prefix + base64.b64encode(CLIP).decode()))
    assert 0 < float(found["longest"]) < 1
    assert int(found["frames"]) > 0


@pytest.mark.parametrize("content", [wav(2.0).content, mp3(2.0).content], ids=["wav", "mp3"])
def test_sounds_are_measured(server: Server, run: Run, content: bytes) -> None:
    """How long they are, within a frame."""
    assert float(run(measured(files_of(server), base64.b64encode(content).decode()))["longest"]) == pytest.approx(
        2, abs=0.1
    )


@pytest.mark.parametrize(
    "value",
    ["data:video/mp4,abc", "data:video/mp4;base64,!", "mm_file://1", "beeble://uploads/1", "no base64!", "", None, 7],
)
def test_what_is_no_file_is_not_measured(server: Server, run: Run, value: object) -> None:
    """Nothing is known of it, and nothing fails."""
    assert "longest" not in run(measured(files_of(server), value))


async def keep(server: Server, caller: Caller, content: bytes) -> Asset:
    """Keep a clip as the result of a run."""
    await enqueue(server, caller)
    writer = server.blobs.writer(10**7)
    await writer.write(content)
    asset = Asset(
        id="0" * 32,
        workspace_id=caller.workspace_id,
        run_id=run_id(),
        blob=await writer.commit(),
        size=len(content),
        content_type="video/mp4",
        name="a.mp4",
        created_at=server.clock.now_ms(),
        expires_at=server.clock.now_ms() + 3_600_000,
    )
    await server.database.write(lambda connection: insert_assets(connection, [asset]))
    return asset


def test_link_to_a_result_of_ours_is_measured_in_the_store(server: Server, caller: Caller, run: Run) -> None:
    """Where its signature is good, and it leads to us by our own name."""
    asset = run(keep(server, caller, CLIP))
    path = Links(bytes(32)).sign(asset.id, asset.expires_at // 1000, asset.name, "inline")
    files = files_of(server)
    assert "longest" in run(measured(files, BASE_URL + path))
    for other in (
        "https://elsewhere.example" + path,
        BASE_URL + path + "0",
        BASE_URL + path + "&x=y",
        BASE_URL + "/assets/a",
    ):
        assert run(measured(files, other)) == {}


@pytest.mark.parametrize("path", ["clip.mp4", "late.mp4", "whole.mp4", "sound.mp3"])
def test_link_elsewhere_is_measured_where_the_operator_agrees(
    server: Server, elsewhere: str, run: Run, path: str
) -> None:
    """By its first bytes, and by the few parts that are needed of the rest."""
    assert run(measured(files_of(server), f"{elsewhere}/{path}")) == {}
    assert Files.asked == []
    found = run(asked_of(server, f"{elsewhere}/{path}", [elsewhere]))
    assert float(found["longest"]) > 0
    assert len(Files.asked) < 6


@pytest.mark.parametrize("path", ["whole-large.mp4", "text", "missing"])
def test_link_elsewhere_that_cannot_be_measured_is_none(server: Server, elsewhere: str, run: Run, path: str) -> None:
    """A server that knows no parts, another file, no file."""
    assert "longest" not in run(asked_of(server, f"{elsewhere}/{path}", [elsewhere]))


def test_link_to_a_private_address_is_not_followed(server: Server, elsewhere: str, run: Run) -> None:
    """What a caller names may lead to ourselves: nothing is asked there."""
    assert run(asked_of(server, f"{elsewhere}/clip.mp4", [])) == {}
    assert Files.asked == []


async def asked_of(server: Server, url: str, trusted: list[str]) -> Mapping[str, str]:
    """Return what is known of a link where links elsewhere are measured."""
    transport = Transport(trusted=trusted)
    try:
        return await measured(files_of(server, transport), url)
    finally:
        await transport.close()


def test_files_at_many_places_are_measured_up_to_a_bound(server: Server, run: Run) -> None:
    """Each by its place; of more than are looked at, none is known."""
    text = base64.b64encode(wav(1.0).content).decode()
    files = files_of(server)

    async def places(count: int) -> Mapping[Any, Mapping[str, str]]:
        media = [{"type": "sound", "url": text}] * count
        return await files.measure(LAB, model_with("/media/*[type=sound]/url"), {"media": media})

    assert list(run(places(2))) == [("media", "0", "url"), ("media", "1", "url")]
    many = [base64.b64encode(wav(1.0).content + bytes([number])).decode() for number in range(FILES_MAX + 1)]
    assert run(files.measure(LAB, model_with("/many/*"), {"many": many})) == {}
    assert len(run(files.measure(LAB, model_with("/many/*"), {"many": many[1:]}))) == FILES_MAX


def test_slow_server_is_not_waited_for(server: Server, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no end in time is held for the largest."""
    monkeypatch.setattr("fairlead.operations.runs.given_files._SECONDS", 0.05)

    async def never(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    reader = AssetReader(Links(bytes(32)), server.blobs, server.database, server.clock)
    assert run(measured(GivenFiles(reader, server.blobs, BASE_URL, never), "https://slow.example/clip.mp4")) == {}
