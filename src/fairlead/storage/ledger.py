"""Reading the books, and proving them."""

from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from fairlead.domain.billing.books import COSTLY, EntryKind
from fairlead.domain.runs.states import LIVE, RunState
from fairlead.storage.tables import ledger_entries, runs, workspaces

_DISAGREEMENTS_MAX = 100


def entries_of(connection: Connection, workspace_id: str, limit: int) -> list[dict[str, Any]]:
    """The newest entries of a workspace with the model each run ran, oldest first."""
    newest = (
        select(ledger_entries, runs.c.model_id)
        .outerjoin(runs, runs.c.id == ledger_entries.c.run_id)
        .where(ledger_entries.c.workspace_id == workspace_id)
        .order_by(ledger_entries.c.id.desc())
        .limit(limit)
    )
    return [dict(row) for row in reversed(connection.execute(newest).mappings().all())]


def totals(connection: Connection) -> dict[str, int]:
    """How much there is to prove: workspaces, runs by state, entries."""
    by_state = connection.execute(select(runs.c.state, func.count()).group_by(runs.c.state))
    counts: dict[str, int] = {row[0]: row[1] for row in by_state}
    return {
        "workspaces": connection.execute(select(func.count()).select_from(workspaces)).scalar_one(),
        "entries": connection.execute(select(func.count()).select_from(ledger_entries)).scalar_one(),
        **{f"runs_{state}": counts.get(state, 0) for state in RunState},
    }


def disagreements(connection: Connection) -> list[dict[str, Any]]:
    """Everything in the books that cannot be (requirement of `fairlead audit`): empty when they are right."""
    checks = (
        ("workspace figures differ from the sum of its entries", _wrong_figures()),
        ("slots taken differ from the live runs", _wrong_slots()),
        ("a live run without exactly its hold", _live_without_hold()),
        ("an ended run whose hold was not settled exactly once", _ended_with_hold()),
        ("a charge that differs from its entry, or passes its hold", _wrong_charges()),
        ("money moved for a run that did not succeed, or a success not posted", _wrong_kind()),
    )
    return [
        {"check": name, **dict(row)}
        for name, query in checks
        for row in connection.execute(query.limit(_DISAGREEMENTS_MAX)).mappings()
    ]


def _wrong_figures() -> Select[Any]:
    sums = (
        select(
            ledger_entries.c.workspace_id,
            func.sum(ledger_entries.c.balance_change).label("balance"),
            func.sum(ledger_entries.c.held_change).label("held"),
        )
        .group_by(ledger_entries.c.workspace_id)
        .subquery()
    )
    balance, held = func.coalesce(sums.c.balance, 0), func.coalesce(sums.c.held, 0)
    return (
        select(workspaces.c.name, workspaces.c.balance, workspaces.c.held, balance.label("sum"), held.label("sum_held"))
        .outerjoin(sums, sums.c.workspace_id == workspaces.c.id)
        .where((workspaces.c.balance != balance) | (workspaces.c.held != held))
    )


def _wrong_slots() -> Select[Any]:
    live = (
        select(
            runs.c.workspace_id,
            func.count().label("live"),
            func.sum(case((runs.c.hold >= COSTLY, 1), else_=0)).label("costly"),
        )
        .where(runs.c.state.in_(sorted(LIVE)))
        .group_by(runs.c.workspace_id)
        .subquery()
    )
    count, costly = func.coalesce(live.c.live, 0), func.coalesce(live.c.costly, 0)
    return (
        select(workspaces.c.name, workspaces.c.in_flight, count.label("live"), costly.label("costly"))
        .outerjoin(live, live.c.workspace_id == workspaces.c.id)
        .where((workspaces.c.in_flight != count) | (workspaces.c.costly_in_flight != costly))
    )


def _by_run() -> Any:
    """Per run: how often it was held for and ended, what is still held, what was charged."""
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


def _live_without_hold() -> Select[Any]:
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, runs.c.hold, sums.c.still_held, sums.c.ends)
        .outerjoin(sums, sums.c.run_id == runs.c.id)
        .where(
            runs.c.state.in_(sorted(LIVE)),
            (func.coalesce(sums.c.holds, 0) != 1)
            | (func.coalesce(sums.c.ends, 0) != 0)
            | (func.coalesce(sums.c.still_held, -1) != runs.c.hold),
        )
    )


def _ended_with_hold() -> Select[Any]:
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


def _wrong_charges() -> Select[Any]:
    sums = _by_run()
    return (
        select(runs.c.id, runs.c.state, runs.c.hold, runs.c.charge, sums.c.paid)
        .join(sums, sums.c.run_id == runs.c.id)
        .where(
            runs.c.state.not_in(sorted(LIVE)),
            (runs.c.charge != -sums.c.paid) | (runs.c.charge > runs.c.hold) | (runs.c.charge < 0),
        )
    )


def _wrong_kind() -> Select[Any]:
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
