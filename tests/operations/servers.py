"""A server without its HTTP face: a real catalog, and a real partner on a socket of its own."""

import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from document_reading import document_readers
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rate_windows import Quotas
from fairlead.domain.runs.entries import IdempotencyKey
from fairlead.domain.runs.queue import Throughput
from fairlead.domain.runs.selection import RouteOptions
from fairlead.http_client.outcomes import Reply
from fairlead.http_client.transport import Received, Transport
from fairlead.identity.links import Links
from fairlead.identity.master_secret import MasterSecret
from fairlead.identity.sealing import Sealer
from fairlead.messaging.wakeups import Topic
from fairlead.observing.observations import CredentialHealth, Observation
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.assets.results import AssetCopier, AssetReader
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.admit import AdmittedRun, Admitter, RunCommand
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.collect import Collector
from fairlead.operations.runs.dispatch import Dispatcher
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.given_files import GivenFiles
from fairlead.operations.runs.large_bodies import LargeBodies
from fairlead.operations.runs.postpone import Postponer
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.requests import CallChecks
from fairlead.operations.runs.results import Answer, Results
from fairlead.operations.runs.resume import Resumer
from fairlead.operations.runs.void import Voider
from fairlead.operations.runs.work import RunQueue, RunWork
from fairlead.operations.work.presence import ServerPresence
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.providers.answers import AnswerDecoder
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials, Secret
from fairlead.providers.exchange import Exchange
from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.providers.spec import Provider
from fairlead.providers.spec_files import load_provider
from fairlead.server.messaging import publish_changed_runs, publish_released
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.blobs.store import StoredBlobs
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.runs.entries import RunJournal, write_entries
from fairlead.storage.work.journal import Journal
from messaging.lossy import HeldEventHub, LossyWakeups

DOLLAR: Final = 100_000_000
CENT: Final = 1_000_000
FLAG: Final = "x-fairlead-schema-authored"
BASE_URL: Final = "https://router.example"
DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
LARGEST_REPLAY: Final = 256 * 1024
LINKS_SECONDS: Final = 3600
OURS: Final = "our-secret"
_PROVIDER: Final = """\
provider = "{name}"
title = "A partner"
base_url = "{base_url}"
{head}

[auth]
scheme = "{scheme}"

[retry]
times = 0

[calls.now]
protocol = "sync-json"
path = "/now"
require = ["/data"]

[calls.free]
protocol = "sync-json"
path = "/now"
require = ["/data"]
free_when_left = true

[calls.bytes]
protocol = "sync-bytes"
path = "/bytes"
media_types = ["audio/wav"]

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
failed = ["failed", "given up"]
unbilled = ["given up"]
patience = 0

[calls.telling]
protocol = "submit-and-poll"
path = "/later"
handle = {{ id = "/id", url = "/url" }}
told = {{ cost = "/cost" }}

[calls.telling.poll]
path = "{{url}}"
otherwise = "/later/{{id}}"
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
{head}

[[legs]]
provider = "{provider}"
call = "{call}"

[[legs.rate_cards]]
version = "v1"
effective = 2020-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "{price}"
at_most = "4"
requested = {{ product = ["/n"] }}
measured = {{ answer = "/used" }}
"""
SCHEMA: Final = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1, "default": 1}, "model": {"type": "string"}},
}
DONE: Final = {"data": "x", "used": 1, "status": "done"}

ALTERNATES: Final = ("spare", "third")
_STRICT_FORM: Final = """
[legs.rate_cards.components.strict]
requested = [{ product = ["/count"] }]

[legs.strict]
fields = ["/n", "/count"]
"""

Hook = Callable[[], Awaitable[None]]
_PLAIN: Final = RouteOptions()
_SECRETS: Final[Mapping[str, Sequence[Secret]]] = {"locked": (Secret(OURS),)}


def provider_of(name: str, base_url: str) -> Provider:
    """One of the test's providers.

    `careful` and `third` honour idempotency keys; `spare` and `third` are alternates, below paths of their own;
    `locked` wants a credential.
    """
    heads = {
        "careful": 'idempotency_header = "Idempotency-Key"',
        "spare": "alternate = true",
        "third": 'alternate = true\nidempotency_header = "Idempotency-Key"',
    }
    below = f"{base_url}/{name}" if name in ("spare", "third", "locked") else base_url
    scheme = "bearer" if name == "locked" else "none"
    text = _PROVIDER.format(name=name, base_url=below, head=heads.get(name, ""), scheme=scheme)
    return load_provider(text, f"{name}.toml")


