"""What everything else stands on: the data directory, the database, the catalog, partners, assets, credentials."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from fairlead.api.admin.jobs import JobVerbs
from fairlead.api.assets import AssetHandlers
from fairlead.api.http.api import MountedApi
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.hosts import KnownHosts
from fairlead.api.http.sessions import SessionCookies
from fairlead.document_readers import DocumentReaders
from fairlead.domain.accounts.rate_windows import quotas_of
from fairlead.domain.accounts.token_issuers import read_issuers
from fairlead.domain.brand import Brand
from fairlead.domain.jobs.subscriptions import first_of
from fairlead.identity.key_sets import KeyFile, KeySource, KeyUrl, SharedSecret
from fairlead.identity.links import Links
from fairlead.identity.master_secret import Secrets
from fairlead.identity.secret_ring import DerivedKeys
from fairlead.identity.tokens import TokenIssuer, TokenVerifier, TokenVerifiers
from fairlead.messaging.messaging import Messaging
from fairlead.observing.logs import Logs
from fairlead.observing.metrics import Metrics
from fairlead.observing.observations import (
    BlobDamaged,
    BlobMissing,
    BodyReaderFailed,
    MarkupUnknown,
    Observer,
    SettingUnknown,
    all_of,
)
from fairlead.observing.traces import otlp_traces
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.members import bootstrap_operator
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.secrets import note_first_secret
from fairlead.operations.accounts.workspaces import bootstrap
from fairlead.operations.assets.results import AssetReader, AssetSweeper
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.server.installation import (
    CATALOG,
    DataDirectoryError,
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
from fairlead.storage.blobs.store import BlobLostError, BlobMissingError, FileBlobs, local_blobs
from fairlead.storage.db.database import Database, open_database
from fairlead.storage.db.migrate import migrate
from fairlead.workers.partner import PROCEDURAL, SIMULATOR, PartnerProgram


class Assets(msgspec.Struct, frozen=True):
    """Parts of the server for the assets of results."""

    blobs: FileBlobs
    links: Links
    handlers: AssetHandlers
    sweeper: AssetSweeper


class Base(msgspec.Struct, frozen=True):
    """What everything else stands on.

    `alone` says that no other server can share the database; `readers` read callers' documents.
    """

    database: Database
    first_keys: FirstKeys
    alone: bool
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
    """The execution of workflows, as the rest of the server sees it; None on a server without the engine."""

    apis: tuple[MountedApi, ...]
    confinement: Mapping[str, object]
    """How the engine's processes are confined, for an operator's tools."""
    entries_waiting: Callable[[], int]
    """How many entries of jobs are not durable yet."""
    verbs: JobVerbs
    """What the administration API can do about jobs."""


async def ready_base(settings: Settings, clock: Clock, observe: Observer, stack: AsyncExitStack) -> Base:
    """Prepare what runs and the HTTP application are built on; the stack stops it."""
    verifier = _verifier(settings, stack)
    prepare_data(settings)
    alone = lock_data(settings, stack)
    found = _partners(settings, observe, stack)
    for variable, meant in strange_variables(os.environ, found.providers):
        observe(SettingUnknown(variable, meant))
    database, first_keys = await _ready_database(settings, clock, stack)
    secret = master_secret(settings)
    await note_first_secret(database, secret)
    authenticator = Authenticator(database, verifier, clock)
    messaging = ready_messaging(settings)
    listen_for_changed_workspaces(messaging.wakeups, authenticator.forget, stack)
    flag, folders = brand(settings).authored_flag, catalog_folders(settings)
    catalog = CatalogKeeper(folders, found.providers, flag, clock, observe, settings.markup, shipped=CATALOG)
    for name, meant in strange_markups(settings.markup, catalog.current.models, found.providers):
        observe(MarkupUnknown(name, meant))
    return Base(
        database=database,
        first_keys=first_keys,
        alone=alone,
        secret=secret,
        partners=found,
        catalog=catalog,
        assets=_assets(settings, secret, database, clock, observe),
        authenticator=authenticator,
        own_keys=provider_keys(secret, found.providers, database, clock, publish_changed_workspace(messaging.wakeups)),
        windows=_rate_windows(settings, database, clock, observe, stack),
        readers=_readers(settings, observe, stack),
        messaging=messaging,
        clock=clock,
        observe=observe,
    )


def observers(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> Observer:
    """Make the logs, the metrics and, where they are wanted, the traces listen, as one observer."""
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
    """What reads the credentials of calls: the prefix of API keys, and the cookies of sessions."""
    return CredentialReader(
        settings.key_prefix, SessionCookies(BaseUrls(settings.public_base_url, settings.trusted_proxies))
    )


def header_names(settings: Settings) -> HeaderNames:
    """The response headers under this installation's prefix."""
    return HeaderNames(brand(settings).header_prefix)


def _partners(settings: Settings, observe: Observer, stack: AsyncExitStack) -> Partners:
    """Every provider where it is called; the programs among them are kept available."""
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


async def _ready_database(settings: Settings, clock: Clock, stack: AsyncExitStack) -> tuple[Database, FirstKeys]:
    """The database at the right schema, and the keys of a new installation's first workspace and first operator."""
    database = open_database(settings.database_url())
    stack.push_async_callback(database.close)
    await migrate(database)
    first_key = await bootstrap(database, settings.key_prefix, first_of(settings.subscriptions), clock)
    keys = FirstKeys(first_key, await bootstrap_operator(database, clock))
    save_first_keys(settings, keys)
    return database, keys


def _assets(settings: Settings, secret: Secrets, database: Database, clock: Clock, observe: Observer) -> Assets:
    try:
        folder = (settings.data / "blobs").resolve()  # engine hosts are elsewhere, and are given paths
        blobs = local_blobs(folder, lambda lost: observe(_lost_blob(lost)))
    except OSError as error:
        raise DataDirectoryError(f"the folder for blobs cannot be used: {error}") from error
    links = Links(DerivedKeys(secret, "signed links of assets"))
    handlers = AssetHandlers(AssetReader(links, blobs, database, clock), header_names(settings))
    return Assets(blobs, links, handlers, AssetSweeper(database, blobs, clock, observe))


def _readers(settings: Settings, observe: Observer, stack: AsyncExitStack) -> DocumentReaders:
    readers = DocumentReaders(settings.body_readers, lambda reason: observe(BodyReaderFailed(reason)))
    stack.push_async_callback(readers.close)
    return readers


def _lost_blob(lost: BlobLostError) -> BlobMissing | BlobDamaged:
    return BlobMissing(lost.name) if isinstance(lost, BlobMissingError) else BlobDamaged(lost.name)


def _rate_windows(
    settings: Settings, database: Database, clock: Clock, observe: Observer, stack: AsyncExitStack
) -> RateWindows:
    quotas = quotas_of(settings.requests_per_minute, settings.requests_per_day)
    windows = RateWindows(database, quotas, clock, observe)
    stack.push_async_callback(windows.share)  # what was counted since the janitor's last round
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
    """Whose tokens are believed; BadSettingError where the settings do not say it."""
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
