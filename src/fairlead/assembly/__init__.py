"""The one file that wires everything together: from settings to a running server."""

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead.domain.brand import Brand
from fairlead.domain.windows import quotas_of
from fairlead.http_client.transport import Transport
from fairlead.identity.key_sets import KeyFile, KeySource, KeyUrl, SharedSecret
from fairlead.identity.links import Links
from fairlead.identity.master_secret import MasterSecret
from fairlead.identity.tokens import TokenVerifier
from fairlead.installation import (
    SNAPSHOTS,
    DataDirectoryError,
    Partners,
    catalog_folders,
    lock_data,
    master_secret,
    partners,
    prepare_data,
    provider_keys,
    save_first_key,
)
from fairlead.observing.logs import Logs
from fairlead.observing.metrics import CONTENT_TYPE, Metrics
from fairlead.observing.observations import (
    CallRepeated,
    JournalSplit,
    JournalWaiting,
    Observer,
    ProviderRests,
    all_of,
)
from fairlead.observing.traces import otlp_traces
from fairlead.operations.assets import AssetCopier, AssetReader, AssetSweeper
from fairlead.operations.authenticate import Authenticator
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock, new_id
from fairlead.operations.keys import IssuedKey
from fairlead.operations.provider_keys import ProviderKeys
from fairlead.operations.rate_windows import RateWindows
from fairlead.operations.runs.admit import Admitter
from fairlead.operations.runs.dispatch import Dispatcher
from fairlead.operations.runs.estimate import Estimator
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.recover import Recovery
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.workspaces import bootstrap
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials
from fairlead.providers.exchange import Exchange
from fairlead.providers.health import Healths
from fairlead.settings import BadSettingError, Settings
from fairlead.storage.blobs import Blobs, local_blobs
from fairlead.storage.database import Database, DatabaseUnavailableError, open_database
from fairlead.storage.journal import Journal
from fairlead.storage.migrate import HEAD, migrate, revision_of
from fairlead.surfaces.application import Application
from fairlead.surfaces.assets import AssetHandlers
from fairlead.surfaces.operator import OperatorHandlers
from fairlead.surfaces.router.estimates import EstimateHandlers
from fairlead.surfaces.router.handlers import Handlers
from fairlead.surfaces.router.headers import HeaderNames
from fairlead.surfaces.router.provider_keys import ProviderKeyHandlers
from fairlead.surfaces.router.runs import RunHandler
from fairlead.workers.janitor import Janitor
from fairlead.workers.partner import PROCEDURAL, SIMULATOR, PartnerProgram

_GC_THRESHOLDS: Final = (50_000, 50, 100)
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that has started: its application, the first key where it has just made one, the simulator's address."""

    application: Application
    first_key: IssuedKey | None
    observe: Observer
    catalog: CatalogKeeper
    simulator: str | None


@asynccontextmanager
async def running_server(settings: Settings, clock: Clock | None = None) -> AsyncIterator[RunningServer]:
    """Start everything behind the HTTP face, and stop it in the reverse order."""
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        observe = _observers(settings, metrics, stack)
        verifier = _verifier(settings, stack)
        base = await _base(settings, clock or Clock(), observe, stack)
        authenticator = Authenticator(base.database, verifier)
        own_keys = provider_keys(base.secret, base.partners.providers, base.database, base.clock, authenticator.forget)
        runs = _runs(settings, base, own_keys, metrics, stack)
        await runs.recovery.announce()
        windows = _rate_windows(settings, base, stack)
        _keep(stack, Janitor(runs.recovery, base.catalog, windows, base.assets.sweeper, runs.replayer, observe).work())
        application = Application(
            run=_run_handler(settings, base, authenticator, windows, runs),
            handlers=_handlers(settings, base, authenticator, windows, runs.exchange),
            provider_keys=ProviderKeyHandlers(authenticator, windows, own_keys, settings.key_prefix),
            estimates=_estimate_handlers(settings, base, authenticator, windows),
            assets=base.assets.handlers,
            operator=OperatorHandlers(lambda: _problems(base.database), lambda: (metrics.page(), CONTENT_TYPE)),
            names=_header_names(settings),
            observe=observe,
        )
        _settle_collector()
        yield RunningServer(application, base.first_key, observe, base.catalog, base.partners.simulator)


