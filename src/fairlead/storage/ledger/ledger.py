"""Reads the ledger, and proves it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, Subquery, case, func, literal, or_, select, union_all

from fairlead.domain.days import day_of
from fairlead.domain.jobs.states import LIVE as LIVE_JOBS
from fairlead.domain.jobs.states import JobState
from fairlead.domain.ledger.books import COSTLY, EntryKind
from fairlead.domain.runs.states import LIVE, WAITING, RunState
from fairlead.storage.accounts.storage_usage import wrong_usage
from fairlead.storage.db.archive_tables import archive_sums, archives
from fairlead.storage.db.budget_tables import budgets, label_days
from fairlead.storage.db.tables import api_keys, jobs, ledger_entries, metadata, runs, usage_days, workspaces
from fairlead.storage.ledger.archives import broken_records
from fairlead.storage.ledger.budget_figures import charges_of, counts_against, spent_before
from fairlead.storage.ledger.label_books import first_unarchived, wrong_labels
from fairlead.storage.ledger.usage import NO_KEY, day_text
from fairlead.storage.work.table import AHEAD_MS

_CHECKS: Final[dict[str, list[tuple[str, str]]]] = {}
"""Each dialect's checks: to make and compile them takes longer than to prove the books of a small installation."""
_DISAGREEMENTS_MAX: Final = 100
_TIMES_TO_COME: Final = frozenset(
    {"delete_at", "expires_at", "forget_at", "key_expires_at", "next_at", "result_expires_at"}
)
"""The columns with a time until which something waits or lasts."""
_PAGE: Final = 1000
_USAGE: Final = ("runs", "succeeded", "charge")


class LedgerLine(NamedTuple):
    """An entry as it is exported, with the model of its run. Times in ms since 1970, money in 10^-8 dollars."""

    id: int
    created_at: int
    workspace: str
    kind: str
    balance_change: int
    held_change: int
    model_id: str | None
    key_id: str | None
    run_id: str | None
    reason: str
    rate_version: str | None
    labels: str | None = None
    """Of the run, a JSON object of texts; None for none."""


def entries_of(connection: Connection, workspace_id: str, limit: int) -> list[dict[str, object]]:
    """The newest entries of a workspace with the model each run ran, oldest first."""
    newest = (
        select(ledger_entries, runs.c.model_id)
        .outerjoin(runs, runs.c.id == ledger_entries.c.run_id)
        .where(ledger_entries.c.workspace_id == workspace_id)
        .order_by(ledger_entries.c.id.desc())
        .limit(limit)
    )
    return [dict(row) for row in reversed(connection.execute(newest).mappings().all())]


class WantedLines(NamedTuple):
    """Entries of a workspace (None for all), booked from `since` and before `until` (ms); None bounds nothing."""

    workspace_id: str | None
    since: int | None
    until: int | None


def export_pages(connection: Connection, wanted: WantedLines) -> Iterator[Sequence[LedgerLine]]:
    """Every entry that is wanted, oldest first, a page at a time.

    Each page begins after the last entry of the one before, so that a million entries need no more memory than one
    page.
    """
    lines = _lines(wanted)
    after = 0
    while page := connection.execute(lines.where(ledger_entries.c.id > after)).all():
        yield [LedgerLine(*row) for row in page]
        after = page[-1].id


def lines_after(
    connection: Connection, since: int | None, until: int | None, after: int, last: int
) -> Sequence[LedgerLine]:
    """A page of the entries of all workspaces after the entry `after`, up to the entry `last`; bounded as above."""
    entry = ledger_entries.c
    lines = _lines(WantedLines(None, since, until)).where(entry.id > after, entry.id <= last)
    return [LedgerLine(*row) for row in connection.execute(lines)]


def newest_entry(connection: Connection) -> int:
    """The id of the newest entry of all; 0 where there is none."""
    return int(connection.scalar(select(func.max(ledger_entries.c.id))) or 0)


def _lines(wanted: WantedLines) -> Select[Any]:
    workspace_id, since, until = wanted
    entry = ledger_entries.c
    of_run = {
        "model_id": runs.c.model_id,
        "key_id": runs.c.key_id,
        "labels": runs.c.labels,
        "workspace": workspaces.c.name,
    }
    lines = (
        select(*(of_run[name].label(name) if name in of_run else entry[name] for name in LedgerLine._fields))
        .join(workspaces, workspaces.c.id == entry.workspace_id)
        .outerjoin(runs, runs.c.id == entry.run_id)
        .order_by(entry.id)
        .limit(_PAGE)
    )
    if workspace_id is not None:
        lines = lines.where(entry.workspace_id == workspace_id)
    if since is not None:
        lines = lines.where(entry.created_at >= since)
    return lines if until is None else lines.where(entry.created_at < until)


