"""An installation before anything runs: its folders, its secrets, its providers and their addresses."""

import difflib
import fcntl
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

import fairlead
from fairlead.clock import Clock
from fairlead.domain.brand import Brand
from fairlead.domain.catalog.identifiers import provider_setting
from fairlead.domain.days import HOUR_MS
from fairlead.domain.ledger.markups import EVERYTHING, Markups
from fairlead.identity.master_secret import Secrets
from fairlead.identity.sealing import Sealer
from fairlead.identity.secret_ring import FixedSecrets, SecretFile, secrets_of
from fairlead.operations.accounts.keys import IssuedKey
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.secret_rotation import SecretRotation
from fairlead.operations.accounts.workspaces import Tiers
from fairlead.providers.credentials import Credentials, Secret
from fairlead.providers.spec import Auth, Call, Provider, Scheme
from fairlead.providers.spec_files import SPECS, load_providers
from fairlead.server.settings import SETTINGS, BadSettingError, Settings
from fairlead.storage.db.database import Database
from fairlead.storage.db.migrate import schema_state
from fairlead.storage.db.opening import file_of, open_database

LOCAL: Final = "local"
PACKAGE: Final = Path(fairlead.__file__).parent
CATALOG: Final = PACKAGE / "catalog"
SNAPSHOTS: Final = PACKAGE / "snapshots"
_PREFIX: Final = "FAIRLEAD_"
_PROVIDER_PREFIX: Final = "FAIRLEAD_PROVIDER_"
_PROVIDER_OPTION: Final = re.compile(r"key(_[0-9]{1,2})?(_weight)?|base_url")
"""Options that every provider has; some also have parts of their addresses."""
_ALIKE: Final = 0.75
"""How similar a variable must be to a setting to be taken for a misspelling of it, from 0 to 1."""
_SIMULATED_PAIR: Final = "id-5f3a9c1e7b20:secret-8d41f6b2a97c"
"""Words that no answer of the simulator contains, because credentials are removed from answers of partners."""
_SIMULATED: Final = {
    Scheme.HEADER: _SIMULATED_PAIR,  # some vendors take an id and a secret in one header
    Scheme.PAIR: _SIMULATED_PAIR,
    Scheme.JWT: "simulated-access:simulated-secret-of-32-characters!!",
    Scheme.TC3: "simulated-access:simulated-secret-of-32-characters!!",
}
"""The credential for the partner simulator, which accepts any but obviously bad ones (see `PROTOCOL.md` there)."""

_SIMULATED_POLL_SECONDS: Final = 0.2
"""The simulator's tasks take less than a second, so long pauses between polls would only delay tests."""


class DataDirectoryError(Exception):
    """The data directory cannot be used, or another server uses it."""


class OldDatabaseError(Exception):
    """The database is not at the schema this version needs."""


def provider_files(settings: Settings) -> dict[str, Provider]:
    """Every provider by name, at the addresses the settings give; BadFileError."""
    providers = load_providers(SPECS)
    if settings.catalog is not None:
        providers |= load_providers(settings.catalog / "providers")
    return {name: _with_address(settings, provider) for name, provider in providers.items()}


def _with_address(settings: Settings, provider: Provider) -> Provider:
    """A provider at the address its settings give, with the parts of it that they fill in."""
    option = option_name(provider.name)
    named = provider.at(settings.provider_base_url_of(option) or provider.base_url)
    spelled = {name: f"{option}_{name}" for name in provider.variables}
    options = settings.provider_options
    given = named.with_variables({name: options[full] for name, full in spelled.items() if full in options})
    place = options.get(f"{option}_storage")
    if place is None or "storage" in provider.variables:
        return given
    try:
        return given.writing_to(place)
    except ValueError as error:
        raise BadSettingError(f"{provider_setting(provider.name, 'storage')}: {error}") from error


def option_name(provider: str) -> str:
    """A provider's name as part of an environment variable, in lower case."""
    return provider.replace("-", "_").replace(".", "_")


def strange_variables(
    environment: Mapping[str, str], providers: Mapping[str, Provider]
) -> list[tuple[str, str | None]]:
    """Unknown variables with the prefix of settings, each with the setting that was probably meant.

    An empty one counts as not set.
    """
    options = {option_name(name): _options_of(provider) for name, provider in providers.items()}
    possible = [provider_setting(name, option) for name, given in options.items() for option in given]
    known = {setting.env for setting in SETTINGS.values()}
    found: list[tuple[str, str | None]] = []
    for variable in sorted(name for name, text in environment.items() if text and name.startswith(_PREFIX)):
        option = variable.removeprefix(_PROVIDER_PREFIX).lower()
        if not variable.startswith(_PROVIDER_PREFIX):
            found += [] if variable in known else [(variable, _nearest(variable, known, _PREFIX))]
        elif not any(_is_option(option, name, given) for name, given in options.items()):
            found.append((variable, _nearest(variable, possible, _PROVIDER_PREFIX)))
    return found