def providers_at(base_url: str) -> dict[str, Provider]:
    """Every provider of the tests, all of them one partner."""
    return {name: provider_of(name, base_url) for name in ("plain", "careful", "spare", "third", "locked")}


def model_text(name: str, provider: str, call: str, *, price: str = "0.10", head: str = "", more: str = "") -> str:
    """A model file: `head` is more of its own, `more` is further tables."""
    return MODEL.format(name=name, provider=provider, call=call, price=price, head=head) + more


def leg_text(provider: str, call: str = "now", *, price: str = "0.10", more: str = "", strict: str = "") -> str:
    """A further leg of a model file; `more` is what else it says, such as its translation.

    `strict` is what else it says of bodies in the provider's own form.
    """
    text = model_text("x", provider, call, price=price)
    return f"\n{text[text.index('[[legs]]') :]}{_STRICT_FORM + strict if provider in ALTERNATES else ''}{more}"


def idempotency_key(name: str = "key-1", fingerprint: str = "call-1", expires_at: int = 2**60) -> IdempotencyKey:
    """A key as an API makes it of a caller's."""
    return IdempotencyKey(name, fingerprint, expires_at)


_IN_TRANSACTION: Final = ContextVar("in_transaction", default=False)


class Guarded:
    """A database whose work knows that it is in a transaction, and that goes away when told so."""

    def __init__(self, database: Database) -> None:
        """Stand before a real database."""
        self._database = database
        self.refused = 0
        self.refusals = 0
        self.refused_writes = 0
        self.lost_answers = 0

    async def write(self, work: Work[Any], *, durable: bool = True) -> Any:
        """Write, unless the database is away; it may also go away when it has written, before it says so."""
        if self.refused_writes > 0:
            self.refused_writes -= 1
            raise DatabaseUnavailableError("read-only")
        written = await self._guard(partial(self._database.write, durable=durable), work)
        if self.lost_answers > 0:
            self.lost_answers -= 1
            raise DatabaseUnavailableError("away after the commit")
        return written

    async def read(self, work: Work[Any]) -> Any:
        """Read, unless the database is away."""
        return await self._guard(self._database.read, work)

    async def close(self) -> None:
        """Leave the real database open: it is the fixture's."""

    async def _guard(self, do: Callable[[Work[Any]], Coroutine[Any, Any, Any]], work: Work[Any]) -> Any:
        if self.refusals > 0:
            self.refusals -= 1
            self.refused += 1
            raise DatabaseUnavailableError("away")
        token = _IN_TRANSACTION.set(True)
        try:
            return await do(work)
        finally:
            _IN_TRANSACTION.reset(token)


class WatchedTransport(Transport):
    """Connections to partners, and how many requests were made by the work of a transaction.

    What counts is the transaction of the same task: that of another run may well be open meanwhile.
    """

    in_transaction = 0

    async def send(self, *request: Any, **options: Any) -> Reply:
        """Send as a transport does, and count a request made in a transaction."""
        self.in_transaction += _IN_TRANSACTION.get()
        return await super().send(*request, **options)

    async def fetch(self, *request: Any, **options: Any) -> Received:
        """Fetch as a transport does, and count a request made in a transaction."""
        self.in_transaction += _IN_TRANSACTION.get()
        return await super().fetch(*request, **options)


