"""Calls that the application refuses by their heads, for which the web server makes no task: the connection goes on."""

import asyncio
from typing import Final

import pytest

from conftest import Run
from fairlead.api.http.asgi import Receive, Refused, Scope, Send, answer
from server.connections import Caller, serving

_BODY: Final = b'{"busy":true}'
_LARGE: Final = 200_000


class _Application:
    """Refuses what is sent to /busy, and answers all else with what it was sent."""

    pressed_until = 1.0

    def __init__(self) -> None:
        self.pressure = self
        self.called = 0
        self.asked = 0

    def refuse_at_once(self, scope: Scope) -> Refused | None:
        self.asked += 1
        if scope["path"] != "/busy":
            return None
        return 503, [(b"retry-after", b"5"), (b"content-length", b"%d" % len(_BODY))], _BODY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called += 1
        content, more = b"", True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        await answer(scope, send, 200, [], content)


def _call(path: str, body: bytes = b"", more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def application() -> _Application:
    """Return an application that refuses some calls."""
    return _Application()


async def _answers(caller: Caller, count: int) -> list[tuple[str, bytes]]:
    found = []
    for _ in range(count):
        head, body = await caller.answer()
        found.append((head["status"].split()[1], body))
    return found


@pytest.mark.req("R-39")
def test_refused_call_needs_no_task_and_its_connection_goes_on(application: _Application, run: Run) -> None:
    """Whether its body has come, comes later or in pieces, the next call is read where that has ended."""

    async def scenario() -> None:
        async with serving(application) as web, web.caller() as caller:
            caller.send(_call("/busy", b"first"))
            head, body = await caller.answer()
            assert (head["status"], head["retry-after"], body) == ("HTTP/1.1 503 Service Unavailable", "5", _BODY)
            assert "date" in head
            large = _call("/busy", b"x" * _LARGE)
            caller.send(large[:200])
            assert await _answers(caller, 1) == [("503", _BODY)]
            caller.send(large[200:1000])
            await asyncio.sleep(0)
            caller.send(large[1000:] + _call("/", b"second"))
            assert await _answers(caller, 1) == [("200", b"second")]
            assert application.called == 1

    run(scenario())


def test_refused_call_keeps_its_turn(application: _Application, run: Run) -> None:
    """One that was sent before the answer to another goes the usual way: answers come in the order of the calls."""

    async def scenario() -> None:
        async with serving(application) as web, web.caller() as caller:
            caller.send(_call("/busy") + _call("/", b"a") + _call("/busy", b"b") + _call("/", b"c"))
            assert await _answers(caller, 4) == [("503", _BODY), ("200", b"a"), ("200", b"b"), ("200", b"c")]

    run(scenario())


@pytest.mark.parametrize("more", ["Connection: close\r\n", "Expect: 100-continue\r\n"])
def test_call_that_ends_its_connection_or_asks_before_its_body_goes_the_usual_way(
    application: _Application, run: Run, more: str
) -> None:
    """It costs a task, which ends the connection or has the body sent."""

    async def scenario() -> None:
        async with serving(application) as web, web.caller() as caller:
            caller.send(_call("/busy", b"mine", more))
            if "Expect" in more:
                assert (await caller.head())["status"] == "HTTP/1.1 100 Continue"
            assert await _answers(caller, 1) == [("200", b"mine")]
            assert (application.called, application.asked) == (1, 0)

    run(scenario())


def test_caller_may_leave_after_a_refusal(application: _Application, run: Run) -> None:
    """Nothing is left of the connection, and the server stops as ever."""

    async def scenario() -> None:
        async with serving(application) as web:
            async with web.caller() as caller:
                caller.send(_call("/busy", b"x" * 10)[:-5])
                assert await _answers(caller, 1) == [("503", _BODY)]
                caller.leave()
            async with web.caller() as other:
                other.send(_call("/busy"))
                assert await _answers(other, 1) == [("503", _BODY)]

    run(scenario())