def strange_markups(
    markups: Markups, models: Collection[str], providers: Collection[str]
) -> list[tuple[str, str | None]]:
    """The names of `FAIRLEAD_MARKUP` that are neither a model nor a provider, each with the one probably meant."""
    known = {EVERYTHING, *models, *providers}
    return [(name, _nearest(name, known, "")) for name in markups.percent if name not in known]


def _options_of(provider: Provider) -> set[str]:
    """The options of a provider, apart from further keys and their weights."""
    return {"key", "base_url", *provider.variables, *(() if provider.storage is None else ("storage",))}


def _nearest(variable: str, possible: Iterable[str], prefix: str) -> str | None:
    """The name most similar to a variable, if one is similar enough; the common prefix is ignored."""
    names = [name.removeprefix(prefix) for name in possible]
    found = difflib.get_close_matches(variable.removeprefix(prefix), names, 1, _ALIKE)
    return prefix + found[0] if found else None


def _is_option(option: str, provider: str, given: Container[str]) -> bool:
    rest = option.removeprefix(f"{provider}_")
    return rest != option and (rest in given or _PROVIDER_OPTION.fullmatch(rest) is not None)


def catalog_folders(settings: Settings) -> list[Path]:
    """Where model files are read from; BadSettingError if the setting does not name a folder."""
    if settings.catalog is not None and not settings.catalog.is_dir():
        raise BadSettingError(f"FAIRLEAD_CATALOG: there is no folder {settings.catalog}")
    return [CATALOG] if settings.catalog is None else [CATALOG, settings.catalog / "models"]


def authored_flag(settings: Settings) -> str:
    """The extension of schema documents that says whether a schema is authored (R-08)."""
    return Brand(settings.brand, settings.header_prefix).authored_flag


class FirstKeys(msgspec.Struct, frozen=True):
    """The keys that a start has made: of the first workspace and of the first operator; None where one existed."""

    api: IssuedKey | None
    operator: IssuedKey | None


def tiers_of(settings: Settings) -> Tiers:
    """The tiers of runs and jobs that the settings have."""
    return Tiers(settings.in_flight_tiers, settings.commitment_tiers, settings.subscriptions)


def prepare_data(settings: Settings) -> None:
    """Make the data directory, for its owner alone; DataDirectoryError."""
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.data.chmod(0o700)
    except OSError as error:
        told = f"the data directory {settings.data} (--data or FAIRLEAD_DATA) cannot be used: {error}"
        raise DataDirectoryError(told) from error


def secret_file(settings: Settings) -> Path | None:
    """The file of the server's master secrets; None where a setting holds them."""
    return None if settings.secret_key is not None else settings.data / "secret-key"


def master_secret(settings: Settings, *, make: bool = True) -> Secrets:
    """The server's master secrets: of the settings, else of their file, which is made where there is none.

    BadSettingError, or DataDirectoryError; the latter also for a missing file that is not to be made.
    """
    if settings.secret_key is not None:
        try:
            return FixedSecrets(secrets_of(settings.secret_key))
        except ValueError as error:
            raise BadSettingError(f"FAIRLEAD_SECRET_KEY: {error}") from None
    path = settings.data / "secret-key"
    try:
        return SecretFile(path, make=make)
    except FileNotFoundError as error:
        hint = "`fairlead serve` makes it; copy its file, or set FAIRLEAD_SECRET_KEY"
        raise DataDirectoryError(f"there is no secret at {path}; {hint}") from error
    except (ValueError, OSError) as error:
        raise DataDirectoryError(f"the server's secret cannot be used: {error}") from error


def secret_rotation(settings: Settings, secret: Secrets, database: Database, clock: Clock) -> SecretRotation:
    """The rotation of the server's master secrets."""
    links_ms = max(round(settings.asset_lifetime_hours * HOUR_MS), settings.file_link_seconds * 1000)
    return SecretRotation(database, secret, secret_file(settings), links_ms, clock)


def provider_keys(
    secret: Secrets,
    providers: Mapping[str, Provider],
    database: Database,
    clock: Clock,
    changed: Callable[[str], None],
) -> ProviderKeys:
    """Workspaces' own provider keys. The built-in partner takes none: only this server may call it."""
    taken = {name: found.wants_credential and name != LOCAL for name, found in providers.items()}
    return ProviderKeys(database, Sealer(secret), taken, clock, changed)


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """A database at the right schema, for a command; OldDatabaseError when it is not, or there is none."""
    file = file_of(settings.database_url())
    if file is not None and not file.exists():
        raise OldDatabaseError(f"there is no database at {file}; `fairlead serve` or `fairlead migrate` makes it")
    database = open_database(settings.database_url())
    try:
        state = await database.read(schema_state)
        if not state.is_usable:
            raise OldDatabaseError(state.refusal())
        yield database
    finally:
        await database.close()