class Partner:
    """A real HTTP server that answers what it is told to, and remembers calls."""

    def __init__(self) -> None:
        """Begin to answer with a finished generation."""
        self.answers: dict[str, Any] = {"/now": DONE, "/later": {"id": "task-7"}, "/later/task-7": DONE}
        for name in ("spare", "third", "locked"):
            self.answers |= {f"/{name}{path}": self.answers[path] for path in ("/now", "/later", "/later/task-7")}
        self.statuses: dict[str, int] = {}
        self.headers: dict[str, str] = {}
        self.calls: list[str] = []
        self.bodies: list[bytes] = []
        self.credentials: list[str | None] = []
        self.keys: list[str | None] = []
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
        self.calls.append(f"{request.method} {request.path}")
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.credentials.append(request.headers.get("Authorization"))
        self.bodies.append(await request.read())
        if self.before is not None:
            await self.before()
        answer = self.answers[request.path]
        answer = answer.pop(0) if isinstance(answer, list) else answer
        if answer is None and request.transport is not None:
            request.transport.abort()  # the connection breaks off
        status = self.statuses.get(request.path, 200)
        if isinstance(answer, bytes):
            type_ = "image/png" if answer.startswith(b"\x89PNG") else "audio/wav"
            return web.Response(body=answer, status=status, content_type=type_)
        return web.json_response(answer, status=status, headers=self.headers)


