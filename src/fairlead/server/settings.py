"""Every option of a server: its name, its default and a sentence. Read once, then frozen.

Each can be given in the environment as `FAIRLEAD_<NAME>`; `serve` has flags for those people change by hand.
`docs/settings.md` describes them all, and a test keeps it honest.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.brand import brand_name, header_prefix, native_aliases
from fairlead.domain.jobs.subscriptions import SUBSCRIPTIONS, read_subscriptions
from fairlead.domain.ledger.holds import read_multiple
from fairlead.domain.ledger.markups import Markups, read_markups
from fairlead.domain.origins import read_origins
from fairlead.domain.registry import path_prefix
from fairlead.domain.work.pools import DEFAULT_POOL, PoolRules, read_pool_rules, read_pools
from fairlead.server import setting_readers as readers
from fairlead.server.identity_settings import IdentitySettings
from fairlead.server.setting_readers import option

V = TypeVar("V")
_DEFAULT_DATA: Final = Path("fairlead-data")
_PREFIX: Final = "FAIRLEAD_"
_PROVIDER_PREFIX: Final = "FAIRLEAD_PROVIDER_"
_FURTHER_KEY: Final = re.compile(r"_key(_[0-9]{1,2})?")
_WEIGHT_MAX: Final = 1000
SERVERLESS: Final = "serverless"
CLOUD: Final = "cloud"
SELF_HOSTED: Final = "self_hosted"
CONFINEMENT_REQUIRED: Final = "required"
CONFINEMENT_AVAILABLE: Final = "available"
CONFINEMENT_OFF: Final = "off"
LINKS_SERVER: Final = "server"
LINKS_OWN: Final = "own"
LINKS_ALL: Final = "all"
LINKS_DIRECT: Final = "direct"
_LOOPBACK: Final = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


class BadSettingError(Exception):
    """A setting has a value that cannot be used."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How one option is read."""

    name: str
    sentence: str
    read: Callable[[str], object]

    @property
    def env(self) -> str:
        """The environment variable of the option."""
        return _PREFIX + self.name.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(IdentitySettings):
    """The options of one server."""

    data: Path = option(_DEFAULT_DATA, "The data directory: database, first key, lock; made 0700.", Path)
    database: str | None = option(
        None,
        "The database URL; empty means SQLite in the data directory, postgresql://… shares one between servers.",
        readers.database_url,
        shown=False,  # it may hold a password, as may the addresses below
    )
    database_wait_seconds: float = option(
        10.0,
        "How long a server waits for a PostgreSQL that is away, before its callers get an error.",
        readers.number(0, 600),
    )
    messaging: tuple[str, ...] = option(
        (),
        "The NATS servers between servers of a shared database, nats://… or tls://…; empty uses the database alone.",
        readers.nats_servers,
        shown=False,
    )
    messaging_credentials: Path | None = option(
        None, "A file of credentials for NATS, as nsc writes it, instead of a user in the URL.", Path
    )
    blobs: str | None = option(
        None,
        "Where files are kept: a folder, or s3://bucket/prefix; empty means the folder blobs in the data directory.",
        readers.blob_place,
    )
    blobs_endpoint: str | None = option(
        None, "The address of the S3-compatible store; empty means AWS, or AWS_ENDPOINT_URL.", readers.base_url
    )
    blobs_region: str | None = option(None, "Its region; empty means AWS_REGION, else us-east-1.")
    blobs_access_key: str | None = option(None, "Our key there; empty means AWS_ACCESS_KEY_ID, or the machine's own.")
    blobs_secret_key: str | None = option(None, "Its secret; empty means AWS_SECRET_ACCESS_KEY.", shown=False)
    blobs_copies_mib: int = option(
        8192, "The most that copies of its files take on this machine, in MiB.", readers.integer(64, 10**9)
    )
    blobs_links: str = option(
        LINKS_SERVER,
        "Where links to files lead: server, or direct: to the S3-compatible store itself.",
        readers.choice(LINKS_SERVER, LINKS_DIRECT),
    )
    blobs_public_endpoint: str | None = option(
        None, "How callers reach the store for direct links; empty means as this server does.", readers.base_url
    )
    host: str = option("127.0.0.1", "The address to listen on.")
    port: int = option(8080, "The port to listen on; 0 takes a free one.", readers.integer(0, 65535))
    public_base_url: str | None = option(
        None, "How callers reach this server, for the absolute links it hands out.", readers.base_url
    )
    measured_links: str = option(
        LINKS_OWN,
        "Whose links to clips and sounds in bodies are measured, so that less is held for a run: own, or all: also of "
        "other servers, which must then give a partner the same file.",
        readers.choice(LINKS_OWN, LINKS_ALL),
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = option(
        (),
        "The addresses and networks of proxies whose forwarded headers are believed; empty is nobody.",
        readers.networks,
    )
    allowed_hosts: frozenset[str] = option(
        frozenset(), "More host names that calls without a credential may name, with commas between.", readers.hosts
    )
    allowed_origins: frozenset[str] = option(
        frozenset(), "The origins whose pages may call this server from a browser, with commas between.", read_origins
    )
    metrics_networks: tuple[IPv4Network | IPv6Network, ...] = option(
        _LOOPBACK, "The addresses and networks that may read /metrics where it has no token.", readers.networks
    )
    metrics_token: str | None = option(
        None, "The token that opens /metrics, as bearer; then nothing else does.", readers.static_token, shown=False
    )
    catalog: Path | None = option(
        None, "A folder with more providers (providers/*.toml) and models (models/**/*.toml).", Path
    )
    in_flight_tiers: tuple[int, ...] = option(
        (1, 5, 10, 20, 40), "Runs at a time, by tier from 1; -1 means no limit.", readers.integers(-1, 1_000_000)
    )
    commitment_tiers: tuple[int, ...] = option(
        (500, 2_500, 10_000, 50_000, 200_000),
        "What the runs in flight may be held for in all, by tier, in US cents.",
        readers.integers(0, 10**11),
    )
    markup: Markups = option(
        Markups(),
        "What is added to list prices, in percent, as name=percent,…; a name is *, a provider or a model.",
        read_markups,
    )
    hold_typical_times: Decimal | None = option(
        None, "The largest hold of a run, as a multiple of its typical price.", read_multiple
    )
    simulate: bool = option(
        False, "Whether to call every provider at the built-in simulator instead: no keys, no costs.", readers.boolean
    )
    local_partner: bool = option(True, "Whether to run the built-in procedural partner.", readers.boolean)
    brand: str = option("service", "The name that headers, aliases and schema flags are spelled after.", brand_name)
    header_prefix: str | None = option(
        None, "What the service's own headers begin with, instead of X-, the brand and a dash.", header_prefix
    )
    registry_prefix: str = option("", "What the registry's paths begin with, such as /registry.", path_prefix)
    native_aliases: frozenset[str] | None = option(
        None, "More values of model_provider for native dispatch; those of the brand where absent.", native_aliases
    )
    key_prefix: str = option("flk_", "What API keys begin with; tells a key from a token in a Bearer header.")
    body_limit_mib: int = option(64, "The largest body of a run, in MiB.", readers.integer(1, 1024))
    body_values: int = option(
        20_000, "The values that the JSON body of a run may hold.", readers.integer(100, 10_000_000)
    )
    workflow_limit_mib: int = option(16, "The largest submitted workflow, in MiB.", readers.integer(1, 1024))
    workflow_values: int = option(
        100_000, "The values that a submitted workflow may hold.", readers.integer(100, 10_000_000)
    )
    document_values: int = option(
        50_000, "The values that a JSON document of an editor may hold.", readers.integer(100, 10_000_000)
    )
    answer_values: int = option(
        50_000, "The values that a partner's JSON answer may hold.", readers.integer(100, 10_000_000)
    )
    body_readers: int = option(
        2, "The most processes that read large bodies, and large answers.", readers.integer(1, 64)
    )
    deadline_seconds: float = option(
        600.0, "How long a synchronous call is held; the run continues after it.", readers.number(0.01, 86_400)
    )
    run_places: int = option(10_000, "The most synchronous runs that callers wait for.", readers.integer(1, 10**6))
    run_admissions: int = option(64, "Of them, how many are admitted at a time.", readers.integer(1, 10_000))
    run_wait_seconds: float = option(10.0, "How long such a run may wait for its place.", readers.number(0.01, 600))
    requests_per_minute: int = option(600, "The requests of a workspace in a minute; 0 means no limit.", readers.quota)
    reads_per_minute: int = option(
        6000, "The reads of jobs, their files and nodes by a workspace in a minute; 0 means no limit.", readers.quota
    )
    requests_per_day: int = option(100_000, "The requests of a workspace a day (UTC); 0 is no limit.", readers.quota)
    asset_limit_mib: int = option(
        1024, "The largest asset of a result that is copied to our storage, in MiB.", readers.integer(1, 65_536)
    )
    asset_lifetime_hours: int = option(
        168, "How long links to copied assets are good, for models that do not say.", readers.integer(1, 8760)
    )
    idempotency_hours: int = option(
        24, "How long an idempotency key is kept from its first use.", readers.integer(1, 24 * 30)
    )
    replay_limit_mib: int = option(
        32, "The largest result that is kept for its idempotency key, in MiB.", readers.integer(1, 1024)
    )
    replay_links_seconds: int = option(
        600,
        "How long a result that names a partner's links can be replayed for its idempotency key.",
        readers.integer(0, 86_400),
    )
    queue_backlog: int = option(
        10_000, "The queued runs of a workspace that may wait for a worker.", readers.integer(1, 10_000_000)
    )
    queue_hours: float = option(
        24.0, "How long a queued run may wait before it is given up, never started.", readers.number(0.0001, 24 * 365)
    )
    queue_places: int = option(
        1000, "The queued runs a server works on at a time, over all workspaces.", readers.integer(0, 100_000)
    )
    pools: PoolRules = option(
        PoolRules(),
        "Which queued work is executed in which pool, as name=kind:value,…;…; a kind is class, model, provider or "
        "subscription.",
        read_pool_rules,
    )
    work_pools: tuple[str, ...] = option(
        (DEFAULT_POOL,), "The pools that a server executes queued work of, with commas between.", read_pools
    )
    operator_port: int | None = option(
        None,
        "The port at which a worker answers /healthz, /readyz and /metrics; empty is none.",
        readers.integer(0, 65535),
    )
    results_hours: float = option(
        168.0, "How long what a queued run ended in can be collected.", readers.number(0.0001, 24 * 365)
    )
    engine: bool = option(True, "Whether to execute workflows; without it there is no cloud API.", readers.boolean)
    engine_hosts: int = option(
        2, "The engine hosts of a server, each a process that executes one job at a time.", readers.integer(1, 256)
    )
    engine_extra_hosts: int = option(
        1, "More hosts, for workspaces that have none while others hold all of a server's.", readers.integer(0, 256)
    )
    job_attempts: int = option(3, "How many servers may die with a job before it fails.", readers.integer(1, 100))
    engine_memory_mib: int = option(
        4096, "The memory an engine host may take, in MiB; 0 means no limit.", readers.integer(0, 16_777_216)
    )
    engine_cache_mib: int = option(
        512,
        "Of it, what may hold results of nodes for the workspace's next jobs, in MiB.",
        readers.integer(0, 16_777_216),
    )
    engine_idle_seconds: float = option(
        300.0, "How long an engine host keeps a workspace's results without a job.", readers.number(0, 86_400)
    )
    engine_confinement: str = option(
        CONFINEMENT_REQUIRED,
        "Whether code of node packs has to be confined: required (else no pack is loaded), available, or off.",
        readers.choice(CONFINEMENT_REQUIRED, CONFINEMENT_AVAILABLE, CONFINEMENT_OFF),
    )
    engine_heartbeat_seconds: float = option(
        10.0, "How long an engine host may be silent before it is ended.", readers.number(0.1, 3_600)
    )
    engine_pack_seconds: float = option(
        60.0, "How long a node pack may take to load before it is left out.", readers.number(0.1, 3_600)
    )
    engine_network: frozenset[str] = option(
        frozenset(), "The node packs that may use the network, with commas between, or *; empty is none.", readers.names
    )
    engine_readable: tuple[Path, ...] = option(
        (), "More files and folders that node packs may read, with colons between.", readers.paths
    )
    engine_devices: tuple[Path, ...] = option(
        (), "Devices that node packs may use, such as /dev/nvidia0, with colons between.", readers.paths
    )
    engine_allow_root: bool = option(False, "Whether a server that runs as root loads node packs.", readers.boolean)
    node_packs: Path | None = option(
        None, "A folder of node packs; empty means custom_nodes in the data directory, where there is one.", Path
    )
    job_minutes: float = option(60.0, "How long a job may be executed, in minutes.", readers.number(0.001, 10_080))
    jobs_backlog: int = option(
        1_000,
        "The jobs of a workspace that may wait for one of its parallel jobs to end.",
        readers.integer(0, 1_000_000),
    )
    jobs_hours: float = option(
        168.0, "How long jobs that have ended are kept, with their outputs.", readers.number(0.0001, 24 * 365)
    )
    subscriptions: tuple[tuple[str, int], ...] = option(
        SUBSCRIPTIONS, "Tiers of subscriptions and their parallel jobs; 0 is inactive, -1 no limit.", read_subscriptions
    )
    jobs_surface: str = option(
        SERVERLESS,
        "What the jobs API is: serverless, cloud (no list, no labels) or self_hosted (open, or one static token).",
        readers.choice(SERVERLESS, CLOUD, SELF_HOSTED),
    )
    deployment_domain: str | None = option(
        None,
        "The domain of which every subdomain is a deployment; deployments are at paths where it is empty.",
        readers.domain,
    )
    blocked_hashes: frozenset[str] = option(
        frozenset(), "BLAKE3 hashes of bytes that are not assets, as `blake3:…` with commas between.", readers.hashes
    )
    moderation: str | None = option(
        None,
        "A callable that judges bytes before they are kept, as module:function or path.py:function.",
        readers.callable_name,
    )
    moderation_seconds: float = option(
        10.0, "How long a verdict is waited for, and before that a free process, each.", readers.number(0.1, 600)
    )
    moderation_processes: int = option(2, "The most processes in which bytes are judged.", readers.integer(1, 64))
    moderation_memory_mib: int = option(
        2048, "The memory such a process may take, in MiB; 0 means no limit.", readers.integer(0, 16_777_216)
    )
    upload_limit_mib: int = option(100, "The largest file that may be uploaded, in MiB.", readers.integer(1, 65_536))
    storage_limit_mib: int = option(
        1_048_576, "What a workspace may keep in files, in MiB; 0 means no limit.", readers.integer(0, 10**12)
    )
    storage_files: int = option(
        1_000_000, "The files a workspace may keep; 0 means no limit.", readers.integer(0, 10**12)
    )
    uploads: int = option(
        256, "The files a server receives at a time, over all workspaces.", readers.integer(1, 100_000)
    )
    uploads_per_workspace: int = option(
        32,
        "Of them, the most of one workspace; it gets its share of them while others wait.",
        readers.integer(1, 100_000),
    )
    file_link_seconds: int = option(
        3600, "How long the signed links that /api/view redirects to are good.", readers.integer(1, 604_800)
    )
    workspace_grace_hours: float = option(
        168.0, "How long a deleted workspace can be restored.", readers.number(0, 24 * 365)
    )
    audit_log_days: int = option(0, "How many days the audit log is kept; 0 is for ever.", readers.integer(0, 36_500))
    revoked_keys_days: int = option(
        0, "How many days a revoked API key is known, with its label; 0 is for ever.", readers.integer(0, 36_500)
    )
    inputs_days: int = option(
        0, "How many days uploaded inputs are kept; 0 is until they are deleted.", readers.integer(0, 36_500)
    )
    sockets_per_workspace: int = option(
        2000, "The WebSockets a workspace may have open at a server.", readers.integer(1, 1_000_000)
    )
    webhook_private_addresses: bool = option(
        False, "Whether webhooks may lead to private and loopback addresses, too.", readers.boolean
    )
    smtp_host: str | None = option(
        None, "The mail server that alerts and invitations are handed to; empty sends no e-mail.", readers.host
    )
    smtp_port: int = option(587, "Its port.", readers.integer(1, 65535))
    smtp_security: str = option(
        "starttls",
        "How the connection to it is secured: starttls, tls or none.",
        readers.choice("starttls", "tls", "none"),
    )
    smtp_user: str | None = option(None, "Whom to log in there as; empty does not log in.")
    smtp_password: str | None = option(None, "The password for that.", shown=False)
    smtp_sender: str = option("fairlead@localhost", "From whom e-mail is.", readers.sender)
    silent_server_seconds: float = option(
        10.0,
        "How long a server of a shared database may be silent before others take over its runs and jobs.",
        readers.number(2, 3600),
    )
    connections: int = option(
        20_000, "The connections a server may have open; 0 means no limit.", readers.integer(0, 1_000_000)
    )
    silence_seconds: float = option(
        120.0, "How long a connection may have no request under way before it is closed.", readers.number(1, 86_400)
    )
    drain_pause_seconds: float = option(
        0.0,
        "How long a stopping server still serves while it reports the stop, until load balancers have noticed.",
        readers.number(0, 600),
    )
    drain_seconds: float = option(
        20.0,
        "How long a stopping server waits for calls, runs and jobs under way; half of it, it takes new calls.",
        readers.number(0, 3600),
    )
    log_level: str = option(
        "info", "What is logged: debug, info, warning or error.", readers.choice("debug", "info", "warning", "error")
    )
    log_format: str = option("auto", "json, text, or auto: text at a terminal.", readers.choice("auto", "json", "text"))
    otlp_endpoint: str | None = option(
        None,
        "Where to send OpenTelemetry traces (OTLP over HTTP); needs fairlead[telemetry].",
        readers.base_url,
        shown=False,
    )
    provider_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The options of providers, as `<name>_<option>` in lower case: keys, weights, addresses and their parts."""

    def database_url(self) -> str:
        """The database's URL, with the default filled in."""
        return self.database or f"sqlite:///{(self.data / 'fairlead.db').absolute()}"

    def storage_limits(self) -> StorageLimits:
        """The limits of a workspace that has none of its own."""
        return StorageLimits(self.storage_limit_mib * 2**20, self.storage_files)

    def provider_keys_of(self, provider: str) -> list[tuple[str, int]]:
        """Our keys at a provider with their weights: `_KEY`, and any number of `_KEY_<N>`. BadSettingError."""
        found = []
        for name, text in sorted(self.provider_options.items()):
            if name.startswith(provider) and _FURTHER_KEY.fullmatch(name[len(provider) :]):
                found.append((text, self._weight(name)))
        return found

    def provider_base_url_of(self, provider: str) -> str | None:
        """Where a provider is called instead of where its file says; BadSettingError."""
        text = self.provider_options.get(f"{provider}_base_url")
        variable = f"{_PROVIDER_PREFIX}{provider.upper()}_BASE_URL"
        return None if text is None else _read_as(variable, readers.base_url, text)

    def _weight(self, key: str) -> int:
        text = self.provider_options.get(f"{key}_weight", "1")
        return int(_read_as(f"{_PROVIDER_PREFIX}{key.upper()}_WEIGHT", readers.integer(1, _WEIGHT_MAX), text))


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        option.name: Setting(option.name, option.metadata["sentence"], option.metadata["read"])
        for option in fields(Settings)
        if option.metadata
    }
)


