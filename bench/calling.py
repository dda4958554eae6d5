"""Many calls at once, from one process: each on a connection of its own, with nothing kept of its answer."""

import asyncio
from collections import Counter
from typing import Any, Final, cast

from bench import catalog
from bench.measuring import Gateway

_BODY: Final[dict[str, Any]] = {"prompt": "A lighthouse at dusk", "width": 1024, "height": 1024}


async def call_many(
    server: Gateway, model: str, number: int, patience: float, *, connecting: int, under_way: int | None = None
) -> Counter[str]:
    """Make calls, `connecting` a few at a time and with so many `under_way`; how they ended, by status or error."""
    turns, places = asyncio.Semaphore(connecting), asyncio.Semaphore(under_way or number)
    content = _request(server, model)
    loop = asyncio.get_running_loop()

    async def call() -> str:
        async with places:
            async with turns:
                try:
                    _, caller = await loop.create_connection(lambda: _Caller(content), "127.0.0.1", server.port)
                except OSError as error:
                    return type(error).__name__
            done, _ = await asyncio.wait([caller.ended], timeout=patience)
            return caller.ended.result() if done else "no answer"

    return Counter(await asyncio.gather(*(call() for _ in range(number))))


def _request(server: Gateway, model: str) -> bytes:
    body = catalog.compact(_BODY)
    head = (
        f"POST /v2/models/{model} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Content-Type: application/json",
        f"X-API-Key: {server.key}",
        f"Content-Length: {len(body)}",
    )
    return ("\r\n".join((*head, "", "")) + body).encode()


class _Caller(asyncio.Protocol):
    """One call on one connection: it sends, waits for the status and closes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses
        self._transport.write(self._content)

    def data_received(self, data: bytes) -> None:
        if not self.ended.done():
            self.ended.set_result(data[9:12].decode("latin-1"))
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result("closed without an answer")
