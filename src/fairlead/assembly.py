"""The one file that wires everything together: from settings to a running server."""

import asyncio
import fcntl
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import fairlead
from fairlead.identity.key_sets import KeyFile, KeySource, KeyUrl, SharedSecret
from fairlead.identity.tokens import TokenVerifier
from fairlead.observing.logs import Logs
from fairlead.observing.metrics import CONTENT_TYPE, Metrics
from fairlead.observing.observations import JournalSplit, JournalWaiting, Observer, all_of
from fairlead.observing.traces import otlp_traces
from fairlead.operations.authenticate import Authenticator
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock, new_id
from fairlead.operations.keys import IssuedKey
from fairlead.operations.runs.admit import Admitter
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.recover import Recovery
from fairlead.operations.workspaces import bootstrap
from fairlead.providers.exchange import Exchange
from fairlead.providers.spec import SPECS, Provider, load_providers
from fairlead.providers.transport import Transport
from fairlead.settings import BadSettingError, Settings
from fairlead.storage.database import Database, DatabaseUnavailableError, file_of, open_database
from fairlead.storage.journal import Journal
from fairlead.storage.migrate import HEAD, migrate, revision_of
from fairlead.surfaces.application import Application
from fairlead.surfaces.operator import OperatorHandlers
from fairlead.surfaces.router.handlers import Handlers
from fairlead.surfaces.router.headers import HeaderNames
from fairlead.surfaces.router.runs import RunHandler
from fairlead.workers.janitor import Janitor
from fairlead.workers.partner import PartnerProgram

LOCAL: Final = "local"
PACKAGE: Final = Path(fairlead.__file__).parent
CATALOG: Final = PACKAGE / "catalog"
SNAPSHOTS: Final = PACKAGE / "snapshots"
_GC_THRESHOLDS: Final = (50_000, 50, 100)


class DataDirectoryError(Exception):
    """The data directory cannot be used, or another server uses it."""


class OldDatabaseError(Exception):
    """The database is not at the schema this version needs."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that has started: its application, and the first key where it has just made one."""

    application: Application
    first_key: IssuedKey | None
    observe: Observer
    catalog: CatalogKeeper


def provider_files(settings: Settings) -> dict[str, Provider]:
    """Every provider by name, at the addresses the settings give; BadFileError."""
    providers = load_providers(SPECS)
    if settings.catalog is not None:
        providers |= load_providers(settings.catalog / "providers")
    return {
        name: provider.at(settings.provider_base_urls.get(_option_name(name), provider.base_url))
        for name, provider in providers.items()
    }


def catalog_folders(settings: Settings) -> list[Path]:
    """Where model files are read from; BadSettingError when the folder of the settings is none."""
    if settings.catalog is not None and not settings.catalog.is_dir():
        raise BadSettingError(f"FAIRLEAD_CATALOG: there is no folder {settings.catalog}")
    return [CATALOG] if settings.catalog is None else [CATALOG, settings.catalog / "models"]


def prepare_data(settings: Settings) -> None:
    """Make the data directory, for its owner alone; DataDirectoryError."""
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.data.chmod(0o700)
    except OSError as error:
        raise DataDirectoryError(f"the data directory {settings.data} cannot be used: {error}") from error


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """A database at the right schema, for a command; OldDatabaseError when it is not, or there is none."""
    file = file_of(settings.database_url())
    if file is not None and not file.exists():
        raise OldDatabaseError(f"there is no database at {file}; `fairlead serve` or `fairlead migrate` makes it")
    database = open_database(settings.database_url())
    try:
        revision = await database.read(revision_of)
        if revision != HEAD:
            raise OldDatabaseError(f"the database is at {revision or 'nothing'}, not {HEAD}; run `fairlead migrate`")
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def running_server(settings: Settings, clock: Clock | None = None) -> AsyncIterator[RunningServer]:
    """Start everything behind the HTTP face, and stop it in the reverse order."""
    clock = clock or Clock()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        observe = _observers(settings, metrics, stack)
        verifier = _verifier(settings, stack)
        prepare_data(settings)
        alone = _lock(settings, stack)
        partner = PartnerProgram(observe) if settings.local_partner else None
        if partner is not None:
            _keep(stack, partner.supervise())
        database, first_key = await _ready_database(settings, clock, stack)
        providers, keys = _with_partner(provider_files(settings), settings.provider_keys, partner)
        catalog = CatalogKeeper(catalog_folders(settings), providers, clock, observe)
        transport = Transport()
        stack.push_async_callback(transport.close)
        exchange = Exchange(providers, transport, keys)
        journal = _journal(database, observe, stack)
        executor = _executor(settings, exchange, journal, clock, observe, metrics, stack)
        server_id = new_id()
        recovery = Recovery(database, catalog, exchange, executor, clock, observe, server_id, alone)
        await recovery.announce()
        _keep(stack, Janitor(recovery, catalog, observe).work())
        authenticator = Authenticator(database, verifier)
        admitter = Admitter(catalog, exchange, database, journal, clock, observe, server_id)
        application = Application(
            run=_run_handler(settings, authenticator, admitter, executor),
            handlers=_handlers(settings, authenticator, catalog, exchange),
            operator=OperatorHandlers(lambda: _problems(database), lambda: (metrics.page(), CONTENT_TYPE)),
            names=HeaderNames(),
            observe=observe,
        )
        _settle_collector()
        yield RunningServer(application, first_key, observe, catalog)