def read_settings(environment: Mapping[str, str] = os.environ, **given: object) -> Settings:
    """Read the options: those given (and not None) first, then the environment, then the defaults. BadSettingError."""
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        if text := environment.get(setting.env):
            values[name] = _read(setting, text)
    values["provider_options"] = MappingProxyType(
        {
            variable.removeprefix(_PROVIDER_PREFIX).lower(): text
            for variable, text in environment.items()
            if text and variable.startswith(_PROVIDER_PREFIX)
        }
    )
    for name, value in given.items():
        if value is not None:
            values[name] = _read(SETTINGS[name], value) if isinstance(value, str) else value
    settings = Settings(**values)
    if settings.static_token is not None and settings.jobs_surface != SELF_HOSTED:
        raise BadSettingError("FAIRLEAD_STATIC_TOKEN: only FAIRLEAD_JOBS_SURFACE=self_hosted takes one")
    if unknown := settings.pools.unknown_subscriptions(dict(settings.subscriptions)):
        raise BadSettingError(f"FAIRLEAD_POOLS: there is no subscription {unknown[0]} in FAIRLEAD_SUBSCRIPTIONS")
    return settings


def _read(setting: Setting, text: str) -> object:
    return _read_as(setting.env, setting.read, text)


def _read_as(variable: str, read: Callable[[str], V], text: str) -> V:
    try:
        return read(text)
    except ValueError as error:
        raise BadSettingError(f"{variable}: {error}") from error
