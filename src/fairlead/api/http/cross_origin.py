"""Pages of other origins: those an operator has named may call this server from a browser (K-07)."""

from collections.abc import Collection
from dataclasses import fields
from typing import Final, cast

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from fairlead.api.http.asgi import WHOLE, AsgiApplication, Receive, Scope, Send, header
from fairlead.api.http.headers import HeaderNames

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_EXPOSED: Final = (
    "Content-Disposition", "Content-Range", "ETag", "Idempotent-Replayed", "Location", "Retry-After",
    "X-Committed-Spend-Limit", "X-Committed-Spend-Current", "X-Committed-Spend-Remaining",
    "X-Concurrency-Limit", "X-Concurrency-Current", "X-Concurrency-Remaining",
)  # fmt: skip


class CrossOrigin:
    """Answers what browsers ask beforehand (`OPTIONS`), and marks answers to pages of the `origins`.

    A page of another origin gets its answer unmarked, which its browser keeps from it. Sockets are not concerned:
    they name their credential.
    """

    def __init__(self, application: AsgiApplication, origins: Collection[str], names: HeaderNames) -> None:
        own = [getattr(names, one.name).decode() for one in fields(names) if not one.init]
        self._application = application
        self._marked = CORSMiddleware(
            cast("ASGIApp", application),
            allow_origins=sorted(origins),
            allow_methods=_METHODS,
            allow_headers=["*"],
            allow_credentials=True,
            expose_headers=[*own, *_EXPOSED],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        if scope["type"] != "http" or header(scope, b"origin") is None:
            await self._application(scope, receive, send)
            return
        scope.pop(WHOLE, None)  # so that each answer passes here
        await self._marked(scope, receive, send)
