"""uvicorn for `serve`: a stop is a success, and no connection may be silent forever."""

import asyncio
import itertools
import math
import socket
import time
from types import FrameType
from typing import Final, cast

import uvicorn

from fairlead.api.http.headers import HTTPS_ONLY, NOSNIFF, HeaderNames
from fairlead.observing.latency_meters import HttpMeter
from fairlead.server.drain import Drain
from fairlead.server.sockets import SocketProtocol, configure_sockets
from fairlead.server.web import FAREWELL_SECONDS, HEAD_SECONDS, WebProtocol

_USUAL_NAMES: Final = HeaderNames()
_TICK_SECONDS: Final = 0.1
_TICKS_BETWEEN_LOOKS: Final = 10
"""uvicorn ticks ten times a second."""


class WebServer(uvicorn.Server):
    """A uvicorn server that closes connections without a request in progress for `patience` seconds.

    uvicorn bounds the time between two requests of a connection, with a timer for each, but neither the time to the
    first one nor the time a request's head may take to arrive: a caller that sends nothing, or a byte a minute, would
    keep its place forever. Here a used connection has the shorter of both bounds. `drain` is that of the server whose
    answers these are, once it has started. `meter` counts calls and connections. Every answer tells browsers not to
    guess its type; where callers are known to come by https alone (`is_secure`), also to come by nothing else.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        patience: float,
        connections: int = 0,
        names: HeaderNames = _USUAL_NAMES,
        *,
        is_secure: bool = False,
    ) -> None:
        self.meter = HttpMeter(self._connections)
        of_every_answer = (NOSNIFF, HTTPS_ONLY) if is_secure else (NOSNIFF,)
        config.headers = [*config.headers, *((name.decode(), value.decode()) for name, value in of_every_answer)]
        bounds = {"connections_most": connections, "answered": self.meter.answered, "names": names}
        self._protocol: type[WebProtocol] = type("BoundedProtocol", (WebProtocol,), bounds)
        config.http = self._protocol
        configure_sockets(config)
        super().__init__(config)
        self.drain: Drain | None = None
        self._ends_pause = False
        self._patience = patience
        self._silent: dict[object, tuple[object, float]] = {}

    def _connections(self) -> dict[str, int]:
        sockets = sum(isinstance(one, SocketProtocol) for one in self.server_state.connections)
        return {"http": len(self.server_state.connections) - sockets, "websocket": sockets}

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in good order; uvicorn would raise the signal again afterwards, as if we had died of it.

        A second signal ends the pause before the stop; a second Ctrl-C ends the server at once.
        """
        self._ends_pause = self.should_exit
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: after a pause, take calls for half the time there is while something is under way; then let them end.

        So /readyz still answers, and reports that the server stops. From the beginning each answer is the last one of
        its connection, so that none is open when the server ends (M-03). Calls that have not ended in time are
        cancelled and answered accordingly.
        """
        if self.drain is not None:
            self._protocol.is_leaving = True
            self.drain.announce()
            await self._pause(self.drain.pause_seconds)
            self.drain.begin()
            await self._go_on(self.drain)
            self.config.timeout_graceful_shutdown = max(1, math.ceil(self.drain.seconds_left()))
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=FAREWELL_SECONDS)

    async def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for tick in itertools.count(1):
            if self._ends_pause or time.monotonic() >= until:
                return
            await asyncio.sleep(_TICK_SECONDS)
            await self.on_tick(tick)

    async def _go_on(self, drain: Drain) -> None:
        for tick in itertools.count(1):
            is_idle = not self.server_state.tasks and not drain.is_busy
            if is_idle or self.force_exit or drain.is_half_over:
                return
            await asyncio.sleep(_TICK_SECONDS)
            await self.on_tick(tick)

    async def on_tick(self, counter: int) -> bool:
        """Check the connections once a second."""
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            self._close_silent(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        silent: dict[object, tuple[object, float]] = {}
        for connection in list(self.server_state.connections):
            if isinstance(connection, SocketProtocol) and connection.is_open:
                continue
            since = getattr(connection, "head_since", None)
            if since is not None and now - since > HEAD_SECONDS:
                cast("WebProtocol", connection).refuse_slow_head()
                continue
            exchange = getattr(connection, "cycle", None)
            if exchange is not None and not exchange.response_complete:
                continue
            known = self._silent.get(connection)
            # The same last exchange as before: no complete request since then.
            since = known[1] if known is not None and known[0] is exchange else now
            silent[connection] = (exchange, since)
            patience = self._patience if exchange is None else min(self._patience, self.config.timeout_keep_alive)
            if now - since > patience:
                cast("WebProtocol | SocketProtocol", connection).hang_up()
        self._silent = silent