def reload_on_hangup(server: RunningServer) -> None:
    """Read the catalog again on SIGHUP, as operators expect of a server."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.catalog.reload)


@dataclass(frozen=True, slots=True)
class _Assets:
    """What belongs to the assets of results."""

    blobs: Blobs
    links: Links
    handlers: AssetHandlers
    sweeper: AssetSweeper


@dataclass(frozen=True, slots=True)
class _Base:
    """What everything else stands on."""

    database: Database
    first_key: IssuedKey | None
    alone: bool
    secret: MasterSecret
    partners: Partners
    catalog: CatalogKeeper
    assets: _Assets
    clock: Clock
    observe: Observer


@dataclass(frozen=True, slots=True)
class _Runs:
    """What runs models."""

    admitter: Admitter
    executor: Executor
    exchange: Exchange
    replayer: Replayer
    recovery: Recovery


async def _base(settings: Settings, clock: Clock, observe: Observer, stack: AsyncExitStack) -> _Base:
    prepare_data(settings)
    alone = lock_data(settings, stack)
    found = _partners(settings, observe, stack)
    database, first_key = await _ready_database(settings, clock, stack)
    catalog = CatalogKeeper(catalog_folders(settings), found.providers, _brand(settings).authored_flag, clock, observe)
    secret = master_secret(settings)
    assets = _assets(settings, secret, database, clock, observe)
    return _Base(database, first_key, alone, secret, found, catalog, assets, clock, observe)


def _partners(settings: Settings, observe: Observer, stack: AsyncExitStack) -> Partners:
    """Every provider where it is called; the programs among them are kept at hand."""
    programs = {
        module: PartnerProgram(module, observe)
        for module, is_wanted in ((PROCEDURAL, settings.local_partner), (SIMULATOR, settings.simulate))
        if is_wanted
    }
    for program in programs.values():
        _keep(stack, program.supervise())
    local, simulator = programs.get(PROCEDURAL), programs.get(SIMULATOR)
    return partners(
        settings,
        None if local is None else (local.base_url, local.token),
        None if simulator is None else simulator.base_url,
    )


async def _ready_database(settings: Settings, clock: Clock, stack: AsyncExitStack) -> tuple[Database, IssuedKey | None]:
    """The database at the right schema, and the key of a new installation's first workspace."""
    database = open_database(settings.database_url())
    stack.push_async_callback(database.close)
    await migrate(database)
    first_key = await bootstrap(database, settings.key_prefix, clock)
    save_first_key(settings, first_key)
    return database, first_key


def _assets(settings: Settings, secret: MasterSecret, database: Database, clock: Clock, observe: Observer) -> _Assets:
    try:
        blobs = local_blobs(settings.data / "blobs")
    except OSError as error:
        raise DataDirectoryError(f"the folder for blobs cannot be used: {error}") from error
    links = Links(secret.derive("signed links of assets"))
    handlers = AssetHandlers(AssetReader(links, blobs, database, clock), _header_names(settings))
    return _Assets(blobs, links, handlers, AssetSweeper(database, blobs, clock, observe))


def _runs(settings: Settings, base: _Base, own_keys: ProviderKeys, metrics: Metrics, stack: AsyncExitStack) -> _Runs:
    """Everything between an admitted call and its closed books."""
    providers, clock, observe = base.partners.providers, base.clock, base.observe
    transport = Transport(trusted=[provider.base_url for provider in providers.values() if not provider.missing])
    stack.push_async_callback(transport.close)
    credentials = Credentials(providers, base.partners.secrets)
    exchange = Exchange(providers, transport, credentials)
    replayer = _replayer(settings, base)
    journal = _journal(base.database, observe, stack)
    dispatcher = _dispatcher(settings, base, exchange, transport, credentials)
    executor = Executor(dispatcher, replayer, journal, clock, observe)
    metrics.in_flight.set_function(lambda: executor.under_way)
    stack.push_async_callback(executor.drain, settings.drain_seconds)
    server_id = new_id()
    return _Runs(
        admitter=Admitter(
            base.catalog, exchange, credentials, own_keys, replayer, base.database, journal, clock, observe, server_id
        ),
        executor=executor,
        exchange=exchange,
        replayer=replayer,
        recovery=Recovery(
            base.database,
            base.catalog,
            exchange,
            credentials,
            own_keys,
            executor,
            clock,
            observe,
            server_id,
            base.alone,
            settings.idempotency_hours * _HOUR_MS,
            settings.public_base_url or f"http://{settings.host}:{settings.port}",
        ),
    )


