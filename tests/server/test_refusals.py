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


_HOST: Final = b"Host: localhost\r\n"


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n" + _HOST, 200, id="one"),
        pytest.param(b"GET / HTTP/1.0\r\n", 200, id="none of HTTP 1.0"),
        pytest.param(b"GET / HTTP/1.1\r\n", 400, id="none"),
        pytest.param(b"GET / HTTP/1.1\r\n" + 2 * _HOST, 400, id="two"),
        pytest.param(b"GET / HTTP/1.0\r\n" + 2 * _HOST, 400, id="two of HTTP 1.0"),
        pytest.param(
            b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + 2 * _HOST, 400, id="of a socket"
        ),
    ],
)
def test_request_names_one_host(application: _Application, run: Run, head: bytes, status: int) -> None:
    """A proxy and we could each take another of two (RFC 9112, 3.2); only HTTP 1.0 may leave it out."""

    async def scenario() -> dict[str, str]:
        async with serving(application, log_level="critical") as web, web.caller() as caller:
            caller.send(head + b"\r\n")
            return await caller.head()

    assert run(scenario())["status"].split()[1] == str(status)
    assert application.called == (status == 200)


@pytest.mark.parametrize(
    ("sent", "status", "bucket"),
    [
        pytest.param(b"NONSENSE\r\n\r\n", 400, "invalid_input", id="no HTTP"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 414, "invalid_input", id="a long address"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200, 431, "invalid_input", id="many fields"),
        pytest.param(b"", 503, "service_unavailable", id="too many connections"),
    ],
)
def test_refusal_below_the_application_can_be_found(
    application: _Application, run: Run, capsys: pytest.CaptureFixture[str], sent: bytes, status: int, bucket: str
) -> None:
    """It has an id, which the log knows, a bucket, and the headers of every answer."""

    async def scenario() -> tuple[dict[str, str], bytes]:
        most = 1 if status == 503 else 0
        async with serving(application, connections=most) as web, web.caller() as first, web.caller() as second:
            first.send(_call("/"))
            await first.answer()
            second.send(sent)
            return await second.answer()

    head, body = run(scenario())
    assert head["status"].split()[1] == str(status)
    assert (head["x-service-error-type"], head["x-content-type-options"]) == (bucket, "nosniff")
    assert "date" in head
    assert body
    assert capsys.readouterr().err.count(head["x-service-request-id"]) == (status != 503)


@pytest.mark.parametrize("is_secure", [False, True])
def test_every_answer_is_taken_for_what_it_is(application: _Application, run: Run, *, is_secure: bool) -> None:
    """No browser guesses its type, and where all callers come by https it comes by nothing else."""

    async def scenario() -> list[dict[str, str]]:
        async with serving(application, is_secure=is_secure) as web, web.caller() as caller:
            caller.send(_call("/busy") + _call("/"))
            return [(await caller.answer())[0] for _ in range(2)]

    for head in run(scenario()):
        assert head["x-content-type-options"] == "nosniff"
        assert head.get("strict-transport-security") == ("max-age=31536000" if is_secure else None)


@pytest.mark.req("R-25")
def test_caller_that_leaves_behind_further_requests_is_noticed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The call that is being answered learns of it, those behind it are never begun, and nothing fails."""
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        await receive()
        begun.set()
        assert (await receive())["type"] == "http.disconnect"
        await answer(scope, send, 200, [], b"for nobody")
        ended.set()

    async def scenario() -> None:
        async with serving(application) as web, web.caller() as caller:
            caller.send(_call("/first") + _call("/second") + _call("/third"))
            await begun.wait()
            caller.leave()
            await ended.wait()

    begun, ended = asyncio.Event(), asyncio.Event()
    run(scenario())
    assert seen == ["/first"]
    assert capsys.readouterr().err == ""
