"""Whole answers as `serve` writes them: at once, and yet no other than piece by piece."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import uvicorn
import uvloop

from conftest import Run
from fairlead.cli.web import WebServer
from fairlead.surfaces.asgi import WHOLE, Headers, Receive, Scope, Send, answer, has_left, read_whole

PATIENCE: Final = 30.0
LIMIT: Final = 1_000_000


class Echo:
    """An application that answers with the body it was sent, and with a header of the caller's choice."""

    def __init__(self) -> None:
        self.reading = asyncio.Event()
        """Set when a call is about to be read."""
        self.may_answer = asyncio.Event()
        """Answers are held back until this is set."""
        self.may_answer.set()
        self.read: asyncio.Queue[bytes] = asyncio.Queue()
        """How the bodies began that were read."""
        self.has_left: dict[bytes, bool] = {}
        """By the beginning of its body, whether the caller had left when a call was answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        self.reading.set()
        content = await read_whole(scope, receive, LIMIT)
        self.read.put_nowait(content[:7])
        await self.may_answer.wait()
        chosen = dict(scope["headers"]).get(b"x-chosen", b"none").replace(b"\\n", b"\n")
        headers: Headers = [(b"x-chosen", chosen), (b"x-whole", b"yes" if WHOLE in scope else b"no")]
        self.has_left[content[:7]] = has_left(scope, receive)
        await answer(scope, send, 200, headers, content)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return what runs a coroutine in an event loop of either kind."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@asynccontextmanager
async def serving(keep_alive: int = 75) -> AsyncIterator[tuple[int, Echo]]:
    """Run a server that echoes; its port, and what answers."""
    application = Echo()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, loop="none", lifespan="off", log_level="critical", access_log=False, timeout_keep_alive=keep_alive
    )
    web = WebServer(config, PATIENCE, lambda: None)
    task = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(PATIENCE):
            yield listener.getsockname()[1], application
    finally:
        web.should_exit = True
        await task


def call(body: bytes = b"", method: bytes = b"POST", more: bytes = b"") -> bytes:
    """A request as it is sent."""
    return b"%b / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (method, more, len(body), body)


async def head_of(reader: asyncio.StreamReader) -> dict[str, str]:
    """The head of a response; its status line is named `status`."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    return {"status": lines[0], **dict(line.split(": ", 1) for line in lines[1:])}


async def answer_of(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    """A response: its head and its body."""
    head = await head_of(reader)
    return head, await reader.readexactly(int(head["content-length"]))


@pytest.mark.parametrize("size", [0, 17, 300_000])
def test_a_body_comes_back_otherwise_than_it_was_sent(size: int, run: Run) -> None:
    """What was sent comes back, small and large, again and again on one connection, with a date and without a close."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for turn in range(3):
                body = b"%d" % turn * size
                writer.write(call(body))
                head, content = await answer_of(reader)
                assert content == body
                assert (head["status"], head["x-whole"]) == ("HTTP/1.1 200 OK", "yes")
                assert "date" in head
                assert "connection" not in head
            writer.close()

    run(scenario())


def test_a_body_in_pieces_is_taken_for_a_whole_one(run: Run) -> None:
    """A body whose second half comes when the application waits for it is read to its end."""

    async def scenario() -> None:
        async with serving() as (port, echo):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            whole = call(b"first half, second half")
            writer.write(whole[:-11])
            await echo.reading.wait()
            writer.write(whole[-11:])
            assert (await answer_of(reader))[1] == b"first half, second half"
            writer.close()

    run(scenario())


def test_a_caller_who_waits_to_be_asked_for_the_body_waits_for_ever(run: Run) -> None:
    """A caller that expects `100 Continue` is told to go on, and answered."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            whole = call(b"expected", more=b"Expect: 100-continue\r\n")
            writer.write(whole[:-8])
            assert (await head_of(reader))["status"] == "HTTP/1.1 100 Continue"
            writer.write(whole[-8:])
            assert (await answer_of(reader))[1] == b"expected"
            writer.close()

    run(scenario())


def test_calls_that_were_sent_together_are_answered_out_of_order(run: Run) -> None:
    """Requests that come before the first is answered are answered one after another."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(call(b"%d" % turn) for turn in range(5)))
            assert [(await answer_of(reader))[1] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
            writer.close()

    run(scenario())


def test_a_caller_who_asked_for_the_end_of_the_connection_waits_for_it(run: Run) -> None:
    """The answer says that the connection is closed, and it is."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(b"last", more=b"Connection: close\r\n"))
            head, content = await answer_of(reader)
            assert (head["connection"], content) == ("close", b"last")
            assert await reader.read() == b""
            writer.close()

    run(scenario())


def test_a_head_is_answered_with_a_body(run: Run) -> None:
    """The answer to HEAD has the length of a body and none: the next answer follows its head."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(b"unseen", method=b"HEAD"))
            assert (await head_of(reader))["content-length"] == "6"
            writer.write(call(b"seen"))
            assert (await answer_of(reader))[1] == b"seen"
            writer.close()

    run(scenario())


@pytest.mark.parametrize("chosen", [b"caf\xe9", b"a\tb"])
def test_an_unusual_header_is_refused(chosen: bytes, run: Run) -> None:
    """A value beyond ASCII, or with a tabulator, is sent as it is."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(more=b"X-Chosen: %b\r\n" % chosen))
            assert (await answer_of(reader))[0]["x-chosen"] == chosen.decode("latin-1")
            writer.close()

    run(scenario())


def test_a_header_writes_another(run: Run) -> None:
    """An answer with the end of a line in a header is not sent; the connection is closed."""

    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(more=b"X-Chosen: a\\nset-cookie: b\r\n"))
            assert b"set-cookie" not in await reader.read()
            writer.close()

    run(scenario())


@pytest.mark.req("R-25")
@pytest.mark.parametrize("size", [0, 300_000])
def test_a_caller_who_has_left_is_thought_to_listen(size: int, run: Run) -> None:
    """An application can tell that its caller has gone, and that another has not, however large the bodies were."""

    async def scenario() -> None:
        async with serving() as (port, echo):
            echo.may_answer.clear()
            leaving, staying = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for (_, writer), name in ((leaving, b"leaving"), (staying, b"staying")):
                writer.write(call(name + b"." * size))
                assert await echo.read.get() == name
            leaving[1].transport.abort()
            for _ in range(2):  # what is read now was sent after the other had left
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(call(b"later"))
                assert await echo.read.get() == b"later"
                writer.close()
            echo.may_answer.set()
            assert (await answer_of(staying[0]))[1] == b"staying" + b"." * size
            assert (echo.has_left[b"leaving"], echo.has_left[b"staying"]) == (True, False)
            staying[1].close()

    run(scenario())


def test_a_connection_is_kept_for_nothing(run: Run) -> None:
    """A connection that was used and fell silent is closed after the time for idle ones, not that for silent ones."""

    async def scenario() -> None:
        async with serving(keep_alive=1) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(b"only"))
            assert (await answer_of(reader))[1] == b"only"
            assert await reader.read() == b""
            writer.close()

    run(scenario())
