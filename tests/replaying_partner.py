"""A partner that says the same twice: it passes calls on and remembers the answers, then tells those again.

Simulated vendors name their work again with every call, as real ones do, so that two runs of one body never end in the
same bytes. Behind this partner they do, whichever way they were asked for.
"""

import asyncio
import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout, web

_UUID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BOUNDARY: Final = re.compile(r"boundary=([0-9a-f]+)")
_OWN_HEADERS: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "trailer", "transfer-encoding", "upgrade"}
)
"""What belongs to one connection, or to one answer."""
_LARGEST: Final = 256 * 1024 * 1024
_SECONDS: Final = 60
_STRANGER: Final = 599


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes


class ReplayingPartner:
    """Every vendor at one address: `upstreams` says by the first segment of a path where it is passed on to.

    `url` is where it listens, `strangers` the calls that came to be told again and were never heard before.
    """

    def __init__(self, upstreams: Mapping[str, str], otherwise: str) -> None:
        self._upstreams = upstreams
        self._otherwise = otherwise
        self._known: dict[tuple[str, str, str], _Answer] = {}
        self._is_replaying = False
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.strangers: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replaying-partner")
        self._thread.start()
        self.url: str = self._call(self._listen())

    def replay(self) -> None:
        """Pass nothing on from now on."""
        self._is_replaying = True

    def stop(self) -> None:
        """Hang up, and end the thread."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _listen(self) -> str:
        self._session = ClientSession(timeout=ClientTimeout(total=_SECONDS), auto_decompress=False)
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        key = request.method, request.path_qs, _digest(request.headers.get("content-type", ""), body)
        if not self._is_replaying:
            self._known[key] = await self._pass_on(request, body)  # of polls the last answer is the one that counts
        found = self._known.get(key)
        if found is None:
            self.strangers.append(f"{request.method} {request.path_qs}")
            return web.Response(status=_STRANGER)
        return web.Response(status=found.status, headers=found.headers, body=found.content)

    async def _pass_on(self, request: web.Request, body: bytes) -> _Answer:
        assert self._session is not None
        first = request.path.split("/")[1]
        upstream = self._upstreams.get(first, self._otherwise)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        async with self._session.request(
            request.method, upstream + request.path_qs, data=body, headers=headers
        ) as told:
            kept = {name: value for name, value in told.headers.items() if name.lower() not in _OWN_HEADERS}
            return _Answer(told.status, kept, await told.read())


@contextmanager
def replaying_partner(upstreams: Mapping[str, str], otherwise: str) -> Iterator[ReplayingPartner]:
    """Start such a partner, and end it whatever happens."""
    partner = ReplayingPartner(upstreams, otherwise)
    try:
        yield partner
    finally:
        partner.stop()


def _digest(content_type: str, body: bytes) -> str:
    """A body without what is new in every call: the id of its run, and what parts a form."""
    if boundary := _BOUNDARY.search(content_type):
        body = body.replace(boundary[1].encode(), b"")
    return hashlib.sha256(_UUID.sub(b"", body)).hexdigest()
