"""/ws: watching a workspace's jobs as they are executed (C-08, C-09).

Every socket of a workspace gets the same messages, whatever `clientId` it names. A client's first message says what it
can read; everything else that it sends is ignored, within bounds. Closing codes: 1001 the server stops, 1008 the
credential is not valid any more, 1013 the client reads too slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import HTTPConnection

from fairlead.api.cloud.credentials import CloudCallers
from fairlead.api.cloud.frames import (
    PLAIN,
    Payload,
    Reading,
    hello,
    message,
    pack_broadcast,
    pack_frame,
    payloads,
)
from fairlead.api.cloud.wire import FEATURES
from fairlead.api.http.asgi import FRAMES, Receive, Scope, Send
from fairlead.clock import new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.messaging.event_hub import Broadcast, CloseReason, EventHub, EventSubscription
from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.jobs.follow import Follow

_SID_MAX: Final = 128
_AT_ONCE: Final = 20
_PER_SECOND: Final = 10.0
_RECHECK_SECONDS: Final = 10.0
Remaining: TypeAlias = Callable[[Caller], Awaitable[int]]


class _Said(msgspec.Struct):
    """A message of a client, as far as it can matter."""

    type: str
    data: dict[str, object] = {}


_read: Final = msgspec.json.Decoder(_Said).decode


class CloudSocket:
    """Serves sockets. `remaining` reads how many jobs of a caller's workspace wait or are executed, or FaultError.

    Sockets get what other servers do in a workspace once `follow` has returned.
    """

    def __init__(
        self,
        event_hub: EventHub,
        callers: CloudCallers,
        remaining: Remaining,
        follow: Follow,
        observe: Observer,
        recheck_seconds: float = _RECHECK_SECONDS,
        features: Mapping[str, object] = FEATURES,
    ) -> None:
        self._event_hub = event_hub
        self._callers = callers
        self._remaining = remaining
        self._follow = follow
        self._observe = observe
        self._recheck_seconds = recheck_seconds
        self._features = features

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket, from the request for it to its end; FaultError where it is not opened."""
        if (await receive())["type"] != "websocket.connect":
            return
        caller = await self._callers.watcher(HTTPConnection(scope))
        # Before the state is read, so that nothing is missed that happens meanwhile.
        subscription = self._event_hub.subscribe(caller.workspace_id)
        try:
            await self._follow(caller.workspace_id)
            remaining = await self._remaining(caller)
            await send({"type": "websocket.accept"})
            socket = _Socket(scope, receive, send, subscription, self._features)
            await socket.greet(remaining)
            await socket.close(await self._serve(scope, socket, subscription.ended))
        except OSError:
            pass  # the client has left
        finally:
            subscription.close()

    async def _serve(
        self, scope: Scope, socket: "_Socket", ended: asyncio.Future[CloseReason]
    ) -> tuple[int, str] | None:
        """Send and receive until one of the two ends; return the code and reason to close with, if we are to close."""
        tasks = [asyncio.create_task(socket.tell()), asyncio.create_task(socket.hear())]
        try:
            closing = await self._watch(scope, [*tasks, ended])
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
                self._observe(UnexpectedError("serve a socket", outcome))
                return 1011, "Something went wrong here."
        return _CLOSINGS.get(ended.result()) if ended.done() else closing

    async def _watch(self, scope: Scope, parts: Sequence[asyncio.Future[Any]]) -> tuple[int, str] | None:
        """Wait until a part of a socket ends, or its credential is no longer valid."""
        while True:
            done, _ = await asyncio.wait(parts, timeout=self._recheck_seconds, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return None
            if not await self._may_still_watch(scope):
                return 1008, "The credential is not valid any more."

    async def _may_still_watch(self, scope: Scope) -> bool:
        """Whether the credential is still valid; where that cannot be found out, it counts as valid."""
        try:
            await self._callers.known_watcher(HTTPConnection(scope))
        except FaultError as error:
            return not isinstance(error.fault, Unauthorized | Forbidden)
        return True


_CLOSINGS: Final = {
    CloseReason.TOO_SLOW: (1013, "What happens is not read as fast as it happens."),
    CloseReason.STOPPED: (1001, "The server stops."),
}


class _Socket:
    """One open socket."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        subscription: EventSubscription,
        features: Mapping[str, object],
    ) -> None:
        self._features = features
        self._receive = receive
        self._send = send
        self._subscription = subscription
        self._takes_frames = FRAMES in scope.get("extensions", {})
        self._reading = PLAIN
        sid = HTTPConnection(scope).query_params.get("clientId", "")
        self._sid = sid if 0 < len(sid) <= _SID_MAX else new_id()

    async def greet(self, remaining: int) -> None:
        """Send the state of the workspace: what waits, and what is executed."""
        running = [
            payload for envelope in self._subscription.running for payload in payloads(Broadcast(envelope), PLAIN)
        ]
        await self._say([hello(remaining, self._sid), *running])

    async def tell(self) -> None:
        """Send what happens, until there is nothing more to send."""
        while broadcasts := await self._subscription.next():
            if self._takes_frames:
                await self._send(
                    {"type": FRAMES, "frames": [pack_broadcast(each, self._reading) for each in broadcasts]}
                )
            else:
                await self._say([payload for each in broadcasts for payload in payloads(each, self._reading)])

    async def hear(self) -> None:
        """Read what the client sends, at a bounded rate, until it leaves."""
        loop = asyncio.get_running_loop()
        allowance, then = float(_AT_ONCE), loop.time()
        is_first = True
        while (said := await self._receive())["type"] != "websocket.disconnect":
            text = said.get("text")
            if is_first and text is not None:
                is_first = False
                await self._take_flags(text)
            now = loop.time()
            # A token bucket: those who send more than it allows are read more slowly.
            allowance = min(_AT_ONCE, allowance + (now - then) * _PER_SECOND) - 1
            then = now
            if allowance < 0:
                await asyncio.sleep(-allowance / _PER_SECOND)  # meanwhile, nothing is read from its connection

    async def close(self, closing: tuple[int, str] | None) -> None:
        """Close, with a code and a reason; None where the client has left."""
        if closing is not None:
            code, reason = closing
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _take_flags(self, text: str) -> None:
        """Take note of what the client can read, and send what this server can do; anything else is ignored."""
        try:
            said = _read(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return
        if said.type == "feature_flags":
            await self._say([message("feature_flags", dict(self._features))])
            self._reading = Reading(
                reads_preview_metadata=said.data.get("supports_preview_metadata") is True,
                reads_text_metadata=said.data.get("supports_progress_text_metadata") is True,
            )

    async def _say(self, said: Sequence[Payload]) -> None:
        if self._takes_frames:
            await self._send({"type": FRAMES, "frames": [pack_frame(payload) for payload in said]})
            return
        for is_text, content in said:
            told = {"text": content.decode()} if is_text else {"bytes": content}
            await self._send({"type": "websocket.send", **told})
