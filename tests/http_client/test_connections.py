"""Connections over real sockets: when one is used again, when it must not be, and what is left of it afterwards."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.http_client import transport
from fairlead.http_client.answers import AnswerReader
from fairlead.http_client.connections import Connection
from fairlead.http_client.outcomes import Reply
from fairlead.http_client.transport import BrokenOffError, TooSlowError, Transport, UnreachableError
from http_client.plain_server import OK, Handler, answering, request_of, run_on, serving
from waiting import until

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
_LARGE = 8 * 1024 * 1024


@asynccontextmanager
async def _open_connection() -> AsyncIterator[Transport]:
    transport = Transport()
    try:
        yield transport
    finally:
        await transport.close()


async def _post(transport: Transport, url: str, content: bytes | None = b"{}", seconds: float = 60) -> Reply:
    return await transport.send("POST", url, {}, content, seconds=seconds, limit=2 * _LARGE)


async def _get(transport: Transport, url: str, method: str = "GET") -> Reply:
    return await transport.send(method, url, {}, None, seconds=20, limit=_LARGE)


@LOOPS
def test_connections_are_used_again(loop: str) -> None:
    """One after another go over one connection; together, each has its own, and all are used again."""

    async def work() -> None:
        async with serving(answering(OK)) as server, _open_connection() as transport:
            for _ in range(3):
                assert (await _post(transport, server.url)).content == b"{}"
            assert server.accepted == 1
            for _ in range(2):
                await asyncio.gather(*(_post(transport, server.url) for _ in range(5)))
            assert server.accepted == 5

    run_on(loop, work())


@LOOPS
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", id="asked to close"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", id="HTTP/1.0"),
        pytest.param(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", id="a second answer"),
        pytest.param(OK + b"x", id="a byte too many"),
    ],
)
def test_connection_that_cannot_be_kept_is_closed(loop: str, answer: bytes) -> None:
    """The answer counts, and the next request has a connection of its own: no answer is taken for another's."""

    async def work() -> None:
        async with serving(answering(answer)) as server, _open_connection() as transport:
            for _ in range(3):
                assert (await _post(transport, server.url)).content == b"{}"
            assert server.accepted == 3

    run_on(loop, work())


@LOOPS
def test_unrequested_bytes_end_an_idle_connection(loop: str) -> None:
    """What arrives while a connection is idle ends it."""
    is_answered = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK)
        await is_answered.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await reader.read()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            for _ in range(2):
                assert (await _post(transport, server.url)).content == b"{}"
                is_answered.set()
                await until(lambda: server.open == 0)
                is_answered.clear()
            assert server.accepted == 2

    run_on(loop, work())


@LOOPS
def test_connection_closed_while_idle_costs_only_a_new_one(loop: str) -> None:
    """A close that has been noticed costs a new connection and nothing else."""

    async def work() -> None:
        async with serving(answering(OK, close=True)) as server, _open_connection() as transport:
            for _ in range(3):
                await _post(transport, server.url)
                await until(lambda: not transport._pool._open)
            assert server.accepted == 3

    run_on(loop, work())


def _closing_at_second() -> tuple[Handler, list[bytes]]:
    """Answer a connection's first request, and hang up at its second without a byte."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_of(reader))
        writer.write(OK)
        seen.append(await request_of(reader))

    return handle, seen


@LOOPS
@pytest.mark.req("R-26")
def test_post_on_a_stale_connection_is_not_sent_twice(loop: str) -> None:
    """Anyone who closes at our request may have begun with it: nobody asks twice for what costs money."""
    handle, seen = _closing_at_second()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            await _post(transport, server.url)
            with pytest.raises(BrokenOffError):
                await _post(transport, server.url)
            assert len(seen) == 2

    run_on(loop, work())


@LOOPS
def test_poll_on_a_stale_connection_is_repeated(loop: str) -> None:
    """A GET orders nothing, so it is repeated once, on a new connection."""
    handle, seen = _closing_at_second()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            await _get(transport, server.url)
            assert (await _get(transport, server.url)).status == 200
            assert (len(seen), server.accepted) == (3, 2)

    run_on(loop, work())


@LOOPS
def test_get_is_not_repeated_once_an_answer_began(loop: str) -> None:
    """A half answer is an answer that broke off."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_of(reader))
        writer.write(OK)
        seen.append(await request_of(reader))
        writer.write(OK[:20])
        await writer.drain()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            await _get(transport, server.url)
            with pytest.raises(BrokenOffError):
                await _get(transport, server.url)
            assert len(seen) == 2

    run_on(loop, work())


