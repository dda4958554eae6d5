"""What an operator's tools ask: is it alive, is it ready, what does it count."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


@dataclass(frozen=True, slots=True)
class OperatorHandlers:
    """Answers the operator's routes. `problems` names what is not ready; `metrics` is the page and its media type."""

    problems: Callable[[], Awaitable[list[str]]]
    metrics: Callable[[], tuple[bytes, str]]

    async def healthz(self, _request: Request) -> Response:
        """`GET /healthz`: the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """`GET /readyz`: 200 when runs can be taken, else 503 with what is missing."""
        problems = await self.problems()
        if problems:
            return JSONResponse({"status": "not ready", "problems": problems}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def metrics_page(self, _request: Request) -> Response:
        """`GET /metrics`: Prometheus's text format."""
        content, media_type = self.metrics()
        return Response(content, media_type=media_type)