_NEEDS_POSTGRESQL: Final = (
    "servers and workers share a PostgreSQL database (FAIRLEAD_DATABASE=postgresql://…); "
    "one of SQLite belongs to one process alone"
)


def require_shared_database(settings: Settings) -> None:
    """Refuse a worker without a database that it can share with servers; BadSettingError."""
    if file_of(settings.database_url()) is not None:
        raise BadSettingError(f"fairlead work: {_NEEDS_POSTGRESQL}")


def lock_data(settings: Settings, stack: AsyncExitStack) -> bool:
    """Claim an embedded database for this server alone; False where a database server is shared by many."""
    if file_of(settings.database_url()) is None:
        return False
    if not settings.work_pools:
        raise BadSettingError(f"--no-work: {_NEEDS_POSTGRESQL}")
    _lock(settings.data / "lock", stack)
    return True


def _lock(path: Path, stack: AsyncExitStack) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataDirectoryError(f"another server uses the data directory {path.parent}") from error


def lock_file_database(url: str, stack: AsyncExitStack) -> bool:
    """Keep servers out of a SQLite file whose data directory it is in; False where that cannot be known.

    DataDirectoryError where a server runs on it.
    """
    file = file_of(url)
    if file is None or not (lock := file.parent / "lock").exists():
        return False
    _lock(lock, stack)
    return True


def workspace_grace_ms(settings: Settings) -> int:
    """How long a deleted workspace can be restored."""
    return round(settings.workspace_grace_hours * HOUR_MS)


def save_first_keys(settings: Settings, keys: FirstKeys) -> None:
    """Write the first keys to their files, for their owner alone; nothing where none was made."""
    for name, key in (("first-key", keys.api), ("first-operator-key", keys.operator)):
        if key is not None:
            descriptor = os.open(settings.data / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(key.text + "\n")


class Partners(msgspec.Struct, frozen=True):
    """The providers with their addresses and credentials, and the simulator's address, if there is one."""

    providers: Mapping[str, Provider]
    secrets: Mapping[str, tuple[Secret, ...]]
    simulator: str | None = None


def partners(settings: Settings, local: tuple[str, str] | None, simulator: str | None) -> Partners:
    """Every provider as this server calls it; BadFileError, BadSettingError.

    `local` is the address and the token of the built-in partner, `simulator` the address of the partner simulator:
    every other provider is then called there, without any credential of ours.
    """
    providers = provider_files(settings)
    if settings.brand in providers:
        raise BadSettingError(f"FAIRLEAD_BRAND: {settings.brand!r} is the name of a provider")
    secrets = {name: _secrets(settings, name) for name in providers}
    if simulator is not None:
        providers = {name: _at_simulator(provider, simulator) for name, provider in providers.items()}
        secrets = {name: _simulator_secrets(provider) for name, provider in providers.items()}
    if local is not None:
        providers[LOCAL] = providers[LOCAL].at(local[0])
        secrets[LOCAL] = (Secret(local[1]),)
    for provider, problem in Credentials(providers, secrets).check():
        raise BadSettingError(f"{provider_setting(provider, 'key')}: {problem}")
    return Partners(providers, secrets, simulator)


def _secrets(settings: Settings, provider: str) -> tuple[Secret, ...]:
    return tuple(Secret(text, weight) for text, weight in settings.provider_keys_of(option_name(provider)))


def _at_simulator(provider: Provider, simulator: str) -> Provider:
    """A provider at the simulator, which serves each vendor below its name, at the paths of its real address.

    A token that only a real account could sign is replaced by a plain one, and pauses between polls are short.
    """
    filled = provider.with_variables(dict.fromkeys(provider.variables, "simulated"))
    if filled.auth.algorithm == "RS256":
        filled = replace(filled, auth=Auth(Scheme.HEADER, prefix="Bearer "))
    filled = replace(filled, calls={name: _poll_often(call) for name, call in filled.calls.items()})
    return filled.at(f"{simulator}/{provider.name}{urlsplit(filled.base_url).path}")


def _poll_often(call: Call) -> Call:
    """A call with short pauses between polls."""
    if call.polling is None:
        return call
    every = min(call.polling.every, _SIMULATED_POLL_SECONDS)
    return replace(call, polling=replace(call.polling, every=every, at_most_every=every))


def _simulator_secrets(provider: Provider) -> tuple[Secret, ...]:
    return (Secret(_SIMULATED.get(provider.auth.scheme, "")),)