@LOOPS
def test_post_takes_no_connection_that_may_be_closing(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle for longer than servers wait, a connection is still good enough for a poll, and not for an order."""
    monkeypatch.setattr(transport, "_FRESH_SECONDS", 0.05)

    async def work() -> None:
        async with serving(answering(OK)) as server, _open_connection() as opened:
            await _post(opened, server.url)
            await asyncio.sleep(0.1)
            await _get(opened, server.url)
            assert server.accepted == 1
            await asyncio.sleep(0.1)
            await _post(opened, server.url)
            assert server.accepted == 2

    run_on(loop, work())


@LOOPS
def test_idle_connections_are_bounded(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more are kept than the bound says, and none for longer than it says."""
    monkeypatch.setattr(transport, "_IDLE_MOST", 3)
    monkeypatch.setattr(transport, "_SWEEP_SECONDS", 0.05)
    together = asyncio.Barrier(8)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        await together.wait()
        writer.write(OK)
        await reader.read()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as opened:
            await asyncio.gather(*(_post(opened, server.url) for _ in range(8)))
            await until(lambda: server.open <= 3)
            assert server.open == 3
            monkeypatch.setattr(transport, "_IDLE_SECONDS", 0.0)
            await until(lambda: server.open == 0)

    run_on(loop, work())


def test_oldest_idle_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no more may be kept, the one idle longest goes, wherever it leads to."""
    monkeypatch.setattr(transport, "_IDLE_MOST", 1)

    async def work() -> None:
        async with serving(answering(OK)) as first, serving(answering(OK)) as second, _open_connection() as opened:
            await _post(opened, first.url)
            for _ in range(3):
                await _post(opened, second.url)
            await until(lambda: first.open == 0)
            assert (second.accepted, second.open) == (1, 1)

    run_on("asyncio", work())


@LOOPS
@pytest.mark.parametrize("content", [b"{}", b"x" * _LARGE], ids=["waiting", "writing"])
def test_cancelled_request_closes_its_connection(loop: str, content: bytes) -> None:
    """Anyone who gives up closes: a late answer must not find another request."""
    has_begun, is_cancelled = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        has_begun.set()
        await is_cancelled.wait()  # nobody reads: a large body comes to a halt
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            task = asyncio.ensure_future(_post(transport, server.url, content))
            await has_begun.wait()
            assert server.open == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            is_cancelled.set()
            await until(lambda: server.open == 0)

    run_on(loop, work())


@LOOPS
def test_large_body_arrives_unchanged(loop: str) -> None:
    """A body passes in slices, at the reader's pace, and the connection serves on."""
    body = bytes(range(256)) * (_LARGE // 256)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            content = (await request_of(reader)).partition(b"\r\n\r\n")[2]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
            await writer.drain()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            for _ in range(2):
                assert (await _post(transport, server.url, body)).content == body
            assert server.accepted == 1

    run_on(loop, work())


@LOOPS
@pytest.mark.parametrize("lingers", [True, False])
def test_early_refusal_is_heard(loop: str, *, lingers: bool) -> None:
    """A partner that refuses a large body before it has read it is heard, and its connection is not used again."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.3 if lingers else 0.05)

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            for _ in range(2):
                assert (await _post(transport, server.url, b"x" * _LARGE)).status == 413
            assert server.accepted == 2

    run_on(loop, work())


@LOOPS
def test_partner_that_stops_reading_is_too_slow(loop: str) -> None:
    """The bound on the whole counts while the body is still being written."""

    async def handle(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            with pytest.raises(TooSlowError, match=r"no answer within 0\.2 s"):
                await _post(transport, server.url, b"x" * 4 * _LARGE, seconds=0.2)

    run_on(loop, work())


@LOOPS
def test_answer_in_single_bytes_is_read(loop: str) -> None:
    """Interim answers, chunks, extensions and trailers are read however they arrive."""
    wire = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nX-A: b\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2;ext=1\r\n{ \r\n1\r\n}\r\n0\r\nX-Trailer: t\r\n\r\n"
    )

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await request_of(reader)
            for at in range(len(wire)):
                writer.write(wire[at : at + 1])
                await asyncio.sleep(0)

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            for _ in range(2):
                reply = await _post(transport, server.url)
                assert (reply.status, reply.content) == (201, b"{ }")
                assert reply.headers == {"x-a": "b", "transfer-encoding": "chunked"}
            assert server.accepted == 1

    run_on(loop, work())


@LOOPS
def test_body_without_a_length_ends_with_its_connection(loop: str) -> None:
    """Without a length, a clean end of the connection is the end of the body."""

    async def work() -> None:
        answer = answering(b"HTTP/1.1 200 OK\r\n\r\nwhole", close=True)
        async with serving(answer) as server, _open_connection() as transport:
            for _ in range(2):
                assert (await _post(transport, server.url)).content == b"whole"

    run_on(loop, work())


@LOOPS
def test_reset_cuts_a_body_off(loop: str) -> None:
    """Without a length, a reset cuts the body off."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            with pytest.raises(BrokenOffError):
                await _post(transport, server.url)

    run_on(loop, work())


@LOOPS
def test_answer_to_head_is_not_waited_for(loop: str) -> None:
    """HEAD has no body, whatever the head says."""

    async def work() -> None:
        async with (
            serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")) as server,
            _open_connection() as transport,
        ):
            reply = await _get(transport, server.url, "HEAD")
            assert (reply.status, reply.headers["content-length"], reply.content) == (200, "99", b"")

    run_on(loop, work())


@LOOPS
def test_ipv6_literal_is_connected_to(loop: str) -> None:
    """IPv6 literals are connected to, and named in brackets."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request_of(reader))
        writer.write(OK)

    async def work() -> None:
        async with serving(handle, "::1") as server, _open_connection() as transport:
            assert (await _post(transport, f"http://[::1]:{server.port}/x")).status == 200
            assert f"Host: [::1]:{server.port}\r\n".encode() in seen[0]

    run_on(loop, work())


@LOOPS
def test_closing_ends_requests_under_way(loop: str) -> None:
    """Closing the transport ends what is under way, and nothing begins afterwards."""
    has_begun = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await request_of(reader)
        has_begun.set()
        await reader.read()

    async def work() -> None:
        async with serving(handle) as server:
            transport = Transport()
            task = asyncio.ensure_future(_post(transport, server.url))
            await has_begun.wait()
            await transport.close()
            with pytest.raises(BrokenOffError):
                await task
            with pytest.raises(UnreachableError):
                await _post(transport, server.url)

    run_on(loop, work())


@LOOPS
@pytest.mark.parametrize("ends", ["answered", "broken", "slow", "malformed"])
def test_request_leaves_no_garbage_behind(loop: str, ends: str) -> None:
    """The collector runs seldom in a server: what a request made must not wait for it."""
    answers = {"answered": OK, "broken": b"HTTP/1.1 200 OK\r\n", "malformed": b"nonsense", "slow": b""}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answers[ends])
        if ends == "slow":
            await reader.read()

    async def work() -> None:
        async with serving(handle) as server, _open_connection() as transport:
            for _ in range(2):
                # Of so little time a busy machine may leave none to connect in.
                with contextlib.suppress(BrokenOffError, TooSlowError, UnreachableError):
                    await _post(transport, server.url, seconds=0.2 if ends == "slow" else 60)
                await until(lambda: not any(type(one) in {Connection, AnswerReader} for one in gc.get_objects()))

    gc.collect()
    gc.freeze()  # what other tests have left, a million syntax trees perhaps, is not looked through
    gc.disable()
    try:
        run_on(loop, work())
    finally:
        gc.enable()
