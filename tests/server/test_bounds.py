"""What a request may say before its body, and around it: everything has a bound, and memory stays as it is (S-02)."""

import asyncio
from contextlib import suppress
from typing import Any

import psutil
import pytest

from conftest import Run
from fairlead.api.http.asgi import Receive, Scope, Send, answer, read_whole
from fairlead.server import web_server
from server.connections import Caller, serving

_MIB = 2**20
_START = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of headers and of bytes in the body."""
    content = await read_whole(scope, receive, 64 * _MIB)
    await answer(scope, send, 200, [], b"%d %d" % (len(scope["headers"]), len(content)))


async def exchange(*pieces: bytes) -> tuple[dict[str, str], bytes]:
    """Send pieces on one connection, and return the answer; the server must then close where it has refused."""
    async with serving(echo, log_level="critical") as server, server.caller() as caller:
        await _flood(caller, *pieces)
        head, content = await caller.answer()
        if not head["status"].endswith("200 OK"):
            assert await caller.rest() == b""
        return head, content


async def _flood(caller: Caller, *pieces: bytes) -> None:
    with suppress(ConnectionError):
        for piece in pieces:
            caller.send(piece)
            await caller.wait_until_sent()
            await asyncio.sleep(0)


def field(number: int, value: bytes = b"v") -> bytes:
    """One header."""
    return b"X-%d: %b\r\n" % (number, value)


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([_START, *[field(n) for n in range(128)], b"\r\n"], "431"),
        ([_START + b"".join(field(n) for n in range(128)) + b"\r\n"], "431"),
        ([_START + field(1, b"v" * 65_536) + b"\r\n"], "431"),
        ([_START + field(1, b"v" * 40_000), field(2, b"v" * 40_000), b"\r\n"], "431"),
        ([_START + field(n, b"v" * 30_000) for n in range(1)] + [field(2, b"v" * 40_000) + b"\r\n"], "431"),
        ([b"GET /" + b"a" * 16_384 + b" HTTP/1.1\r\nHost: x\r\n\r\n"], "414"),
        ([b"GET /", *[b"a" * 1000] * 17, b" HTTP/1.1\r\nHost: x\r\n\r\n"], "414"),
    ],
    ids=["many fields", "many at once", "a long one", "long ones", "long in pieces", "a long address", "in pieces"],
)
def test_head_past_its_bound_is_refused(pieces: list[bytes], status: str, run: Run) -> None:
    """More than 128 fields or 64 KiB are answered with 431, a longer address with 414, in plain words."""
    head, content = run(exchange(*pieces))
    assert head["status"].split()[1] == status
    assert head["content-type"].startswith("text/plain")
    assert head["connection"] == "close"
    assert content.endswith(b".")


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("more", "fields"),
    [(b"".join(field(n) for n in range(127)), 128), (b"".join(field(n, b"v" * 9_000) for n in range(7)), 8)],
    ids=["fields", "bytes"],
)
@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_head_within_its_bound_is_taken(more: bytes, fields: int, size: int, run: Run) -> None:
    """128 fields and nearly 64 KiB are taken, in whatever pieces they come."""
    whole = _START + more + b"\r\n"
    size = max(size, len(whole) // 2000)
    head, content = run(exchange(*[whole[at : at + size] for at in range(0, len(whole), size)]))
    assert (head["status"], content) == ("HTTP/1.1 200 OK", b"%d 0" % fields)


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "endless",
    [
        pytest.param((_START, b"X-A: b\r\n" * 8192), id="small headers"),
        pytest.param((_START + b"X-A: ", b"v" * 65_536), id="one header"),
        pytest.param((_START + b"X-", b"v" * 65_536), id="one name"),
        pytest.param((b"GET /", b"v" * 65_536), id="an address"),
        pytest.param((_START + b"Transfer-Encoding: chunked\r\n\r\n1;", b"v" * 65_536), id="a chunk's extension"),
        pytest.param((_START + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 8192), id="small trailers"),
        pytest.param((_START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"v" * 65_536), id="one trailer"),
    ],
)
def test_endless_head_takes_no_memory(endless: tuple[bytes, bytes], run: Run) -> None:
    """96 MiB before or around a body on one connection are not kept: the connection is refused long before."""

    async def scenario() -> int:
        async with serving(echo, log_level="critical") as server, server.caller() as caller:
            before = psutil.Process().memory_info().rss
            await _flood(caller, endless[0], *[endless[1]] * (96 * _MIB // len(endless[1])))
            grown = psutil.Process().memory_info().rss - before
            with suppress(ConnectionError):
                assert b" 431 " in (answered := await caller.rest()) or b" 414 " in answered
            return grown

    assert run(scenario()) < 24 * _MIB


@pytest.mark.req("S-02")
def test_trailers_are_dropped(run: Run) -> None:
    """Headers behind a body are none of the request's."""
    chunked = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Late: 1\r\n\r\n"
    head, content = run(exchange(_START + chunked))
    assert (head["status"], content) == ("HTTP/1.1 200 OK", b"2 3")