def _dispatcher(
    settings: Settings, base: _Base, exchange: Exchange, transport: Transport, credentials: Credentials
) -> Dispatcher:
    observe = base.observe
    healths = Healths(lambda place, health: observe(ProviderRests(place[0], place[1], health.value)))
    attempts = Attempts(
        exchange,
        credentials,
        healths,
        lambda provider, number, pause: observe(CallRepeated(provider, number, pause)),
    )
    copier = AssetCopier(
        transport.fetch,
        lambda provider, url: base.partners.providers[provider].may_follow(url, with_credential=False),
        base.assets.blobs,
        base.database,
        base.assets.links,
        base.clock,
        observe,
        limit=settings.asset_limit_mib * 1024 * 1024,
        lifetime=settings.asset_lifetime_hours * 3600,
    )
    return Dispatcher(attempts, exchange, copier, base.clock, observe)


def _replayer(settings: Settings, base: _Base) -> Replayer:
    return Replayer(
        base.database,
        base.assets.blobs,
        base.clock,
        most=settings.replay_limit_mib * 1024 * 1024,
        with_links=settings.replay_links_seconds,
    )


def _journal(database: Database, observe: Observer, stack: AsyncExitStack) -> Journal:
    journal = Journal(
        database,
        waiting=lambda entries: observe(JournalWaiting(entries)),
        split=lambda entries, error: observe(JournalSplit(entries, str(error))),
    )
    stack.push_async_callback(journal.close)
    return journal


def _settle_collector() -> None:
    """Keep the cyclic collector away from what lives as long as the server: its walks show in the slowest answers."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _rate_windows(settings: Settings, base: _Base, stack: AsyncExitStack) -> RateWindows:
    quotas = quotas_of(settings.requests_per_minute, settings.requests_per_day)
    windows = RateWindows(base.database, quotas, base.clock, base.observe)
    stack.push_async_callback(windows.share)  # what was counted since the janitor's last round
    return windows


def _handlers(
    settings: Settings, base: _Base, authenticator: Authenticator, windows: RateWindows, exchange: Exchange
) -> Handlers:
    return Handlers(
        authenticator=authenticator,
        windows=windows,
        catalog=base.catalog,
        is_configured=exchange.is_configured,
        key_prefix=settings.key_prefix,
        public_base_url=settings.public_base_url,
        snapshots=SNAPSHOTS,
    )


def _estimate_handlers(
    settings: Settings, base: _Base, authenticator: Authenticator, windows: RateWindows
) -> EstimateHandlers:
    return EstimateHandlers(
        authenticator=authenticator,
        windows=windows,
        estimator=Estimator(base.catalog, base.partners.providers, base.database, base.clock),
        native_aliases=_brand(settings).native_aliases,
        key_prefix=settings.key_prefix,
        body_limit=settings.body_limit_mib * 1024 * 1024,
    )


def _run_handler(
    settings: Settings, base: _Base, authenticator: Authenticator, windows: RateWindows, runs: _Runs
) -> RunHandler:
    return RunHandler(
        authenticator=authenticator,
        windows=windows,
        admitter=runs.admitter,
        executor=runs.executor,
        names=_header_names(settings),
        native_aliases=_brand(settings).native_aliases,
        key_prefix=settings.key_prefix,
        body_limit=settings.body_limit_mib * 1024 * 1024,
        deadline_seconds=settings.deadline_seconds,
        public_base_url=settings.public_base_url,
        keys_kept_ms=settings.idempotency_hours * _HOUR_MS,
        now_ms=base.clock.now_ms,
    )


def _brand(settings: Settings) -> Brand:
    return Brand(settings.brand, settings.header_prefix)


def _header_names(settings: Settings) -> HeaderNames:
    return HeaderNames(_brand(settings).header_prefix)


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
