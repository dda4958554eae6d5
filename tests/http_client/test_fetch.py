"""Fetching assets: any size passes through a little memory, and a bound is a bound."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.http_client.connections import Sink
from fairlead.http_client.transport import BrokenOffError, Received, TooSlowError, Transport
from http_client.plain_server import Handler, answering, request_of, run_on, serving
from waiting import until

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
_PIECE = bytes(range(256)) * 256
_PIECES = 512


@asynccontextmanager
async def _open() -> AsyncIterator[Transport]:
    transport = Transport()
    try:
        yield transport
    finally:
        await transport.close()


async def _fetch(transport: Transport, url: str, sink: Sink, limit: int = 1 << 30, seconds: float = 60) -> Received:
    return await transport.fetch(url, {"X-A": "b"}, seconds=seconds, limit=limit, sink=sink, guarded=False)


def _sending(framing: str, sent: list[int]) -> Handler:
    """Send 32 MiB, and count what was given away."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        length = b"Content-Length: %d\r\n" % (len(_PIECE) * _PIECES)
        head = {"length": length, "chunks": b"Transfer-Encoding: chunked\r\n", "end": b""}[framing]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n" + head + b"\r\n")
        for _ in range(_PIECES):
            writer.write(b"%x\r\n%b\r\n" % (len(_PIECE), _PIECE) if framing == "chunks" else _PIECE)
            await writer.drain()
            sent.append(len(_PIECE))
        if framing == "chunks":
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    return handle


@LOOPS
@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_large_asset_arrives_unchanged(loop: str, framing: str, tmp_path: Path) -> None:
    """It goes into a file as it is, and its size, status and headers are told."""
    path = tmp_path / "asset"

    async def work() -> None:
        async with serving(_sending(framing, [])) as server, _open() as transport:
            with path.open("wb") as file:
                received = await _fetch(transport, server.url, lambda piece: void(file.write(piece)))
            assert (received.status, received.size) == (200, len(_PIECE) * _PIECES)
            assert received.headers["content-type"] == "video/mp4"

    run_on(loop, work())
    assert path.read_bytes() == _PIECE * _PIECES


def void(_: object) -> None:
    """Drop what a call returns."""


@LOOPS
def test_slow_sink_slows_the_partner(loop: str) -> None:
    """While the sink is busy the partner has to wait: nothing piles up here."""
    sent: list[int] = []
    taken: list[int] = []
    ahead: list[int] = []

    async def sink(piece: bytes) -> None:
        taken.append(len(piece))
        if len(taken) <= 5:
            await asyncio.sleep(0.1)
            ahead.append(sum(sent) - sum(taken))

    async def work() -> None:
        async with serving(_sending("length", sent)) as server, _open() as transport:
            assert (await _fetch(transport, server.url, sink)).size == sum(taken) == len(_PIECE) * _PIECES

    run_on(loop, work())
    assert max(taken) <= 1024 * 1024
    assert max(ahead) < 16 * 1024 * 1024  # most of it the kernel's buffers


@LOOPS
@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_asset_beyond_its_limit_is_broken_off(loop: str, framing: str) -> None:
    """What announces too much is not begun; what turns out to be too much is broken off."""
    taken: list[int] = []

    async def work() -> None:
        async with serving(_sending(framing, [])) as server, _open() as transport:
            with pytest.raises(BrokenOffError, match="passes 1000000 bytes"):
                await _fetch(transport, server.url, lambda piece: taken.append(len(piece)), limit=1_000_000)
            await until(lambda: server.open == 0)

    run_on(loop, work())
    assert sum(taken) <= (0 if framing == "length" else 1_000_000)


@LOOPS
def test_error_page_is_never_kept_as_an_asset(loop: str) -> None:
    """Only a success goes to the sink."""
    taken: list[bytes] = []

    async def work() -> None:
        async with (
            serving(answering(b"HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone")) as server,
            _open() as opened,
        ):
            received = await _fetch(opened, server.url, taken.append)
            assert (received.status, received.size, taken) == (404, 0, [])

    run_on(loop, work())


@LOOPS
def test_error_of_the_sink_goes_through(loop: str) -> None:
    """What the sink raises goes through, and the connection is closed."""

    def sink(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        async with serving(_sending("length", [])) as server, _open() as transport:
            with pytest.raises(OSError, match="No space left"):
                await _fetch(transport, server.url, sink)
            await until(lambda: server.open == 0)

    run_on(loop, work())


@LOOPS
def test_slow_asset_is_given_up(loop: str) -> None:
    """The bound counts for the whole, also for a partner that dribbles and for a sink that never ends."""

    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def never(_: bytes) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with serving(dribble) as server, _open() as transport:
            for sink in (never, lambda _: None):
                with pytest.raises(TooSlowError, match=r"within 0\.2 s"):
                    await _fetch(transport, server.url, sink, seconds=0.2)

    run_on(loop, work())


@LOOPS
def test_half_an_asset_is_broken_off(loop: str) -> None:
    """A connection that closes early breaks the asset off, though the sink has a part of it."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"

    async def work() -> None:
        async with serving(answering(answer, close=True)) as server, _open() as transport:
            with pytest.raises(BrokenOffError, match="closed before"):
                await _fetch(transport, server.url, lambda _: None)

    run_on(loop, work())


@LOOPS
def test_assets_share_a_connection(loop: str) -> None:
    """One after another, they come over one connection."""
    taken: list[bytes] = []

    async def work() -> None:
        async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsome")) as server:
            async with _open() as transport:
                for _ in range(3):
                    await _fetch(transport, server.url, taken.append)
            assert (server.accepted, taken) == (1, [b"some"] * 3)

    run_on(loop, work())
