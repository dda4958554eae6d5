"""A server without its HTTP face: a real catalog, and a real partner on a socket of its own."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from fairlead.domain.callers import Caller
from fairlead.observing.observations import Observation
from fairlead.operations.authenticate import Authenticator
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.operations.runs.admit import AdmittedRun, Admitter, RunCommand
from fairlead.operations.runs.execute import Answer, Executor
from fairlead.operations.runs.recover import Recovery
from fairlead.providers.exchange import Exchange
from fairlead.providers.spec import load_provider
from fairlead.providers.transport import Transport
from fairlead.storage.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.journal import Journal

DOLLAR: Final = 100_000_000
CENT: Final = 1_000_000
PROVIDER: Final = """\
provider = "{name}"
title = "A partner"
base_url = "{base_url}"
{idempotency}

[auth]
scheme = "none"

[calls.now]
protocol = "sync-json"
path = "/now"
require = ["/data"]

[calls.later]
protocol = "submit-and-poll"
path = "/later"
handle = "/id"

[calls.later.poll]
path = "/later/{{handle}}"
every = 0.01
status = "/status"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]
patience = 0

[[signs]]
means = "refused"
status = [451]
"""
MODEL: Final = """\
id = "acme/{name}"
title = "{name}"
charges_on_policy_rejection = "no"
input_schema = "input.json"

[leg]
provider = "{provider}"
call = "{call}"

[[leg.rate_cards]]
version = "v1"
effective = 2020-01-01

[[leg.rate_cards.components]]
unit = "image"
price = "0.10"
at_most = "4"
requested = {{ product = ["/n"] }}
measured = {{ answer = "/used" }}
"""
SCHEMA: Final = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1, "default": 1}, "model": {"type": "string"}},
}
DONE: Final = {"data": "x", "used": 1, "status": "done"}

Hook = Callable[[], Awaitable[None]]


class Guarded:
    """A database that knows whether a transaction is open, and goes away when told so."""

    def __init__(self, database: Database) -> None:
        """Stand before a real database."""
        self._database = database
        self.open = 0
        self.refused = 0
        self.refusals = 0

    async def write(self, work: Work[Any]) -> Any:
        """Write, unless the database is away."""
        return await self._guarded(self._database.write, work)

    async def read(self, work: Work[Any]) -> Any:
        """Read, unless the database is away."""
        return await self._guarded(self._database.read, work)

    async def close(self) -> None:
        """Leave the real database open: it is the fixture's."""

    async def _guarded(self, do: Callable[[Work[Any]], Coroutine[Any, Any, Any]], work: Work[Any]) -> Any:
        if self.refusals > 0:
            self.refusals -= 1
            self.refused += 1
            raise DatabaseUnavailableError("away")
        self.open += 1
        try:
            return await do(work)
        finally:
            self.open -= 1


class Partner:
    """A real HTTP server that answers what it is told to, remembers calls, and refuses any made in a transaction."""

    def __init__(self, database: Guarded) -> None:
        """Begin to answer with a finished generation."""
        self._database = database
        self.answers: dict[str, Any] = {"/now": DONE, "/later": {"id": "task-7"}, "/later/task-7": DONE}
        self.statuses: dict[str, int] = {}
        self.calls: list[str] = []
        self.keys: list[str | None] = []
        self.in_transaction = 0
        self.before: Hook | None = None
        self.base_url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.in_transaction += self._database.open
        self.calls.append(f"{request.method} {request.path}")
        self.keys.append(request.headers.get("Idempotency-Key"))
        await request.read()
        if self.before is not None:
            await self.before()
        answer = self.answers[request.path]
        answer = answer.pop(0) if isinstance(answer, list) else answer
        return web.json_response(answer, status=self.statuses.get(request.path, 200))


class Server:
    """Everything behind the HTTP face, wired as assembly wires it."""

    def __init__(self, database: Guarded, partner: Partner, folder: Path, server_id: str = "server-1") -> None:
        """Wire the parts together."""
        self.database = database
        self.seen: list[Observation] = []
        self.now_ns = time.time_ns()
        self.clock = Clock(lambda: self.now_ns)
        providers = {
            name: load_provider(
                PROVIDER.format(
                    name=name,
                    base_url=partner.base_url,
                    idempotency='idempotency_header = "Idempotency-Key"' if name == "careful" else "",
                ),
                f"{name}.toml",
            )
            for name in ("plain", "careful")
        }
        self.catalog = CatalogKeeper([folder], providers, self.clock, self.seen.append)
        self.transport = Transport()
        self.journal = Journal(database, waiting=lambda _: None, split=lambda _entries, _error: None)
        exchange = Exchange(providers, self.transport, {})
        self.executor = Executor(exchange, self.journal, self.clock, self.seen.append)
        self.admitter = Admitter(
            self.catalog, exchange, database, self.journal, self.clock, self.seen.append, server_id
        )
        self.authenticator = Authenticator(database, None)
        self.recovery = Recovery(
            database, self.catalog, exchange, self.executor, self.clock, self.seen.append, server_id,
            alone=True,
        )  # fmt: skip

    async def admit(
        self, caller: Caller, model: str = "plain-now", body: Mapping[str, Any] | bytes = b"{}", run_id: str = "run-1"
    ) -> AdmittedRun:
        """Check and admit a run, as the run route does."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        checked = self.admitter.check(caller, f"acme/{model}")
        return await self.admitter.admit(caller, checked, RunCommand(run_id, checked.id, content))

    async def answer(self, caller: Caller, model: str = "plain-now", body: Any = b"{}", seconds: float = 20) -> Answer:
        """Admit a run, execute it and wait for it."""
        execution = self.executor.start(await self.admit(caller, model, body))
        return await self.executor.answer_in_time(execution, seconds)

    def observed(self, kind: type) -> list[Any]:
        """Return what was observed of one kind."""
        return [seen for seen in self.seen if type(seen) is kind]

    async def close(self) -> None:
        """Let everything end."""
        await self.executor.drain(5)
        await self.journal.close()
        await self.transport.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not condition():  # noqa: ASYNC110 -- what is waited for has no event to set
        await asyncio.sleep(0.005)
