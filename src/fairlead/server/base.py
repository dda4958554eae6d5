"""The base of everything else: the data directory, the database, the catalog, partners, assets, credentials."""

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

import fairlead
from fairlead.api.admin.jobs import JobVerbs
from fairlead.api.assets import AssetHandlers
from fairlead.api.http.api import MountedApi
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.hosts import KnownHosts
from fairlead.api.http.sessions import SessionCookies
from fairlead.clock import Clock, follow
from fairlead.document_readers import DocumentReaders
from fairlead.domain.accounts.rate_windows import Quota, Quotas, Span, quotas_of
from fairlead.domain.accounts.token_issuers import read_issuers
from fairlead.domain.brand import Brand
from fairlead.domain.jobs.subscriptions import first_of
from fairlead.identity.key_sets import KeyFile, KeySource, KeyUrl, SharedSecret
from fairlead.identity.links import Links
from fairlead.identity.master_secret import Secrets
from fairlead.identity.secret_ring import DerivedKeys
from fairlead.identity.tokens import TokenIssuer, TokenVerifier, TokenVerifiers
from fairlead.messaging import Messaging
from fairlead.observing.blobs import BlobDamaged, BlobMissing
from fairlead.observing.latency_meters import DatabaseMeter
from fairlead.observing.logs import Logs
from fairlead.observing.metrics import Build, Metrics
from fairlead.observing.observations import BodyReaderFailed, MarkupUnknown, Observer, SettingUnknown, all_of
from fairlead.observing.traces import otlp_traces
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.key_uses import WRITTEN_EVERY_SECONDS
from fairlead.operations.accounts.members import bootstrap_operator
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.secrets import note_first_secret
from fairlead.operations.accounts.workspaces import bootstrap
from fairlead.operations.assets.results import AssetReader, AssetSweeper, StoreLinks
from fairlead.operations.assets.shared_store import SharedStore
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.deployments import Deployments
from fairlead.operations.work.presence import clock_ahead
from fairlead.server.blob_stores import direct_links, ready_blobs
from fairlead.server.installation import (
    CATALOG,
    FirstKeys,
    Partners,
    catalog_folders,
    lock_data,
    master_secret,
    partners,
    prepare_data,
    provider_keys,
    save_first_keys,
    strange_markups,
    strange_variables,
)
from fairlead.server.messaging import listen_for_changed_workspaces, publish_changed_workspace, ready_messaging
from fairlead.server.settings import BadSettingError, Settings
from fairlead.storage.blobs.gate import StoreGate, StoreState
from fairlead.storage.blobs.store import BlobLostError, BlobMissingError, StoredBlobs
from fairlead.storage.db.database import Database, DatabaseTimes
from fairlead.storage.db.migrate import HEAD, migrate
from fairlead.storage.db.opening import WaitingDatabase, file_of, open_database
from fairlead.workers.partner import PROCEDURAL, SIMULATOR, PartnerProgram
from fairlead.workers.periodic import run_periodically

_PROVE_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 5.0


class Assets(msgspec.Struct, frozen=True):
    """Parts of the server for the assets of results. `store` says whether `blobs` are the installation's.

    `direct` makes links straight to the store, if that is enabled.
    """

    blobs: StoredBlobs
    store: StoreGate
    links: Links
    direct: StoreLinks | None
    handlers: AssetHandlers
    sweeper: AssetSweeper

    def has_store(self) -> bool:
        """Whether every server would find the files that work makes; otherwise no queued work is claimed."""
        return self.store.state is StoreState.OURS


class Base(msgspec.Struct, frozen=True):
    """The base of everything else.

    `alone` says that no other server can share the database, `has_api` that this server answers callers; `readers` read
    callers' documents. `database` waits for a database server that is briefly unavailable; `prompt_database` is the
    same without waiting.
    """

    database: Database
    prompt_database: Database
    first_keys: FirstKeys
    is_alone: bool
    has_api: bool
    secret: Secrets
    partners: Partners
    catalog: CatalogKeeper
    assets: Assets
    authenticator: Authenticator
    own_keys: ProviderKeys
    windows: RateWindows
    readers: DocumentReaders
    messaging: Messaging
    clock: Clock
    observe: Observer