def totals(connection: Connection) -> dict[str, int]:
    """How much there is to prove: workspaces, runs by state, entries."""
    by_state = connection.execute(select(runs.c.state, func.count()).group_by(runs.c.state))
    counts: dict[str, int] = {row[0]: row[1] for row in by_state}
    return {
        "workspaces": connection.execute(select(func.count()).select_from(workspaces)).scalar_one(),
        "entries": connection.execute(select(func.count()).select_from(ledger_entries)).scalar_one(),
        "archives": connection.execute(select(func.count()).select_from(archives)).scalar_one(),
        "archived_entries": int(
            connection.execute(select(func.coalesce(func.sum(archives.c.entries), 0))).scalar_one()
        ),
        **{f"runs_{state}": counts.get(state, 0) for state in RunState},
    }


def disagreements(connection: Connection) -> list[dict[str, object]]:
    """All contradictions in the ledger (requirement of `fairlead audit`): empty when it is right."""
    dialect = connection.dialect.name
    checks = _CHECKS.get(dialect) or _CHECKS.setdefault(dialect, _compiled_checks(connection))
    found = [{"check": name, **dict(row)} for name, sql in checks for row in connection.exec_driver_sql(sql).mappings()]
    return found + broken_records(connection)


def times_ahead(connection: Connection, now: int) -> list[dict[str, object]]:
    """The columns that record what has happened, and the latest of their times where it lies ahead of `now` (T-07).

    `now` is the time (ms) by the database's clock; clocks of servers differ from it by a little.
    """
    found: list[dict[str, object]] = []
    latest = now + AHEAD_MS
    for columns in _recorded_times():
        row = connection.execute(select(*(func.max(column) for column in columns))).one()
        for column, last in zip(columns, row, strict=True):
            if last is not None and last > (day_of(latest).isoformat() if isinstance(last, str) else latest):
                name = f"{column.table.name}.{column.name}"
                found.append({"check": "a time that lies ahead of the database's clock", "column": name, "last": last})
    return found


def _recorded_times() -> Iterator[Sequence[Column[int] | Column[str]]]:
    """The columns of each table with times (ms) or days of what has happened."""
    yield [usage_days.c.day]
    yield [label_days.c.day]
    yield [budgets.c.since]
    for table in metadata.sorted_tables:
        times = [column for column in table.c if column.name == "at" or column.name.endswith("_at")]
        if recorded := [column for column in times if column.name not in _TIMES_TO_COME]:
            yield recorded


def _compiled_checks(connection: Connection) -> list[tuple[str, str]]:
    """The name of each check, and its SQL in a dialect, with its constants in it."""
    checks = (
        ("workspace figures differ from the sum of its entries", _wrong_figures()),
        ("slots taken, or places in the queue, differ from the live runs", _wrong_slots()),
        ("a live run without exactly its hold", _live_without_hold()),
        ("an ended run whose hold was not settled exactly once", _select_ended_with_hold()),
        ("a charge that differs from its entry, or passes its hold", _wrong_charges()),
        ("money moved for a run that did not succeed, or a success not posted", _wrong_kind()),
        ("usage of a day differs from the runs that ended on it", _wrong_usage(connection)),
        ("usage of the archived days differs from the runs that ended on them", _wrong_archived_usage(connection)),
        ("usage of a label differs from the runs that ended with it", wrong_labels(connection)),
        ("what is held for a key differs from its live runs", _wrong_keys()),
        ("what is held or spent of a budget differs from its runs", _wrong_budgets(connection)),
        ("jobs that have a slot, or wait for one, differ from the live jobs", _wrong_job_slots()),
        ("what a workspace keeps is counted otherwise than its files are", wrong_usage()),
    )
    constants = {"literal_binds": True}
    return [
        (name, str(query.limit(_DISAGREEMENTS_MAX).compile(dialect=connection.dialect, compile_kwargs=constants)))
        for name, query in checks
    ]


def _wrong_job_slots() -> Select[*tuple[object, ...]]:
    live = (
        select(
            jobs.c.workspace_id,
            func.sum(case((jobs.c.state == JobState.PARKED, 0), else_=1)).label("active"),
            func.sum(case((jobs.c.state == JobState.PARKED, 1), else_=0)).label("parked"),
        )
        .where(jobs.c.state.in_(sorted(LIVE_JOBS)))
        .group_by(jobs.c.workspace_id)
        .subquery()
    )
    active, parked = func.coalesce(live.c.active, 0), func.coalesce(live.c.parked, 0)
    return (
        select(workspaces.c.name, workspaces.c.jobs_active, workspaces.c.jobs_parked, active.label("live"))
        .outerjoin(live, live.c.workspace_id == workspaces.c.id)
        .where((workspaces.c.jobs_active != active) | (workspaces.c.jobs_parked != parked))
    )


