"""Connections between two requests: kept a while, never more than so many, and none that closed meanwhile."""

import asyncio
from contextlib import suppress
from typing import Final

from fairlead.http_client.connections import Connection, Place

_IDLE_SECONDS: Final = 50.0
_IDLE_MOST: Final = 1024
_SWEEP_SECONDS: Final = 5.0


class Pool:
    """The open connections, and those of them that are idle, by their place."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the one idle longest comes first, here and in each place
        self._places: dict[Place, dict[Connection, None]] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed: asyncio.Event | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be opened."""
        return self._closed is not None

    def watch(self, connection: Connection) -> None:
        """Know of an open connection, so that it can be closed with the others."""
        self._open.add(connection)

    def take(self, place: Place, now: float, within: float) -> Connection | None:
        """The connection of a place that was used last, if it has been idle for `within` seconds or less."""
        idle = self._places.get(place)
        while idle:
            connection = next(reversed(idle))
            if now - connection.idle_since > within:
                return None
            del idle[connection], self._idle[connection]
            if connection.is_open:
                return connection
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection for the next request, or close it where it cannot be kept.

        Where too many are idle, the one idle longest has to go.
        """
        if self._closed is not None or not connection.may_be_kept:
            connection.abort()
            return
        if len(self._idle) >= _IDLE_MOST:
            self._close_oldest()
        connection.idle_since = connection.loop.time()
        self._idle[connection] = None
        self._places.setdefault(connection.place, {})[connection] = None
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Let go of a connection that was closed, by whomever."""
        self._open.discard(connection)
        if connection in self._idle:
            del self._idle[connection], self._places[connection.place][connection]
        if self._closed is not None and not self._open:
            self._closed.set()

    async def close(self, seconds: float) -> None:
        """Close every connection, and wait at most so long until they are."""
        self._closed = asyncio.Event()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closed.wait()

    def _close_oldest(self) -> None:
        connection = next(iter(self._idle))
        del self._idle[connection], self._places[connection.place][connection]
        connection.abort()

    def _sweep(self) -> None:
        """Close what has been idle for too long, and look again later while anything is idle."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _IDLE_SECONDS
        while self._idle and next(iter(self._idle)).idle_since <= oldest:
            self._close_oldest()
        self._places = {place: idle for place, idle in self._places.items() if idle}
        self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep) if self._idle else None
