"""Moves rows into archives: which runs may move, their rows, the records of archives, and their sums.

A run moves with all its rows, and with every entry that was booked for it. Payments stay, as do the sums of days:
statements of months and usage stay complete.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Connection, RowMapping, Table, case, delete, func, or_, select, update

from fairlead.domain.days import first_id
from fairlead.domain.jobs.states import LIVE as LIVE_JOBS
from fairlead.domain.ledger.archives import (
    FIRST,
    Archive,
    ArchivedEntry,
    ArchivedEvent,
    ArchivedRun,
    ArchiveSums,
    checksum_of,
    sums_of,
)
from fairlead.domain.runs.states import LIVE, RunState
from fairlead.storage.db.archive_tables import archive_sums, archives
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import (
    jobs,
    ledger_entries,
    run_events,
    runs,
    usage_days,
    webhook_deliveries,
    webhook_tries,
)
from fairlead.storage.ledger.corrections import lock_corrections, were_corrected
from fairlead.storage.ledger.statements import shown_url
from fairlead.storage.ledger.usage import NO_KEY, UsageKey, UsageSums, day_text
from fairlead.storage.work.table import in_state

_FORGOTTEN: Final = ("request", "result_", "key_fingerprint", "key_expires_at", "idempotency_id", "forget_at")
"""The prefixes of columns that are empty when a run is archived: bodies, results and idempotency keys."""
_RUN: Final = [column for column in runs.c if not column.name.startswith(_FORGOTTEN)]
_ENTRY: Final = [ledger_entries.c[name] for name in ArchivedEntry.__struct_fields__]
_EVENT: Final = [run_events.c[name] for name in ArchivedEvent.__struct_fields__]
_WEBHOOK: Final = [column for column in webhook_deliveries.c if column.name not in ("run_id", "workspace_id")]
_TRY: Final = [column for column in webhook_tries.c if column.name not in ("id", "run_id")]
_OF_RUN: Final = (webhook_tries, webhook_deliveries, run_events, ledger_entries)
"""The tables that refer to a run, in the order in which their rows may be deleted."""
_CLOCKS_APART_MS: Final = 600_000
"""A correction is of another server's clock."""
_SUMMED: Final = ArchiveSums.__struct_fields__[1:]


class ArchiveMismatchError(Exception):
    """Rows differ from their archive, so that they must not be deleted; its text says which."""


class ArchiveTakenError(Exception):
    """Another archive has been recorded under this number meanwhile."""


class CorrectedMeanwhileError(Exception):
    """A charge was corrected while its run was written into a file, or little before."""


class Blocker(msgspec.Struct, frozen=True):
    """Why a day cannot be archived: the kind of what still needs it, how many, and the time of the earliest (ms)."""

    what: str
    count: int
    earliest: int


def live_before(connection: Connection, before: int) -> list[Blocker]:
    """What came before a time and has not ended: runs, whose holds are open, jobs, and webhooks to be delivered."""
    live_run = select(runs.c.created_at).where(in_state(runs, LIVE), runs.c.id < first_id(before))
    live_job = select(jobs.c.created_at).where(in_state(jobs, LIVE_JOBS), jobs.c.created_at < before)
    due = (
        select(runs.c.created_at)
        .join(webhook_deliveries, webhook_deliveries.c.run_id == runs.c.id)
        .where(webhook_deliveries.c.next_at.is_not(None), runs.c.finished_at < before)
    )
    found = []
    for what, query in (
        ("runs that have not ended", live_run),
        ("jobs that have not ended, whose runs may be asked for again", live_job),
        ("webhooks that have yet to be delivered", due),
    ):
        came = query.subquery().c.created_at
        count, earliest = connection.execute(select(func.count(), func.min(came))).one()
        if count:
            found.append(Blocker(what, int(count), int(earliest)))
    return found


class KeptPage(msgspec.Struct, frozen=True):
    """The runs of a page with a valid idempotency key or an available result.

    `last` is the id where the next page begins, None where there is none.
    """

    count: int
    earliest: int | None
    last: str | None


def kept_page(connection: Connection, before: int, now: int, after: str, limit: int) -> KeptPage:
    """Check up to `limit` runs that would be archived, after an id."""
    page = (
        select(runs.c.id, runs.c.created_at, runs.c.key_expires_at, runs.c.result_expires_at)
        .where(*_movable(before), runs.c.id > after)
        .order_by(runs.c.id)
        .limit(limit)
        .subquery()
    )
    is_kept = or_(page.c.key_expires_at > now, page.c.result_expires_at > now)
    looked, last, count, earliest = connection.execute(
        select(
            func.count(),
            func.max(page.c.id),
            func.coalesce(func.sum(case((is_kept, 1), else_=0)), 0),
            func.min(case((is_kept, page.c.created_at))),
        )
    ).one()
    return KeptPage(int(count), earliest, last if looked == limit else None)


