"""Calls from a process of its own: at a fixed rate whatever becomes of them, or each when the one before is answered.

A call under way always has a connection to itself. Its time runs from the moment it was due, so a caller that is late
itself hides nothing. The figures are printed as one line of JSON.
"""

import asyncio
import json
import sys
import time
from collections import Counter, deque
from typing import Any, Final, cast

import uvloop

_TICK_SECONDS: Final = 0.001
_REST_SECONDS: Final = 0.5
"""How long the server has, after the last connection was opened, to take all of them."""
_PATIENCE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.01
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_REFUSED: Final = "503"
_FINE: Final = 1_000
"""Up to so many tenths of a millisecond times are counted to a tenth, above to a millisecond."""


class Calls:
    """All calls of this process: how many ended with which status, by their times in tenths of a millisecond.

    Those that were due before `counted_from` are counted apart.
    """

    def __init__(self, port: int, request: bytes, *, goes_on: bool) -> None:
        self.port = port
        self.request = request
        self.goes_on = goes_on
        """Whether a connection makes its next call as soon as it has an answer."""
        self.free: deque[_Connection] = deque()
        self.under_way = 0
        self.unsent = 0
        self.latest = 0.0
        self.counted_from = 0.0
        self.times: dict[str, Counter[int]] = {}
        self.before: dict[str, Counter[int]] = {}

    async def connect(self, connections: int) -> None:
        """Open so many connections."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self.port)
        await asyncio.sleep(_REST_SECONDS)

    def send(self, due: float) -> None:
        """Make a call that was due at a time; where every connection is busy, it is never sent."""
        if self.free:
            self.free.pop().call(due)
        elif due >= self.counted_from:
            self.unsent += 1

    def note_end(self, due: float, status: str) -> None:
        """Count a call."""
        self.under_way -= 1
        took = round((time.perf_counter() - due) * 10_000)
        counted = self.times if due >= self.counted_from else self.before
        counted.setdefault(status, Counter())[took if took < _FINE else took // 10 * 10] += 1


class _Connection(asyncio.Protocol):
    """One connection, which has one call under way at most."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._received = b""
        self._due: float | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses
        self._calls.free.append(self)

    def call(self, due: float) -> None:
        """Send the request."""
        self._due = due
        self._calls.under_way += 1
        if self._transport is not None:
            self._transport.write(self._calls.request)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        head = received.find(_END)
        start = received.find(_LENGTH) + len(_LENGTH)
        if head < 0 or len(received) < head + len(_END) + int(received[start : received.find(b"\r", start)]):
            return
        status = received[9:12].decode("latin-1")
        if status == _REFUSED and b"\r\nretry-after: " not in received:
            status = "503 without Retry-After"
        calls, due, self._received, self._due = self._calls, self._due, b"", None
        if due is not None:
            calls.note_end(due, status)
        if calls.goes_on:
            self.call(time.perf_counter())
        else:
            calls.free.append(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._due is not None:
            self._calls.note_end(self._due, "closed without an answer")
        elif self in self._calls.free:
            self._calls.free.remove(self)


async def _at_a_rate(calls: Calls, rate: float, seconds: float) -> None:
    """Make calls at a fixed rate for so long."""
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        due = int(passed * rate)
        if due > sent:
            calls.latest = max(calls.latest, passed - sent / rate)
        for number in range(sent, due):
            calls.send(began + number / rate)
        sent = due
        await asyncio.sleep(_TICK_SECONDS)


async def _run(port: int, request: str, connections: int, rate: float | None, before: float, seconds: float) -> Any:
    """Make calls for a time that is counted, and one before it; with no rate, as fast as they are answered."""
    calls = Calls(port, request.encode("latin-1"), goes_on=rate is None)
    await calls.connect(connections)
    calls.counted_from = time.perf_counter() + before
    if rate is None:
        while calls.free:
            calls.send(time.perf_counter())
        await asyncio.sleep(before + seconds)
    else:
        await _at_a_rate(calls, rate, before + seconds)
    calls.goes_on = False
    for _ in range(round(_PATIENCE_SECONDS / _LOOK_SECONDS)):
        if calls.under_way:
            await asyncio.sleep(_LOOK_SECONDS)
    return {
        "times": {status: sorted(times.items()) for status, times in calls.times.items()},
        "before": {status: sorted(times.items()) for status, times in calls.before.items()},
        "unsent": calls.unsent,
        "unanswered": calls.under_way,
        "late": calls.latest,
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_run(**json.loads(sys.argv[1])))))