class Server:
    """Everything behind the HTTP face, wired as the server wires it."""

    def __init__(
        self,
        database: Guarded,
        partner: Partner,
        folder: Path,
        server_id: str = "server-1",
        secrets: Mapping[str, Sequence[Secret]] = _SECRETS,
        hold_times: Decimal | None = None,
    ) -> None:
        """Wire the parts together; `hold_times` bounds holds by the typical price."""
        self.database = database
        self.server_id = server_id
        self.seen: list[Observation] = []
        self.now_ns = time.time_ns()
        self.clock = Clock(lambda: self.now_ns)
        self.providers = providers_at(partner.base_url)
        observe = self.seen.append
        self.catalog = CatalogKeeper([folder], self.providers, FLAG, self.clock, observe, hold_times=hold_times)
        self.transport = WatchedTransport(trusted=[partner.base_url])
        self.events, self.wakeups = HeldEventHub(), LossyWakeups()
        self.readers = document_readers()
        self.blobs: StoredBlobs = local_blobs(folder.parent / "blobs")
        self.bodies, self.stored = LargeBodies(self.readers), StoredDocuments(self.blobs, observe)
        self.journal: RunJournal = Journal(
            database,
            partial(write_entries, machine_ms=self.clock.now_ms),
            split=lambda _entries, _error: None,
            released=publish_released(self.wakeups, Topic.RUN_RELEASED),
            listener=publish_changed_runs(self.events, self.stored.delete_soon),
        )
        self.authenticator = Authenticator(database, None)
        self.own_keys = self.keeper_of_keys()
        self.results = Results(self.blobs)
        self.replayer = Replayer(database, self.results, self.clock, most=LARGEST_REPLAY, with_links=LINKS_SECONDS)
        credentials = Credentials(self.providers, secrets)
        self.exchange = Exchange(self.providers, self.transport, credentials, AnswerDecoder(self.readers))
        self.executor = Executor(
            self._dispatcher(credentials), self.replayer, self.results, Postponer(self.providers, self.clock),
            self.journal, self.clock, observe, WEEK_MS,
        )  # fmt: skip
        self.wakeups.listen(Topic.RUN_CANCELLED, lambda found: self.executor.cancel([one.id for one in found]))
        self.admitter = Admitter(
            CallChecks(self.catalog, self.providers, database, self.bodies, self._given_files()), self.exchange,
            credentials, self.own_keys, self.replayer, database, self.journal, self.clock, observe, server_id,
            self.stored, RateWindows(database, Quotas(), self.clock, observe),
        )  # fmt: skip
        self.resumer = Resumer(
            self.catalog, credentials, self.own_keys, self.bodies, self.stored, self.clock, DAY_MS, BASE_URL, ()
        )
        self.voider = Voider(self.executor, self.clock, WEEK_MS)
        self.presence = self.presence_of(alone=True)
        self.throughput = Throughput()
        self.work = RunWork(
            database, self.exchange, self.resumer, self.executor, self.voider, self.clock, observe, server_id, WEEK_MS,
            DAY_MS, self.throughput,
        )  # fmt: skip
        store = WorkStore(self.journal, observe, "Runs cannot be recorded.")
        self.queue: RunQueue = WorkQueue(self.work, database, store, self.clock, observe, self.presence, DAY_MS)
        self.collector = Collector(database, self.results, self.clock, self.throughput)
        self.canceller = Canceller(database, self.journal, self.wakeups, self.clock, observe, WEEK_MS)

    def presence_of(self, *, alone: bool) -> ServerPresence:
        """The presence of this server, by its clock; silent for 20 seconds, others take it to be dead."""
        return ServerPresence(
            self.database,
            self.clock,
            self.seen.append,
            self.server_id,
            alone=alone,
            silent_ms=20_000,
            monotonic=lambda: self.now_ns / 1e9,
        )

    def keeper_of_keys(self, secret: int = 0) -> ProviderKeys:
        """Make what keeps the callers' own keys, with one of several secrets."""
        taken = {name: provider.wants_credential for name, provider in self.providers.items()}
        sealer = Sealer(MasterSecret(bytes([secret] * 32)))
        return ProviderKeys(self.database, sealer, taken, self.clock, self.authenticator.forget)

    def _given_files(self) -> GivenFiles:
        reader = AssetReader(Links(bytes(32)), self.blobs, self.database, self.clock)
        return GivenFiles(reader, self.blobs, BASE_URL)

    def _dispatcher(self, credentials: Credentials) -> Dispatcher:
        observe = self.seen.append

        def tell(place: CredentialRef, health: Health, workspaces: int, reason: str) -> None:
            observe(CredentialHealth(*place, health.value, workspaces, reason))

        healths = Healths(tell, lambda: self.now_ns / 1e9)
        attempts = Attempts(self.exchange, credentials, healths)
        links = Links(bytes(32))
        copier = AssetCopier(
            self.transport.fetch, lambda name, url: self.providers[name].may_follow(url, with_credential=False),
            self.blobs, self.database, links, self.clock, observe,
            limit=1024 * 1024, lifetime=7 * 24 * 3600,
        )  # fmt: skip
        return Dispatcher(attempts, self.exchange, copier, self.clock, observe, patience=(0.01,))

    async def call(
        self,
        caller: Caller,
        model: str = "plain-now",
        body: Mapping[str, Any] | bytes = b"{}",
        run_id: str = "run-1",
        *,
        options: RouteOptions = _PLAIN,
        key: IdempotencyKey | None = None,
    ) -> AdmittedRun | Answer:
        """Check and admit a run, as the run route does; a key that was used before has its answer already."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        checked = self.admitter.checks.check_headers(caller, f"acme/{model}", lambda: options)
        return await self.admitter.admit(checked, RunCommand(run_id, content, key, BASE_URL))

    async def admit(
        self,
        caller: Caller,
        model: str = "plain-now",
        body: Mapping[str, Any] | bytes = b"{}",
        run_id: str = "run-1",
        **how: Any,
    ) -> AdmittedRun:
        """Admit a run that has no answer yet."""
        run = await self.call(caller, model, body, run_id, **how)
        assert isinstance(run, AdmittedRun)
        return run

    async def answer(
        self,
        caller: Caller,
        model: str = "plain-now",
        body: Mapping[str, Any] | bytes = b"{}",
        seconds: float = 20,
        *,
        run_id: str = "run-1",
        **how: Any,
    ) -> Answer:
        """Admit a run, execute it and wait for it; a key's answer where there is one."""
        admitted = await self.call(caller, model, body, run_id, **how)
        if isinstance(admitted, Answer):
            return admitted
        return await self.executor.answer_in_time(self.executor.start(admitted), seconds)

    async def pass_on_cancels(self) -> None:
        """Look once, and stop what was cancelled."""
        if (found := await self.queue.look()) is not None:
            self.queue.pass_on_cancels(found)

    async def use_room(self) -> None:
        """Look once, and give slots to what is parked."""
        if (found := await self.queue.look()) is not None:
            await self.queue.use_room(found)

    async def time_out(self) -> int:
        """Look once, and end what has waited too long; how much that was."""
        found = await self.queue.look()
        return 0 if found is None else await self.queue.time_out(found)

    def observations_of(self, kind: type) -> list[Any]:
        """Return what was observed of one kind."""
        return [seen for seen in self.seen if type(seen) is kind]

    async def close(self) -> None:
        """Let everything end."""
        await self.executor.drain(5)
        await self.journal.close()
        await self.stored.close()
        await self.readers.close()
        await self.transport.close()