def page_of_runs(connection: Connection, before: int, after: str, limit: int) -> list[ArchivedRun]:
    """Up to `limit` runs that ended before a time (ms), in the order of their ids, after one of them.

    The run of the newest entry stays: SQLite numbers entries after the newest existing one, and no number may be given
    twice.
    """
    newest = select(ledger_entries.c.run_id).order_by(ledger_entries.c.id.desc()).limit(1)
    newest_run = connection.execute(newest).scalar()
    ids = select(runs.c.id).where(*_movable(before), runs.c.id > after, runs.c.id != (newest_run or ""))
    return _read(connection, list(connection.execute(ids.order_by(runs.c.id).limit(limit)).scalars()))


def _movable(before: int) -> list[ColumnElement[bool]]:
    """The runs that ended before a time. They were also made before it, which bounds the ids."""
    return [runs.c.finished_at < before, runs.c.id < first_id(before)]


def _read(connection: Connection, ids: Sequence[str], *, lock: bool = False) -> list[ArchivedRun]:
    """The existing runs of some, with all their rows, in the order of their ids."""
    if not ids:
        return []
    found = select(*_RUN).where(runs.c.id.in_(ids)).order_by(runs.c.id)
    rows = connection.execute(found.with_for_update() if lock else found).mappings().all()

    def children(table: Table, columns: Sequence[ColumnElement[object]]) -> Mapping[str, list[dict[str, Any]]]:
        order = table.c.id if "id" in table.c else table.c.run_id
        query = select(table.c.run_id.label("of_run"), *columns).where(table.c.run_id.in_(ids)).order_by(order)
        grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in connection.execute(query).mappings():
            values = {str(name): value for name, value in row.items()}
            grouped[values.pop("of_run")].append(values)
        return grouped

    entries, events = children(ledger_entries, _ENTRY), children(run_events, _EVENT)
    webhooks, tries = children(webhook_deliveries, _WEBHOOK), children(webhook_tries, _TRY)
    return [
        ArchivedRun(
            {str(name): value for name, value in row.items()},
            [ArchivedEntry(**one) for one in entries.get(row["id"], ())],
            [ArchivedEvent(**one) for one in events.get(row["id"], ())],
            next(({**one, "url": shown_url(one["url"])} for one in webhooks.get(row["id"], ())), None),
            tries.get(row["id"], []),
        )
        for row in rows
    ]


def list_archives(connection: Connection, before_number: int | None, limit: int) -> list[Archive]:
    """Up to `limit` archives, the newest first, before the archive of a number; None for the newest."""
    newest = select(archives).order_by(archives.c.number.desc()).limit(limit)
    if before_number is not None:
        newest = newest.where(archives.c.number < before_number)
    return [_archive(row) for row in connection.execute(newest).mappings()]


def every_archive(connection: Connection) -> list[tuple[Archive, list[ArchiveSums]]]:
    """All archives with their sums, in the order of the chain."""
    sums: dict[int, list[ArchiveSums]] = defaultdict(list)
    for row in connection.execute(select(archive_sums).order_by(archive_sums.c.workspace_id)).mappings():
        sums[row["archive"]].append(_sums(row))
    found = connection.execute(select(archives).order_by(archives.c.number)).mappings()
    return [(_archive(row), sums[row["number"]]) for row in found]


def end_of_archives(connection: Connection, workspace_id: str | None) -> int | None:
    """The time (ms) before which the ended runs of a workspace (None for any) were archived; None where none was."""
    newest = select(func.max(archives.c.before))
    if workspace_id is not None:
        of_workspace = select(archive_sums.c.archive).where(archive_sums.c.workspace_id == workspace_id)
        newest = newest.where(archives.c.number.in_(of_workspace))
    found = connection.execute(newest).scalar()
    return None if found is None else int(found)


def record_archive(connection: Connection, archive: Archive, began: int) -> None:
    """Record an archive whose file is durable and whose rows all still exist; `began` is when it was begun (ms).

    ArchiveTakenError, CorrectedMeanwhileError.
    """
    lock_corrections(connection)
    if were_corrected(connection, archive.first_run, archive.last_run, began - _CLOCKS_APART_MS):
        raise CorrectedMeanwhileError
    row = insert_into(connection, archives).values(**asdict(archive)).on_conflict_do_nothing()
    if connection.execute(row).rowcount == 0:
        raise ArchiveTakenError