class Jobs(msgspec.Struct, frozen=True):
    """The execution of workflows for the rest of the server; None on a server without the engine."""

    apis: Callable[[], tuple[MountedApi, ...]]
    """Makes the APIs that show it, where callers are answered."""
    confinement: Mapping[str, object]
    """How the engine's processes are confined, for an operator's tools."""
    entries_waiting: Callable[[], int]
    """How many entries of jobs are not durable yet."""
    verbs: JobVerbs
    """The jobs part of the administration API."""
    deployments: Deployments


async def ready_base(
    settings: Settings,
    clock: Clock,
    meter: DatabaseMeter,
    observe: Observer,
    stack: AsyncExitStack,
    *,
    has_api: bool = True,
) -> Base:
    """Prepare the base of runs and the HTTP application; the stack stops it. BadSettingError.

    Without an API neither the first keys, which are shown once, nor the secret that servers share are made.
    """
    verifier = _verifier(settings, stack)
    prepare_data(settings)
    alone = lock_data(settings, stack)
    found = _partners(settings, observe, stack)
    _check_names(settings, found, observe)
    secret = master_secret(settings, make=has_api)
    prompt_database, clock = await _ready_database(settings, meter, clock, stack, alone=alone)
    first_keys = await _first_keys(settings, prompt_database, clock) if has_api else FirstKeys(None, None)
    database = prompt_database if alone else WaitingDatabase(prompt_database, settings.database_wait_seconds)
    await note_first_secret(database, secret)
    authenticator = _authenticator(database, verifier, clock, observe, stack)
    messaging = await ready_messaging(settings, database, observe, stack)
    listen_for_changed_workspaces(messaging.wakeups, authenticator.forget, stack)
    catalog = _catalog(settings, found, clock, observe)
    return Base(
        database=database,
        prompt_database=prompt_database,
        first_keys=first_keys,
        is_alone=alone,
        has_api=has_api,
        secret=secret,
        partners=found,
        catalog=catalog,
        assets=await _assets(settings, secret, database, alone, clock, observe, stack),
        authenticator=authenticator,
        own_keys=provider_keys(secret, found.providers, database, clock, publish_changed_workspace(messaging.wakeups)),
        windows=_rate_windows(settings, database, clock, observe, stack),
        readers=_readers(settings, observe, stack),
        messaging=messaging,
        clock=clock,
        observe=observe,
    )


def describe_build(settings: Settings) -> Build:
    """The build of this program, for its metrics."""
    kind = "postgresql" if file_of(settings.database_url()) is None else "sqlite"
    return Build(fairlead.__version__, HEAD, platform.python_version(), kind)


def _check_names(settings: Settings, found: Partners, observe: Observer) -> None:
    """Report variables that are not settings; BadSettingError where a rule of a pool names an unknown provider."""
    for variable, meant in strange_variables(os.environ, found.providers):
        observe(SettingUnknown(variable, meant))
    if unknown := settings.pools.unknown_providers(found.providers):
        raise BadSettingError(f"FAIRLEAD_POOLS: there is no provider {unknown[0]}")


