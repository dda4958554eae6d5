"""The simulator's HTTP interface: vendors under their names, files, and the control of faults and calls."""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from .calls import Calls
from .faults import NAMES, Order, Orders
from .memory import Memory
from .site import Site
from .tasks import Clock
from .vendor import Vendor
from .vendors import VENDORS

TIMES_MAX = 100_000
ORDER_BYTES_MAX = 64 * 1024

_PROVIDER = re.compile(r"/([^/]{1,64})(/.*)?", re.DOTALL)


def build(*, task_seconds: float = 0.3, clock: Clock | None = None, vendors: Sequence[Vendor] = VENDORS) -> Starlette:
    """Make the application; `task_seconds` is how long a task takes, unless a clock says."""
    memory = Memory(clock or Clock(task_seconds))
    control = Control()
    sites = {vendor.name: Site(vendor, memory, control.orders, control.calls) for vendor in vendors}
    control.providers = frozenset(sites)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await memory.webhooks.close()

    routes = [
        Path("/healthz", _healthz),
        Path("/files/{token}/{name}", memory.files.serve, methods=["GET"]),
        Path("/_simulator/faults", control.faults, methods=["GET", "POST", "DELETE"]),
        Path("/_simulator/calls", control.list_received, methods=["GET", "DELETE"]),
        Path("/_simulator/providers", control.names, methods=["GET"]),
        Mount("", Sites(sites)),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class Sites:
    """Sends a call to the vendor its path begins with."""

    def __init__(self, sites: dict[str, Site]) -> None:
        """Keep the vendors by name."""
        self._sites = sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call; 404 in the simulator's own words when there is no such vendor."""
        match = _PROVIDER.fullmatch(scope["path"])
        site = self._sites.get(match[1]) if match is not None else None
        if match is None or site is None:
            known = ", ".join(sorted(self._sites))
            problem = {"error": f"The first segment of the path names a provider; there are {known}."}
            await JSONResponse(problem, 404)(scope, receive, send)
            return
        await site.answer(scope, receive, send, match[2] or "/")


class Control:
    """The addresses under `/_simulator`: ordering faults, and reading what was received."""

    def __init__(self) -> None:
        """Begin with nothing ordered and nothing received."""
        self.orders = Orders()
        self.calls = Calls()
        self.providers: frozenset[str] = frozenset()

    async def faults(self, request: Request) -> Response:
        """Order a fault, list the orders, or clear them."""
        provider = request.query_params.get("provider")
        try:
            if request.method == "POST":
                self.orders.add(self._order(await _small_object(request)))
            elif request.method == "DELETE":
                self.orders.clear(provider)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse({"faults": self.orders.documents()}, 201 if request.method == "POST" else 200)

    async def list_received(self, request: Request) -> Response:
        """List the calls received, or clear the list."""
        provider = request.query_params.get("provider")
        if request.method == "DELETE":
            self.calls.clear(provider)
        return JSONResponse({"calls": self.calls.documents(provider)})

    async def names(self, _request: Request) -> Response:
        """List the providers and the faults."""
        return JSONResponse({"providers": sorted(self.providers), "faults": sorted(NAMES)})

    def _order(self, document: dict[str, object]) -> Order:
        provider, fault = document.get("provider"), document.get("fault")
        times, argument = document.get("times", 1), document.get("argument")
        if provider not in self.providers:
            raise ValueError(f"provider must be one of {', '.join(sorted(self.providers))}.")
        if fault not in NAMES:
            raise ValueError(f"fault must be one of {', '.join(sorted(NAMES))}.")
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= TIMES_MAX:
            raise ValueError(f"times must be a whole number from 1 to {TIMES_MAX}.")
        path = document.get("path", "")
        if not isinstance(path, str):
            raise ValueError("path must be a string, a part of the paths that are meant.")  # noqa: TRY004 -- one kind of refusal
        return Order(provider, fault, "" if argument is None else str(argument)[:100], times, path)


async def _small_object(request: Request) -> dict[str, object]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > ORDER_BYTES_MAX:
            raise ValueError(f"The body has more than {ORDER_BYTES_MAX} bytes.")
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("Send a JSON object.")  # noqa: TRY004 -- one kind of refusal
    return value


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