def move_runs(connection: Connection, number: int, batch: Sequence[ArchivedRun]) -> int:
    """Delete the runs of a batch of an archive that still exist, and add them to its sums; returns how many they were.

    Nothing is deleted that differs from the archive: ArchiveMismatchError. Logs of webhooks may have been deleted
    since.
    """
    archived = {one.run["id"]: one for one in batch}
    present = _read(connection, list(archived), lock=True)
    for one in present:
        kept = archived[one.run["id"]]
        row = {name: one.run.get(name) for name in kept.run}
        if (row, one.entries, one.events) != (kept.run, kept.entries, kept.events):
            raise ArchiveMismatchError(f"run {one.run['id']}")
    ids = [one.run["id"] for one in present]
    if ids:
        for table in _OF_RUN:
            connection.execute(delete(table).where(table.c.run_id.in_(ids)))
        connection.execute(delete(runs).where(runs.c.id.in_(ids)))
        _add_sums(connection, number, present)
    return len(ids)


def _add_sums(connection: Connection, number: int, moved: Iterable[ArchivedRun]) -> None:
    sums: dict[str, ArchiveSums] = {}
    for one in map(sums_of, moved):
        sums[one.workspace_id] = sums.get(one.workspace_id, ArchiveSums(one.workspace_id)) + one
    for id_ in sorted(sums):
        statement = insert_into(connection, archive_sums).values(archive=number, **asdict(sums[id_]))
        more = {name: archive_sums.c[name] + statement.excluded[name] for name in _SUMMED}
        keys = [archive_sums.c.archive, archive_sums.c.workspace_id]
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=more))


def finish_archive(connection: Connection, archive: Archive, now: int) -> None:
    """Record that all rows of an archive are deleted; ArchiveMismatchError where its sums do not match."""
    mine = select(archive_sums).where(archive_sums.c.archive == archive.number)
    if checksum_of(archive, [_sums(row) for row in connection.execute(mine).mappings()]) != archive.checksum:
        raise ArchiveMismatchError(f"archive {archive.number}")
    unfinished = archives.c.number == archive.number, archives.c.finished_at.is_(None)
    connection.execute(update(archives).where(*unfinished).values(finished_at=now))


def runs_present(connection: Connection, ids: Collection[str]) -> list[str]:
    """Those of some runs that are in the database."""
    return list(connection.execute(select(runs.c.id).where(runs.c.id.in_(ids))).scalars())


def broken_records(connection: Connection) -> list[dict[str, object]]:
    """Records of archives that were changed: with a wrong checksum, or in a wrong place of the chain."""
    broken: list[dict[str, object]] = []
    previous, number = FIRST, 1
    for archive, sums in every_archive(connection):
        row: dict[str, object] = {"archive": archive.number, "file": archive.file}
        if (archive.number, archive.previous) != (number, previous):
            broken.append({"check": "an archive that does not follow the one before it", **row})
        # The sums of an unfinished one grow with every batch.
        if archive.finished_at is not None and checksum_of(archive, sums) != archive.checksum:
            broken.append({"check": "an archive whose record or sums differ from its checksum", **row})
        previous, number = archive.checksum, archive.number + 1
    return broken


def usage_left(connection: Connection, before: int) -> dict[UsageKey, UsageSums]:
    """The usage of the days before a time that no run in the database explains."""
    day = day_text(connection, runs.c.finished_at)
    key_id = func.coalesce(runs.c.key_id, NO_KEY)
    succeeded = func.sum(case((runs.c.state == RunState.SUCCEEDED, 1), else_=0))
    there = (
        select(runs.c.workspace_id, day, key_id, runs.c.model_id, func.count(), succeeded, func.sum(runs.c.charge))
        .where(runs.c.finished_at < before)
        .group_by(runs.c.workspace_id, day, key_id, runs.c.model_id)
    )
    last = select(day_text(connection, func.max(archives.c.before)))
    used = select(usage_days).where(usage_days.c.day < connection.execute(last).scalar())
    left = {UsageKey(*row[:4]): UsageSums(*map(int, row[4:])) for row in connection.execute(used)}
    for row in connection.execute(there):
        key = UsageKey(*row[:4])
        had = left.get(key, UsageSums())
        left[key] = UsageSums(*(a - int(b) for a, b in zip(had, row[4:], strict=True)))
    return left


def _sums(row: RowMapping) -> ArchiveSums:
    return ArchiveSums(**{name: row[name] for name in ArchiveSums.__struct_fields__})


def _archive(row: RowMapping) -> Archive:
    return Archive(**{name: row[name] for name in Archive.__struct_fields__})
