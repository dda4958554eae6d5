"""A partner that takes its time: it answers `/pictures` after some seconds, `/quick-pictures` at once.

`/held` says how many calls it holds, so that a benchmark knows when all have come through the gateway. It speaks just
enough HTTP for a gateway that sends whole requests with a length, and stays light with thousands of them.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Final, Protocol, cast

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog

_BACKLOG: Final = 8192
_SLOW: Final = b"/pictures"
_HELD: Final = b"/held"
_END: Final = b"\r\n\r\n"


def whole(body: bytes) -> bytes:
    """A whole answer of JSON."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_PICTURE: Final = whole(catalog.compact(catalog.ANSWER).encode())


class Partner(Protocol):
    """Something that answers calls."""

    def act(self, connection: "Connection", path: bytes) -> None:
        """Answer a call, now or later."""
        ...


class SlowPartner:
    """How many calls are held, for how long, and how many were at most."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.held = 0
        self.most = 0

    def act(self, connection: "Connection", path: bytes) -> None:
        """Answer a call, or keep it for the agreed time."""
        if path == _SLOW:
            self._hold(connection)
        elif path == _HELD:
            connection.answer(whole(json.dumps({"held": self.held, "most": self.most}).encode()))
        else:
            connection.answer(_PICTURE)

    def _hold(self, connection: "Connection") -> None:
        self.held += 1
        self.most = max(self.most, self.held)
        asyncio.get_running_loop().call_later(self.seconds, self._release, connection)

    def _release(self, connection: "Connection") -> None:
        self.held -= 1
        connection.answer(_PICTURE)


class Connection(asyncio.Protocol):
    """One connection of the gateway's; calls come one after another."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses

    def data_received(self, data: bytes) -> None:
        """Act on every whole call."""
        self._received += data
        while (end := self._received.find(_END)) >= 0:
            head = self._received[:end]
            whole = end + len(_END) + _length_of(head)
            if len(self._received) < whole:
                return
            self._received = self._received[whole:]
            self._partner.act(self, head.split(b" ", 2)[1])

    def answer(self, content: bytes) -> None:
        """Send an answer, if anybody still waits for it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(content)


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve(partner: Partner) -> None:
    """Answer on a free port, which is printed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(partner), sock=listener, backlog=_BACKLOG
    )
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(SlowPartner(float(sys.argv[1]))))