def _wrong_figures() -> Select[*tuple[object, ...]]:
    """Archived entries count by the sums of their archives, which change in the transactions that delete entries."""
    booked = union_all(
        *(
            select(table.c.workspace_id, table.c.balance_change, table.c.held_change)
            for table in (ledger_entries, archive_sums)
        )
    ).subquery()
    sums = (
        select(
            booked.c.workspace_id,
            func.sum(booked.c.balance_change).label("balance"),
            func.sum(booked.c.held_change).label("held"),
        )
        .group_by(booked.c.workspace_id)
        .subquery()
    )
    balance, held = func.coalesce(sums.c.balance, 0), func.coalesce(sums.c.held, 0)
    return (
        select(workspaces.c.name, workspaces.c.balance, workspaces.c.held, balance.label("sum"), held.label("sum_held"))
        .outerjoin(sums, sums.c.workspace_id == workspaces.c.id)
        .where((workspaces.c.balance != balance) | (workspaces.c.held != held))
    )


def _wrong_slots() -> Select[*tuple[object, ...]]:
    """The parked have no slot; every other live run has one."""
    is_waiting, is_parked = runs.c.state.in_(sorted(WAITING)), runs.c.state == RunState.PARKED
    live = (
        select(
            runs.c.workspace_id,
            func.sum(case((is_parked, 0), else_=1)).label("in_flight"),
            func.sum(case((~is_parked & (runs.c.hold >= COSTLY), 1), else_=0)).label("costly"),
            func.sum(case((is_waiting, 1), else_=0)).label("waiting"),
            func.sum(case((is_parked, 1), else_=0)).label("parked"),
            func.sum(case((is_parked, runs.c.hold), else_=0)).label("parked_held"),
        )
        .where(runs.c.state.in_(sorted(LIVE)))
        .group_by(runs.c.workspace_id)
        .subquery()
    )
    kept_and_counted = [
        (kept, func.coalesce(live.c[name], 0))
        for kept, name in (
            (workspaces.c.in_flight, "in_flight"),
            (workspaces.c.costly_in_flight, "costly"),
            (workspaces.c.waiting, "waiting"),
            (workspaces.c.parked, "parked"),
            (workspaces.c.parked_held, "parked_held"),
        )
    ]
    return (
        select(
            workspaces.c.name,
            *(kept for kept, _ in kept_and_counted),
            *(counted.label(f"counted_{kept.name}") for kept, counted in kept_and_counted),
        )
        .outerjoin(live, live.c.workspace_id == workspaces.c.id)
        .where(or_(*(kept != counted for kept, counted in kept_and_counted)))
    )


def _by_run() -> Subquery:
    """For each run: how many holds and ends it has, what is still held, what was charged."""
    kind = ledger_entries.c.kind
    return (
        select(
            ledger_entries.c.run_id,
            func.sum(case((kind == EntryKind.HOLD, 1), else_=0)).label("holds"),
            func.sum(case((kind.in_((EntryKind.POST, EntryKind.VOID)), 1), else_=0)).label("ends"),
            func.sum(case((kind == EntryKind.POST, 1), else_=0)).label("posts"),
            func.sum(ledger_entries.c.held_change).label("still_held"),
            func.sum(ledger_entries.c.balance_change).label("paid"),
        )
        .where(ledger_entries.c.run_id.is_not(None))
        .group_by(ledger_entries.c.run_id)
        .subquery()
    )


def _live_without_hold() -> Select[*tuple[object, ...]]:
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, runs.c.hold, sums.c.still_held, sums.c.ends)
        .outerjoin(sums, sums.c.run_id == runs.c.id)
        .where(
            runs.c.state.in_(sorted(LIVE)),
            (func.coalesce(sums.c.holds, 0) != 1)
            | (func.coalesce(sums.c.ends, 0) != 0)
            # No hold is -1, so a run without entries is found as well.
            | (func.coalesce(sums.c.still_held, -1) != runs.c.hold),
        )
    )


def _select_ended_with_hold() -> Select[*tuple[object, ...]]:
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, sums.c.holds, sums.c.ends, sums.c.still_held)
        .outerjoin(sums, sums.c.run_id == runs.c.id)
        .where(
            runs.c.state.not_in(sorted(LIVE)),
            (func.coalesce(sums.c.holds, 0) != 1)
            | (func.coalesce(sums.c.ends, 0) != 1)
            | (func.coalesce(sums.c.still_held, -1) != 0),
        )
    )


