"""`fairlead doctor`: finds what would keep a server on this machine from working."""

import asyncio
import os
import resource
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from fairlead.api.http.hosts import is_this_machine
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_json, print_table
from fairlead.cli.store.blobs import wrong_store
from fairlead.clock import Clock
from fairlead.domain.jobs.subscriptions import beyond
from fairlead.domain.ledger.estimates import Caution
from fairlead.operations.assets.stored_files import BlobAudit
from fairlead.operations.catalog import cautioned_cards, read_catalog
from fairlead.operations.ledger.books import audit
from fairlead.operations.ledger.budgets import unknown_time_zones
from fairlead.operations.overview import unattended_pools
from fairlead.operations.work.presence import clock_ahead
from fairlead.server.blob_stores import shown_place, stored_blobs
from fairlead.server.confinement import examine_confinement, packs_folder
from fairlead.server.installation import (
    DataDirectoryError,
    authored_flag,
    catalog_folders,
    option_name,
    provider_files,
    strange_markups,
    strange_variables,
)
from fairlead.server.messaging import MessagingUnavailableError, try_messaging
from fairlead.server.settings import Settings
from fairlead.storage.db.opening import file_of

_FILES_WANTED: Final = 4096
_FREE_MIB_WANTED: Final = 512
_NAMED: Final = 5
"""How many of many names a finding has."""
_CAUTION_WORDS: Final = {
    Caution.STALE: "past the day from which nothing is estimated by them",
    Caution.OVERDUE: "past the day by which they were to be checked",
    Caution.DERIVED: "derived from a reseller's prices",
}
_CLOCK_SECONDS: Final = 1.0
"""How far the clock may differ from the database's before times in answers and logs are misleading."""


class _ProblemError(Exception):
    """Something a check found wrong, in a sentence that says what to do."""


class _WarningError(Exception):
    """Something that works, but perhaps not as intended."""


