"""Books refunds of runs, and what refunds and re-rates (rerates.py) have in common.

A correction is an entry that names its run. In the same transaction it changes the charge of the run, the usage of the
day on which the run ended, by its labels too, and what is spent of the budgets whose period has that time: so the books
are proven as before.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, case, exists, func, insert, select, update

from fairlead.domain.days import day_of, first_id
from fairlead.domain.ledger.books import EntryKind
from fairlead.domain.ledger.budgets import targets_of_run
from fairlead.domain.ledger.corrections import (
    REFUND_PHASE,
    ChargedRun,
    NotRefundableError,
    Obstacle,
    Refund,
    RefundOrder,
    RunSelection,
    refund_of,
)
from fairlead.domain.ledger.money import BALANCE_MAX
from fairlead.domain.ledger.usage import labels_in
from fairlead.domain.time_zones import MINUTE_MS
from fairlead.storage.accounts.credits import BalanceBoundError
from fairlead.storage.db.archive_tables import archives
from fairlead.storage.db.budget_tables import budgets
from fairlead.storage.db.statements import is_sqlite, run_together
from fairlead.storage.db.tables import api_keys, ledger_entries, runs, usage_days, workspaces
from fairlead.storage.ledger.label_books import LabelBook
from fairlead.storage.ledger.usage import NO_KEY, UsageSums

_LOCK: Final = 0x666C72  # "flr": names the lock of corrections and archives among those of other programs
_REFUND: Final = and_(ledger_entries.c.run_id == runs.c.id, ledger_entries.c.phase == REFUND_PHASE)
_ARCHIVING: Final = exists().where(
    archives.c.finished_at.is_(None),
    runs.c.id.between(archives.c.first_run, archives.c.last_run),
    runs.c.finished_at < archives.c.before,
)
FOUND: Final = (
    select(
        runs.c.id,
        runs.c.workspace_id,
        workspaces.c.name.label("workspace"),
        runs.c.key_id,
        api_keys.c.team,
        runs.c.model_id,
        runs.c.charge,
        runs.c.rate_version,
        runs.c.labels,
        runs.c.finished_at,
        _ARCHIVING.label("is_archiving"),
        ledger_entries.c.balance_change.label("refunded"),
        ledger_entries.c.created_at.label("refunded_at"),
    )
    .join(workspaces, workspaces.c.id == runs.c.workspace_id)
    .outerjoin(api_keys, api_keys.c.id == runs.c.key_id)
    .outerjoin(ledger_entries, _REFUND)
    .order_by(runs.c.id)
)
"""The runs that may be corrected, with their refunds."""


class Correction(NamedTuple):
    """A correction of a run: its row (FOUND), how much its charge is lowered by, and its entry in the ledger.

    `rate_version` is the card that the run is charged by from now on.
    """

    row: Row[*tuple[object, ...]]
    amount: int
    kind: EntryKind
    phase: int
    rate_version: str


class RefundPage(msgspec.Struct, frozen=True):
    """Refunds of some runs, the runs that could have none and why, and the run after which others follow."""

    refunds: list[Refund]
    obstacles: dict[str, Obstacle]
    after: str | None


class RefundSums(msgspec.Struct, frozen=True):
    """How many runs of a selection may be refunded and what they were charged; how many were before, and how much."""

    runs: int
    amount: int
    refunded_runs: int
    refunded: int


def lock_corrections(connection: Connection) -> None:
    """Let no other transaction correct a charge, or record an archive, until this one has ended."""
    if not is_sqlite(connection):  # SQLite has one writer at a time
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def were_corrected(connection: Connection, first_run: str, last_run: str, since: int) -> bool:
    """Whether a charge of some runs, by the first and the last id, was corrected since a time (ms)."""
    entry = ledger_entries.c
    corrected = select(entry.id).where(
        entry.run_id.between(first_run, last_run), entry.phase <= REFUND_PHASE, entry.created_at >= since
    )
    return connection.execute(corrected.limit(1)).first() is not None


def refund_run(connection: Connection, run_id: str, order: RefundOrder, now: int, *, is_dry: bool) -> Refund | None:
    """Refund a run once; None where there is no such run. NotRefundableError, BalanceBoundError."""
    page = _refund(connection, [run_id], order, now, is_dry=is_dry)
    if run_id in page.obstacles:
        raise NotRefundableError(page.obstacles[run_id])
    return page.refunds[0] if page.refunds else None


def refund_selected(
    connection: Connection,
    wanted: RunSelection,
    order: RefundOrder,
    after: str | None,
    limit: int,
    now: int,
    *,
    is_dry: bool,
) -> RefundPage:
    """Refund up to `limit` runs of a selection, after one of them, in the order of their ids; BalanceBoundError."""
    unrefunded = select(runs.c.id).where(*selected(wanted), runs.c.charge > 0, ~exists().where(_REFUND))
    if after is not None:
        unrefunded = unrefunded.where(runs.c.id > after)
    ids = list(connection.execute(unrefunded.order_by(runs.c.id).limit(limit + 1)).scalars())
    page = _refund(connection, ids[:limit], order, now, is_dry=is_dry)
    return msgspec.structs.replace(page, after=ids[limit - 1] if len(ids) > limit else None)


def refund_sums(connection: Connection, wanted: RunSelection) -> RefundSums:
    """What a selection adds up to."""
    is_refunded = ledger_entries.c.id.is_not(None)
    found = select(runs.c.charge, ledger_entries.c.balance_change, is_refunded.label("is_refunded"))
    each = found.outerjoin(ledger_entries, _REFUND).where(*selected(wanted)).subquery()
    left = each.c.charge > 0, ~each.c.is_refunded

    def sums(amount: ColumnElement[int], *conditions: ColumnElement[bool]) -> tuple[int, int]:
        total = select(func.count(), func.coalesce(func.sum(amount), 0)).where(*conditions)
        count, amounts = connection.execute(total).one()
        return int(count), int(amounts)

    return RefundSums(*sums(each.c.charge, *left), *sums(each.c.balance_change, each.c.is_refunded))


def selected(wanted: RunSelection) -> list[ColumnElement[bool]]:
    """The conditions of a selection; an id begins with the time at which its run was admitted."""
    run = runs.c
    narrowed: list[tuple[ColumnElement[str | None], str | None]] = [
        (run.workspace_id, wanted.workspace_id),
        (run.rate_version, wanted.rate_version),
        (run.reason, wanted.outcome),
    ]
    until = [] if wanted.until is None else [run.id < first_id(wanted.until)]
    return [
        run.model_id == wanted.model_id,
        run.id >= first_id(wanted.since),
        *until,
        *(column == value for column, value in narrowed if value is not None),
    ]


def _refund(
    connection: Connection, run_ids: Sequence[str], order: RefundOrder, now: int, *, is_dry: bool
) -> RefundPage:
    """Refund some runs; those that were refunded before are told as they were."""
    if not is_dry:
        lock_runs(connection, run_ids)
    refunds, booked = [], []
    obstacles: dict[str, Obstacle] = {}
    for row in connection.execute(FOUND.where(runs.c.id.in_(run_ids))):
        told = Refund(row.id, row.workspace_id, row.workspace, row.refunded or 0, row.charge or 0, now)
        if row.refunded is not None:
            refunds.append(msgspec.structs.replace(told, at=row.refunded_at, is_new=False))
            continue
        try:
            amount = refund_of(ChargedRun(row.id, row.charge, row.is_archiving), order)
        except NotRefundableError as error:
            obstacles[row.id] = error.obstacle
            continue
        refunds.append(msgspec.structs.replace(told, amount=amount, charge=row.charge - amount))
        booked.append(Correction(row, amount, EntryKind.REFUND, REFUND_PHASE, row.rate_version))
    if booked and not is_dry:
        book(connection, booked, order.reason, now)
    return RefundPage(refunds, obstacles, None)


def lock_runs(connection: Connection, run_ids: Sequence[str]) -> None:
    """Lock the workspaces of some runs: nothing of theirs begins or ends until this transaction has ended."""
    lock_corrections(connection)
    of_runs = select(runs.c.workspace_id).where(runs.c.id.in_(run_ids))
    locked = select(workspaces.c.id).where(workspaces.c.id.in_(of_runs)).order_by(workspaces.c.id)
    connection.execute(locked.with_for_update()).all()


def book(connection: Connection, booked: Sequence[Correction], reason: str, now: int) -> None:
    """Write corrections of locked runs; what several of them change is written once. BalanceBoundError."""
    balances: dict[str, int] = defaultdict(int)
    used: dict[tuple[str, str, str, str], int] = defaultdict(int)
    spent: dict[tuple[str, int], int] = defaultdict(int)
    labelled = LabelBook()
    entries: list[dict[str, object]] = []
    for row, amount, kind, phase, rate_version in booked:
        labelled.note(row.workspace_id, row.labels, row.finished_at, UsageSums(charge=-amount))
        day, minute = day_of(row.finished_at).isoformat(), row.finished_at // MINUTE_MS
        balances[row.workspace_id] += amount
        used[row.workspace_id, day, row.key_id or NO_KEY, row.model_id] += amount
        labels = labels_in(row.labels)
        for target in targets_of_run(row.workspace_id, row.team, row.key_id, row.model_id, labels):
            spent[target, minute] += amount
        entries.append(
            {
                "workspace_id": row.workspace_id,
                "run_id": row.id,
                "phase": phase,
                "kind": kind.value,
                "balance_change": amount,
                "held_change": 0,
                "reason": reason,
                "rate_version": rate_version,
                "created_at": now,
            }
        )
        charged = {"charge": runs.c.charge - amount, "rate_version": rate_version}
        connection.execute(update(runs).where(runs.c.id == row.id).values(charged))
    connection.execute(insert(ledger_entries), entries)
    _raise_balances(connection, balances)
    _lower_sums(connection, used, spent)
    run_together(connection, labelled.addition(connection, is_correction=True))


def _raise_balances(connection: Connection, balances: dict[str, int]) -> None:
    for workspace_id, amount in sorted(balances.items()):
        raised = update(workspaces).where(workspaces.c.id == workspace_id, workspaces.c.balance <= BALANCE_MAX - amount)
        if connection.execute(raised.values(balance=workspaces.c.balance + amount)).rowcount == 0:
            raise BalanceBoundError


def _lower_sums(
    connection: Connection, used: dict[tuple[str, str, str, str], int], spent: dict[tuple[str, int], int]
) -> None:
    """Lower the usage of days, and what is spent of budgets at a minute (since 1970): periods begin with a minute."""
    day = usage_days.c
    for (workspace_id, date, key_id, model_id), amount in sorted(used.items()):
        of_day = day.workspace_id == workspace_id, day.day == date, day.key_id == key_id, day.model_id == model_id
        connection.execute(update(usage_days).where(*of_day).values(charge=day.charge - amount))
    for (target, minute), amount in sorted(spent.items()):
        at = minute * MINUTE_MS
        date = day_of(at).isoformat()
        is_before = (budgets.c.since == date) & (budgets.c.since_at > at)
        lowered = {
            "spent": budgets.c.spent - case((is_before, 0), else_=amount),
            "spent_before": budgets.c.spent_before - case((is_before, amount), else_=0),
        }
        connection.execute(update(budgets).where(budgets.c.target == target, budgets.c.since <= date).values(lowered))