@pytest.mark.req("S-02")
def test_small_chunks_are_taken(run: Run) -> None:
    """A body in chunks of one byte, most of which is framing, is read to its end."""
    body = b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    pieces = [body[at : at + 5000] for at in range(0, len(body), 5000)]
    head, content = run(exchange(_START + b"Transfer-Encoding: chunked\r\n\r\n", *pieces))
    assert (head["status"], content) == ("HTTP/1.1 200 OK", b"2 100000")


@pytest.mark.req("S-02")
def test_half_sent_head_is_refused_in_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that goes on arriving is ended when it has had its time: 408, and the connection is closed."""
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.2)

    async def scenario() -> bytes:
        async with serving(echo, log_level="critical") as server, server.caller() as caller:
            caller.send(b"GET / HT")
            rest = asyncio.ensure_future(caller.rest())
            for byte in b"TP/1.1\r\nHost: x" + b"x" * 5000:
                if rest.done():
                    break
                with suppress(ConnectionError):
                    caller.send(bytes([byte]))
                await asyncio.sleep(0.02)
            return await rest

    assert run(scenario()).startswith(b"HTTP/1.1 408 ")


@pytest.mark.req("S-02")
def test_second_head_has_its_own_bounds(run: Run) -> None:
    """What a connection has sent before does not count: large bodies and small heads go on and on."""

    async def scenario() -> Any:
        async with serving(echo, log_level="critical") as server, server.caller() as caller:
            for _ in range(40):
                more = b"".join(field(n, b"v" * 500) for n in range(99))
                caller.send(_START + more + b"Content-Length: 100000\r\n\r\n" + b"b" * 100_000)
            return [(await caller.answer())[1] for _ in range(40)]

    assert run(scenario()) == [b"101 100000"] * 40


@pytest.mark.req("S-02")
def test_requests_behind_one_another_have_a_bound(run: Run) -> None:
    """A connection that sends thousands of requests before it reads an answer is closed; memory stays."""

    async def scenario() -> bytes:
        async with serving(echo, log_level="critical") as server, server.caller() as caller:
            await _flood(caller, (_START + b"\r\n") * 8000)
            with suppress(ConnectionError):
                return await caller.rest()
            return b""

    assert run(scenario()).count(b"HTTP/1.1 200") < 8000


@pytest.mark.req("S-02")
def test_connection_past_the_limit_is_told_so(run: Run) -> None:
    """Beside as many connections as there may be, another is answered with 503 and closed; one that ends makes room."""

    async def scenario() -> list[str]:
        async with (
            serving(echo, log_level="critical", connections=2) as server,
            server.caller() as first,
            server.caller() as second,
        ):
            found = []
            for caller in (first, second):
                caller.send(_START + b"\r\n")
                found.append((await caller.answer())[0]["status"])
            async with server.caller() as third:
                found.append((await third.answer())[0]["status"])
            first.leave()
            await asyncio.sleep(0.1)
            async with server.caller() as fourth:
                fourth.send(_START + b"\r\n")
                found.append((await fourth.answer())[0]["status"])
            return found

    ok = "HTTP/1.1 200 OK"
    assert run(scenario()) == [ok, ok, "HTTP/1.1 503 Service Unavailable", ok]