def reload_on_hangup(server: RunningServer) -> None:
    """Read the catalog again on SIGHUP, as operators expect of a server."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.catalog.reload)


async def _ready_database(settings: Settings, clock: Clock, stack: AsyncExitStack) -> tuple[Database, IssuedKey | None]:
    """The database at the right schema, and the key of a new installation's first workspace."""
    database = open_database(settings.database_url())
    stack.push_async_callback(database.close)
    await migrate(database)
    first_key = await bootstrap(database, settings.key_prefix, clock)
    _save_first_key(settings, first_key)
    return database, first_key


def _journal(database: Database, observe: Observer, stack: AsyncExitStack) -> Journal:
    journal = Journal(
        database,
        waiting=lambda entries: observe(JournalWaiting(entries)),
        split=lambda entries, error: observe(JournalSplit(entries, str(error))),
    )
    stack.push_async_callback(journal.close)
    return journal


def _executor(
    settings: Settings,
    exchange: Exchange,
    journal: Journal,
    clock: Clock,
    observe: Observer,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> Executor:
    executor = Executor(exchange, journal, clock, observe)
    metrics.in_flight.set_function(lambda: executor.under_way)
    stack.push_async_callback(executor.drain, settings.drain_seconds)
    return executor


def _settle_collector() -> None:
    """Keep the cyclic collector away from what lives as long as the server: its walks show in the slowest answers."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _handlers(settings: Settings, authenticator: Authenticator, catalog: CatalogKeeper, exchange: Exchange) -> Handlers:
    return Handlers(
        authenticator=authenticator,
        catalog=catalog,
        is_configured=exchange.is_configured,
        key_prefix=settings.key_prefix,
        public_base_url=settings.public_base_url,
        snapshots=SNAPSHOTS,
    )


def _run_handler(
    settings: Settings, authenticator: Authenticator, admitter: Admitter, executor: Executor
) -> RunHandler:
    return RunHandler(
        authenticator=authenticator,
        admitter=admitter,
        executor=executor,
        names=HeaderNames(),
        key_prefix=settings.key_prefix,
        body_limit=settings.body_limit_mib * 1024 * 1024,
        deadline_seconds=settings.deadline_seconds,
    )


def _observers(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> Observer:
    readable = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    logs = Logs(settings.log_level, readable=readable)
    stack.callback(logs.close)
    observers: list[Observer] = [metrics.observe, logs.observe]
    if settings.otlp_endpoint is not None:
        traces = otlp_traces(settings.otlp_endpoint)
        stack.callback(traces.close)
        observers.append(traces.observe)
    return all_of(observers)


def _keep(stack: AsyncExitStack, work: Any) -> None:
    """Run something in the background until the server stops."""
    task = asyncio.get_running_loop().create_task(work)

    async def stop() -> None:
        task.cancel()
        await asyncio.wait([task])

    stack.push_async_callback(stop)


def _lock(settings: Settings, stack: AsyncExitStack) -> bool:
    """Claim an embedded database for this server alone; False where a database server is shared by many."""
    if file_of(settings.database_url()) is None:
        return False
    descriptor = os.open(settings.data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataDirectoryError(f"another server uses the data directory {settings.data}") from error
    return True


def _save_first_key(settings: Settings, key: IssuedKey | None) -> None:
    if key is not None:
        path = settings.data / "first-key"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.text + "\n")


def _with_partner(
    providers: Mapping[str, Provider], keys: Mapping[str, str], partner: PartnerProgram | None
) -> tuple[dict[str, Provider], dict[str, str]]:
    """Providers and keys, those of the built-in partner being the ones it was started with."""
    by_name = {name: keys[_option_name(name)] for name in providers if _option_name(name) in keys}
    if partner is None:
        return dict(providers), by_name
    return {**providers, LOCAL: providers[LOCAL].at(partner.base_url)}, {**by_name, LOCAL: partner.token}


def _option_name(provider: str) -> str:
    """How a provider is spelled in an environment variable, lower-cased."""
    return provider.replace("-", "_").replace(".", "_")


def _verifier(settings: Settings, stack: AsyncExitStack) -> TokenVerifier | None:
    """What verifies tokens, None where none are taken; BadSettingError for a secret or a key set that is no use."""
    try:
        source = _key_source(settings)
    except ValueError as error:
        name = "FAIRLEAD_JWT_JWKS" if settings.jwt_secret is None else "FAIRLEAD_JWT_SECRET"
        raise BadSettingError(f"{name}: {error}") from error
    if source is None:
        return None
    stack.push_async_callback(source.close)
    return TokenVerifier(
        source,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        leeway=settings.jwt_leeway_seconds,
        workspace_claim=settings.jwt_workspace_claim,
        models_claim=settings.jwt_models_claim,
    )


def _key_source(settings: Settings) -> KeySource | None:
    if settings.jwt_secret is not None:
        return SharedSecret(settings.jwt_secret)
    if settings.jwt_jwks is None:
        return None
    if urlsplit(settings.jwt_jwks).scheme in ("http", "https"):
        return KeyUrl(settings.jwt_jwks)
    if not Path(settings.jwt_jwks).is_file():
        raise ValueError(f"there is no file {settings.jwt_jwks}")
    return KeyFile(Path(settings.jwt_jwks))


async def _problems(database: Database) -> list[str]:
    try:
        revision = await database.read(revision_of)
    except DatabaseUnavailableError:
        return ["the database cannot be read"]
    return [] if revision == HEAD else ["the database is not at this version's schema"]