@click.command()
@settings_option
@json_option
def doctor(settings: Settings, as_json: bool) -> None:
    """Check this machine and this installation; exits with status 1 when something must be fixed."""
    findings = [_examine(name, check, settings) for name, check in _CHECKS] + _confinement(settings)
    if as_json:
        print_json(findings)
    else:
        print_table([[f["check"], f["result"], f["detail"]] for f in findings], ("check", "result", "detail"))
    if any(finding["result"] == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


def _examine(name: str, check: Callable[[Settings], str], settings: Settings) -> dict[str, str]:
    try:
        return {"check": name, "result": "ok", "detail": check(settings)}
    except _WarningError as error:
        return {"check": name, "result": "warning", "detail": str(error)}
    except Exception as error:  # noqa: BLE001 -- any error of a check is its finding
        return {"check": name, "result": "problem", "detail": str(error) or type(error).__name__}


def _python(_: Settings) -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"


def _settings(settings: Settings) -> str:
    told = [
        f"{variable} is not a setting" + (f"; {meant} is one" if meant else "")
        for variable, meant in strange_variables(os.environ, provider_files(settings))
    ]
    if told:
        raise _ProblemError("; ".join(told))
    return "every FAIRLEAD_… variable is one"


def _data_directory(settings: Settings) -> str:
    if not settings.data.exists():
        return f"{settings.data} will be made by the first `fairlead serve`"
    mode = settings.data.stat().st_mode & 0o777
    if mode & 0o077:
        raise _ProblemError(f"{settings.data} is open to others ({mode:o}); run chmod 700 on it")
    if not os.access(settings.data, os.W_OK):
        raise _ProblemError(f"{settings.data} cannot be written")
    return str(settings.data)


def _disk(settings: Settings) -> str:
    folder = next(path for path in (settings.data.absolute(), *settings.data.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free // 2**20
    if free < _FREE_MIB_WANTED:
        raise _ProblemError(f"only {free} MiB are free; a full disk stops every run")
    return f"{free} MiB free"


def _open_files(_: Settings) -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= limit < _FILES_WANTED:
        raise _ProblemError(f"only {limit} open files are allowed, two are needed for every run; raise `ulimit -n`")
    return f"{limit} allowed"


def _links(settings: Settings) -> str:
    base = settings.public_base_url
    if base is None and settings.trusted_proxies:
        return "begin as the trusted proxies say"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    told = base or f"http://{host}:{settings.port}"
    if urlsplit(told).scheme != "https" and not is_this_machine(urlsplit(told).hostname or ""):
        raise _WarningError(
            f"callers elsewhere are given links that begin with http, such as {told}: clients that want https "
            "(`input_schema_url`) refuse them; set FAIRLEAD_PUBLIC_BASE_URL to the https address of the proxy in front"
        )
    return f"begin with {told}"


def _catalog(settings: Settings) -> str:
    providers = provider_files(settings)
    loaded = read_catalog(catalog_folders(settings), providers, authored_flag(settings))
    told = [
        f"FAIRLEAD_MARKUP names {name}, which is neither a model nor a provider"
        + (f"; {meant} is one" if meant else "")
        for name, meant in strange_markups(settings.markup, loaded.models, providers)
    ]
    if told:
        raise _ProblemError("; ".join(told))
    return f"{len(loaded.models)} models, build {loaded.build}"


def _rate_cards(settings: Settings) -> str:
    loaded = read_catalog(catalog_folders(settings), provider_files(settings), authored_flag(settings))
    found = cautioned_cards(loaded, Clock().today())
    told = "; ".join(
        f"{len(cards)} {_CAUTION_WORDS[caution]} ({_some(cards)})" for caution, cards in found.items() if cards
    )
    if found[Caution.STALE] or found[Caution.OVERDUE]:
        raise _WarningError(f"{told}; compare them with their vendors' lists (`fairlead catalog prices`)")
    return told or "none is overdue for a check"


def _some(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _provider_keys(settings: Settings) -> str:
    wanting = {name: one for name, one in provider_files(settings).items() if one.wants_credential}
    given = sorted(name for name in wanting if settings.provider_keys_of(option_name(name)))
    return ", ".join(given) or "none; only the built-in partner can be run"


def _books(settings: Settings) -> str:
    file = file_of(settings.database_url())
    if file is not None and not file.exists():
        return f"{file} will be made by the first `fairlead serve`"

    report = in_database(settings, audit)
    if not report.is_clean:
        raise _ProblemError(f"{len(report.disagreements)} disagreements; see `fairlead audit`")
    return f"{report.totals['entries']} entries add up"


def _time_zones(settings: Settings) -> str:
    file = file_of(settings.database_url())
    if file is not None and not file.exists():
        return "budgets name none"
    if unknown := in_database(settings, unknown_time_zones):
        raise _ProblemError(
            f"budgets name {_some(unknown)}, which this machine does not know: it begins their periods by UTC; "
            "install a newer tzdata"
        )
    return "all that budgets name are known"


def _clock(settings: Settings) -> str:
    if file_of(settings.database_url()) is not None:
        return "SQLite has this machine's"
    ahead = in_database(settings, lambda opened: clock_ahead(opened, Clock()))
    told = f"{abs(ahead):.2f} s {'ahead of' if ahead > 0 else 'behind'} the database's"
    if abs(ahead) > _CLOCK_SECONDS:
        raise _WarningError(f"it is {told}; leases do not depend on it, but times in answers and logs do")
    return told


def _pools(settings: Settings) -> str:
    file = file_of(settings.database_url())
    if file is not None and not file.exists():
        return f"{file} will be made by the first `fairlead serve`"
    silent_ms, named = int(settings.silent_server_seconds * 1000), settings.pools.pools
    found = in_database(settings, lambda opened: unattended_pools(opened, Clock(), silent_ms, named))
    if found is None:
        return "no server or worker is running"
    if not found:
        return "every pool in which work waits has a server or worker"
    told = _some([f"{one.pool} ({one.kind}: {one.waiting})" for one in found])
    raise _WarningError(
        f"work waits in pools that nobody works for: {told}; "
        f"start a worker with `fairlead work --pool {found[0].pool}`, or change FAIRLEAD_POOLS or the deployment's pool"
    )


def _messaging(settings: Settings) -> str:
    if not settings.messaging:
        return "none; servers of a shared database read each other's events from it"
    try:
        server, seconds = asyncio.run(try_messaging(settings))
    except MessagingUnavailableError as error:
        raise _WarningError(
            f"NATS cannot be used: {error}; until it can, servers read each other's events from the database"
        ) from error
    return f"NATS at {server} answers in {seconds * 1000:.1f} ms"


def _store(settings: Settings) -> str:
    place, file = shown_place(settings), file_of(settings.database_url())
    if file is not None and not file.exists():
        return f"{place} will be recorded by the first `fairlead serve`"
    blobs = stored_blobs(settings)
    problem = None if blobs is None else in_database(settings, lambda opened: wrong_store(settings, opened, blobs))
    if problem is not None:
        raise _ProblemError(f"{problem}; servers write nothing there (see `fairlead blobs`)")
    return place


def _files(settings: Settings) -> str:
    blobs = stored_blobs(settings)
    file = file_of(settings.database_url())
    if blobs is None or (file is not None and not file.exists()):
        return "there are none yet"

    count = in_database(settings, lambda opened: BlobAudit(opened, blobs, Clock()).sample(secrets.token_hex(1)))
    if not count.is_clean:
        lost = f"{count.missing} missing and {count.damaged} damaged among {count.references} that were looked at"
        raise _ProblemError(f"{lost}; see `fairlead audit --blobs`")
    return f"{count.references} looked at, {count.blobs} of them read"


def _node_packs(settings: Settings) -> str:
    from fairlead.server.hosts import try_node_packs  # noqa: PLC0415 -- takes long, for this alone

    if not settings.engine or packs_folder(settings) is None:
        return "none"
    confinement = examine_confinement(settings)
    if confinement.refusal is not None:
        raise _ProblemError(f"they are not loaded: {confinement.refusal}")
    with tempfile.TemporaryDirectory(prefix="fairlead-doctor-") as scratch:
        reports = asyncio.run(try_node_packs(settings, confinement, Path(scratch)))
    broken = [f"{report.name}: {report.error}" for report in reports if report.error is not None]
    if broken:
        raise _ProblemError("; ".join(broken))
    return f"{len(reports)} can be loaded"


def _engine_hosts(settings: Settings) -> str:
    if not settings.engine:
        return "none"
    hosts, extra, each = settings.engine_hosts, settings.engine_extra_hosts, settings.engine_memory_mib
    bound = f"up to {(hosts + extra) * each} MiB of memory together" if each else "without a bound of their memory"
    return f"{hosts}, and {extra} more for workspaces that have none while all are held; {bound}"


def _subscriptions(settings: Settings) -> str:
    hosts = settings.engine_hosts
    if settings.engine and (tiers := beyond(settings.subscriptions, hosts)):
        promised = ", ".join(f"{name} ({jobs})" for name, jobs in tiers)
        raise _WarningError(
            f"more parallel jobs are promised than the {hosts} of FAIRLEAD_ENGINE_HOSTS: {promised}; "
            "raise it, or share the work between servers"
        )
    return f"{len(settings.subscriptions)} tiers"


def _confinement(settings: Settings) -> list[dict[str, str]]:
    """How code of node packs would be confined here: each mechanism is tried by itself."""
    if not settings.engine:
        return []
    try:
        found = examine_confinement(settings)
    except DataDirectoryError as error:
        return [{"check": "confinement", "result": "problem", "detail": str(error)}]
    return [
        {
            "check": f"confinement: {mechanism.name}",
            "result": "ok" if mechanism.is_held or found.packs is None else "problem",
            "detail": mechanism.detail if mechanism.is_held else f"does not hold: {mechanism.detail}",
        }
        for mechanism in found.report.mechanisms
    ]


_CHECKS: Final[tuple[tuple[str, Callable[[Settings], str]], ...]] = (
    ("python", _python),
    ("settings", _settings),
    ("data directory", _data_directory),
    ("disk", _disk),
    ("open files", _open_files),
    ("links", _links),
    ("catalog", _catalog),
    ("rate cards", _rate_cards),
    ("provider keys", _provider_keys),
    ("database and books", _books),
    ("time zones", _time_zones),
    ("clock", _clock),
    ("pools", _pools),
    ("messaging", _messaging),
    ("store for files", _store),
    ("stored files", _files),
    ("node packs", _node_packs),
    ("engine hosts", _engine_hosts),
    ("subscriptions", _subscriptions),
)