def _wrong_charges() -> Select[*tuple[object, ...]]:
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, runs.c.hold, runs.c.charge, sums.c.paid)
        .join(sums, sums.c.run_id == runs.c.id)
        .where(
            runs.c.state.not_in(sorted(LIVE)),
            (runs.c.charge != -sums.c.paid) | (runs.c.charge > runs.c.hold) | (runs.c.charge < 0),
        )
    )


def _wrong_kind() -> Select[*tuple[object, ...]]:
    """Only a failure that the model bills (a refusal on content grounds, R-27) may be posted without a success."""
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, runs.c.reason, sums.c.posts)
        .join(sums, sums.c.run_id == runs.c.id)
        .where(
            ((runs.c.state == RunState.SUCCEEDED) & (sums.c.posts != 1))
            | (
                runs.c.state.in_((RunState.FAILED, RunState.LOST))
                & (sums.c.posts != 0)
                & (runs.c.reason != "content_policy_violation")
            )
        )
    )


def _wrong_usage(connection: Connection) -> Select[*tuple[object, ...]]:
    """The surplus of the sums of a day, negative where they lack something: each run is subtracted from them.

    Of the days whose runs were archived only the sum of a workspace is proven here; their files prove the rest.
    """
    both = union_all(select(usage_days), _ended_runs(connection)).subquery()
    names = (workspaces.c.name, both.c.day, both.c.key_id, both.c.model_id)
    return _too_many(both, names).where(both.c.day >= first_unarchived(connection))


def _wrong_archived_usage(connection: Connection) -> Select[*tuple[object, ...]]:
    """The same for the days whose runs were archived, for each workspace in sum, less what is in the archives."""
    both = union_all(select(usage_days), _ended_runs(connection)).subquery()
    sums = [both.c[name] for name in _USAGE]
    of_days = select(both.c.workspace_id, *sums).where(both.c.day < first_unarchived(connection))
    archived = select(archive_sums.c.workspace_id, *(-archive_sums.c[name] for name in _USAGE))
    return _too_many(union_all(of_days, archived).subquery(), (workspaces.c.name,))


def _ended_runs(connection: Connection) -> Select[*tuple[object, ...]]:
    """Each run that has ended, in the columns of `usage_days`, as negative figures."""
    return select(
        runs.c.workspace_id,
        day_text(connection, runs.c.finished_at).label("day"),
        func.coalesce(runs.c.key_id, NO_KEY).label("key_id"),
        runs.c.model_id,
        literal(-1).label("runs"),
        case((runs.c.state == RunState.SUCCEEDED, -1), else_=0).label("succeeded"),
        (-runs.c.charge).label("charge"),
    ).where(runs.c.state.not_in(sorted(LIVE)))


def _too_many(used: Subquery, names: Sequence[ColumnElement[object]]) -> Select[*tuple[object, ...]]:
    """The sums of some rows of usage that are not 0, by names."""
    sums = {name: func.sum(used.c[name]) for name in _USAGE}
    return (
        select(*names, *(total.label(f"{name}_too_many") for name, total in sums.items()))
        .join(workspaces, workspaces.c.id == used.c.workspace_id)
        .group_by(*names)
        .having(or_(*(total != 0 for total in sums.values())))
    )


def _wrong_keys() -> Select[*tuple[object, ...]]:
    live = (
        select(runs.c.key_id, func.sum(runs.c.hold).label("held"))
        .where(runs.c.state.in_(sorted(LIVE)), runs.c.key_id.is_not(None))
        .group_by(runs.c.key_id)
        .subquery()
    )
    counted = func.coalesce(live.c.held, 0)
    return (
        select(api_keys.c.id, api_keys.c.hint, api_keys.c.held, counted.label("sum_held"))
        .outerjoin(live, live.c.key_id == api_keys.c.id)
        .where(api_keys.c.held != counted)
    )


def _wrong_budgets(connection: Connection) -> Select[*tuple[object, ...]]:
    """The holds are proven by live runs, the spending by the usage of the days of the period.

    What the first of these days had before the period is proven by its runs, unless they were archived.
    """
    held = (
        select(func.coalesce(func.sum(runs.c.hold), 0))
        .where(counts_against(connection, runs), runs.c.state.in_(sorted(LIVE)))
        .correlate(budgets)
        .scalar_subquery()
    )
    spent = charges_of(connection, usage_days) + charges_of(connection, label_days)
    before, all_spent = spent_before(connection), budgets.c.spent + budgets.c.spent_before
    is_before_wrong = (budgets.c.spent_before != before) & (budgets.c.since >= first_unarchived(connection))
    return select(
        budgets.c.id,
        budgets.c.target,
        budgets.c.held,
        held.label("sum_held"),
        budgets.c.spent,
        budgets.c.spent_before,
        spent.label("sum_spent"),
        before.label("sum_spent_before"),
    ).where((budgets.c.held != held) | (all_spent != spent) | is_before_wrong)
