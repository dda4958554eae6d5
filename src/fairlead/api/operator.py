"""Routes for an operator's tools: liveness, readiness and metrics."""

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fairlead.api.http.asgi import Scope, header
from fairlead.api.http.hosts import KnownHosts
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.operations.readiness import Status


class MetricsAccess(msgspec.Struct, frozen=True):
    """Who may read the metrics, which show what workspaces do.

    Callers need the token; where there is none, callers from some networks may read them. Behind an unknown proxy every
    caller seems to be on this machine; a public URL without a trusted proxy is taken as a sign of one, and refused.
    """

    networks: Sequence[IPv4Network | IPv6Network]
    hosts: KnownHosts
    token: str | None = None

    def check(self, scope: Scope) -> None:
        """Refuse callers without access: FaultError(Unauthorized or Forbidden)."""
        if self.token is not None:
            sent = header(scope, b"authorization") or b""
            if not hmac.compare_digest(sent, b"Bearer " + self.token.encode()):
                raise FaultError(Unauthorized("Send the token of FAIRLEAD_METRICS_TOKEN as bearer."))
            return
        self.hosts.check(scope)
        address = self.hosts.base_urls.caller_of(scope)
        if not self._is_told_apart() or address is None or not any(address in one for one in self.networks):
            raise FaultError(
                Forbidden("Metrics are for the machine itself, or for callers with FAIRLEAD_METRICS_TOKEN.")
            )

    def _is_told_apart(self) -> bool:
        """Whether the addresses of callers can be told from that of a proxy in front of them."""
        return self.hosts.base_urls.public is None or bool(self.hosts.base_urls.trusted)


class OperatorHandlers(msgspec.Struct, frozen=True):
    """Answers the operator's routes.

    `check` returns the server's status and its problems; `metrics` the page and its media type; `state` is added to
    every answer about readiness.
    """

    check: Callable[[], Awaitable[tuple[Status, list[str]]]]
    metrics: Callable[[], Awaitable[tuple[bytes, str]]]
    access: MetricsAccess
    state: Mapping[str, object]

    async def healthz(self, _request: Request) -> Response:
        """`GET /healthz`: the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """`GET /readyz`: 200 when calls can be taken, else 503; with the reason for either where something is wrong."""
        status, problems = await self.check()
        told = {"status": status, **({"problems": problems} if problems else {}), **self.state}
        return JSONResponse(told, status_code=200 if status in (Status.READY, Status.DEGRADED) else 503)

    async def metrics_page(self, request: Request) -> Response:
        """`GET /metrics`: Prometheus's text format, for those who may read it; FaultError."""
        self.access.check(request.scope)
        content, media_type = await self.metrics()
        return Response(content, media_type=media_type)
