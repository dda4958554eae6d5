"""Whole answers as `serve` writes them: at once, and yet no other than piece by piece."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.api.http.asgi import WHOLE, Headers, Receive, Scope, Send, answer, has_left, read_whole
from server.connections import Caller, serving

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
        self.exchanges: list[weakref.ref[Any]] = []
        """The exchanges of the calls, as long as somebody else keeps them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        self.reading.set()
        self.exchanges.append(weakref.ref(scope[WHOLE].take_whole.__self__))
        content = await read_whole(scope, receive, LIMIT)
        self.read.put_nowait(content[:7])
        await self.may_answer.wait()
        chosen = dict(scope["headers"]).get(b"x-chosen", b"none").replace(b"\\n", b"\n")
        headers: Headers = [(b"x-chosen", chosen), (b"x-whole", b"yes" if WHOLE in scope else b"no")]
        self.has_left[content[:7]] = has_left(scope, receive)
        await answer(scope, send, 200, headers, content)


@asynccontextmanager
async def run_echo_server(keep_alive: int = 75) -> AsyncIterator[tuple[Caller, Echo]]:
    """Run a server that echoes; a connection to it, and what answers."""
    echo = Echo()
    async with serving(echo, keep_alive=keep_alive, log_level="critical") as web, web.caller() as caller:
        yield caller, echo


def call(body: bytes = b"", method: bytes = b"POST", more: bytes = b"") -> bytes:
    """A request as it is sent."""
    return b"%b / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (method, more, len(body), body)


@pytest.mark.parametrize("size", [0, 17, 300_000])
def test_body_comes_back_as_it_was_sent(size: int, run: Run) -> None:
    """What was sent comes back, small and large, again and again on one connection, with a date and without a close."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            for turn in range(3):
                body = b"%d" % turn * size
                caller.send(call(body))
                head, content = await caller.answer()
                assert content == body
                assert (head["status"], head["x-whole"]) == ("HTTP/1.1 200 OK", "yes")
                assert "date" in head
                assert "connection" not in head

    run(scenario())


def test_body_in_pieces_is_read_to_its_end(run: Run) -> None:
    """A body whose second half comes when the application waits for it is read to its end."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, echo):
            whole = call(b"first half, second half")
            caller.send(whole[:-11])
            await echo.reading.wait()
            caller.send(whole[-11:])
            assert (await caller.answer())[1] == b"first half, second half"

    run(scenario())


def test_caller_that_expects_100_continue_is_told_to_go_on(run: Run) -> None:
    """A caller that expects `100 Continue` is told to go on, and answered."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            whole = call(b"expected", more=b"Expect: 100-continue\r\n")
            caller.send(whole[:-8])
            assert (await caller.head())["status"] == "HTTP/1.1 100 Continue"
            caller.send(whole[-8:])
            assert (await caller.answer())[1] == b"expected"

    run(scenario())


def test_pipelined_calls_are_answered_in_order(run: Run) -> None:
    """Requests that come before the first is answered are answered one after another."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            caller.send(b"".join(call(b"%d" % turn) for turn in range(5)))
            assert [(await caller.answer())[1] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

    run(scenario())


def test_connection_closes_when_its_caller_asks(run: Run) -> None:
    """The answer says that the connection is closed, and it is."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            caller.send(call(b"last", more=b"Connection: close\r\n"))
            head, content = await caller.answer()
            assert (head["connection"], content) == ("close", b"last")
            assert await caller.rest() == b""

    run(scenario())


def test_head_is_answered_without_a_body(run: Run) -> None:
    """The answer to HEAD has the length of a body and none: the next answer follows its head."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            caller.send(call(b"unseen", method=b"HEAD"))
            assert (await caller.head())["content-length"] == "6"
            caller.send(call(b"seen"))
            assert (await caller.answer())[1] == b"seen"

    run(scenario())


@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
def test_answered_call_leaves_no_garbage(method: bytes, run: Run) -> None:
    """What is known of a call goes with its answer: runs that wait for long would keep those of all others."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, echo):
            for _ in range(2):  # a connection remembers its last exchange
                caller.send(call(b"gone", method=method))
                await (caller.head() if method == b"HEAD" else caller.answer())
            assert [known() is None for known in echo.exchanges] == [True, False]

    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()


@pytest.mark.parametrize("chosen", [b"caf\xe9", b"a\tb"])
def test_unusual_header_is_sent_as_it_is(chosen: bytes, run: Run) -> None:
    """A value beyond ASCII, or with a tabulator, is sent as it is."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            caller.send(call(more=b"X-Chosen: %b\r\n" % chosen))
            assert (await caller.answer())[0]["x-chosen"] == chosen.decode("latin-1")

    run(scenario())


def test_header_cannot_write_another(run: Run) -> None:
    """An answer with the end of a line in a header is not sent; the connection is closed."""

    async def scenario() -> None:
        async with run_echo_server() as (caller, _):
            caller.send(call(more=b"X-Chosen: a\\nset-cookie: b\r\n"))
            assert b"set-cookie" not in await caller.rest()

    run(scenario())


@pytest.mark.req("R-25")
@pytest.mark.parametrize("size", [0, 300_000])
def test_application_can_tell_that_its_caller_has_left(size: int, run: Run) -> None:
    """An application can tell that its caller has gone, and that another has not, however large the bodies were."""

    async def scenario() -> None:
        echo = Echo()
        async with serving(echo) as web, web.caller() as leaving, web.caller() as staying:
            echo.may_answer.clear()
            for caller, name in ((leaving, b"leaving"), (staying, b"staying")):
                caller.send(call(name + b"." * size))
                assert await echo.read.get() == name
            leaving.leave()
            for _ in range(2):  # what is read now was sent after the other had left
                async with web.caller() as later:
                    later.send(call(b"later"))
                    assert await echo.read.get() == b"later"
            echo.may_answer.set()
            assert (await staying.answer())[1] == b"staying" + b"." * size
            assert (echo.has_left[b"leaving"], echo.has_left[b"staying"]) == (True, False)

    run(scenario())


def test_idle_connection_is_closed(run: Run) -> None:
    """A connection that was used and fell silent is closed after the time for idle ones, not that for silent ones."""

    async def scenario() -> None:
        async with run_echo_server(keep_alive=1) as (caller, _):
            caller.send(call(b"only"))
            assert (await caller.answer())[1] == b"only"
            assert await caller.rest() == b""

    run(scenario())


@pytest.mark.req("S-02")
def test_call_is_answered_while_a_large_answer_is_written(run: Run) -> None:
    """An answer goes out in slices, between which others have their turn, however fast its caller reads."""
    content = bytes(range(256)) * (3 * LIMIT // 256)
    moments: list[str] = []
    begun = asyncio.Event()

    async def application(scope: Scope, _: Receive, send: Send) -> None:
        if scope["path"] == "/large":
            moments.append("begun")
            begun.set()
            await answer(scope, send, 200, [], content)
            moments.append("written")
        else:
            moments.append("another")
            await answer(scope, send, 200, [], b"small")

    async def ask() -> None:
        async with serving(application) as web, web.caller() as large, web.caller() as small:
            small.send(call(b"", b"GET"))
            await small.answer()
            large.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            await begun.wait()
            small.send(call(b"", b"GET"))
            assert (await small.answer())[1] == b"small"
            assert (await large.answer())[1] == content

    run(ask())
    assert moments == ["another", "begun", "another", "written"]