def observers(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> Observer:
    """Make one observer of the logs, the metrics and, if enabled, the traces."""
    readable = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    logs = Logs(settings.log_level, readable=readable)
    stack.callback(logs.close)
    listening: list[Observer] = [metrics.observe, logs.observe]
    if settings.otlp_endpoint is not None:
        traces = otlp_traces(settings.otlp_endpoint)
        stack.callback(traces.close)
        listening.append(traces.observe)
    return all_of(listening)


def start_background(stack: AsyncExitStack, work: Coroutine[object, object, object]) -> None:
    """Run something in the background until the server stops."""
    task = asyncio.get_running_loop().create_task(work)

    async def stop() -> None:
        task.cancel()
        await asyncio.wait([task])

    stack.push_async_callback(stop)


def brand(settings: Settings) -> Brand:
    """The brand that names on the wire follow."""
    return Brand(settings.brand, settings.header_prefix, settings.native_aliases)


def known_hosts(settings: Settings) -> KnownHosts:
    """The hosts that calls without a credential may name."""
    base_urls = BaseUrls(settings.public_base_url, settings.trusted_proxies)
    return KnownHosts(base_urls, settings.allowed_hosts | {settings.host.lower()})


def credential_reader(settings: Settings) -> CredentialReader:
    """The reader of credentials: API keys with their prefix, and the cookies of sessions."""
    return CredentialReader(
        settings.key_prefix, SessionCookies(BaseUrls(settings.public_base_url, settings.trusted_proxies))
    )


def header_names(settings: Settings) -> HeaderNames:
    """The response headers under this installation's prefix."""
    return HeaderNames(brand(settings).header_prefix)


def _partners(settings: Settings, observe: Observer, stack: AsyncExitStack) -> Partners:
    """Every provider at the address where it is called; partner programs are kept available."""
    programs = {
        module: PartnerProgram(module, observe)
        for module, is_wanted in ((PROCEDURAL, settings.local_partner), (SIMULATOR, settings.simulate))
        if is_wanted
    }
    for program in programs.values():
        start_background(stack, program.supervise())
    local, simulator = programs.get(PROCEDURAL), programs.get(SIMULATOR)
    return partners(
        settings,
        None if local is None else (local.base_url, local.token),
        None if simulator is None else simulator.base_url,
    )


def _catalog(settings: Settings, found: Partners, clock: Clock, observe: Observer) -> CatalogKeeper:
    """The catalog, with the markups and the bound of holds of the settings."""
    flag, folders = brand(settings).authored_flag, catalog_folders(settings)
    markup, hold_times = settings.markup, settings.hold_typical_times
    catalog = CatalogKeeper(folders, found.providers, flag, clock, observe, markup, CATALOG, hold_times)
    for name, meant in strange_markups(markup, catalog.current.models, found.providers):
        observe(MarkupUnknown(name, meant))
    return catalog


async def _ready_database(
    settings: Settings, meter: DatabaseMeter, clock: Clock, stack: AsyncExitStack, *, alone: bool
) -> tuple[Database, Clock]:
    """The database at the right schema, and the clock of all servers that share it (T-07): its own.

    Each server's lease is renewed with another look at that (`ServerPresence`). A file has the clock of its machine.
    """
    times = DatabaseTimes(meter.read.add, meter.write.add, meter.commit.add)
    database = open_database(settings.database_url(), times)
    stack.push_async_callback(database.close)
    await migrate(database, None if alone else int(settings.silent_server_seconds * 1000))
    if not alone:
        clock = follow(clock)
        await clock_ahead(database, clock)
    return database, clock


async def _first_keys(settings: Settings, database: Database, clock: Clock) -> FirstKeys:
    """The keys of a new installation's first workspace and first operator."""
    first_key = await bootstrap(database, settings.key_prefix, first_of(settings.subscriptions), clock)
    keys = FirstKeys(first_key, await bootstrap_operator(database, clock))
    save_first_keys(settings, keys)
    return keys


async def _assets(
    settings: Settings,
    secret: Secrets,
    database: Database,
    alone: bool,  # noqa: FBT001 -- as in Base
    clock: Clock,
    observe: Observer,
    stack: AsyncExitStack,
) -> Assets:
    blobs = ready_blobs(settings, lambda lost: observe(_lost_blob(lost)), StoreGate())
    shared = SharedStore(database, blobs, clock, observe, is_private=alone and settings.blobs is None)
    await _prove_first(shared, blobs.gate)
    start_background(stack, run_periodically(shared.prove, _PROVE_SECONDS, "prove the store for files", observe))
    links = Links(DerivedKeys(secret, "signed links of assets"))
    direct = direct_links(settings, clock)
    handlers = AssetHandlers(AssetReader(links, blobs, database, clock, store_links=direct), header_names(settings))
    return Assets(blobs, blobs.gate, links, direct, handlers, AssetSweeper(database, blobs, clock, observe))


def _authenticator(
    database: Database, verifier: TokenVerifiers | None, clock: Clock, observe: Observer, stack: AsyncExitStack
) -> Authenticator:
    """What finds out who calls; when keys were last used is written once a minute, and when the server stops."""
    authenticator = Authenticator(database, verifier, clock)
    write = authenticator.uses.write
    stack.push_async_callback(write)
    start_background(stack, run_periodically(write, WRITTEN_EVERY_SECONDS, "note the use of keys", observe))
    return authenticator


async def _prove_first(shared: SharedStore, gate: StoreGate) -> None:
    """Check the store before anything else, but do not wait long for one that does not answer."""
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            await shared.prove()
    except TimeoutError:
        gate.learn(StoreState.UNKNOWN, f"the store for files did not answer within {_FIRST_SECONDS:g} seconds")


def _readers(settings: Settings, observe: Observer, stack: AsyncExitStack) -> DocumentReaders:
    readers = DocumentReaders(settings.body_readers, lambda reason: observe(BodyReaderFailed(reason)))
    stack.push_async_callback(readers.close)
    return readers


def _lost_blob(lost: BlobLostError) -> BlobMissing | BlobDamaged:
    return BlobMissing(lost.name) if isinstance(lost, BlobMissingError) else BlobDamaged(lost.name)


def _rate_windows(
    settings: Settings, database: Database, clock: Clock, observe: Observer, stack: AsyncExitStack
) -> RateWindows:
    reads = settings.reads_per_minute
    quotas = Quotas(
        quotas_of(settings.requests_per_minute, settings.requests_per_day), (Quota(Span.READS, reads),) if reads else ()
    )
    windows = RateWindows(database, quotas, clock, observe)
    stack.push_async_callback(windows.share)  # the counts since the janitor's last turn
    return windows


def _verifier(settings: Settings, stack: AsyncExitStack) -> TokenVerifiers | None:
    """The verifier of tokens, None where none are accepted.

    BadSettingError for an unusable secret or key set, or one without an issuer and an audience.
    """
    issuers = [*_single_issuer(settings), *_listed_issuers(settings)]
    for source in {id(one.keys): one.keys for one in issuers}.values():
        stack.push_async_callback(source.close)
    if not issuers:
        return None
    return TokenVerifiers(
        [
            TokenVerifier(
                one,
                leeway=settings.jwt_leeway_seconds,
                workspace_claim=settings.jwt_workspace_claim,
                models_claim=settings.jwt_models_claim,
            )
            for one in issuers
        ]
    )


def _single_issuer(settings: Settings) -> Iterator[TokenIssuer]:
    """The issuer of the settings `FAIRLEAD_JWT_…`, where there is one; BadSettingError."""
    try:
        source = _key_source(settings)
    except ValueError as error:
        name = "FAIRLEAD_JWT_JWKS" if settings.jwt_secret is None else "FAIRLEAD_JWT_SECRET"
        raise BadSettingError(f"{name}: {error}") from error
    if source is not None:
        yield _token_issuer(settings, source)


def _listed_issuers(settings: Settings) -> Iterator[TokenIssuer]:
    """The issuers of `FAIRLEAD_TOKEN_ISSUERS`, once for each of their audiences; BadSettingError."""
    text = settings.token_issuers
    if text is None:
        return
    try:
        for one in read_issuers(text if text.lstrip().startswith("[") else Path(text).read_bytes()):
            keys = _key_set(one.keys)
            yield from (TokenIssuer(one.issuer, audience, keys, one.kind) for audience in one.audiences)
    except OSError as error:
        raise BadSettingError(f"FAIRLEAD_TOKEN_ISSUERS: the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadSettingError(f"FAIRLEAD_TOKEN_ISSUERS: {error}") from error


def _token_issuer(settings: Settings, keys: KeySource) -> TokenIssuer:
    """The trusted issuer; BadSettingError where the settings are incomplete."""
    lacking = [
        name
        for name, value in (
            ("FAIRLEAD_JWT_ISSUER", settings.jwt_issuer),
            ("FAIRLEAD_JWT_AUDIENCE", settings.jwt_audience),
        )
        if not value
    ]
    if lacking:
        raise BadSettingError(
            f"{' and '.join(lacking)}: needed with FAIRLEAD_JWT_JWKS or FAIRLEAD_JWT_SECRET; without them a token that "
            "was made by somebody else, or for another service, would be accepted here"
        )
    return TokenIssuer(str(settings.jwt_issuer), str(settings.jwt_audience), keys)


def _key_source(settings: Settings) -> KeySource | None:
    if settings.jwt_secret is not None:
        return SharedSecret(settings.jwt_secret)
    return None if settings.jwt_jwks is None else _key_set(settings.jwt_jwks)


def _key_set(place: str) -> KeySource:
    """The key set in a file or at an address; ValueError where there can be none."""
    if urlsplit(place).scheme in ("http", "https"):
        return KeyUrl(place)
    if not Path(place).is_file():
        raise ValueError(f"there is no file {place}")
    return KeyFile(Path(place))
