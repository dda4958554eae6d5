"""Stands before the application while the server starts: the port is open, and nothing else is ready."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Final

from fairlead.api.http.asgi import AsgiApplication, Headers, Receive, Scope, Send, answer, begin
from fairlead.api.http.headers import HeaderNames
from fairlead.api.router.errors import error_response
from fairlead.api.router.generations import V2
from fairlead.clock import new_id
from fairlead.domain.faults import ServiceUnavailable
from fairlead.operations.readiness import Status

_TOLD: Final = {"/healthz": (200, "ok"), "/readyz": (503, Status.STARTING.value)}
_STOPPED: Final = ServiceUnavailable("The server was stopped while it started; nothing was begun.")


class Entrance:
    """Tells operators' tools that the server is alive and starts; other calls wait until it is open."""

    def __init__(self, names: HeaderNames) -> None:
        self._names = names
        self._application: AsgiApplication | None = None
        self._opened = asyncio.Event()

    def open(self, application: AsgiApplication) -> None:
        """Let all calls pass."""
        self._application = application
        self._opened.set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[object, object, None]:
        """Answer one call, or have the application answer it, at no cost to each call once it is open."""
        if self._application is not None:
            return self._application(scope, receive, send)
        return self._wait(scope, receive, send)

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (told := _TOLD.get(scope["path"])):
            status, word = told
            headers: Headers = [(b"content-type", b"application/json")]
            begin(scope, self._names.request_id, new_id())
            await answer(scope, send, status, headers, json.dumps({"status": word}).encode())
            return
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            if scope["type"] == "http":
                begin(scope, self._names.request_id, new_id())
                status, headers, content = error_response(_STOPPED, V2, self._names)
                await answer(scope, send, status, headers, content)
            return
        if self._application is not None:
            await self._application(scope, receive, send)
