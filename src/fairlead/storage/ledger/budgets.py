"""Makes, changes, lists and recounts budgets.

The holds and the spending of a budget are in its row, so that an admission reads one row and no history. They change in
the transactions of runs (`run_books`), and are recounted where a budget is made or a key changes its team. All of it
happens under the lock of the workspace.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    Connection,
    Row,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from fairlead.domain.ledger.budgets import (
    ADDITIONS_MAX,
    BUDGETS_MAX,
    THRESHOLDS,
    Addition,
    Budget,
    BudgetPeriod,
    BudgetReset,
    BudgetScope,
    PeriodStart,
    Weekday,
    additions_in_force,
    changed_reset,
    limit_in_force,
    next_reset,
    period_start,
    target_of,
)
from fairlead.domain.time_zones import date_in
from fairlead.storage.accounts import workspaces as accounts
from fairlead.storage.accounts.workspaces import UnknownKeyError
from fairlead.storage.db.budget_tables import budgets
from fairlead.storage.db.tables import api_keys, workspaces
from fairlead.storage.ledger.budget_figures import count_figures, reset_of, spent_since

NO_ADDITIONS: Final = "[]"
"""What a row of a budget has where nothing is added to it."""


class BudgetTakenError(Exception):
    """The subject has a budget of this period already."""


class TooManyBudgetsError(Exception):
    """The workspace has as many budgets as it may."""


class UnknownBudgetError(Exception):
    """The workspace has no budget of this id."""


class UnknownAdditionError(Exception):
    """Nothing of this id is added to the budget."""


class TooManyAdditionsError(Exception):
    """As much is added to the budget at once as may be."""


class NewBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget to be made; `subject` is a team, a key's or a model's id, or a label; empty for the workspace."""

    id: str
    workspace_id: str
    scope: BudgetScope
    subject: str
    budget: Budget
    created_at: int
    thresholds: tuple[int, ...] = THRESHOLDS
    is_enforced: bool = True


class BudgetRecord(msgspec.Struct, frozen=True):
    """A budget at a time: `since` is the first day of its period in its time zone, `spent` the spending from there on.

    The next one begins at `resets_at` (ms since 1970), None for never. Some of the `additions` may have ended.
    """

    id: str
    scope: BudgetScope
    subject: str
    budget: Budget
    spent: int
    held: int
    since: str
    resets_at: int | None
    thresholds: tuple[int, ...]
    is_enforced: bool
    created_at: int
    additions: tuple[Addition, ...] = ()

    def limit_at(self, now: int) -> int:
        """What may be spent of it at a time (ms since 1970), with what is added to it."""
        return limit_in_force(self.budget.limit, self.additions, now)


def create_budget(connection: Connection, new: NewBudget, now: int) -> None:
    """Add a budget, with what is already spent and held of it; BudgetTakenError, TooManyBudgetsError."""
    _lock(connection, new.workspace_id)
    have = connection.scalar(select(workspaces.c.budgets).where(workspaces.c.id == new.workspace_id))
    if have is None or have >= BUDGETS_MAX:
        raise TooManyBudgetsError(BUDGETS_MAX)
    row = {
        "id": new.id,
        "workspace_id": new.workspace_id,
        "scope": new.scope.value,
        "subject": new.subject,
        "target": target_of(new.scope, new.workspace_id, new.subject),
        "period": new.budget.period.value,
        "amount": new.budget.limit,
        "thresholds": msgspec.json.encode(new.thresholds).decode(),
        "is_enforced": new.is_enforced,
        "created_at": new.created_at,
        **_reset_columns(new.budget.reset),
        **count_figures(connection, new.workspace_id, new.scope, new.subject, new.budget, now),
    }
    try:
        connection.execute(insert(budgets).values(row))
    except IntegrityError as error:
        raise BudgetTakenError(new.subject) from error
    _count_budgets(connection, new.workspace_id)


class BudgetChanges(msgspec.Struct, frozen=True):
    """What is to be changed of a budget; None stays as it is. The last three say when a period begins."""

    limit: int | None = None
    period: BudgetPeriod | None = None
    thresholds: tuple[int, ...] | None = None
    is_enforced: bool | None = None
    time_zone: str | None = None
    reset_minute: int | None = None
    reset_weekday: Weekday | None = None

    def of(self, before: Budget) -> Budget:
        """A budget with these changes; BadBudgetError."""
        period = self.period or before.period
        reset = changed_reset(before.reset, period, self.time_zone, self.reset_minute, self.reset_weekday)
        return Budget(before.limit if self.limit is None else self.limit, period, reset)


def change_budget(connection: Connection, workspace_id: str, budget_id: str, changes: BudgetChanges, now: int) -> None:
    """Change a budget; UnknownBudgetError, BudgetTakenError, BadBudgetError. Runs that were admitted go on."""
    _lock(connection, workspace_id)
    before = find_budget(connection, workspace_id, budget_id, now)
    if before is None:
        raise UnknownBudgetError(budget_id)
    # Under other terms the next refusal is news again.
    budget = changes.of(before.budget)
    values: dict[str, object] = {"told_refusal": False, "amount": budget.limit}
    if changes.is_enforced is not None:
        values["is_enforced"] = changes.is_enforced
    if changes.thresholds is not None:
        values["thresholds"] = msgspec.json.encode(changes.thresholds).decode()
    if (budget.period, budget.reset) != (before.budget.period, before.budget.reset):
        values |= {"period": budget.period.value, **_reset_columns(budget.reset)}
        values |= count_figures(connection, workspace_id, before.scope, before.subject, budget, now)
    try:
        connection.execute(update(budgets).where(budgets.c.id == budget_id).values(values))
    except IntegrityError as error:
        raise BudgetTakenError(before.subject) from error


def add_to_budget(connection: Connection, workspace_id: str, budget_id: str, new: Addition) -> None:
    """Add to a budget for a time; additions that have ended by then are forgotten. UnknownBudgetError.

    TooManyAdditionsError.
    """
    kept = additions_in_force(_lock_additions(connection, workspace_id, budget_id), new.created_at)
    if len(kept) >= ADDITIONS_MAX:
        raise TooManyAdditionsError(ADDITIONS_MAX)
    _store_additions(connection, budget_id, (*kept, new))


def withdraw_addition(connection: Connection, workspace_id: str, budget_id: str, addition_id: str) -> None:
    """End an addition to a budget before its time; UnknownBudgetError, UnknownAdditionError."""
    before = _lock_additions(connection, workspace_id, budget_id)
    kept = tuple(one for one in before if one.id != addition_id)
    if len(kept) == len(before):
        raise UnknownAdditionError(addition_id)
    _store_additions(connection, budget_id, kept)


def delete_budget(connection: Connection, workspace_id: str, budget_id: str) -> None:
    """Delete a budget; UnknownBudgetError."""
    _lock(connection, workspace_id)
    mine = budgets.c.id == budget_id, budgets.c.workspace_id == workspace_id
    if connection.execute(delete(budgets).where(*mine)).rowcount == 0:
        raise UnknownBudgetError(budget_id)
    _count_budgets(connection, workspace_id)


def find_budget(connection: Connection, workspace_id: str, budget_id: str, now: int) -> BudgetRecord | None:
    """A budget of a workspace as it is today; None where the workspace has none of this id."""
    mine = budgets.c.id == budget_id, budgets.c.workspace_id == workspace_id
    row = connection.execute(select(budgets).where(*mine)).first()
    return None if row is None else _record(connection, row, now)


def list_budgets(
    connection: Connection, workspace_id: str, now: int, before: str | None, limit: int
) -> list[BudgetRecord]:
    """Up to `limit` budgets of a workspace as they are today, the newest first, those made before one of them."""
    mine = select(budgets).where(budgets.c.workspace_id == workspace_id)
    if before is not None:
        mine = mine.where(budgets.c.id < before)
    return [
        _record(connection, row, now) for row in connection.execute(mine.order_by(budgets.c.id.desc()).limit(limit))
    ]


def time_zones(connection: Connection) -> list[str]:
    """The time zones that budgets of any workspace begin by, in order."""
    return list(connection.execute(select(budgets.c.time_zone).distinct().order_by(budgets.c.time_zone)).scalars())


def create_key(connection: Connection, new: accounts.NewKey, budget: Budget | None, budget_id: str) -> None:
    """Store a new key, with the budget it is given."""
    accounts.create_key(connection, new)
    if budget is not None:
        change_key_budget(connection, new.id, lambda _: budget, budget_id, new.created_at)


class KeyChanges(msgspec.Struct, frozen=True):
    """What is to be changed of a key; what is left out stays.

    `fields` are some of label, models, organization_id and sso_required. Spending goes with a key into another team.
    `budget` makes the new budget from the old one, None for none.
    """

    fields: Mapping[str, object] = msgspec.field(default_factory=dict)
    team: str | msgspec.UnsetType | None = msgspec.UNSET
    budget: Callable[[Budget | None], Budget | None] | None = None


def change_key(connection: Connection, key_id: str, changes: KeyChanges, budget_id: str, now: int) -> Budget | None:
    """Change a living key; returns its new budget, None also where that is not changed. UnknownKeyError."""
    if changes.fields:
        accounts.change_key(connection, key_id, changes.fields)
    if changes.team is not msgspec.UNSET:
        change_team(connection, key_id, changes.team, now)
    if changes.budget is None:
        return None
    return change_key_budget(connection, key_id, changes.budget, budget_id, now)


def change_key_budget(
    connection: Connection,
    key_id: str,
    change: Callable[[Budget | None], Budget | None],
    budget_id: str,
    now: int,
) -> Budget | None:
    """Replace the budget of a living key, the oldest where it has several; UnknownKeyError. Runs admitted before go on.

    `budget_id` is for a key without a budget.
    """
    workspace_id = connection.scalar(
        select(api_keys.c.workspace_id).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
    )
    if workspace_id is None:
        raise UnknownKeyError(key_id)
    _lock(connection, workspace_id)
    of_key = budgets.c.target == target_of(BudgetScope.KEY, workspace_id, key_id)
    oldest = select(budgets).where(of_key).order_by(budgets.c.created_at, budgets.c.id)
    row = connection.execute(oldest).first()
    changed = change(None if row is None else _budget(row))
    if changed is None:
        if row is not None:
            delete_budget(connection, workspace_id, row.id)
        return None
    if row is not None:
        is_same = budgets.c.period == changed.period.value
        # A key has one budget of each period: one that has the new period already gives way.
        connection.execute(delete(budgets).where(of_key, is_same, budgets.c.id != row.id))
        changes = BudgetChanges(limit=changed.limit, period=changed.period)
        change_budget(connection, workspace_id, row.id, changes, now)
        _count_budgets(connection, workspace_id)
    else:
        scope = BudgetScope.KEY
        new = NewBudget(
            id=budget_id, workspace_id=workspace_id, scope=scope, subject=key_id, budget=changed, created_at=now
        )
        create_budget(connection, new, now)
    return changed


def with_budgets(connection: Connection, keys: Sequence[Mapping[str, object]], now: int) -> list[dict[str, object]]:
    """Rows of keys with the oldest budget of each, and what is `spent` of it; None without a budget."""
    of_keys = select(budgets).where(
        budgets.c.scope == BudgetScope.KEY.value, budgets.c.subject.in_([key["id"] for key in keys])
    )
    oldest: dict[object, BudgetRecord] = {}
    for row in connection.execute(of_keys.order_by(budgets.c.created_at, budgets.c.id)):
        oldest.setdefault(row.subject, _record(connection, row, now))
    found = []
    for key in keys:
        one = oldest.get(key["id"])
        figures = (None, None, None) if one is None else (one.budget.limit, one.budget.period.value, one.spent)
        found.append({**key, **dict(zip(("budget", "budget_period", "spent"), figures, strict=True))})
    return found


def change_team(connection: Connection, key_id: str, team: str | None, now: int) -> bool:
    """Put a living key into a team, or into none; False where there is no such key.

    What the key has spent and what is held for it goes with it: the figures of a team are those of its keys.
    """
    living = api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None)
    workspace_id = connection.scalar(select(api_keys.c.workspace_id).where(*living))
    if workspace_id is None:
        return False
    _lock(connection, workspace_id)
    connection.execute(update(api_keys).where(*living).values(team=team))
    of_teams = budgets.c.workspace_id == workspace_id, budgets.c.scope == BudgetScope.TEAM.value
    for row in connection.execute(select(budgets).where(*of_teams)).all():
        counted = count_figures(connection, workspace_id, BudgetScope.TEAM, row.subject, _budget(row), now)
        connection.execute(update(budgets).where(budgets.c.id == row.id).values(counted))
    return True


def _record(connection: Connection, row: Row[*tuple[object, ...]], now: int) -> BudgetRecord:
    """A budget at a time: where no run has ended since its period began, nothing is spent yet."""
    budget = _budget(row)
    start, stored = period_start(budget.period, budget.reset, now), PeriodStart(row.since, row.since_at)
    spent = row.spent if stored == start else 0
    if stored > start:  # a clock that was ahead began a later period
        spent, _ = spent_since(connection, row.id, start)
    return BudgetRecord(
        id=row.id,
        scope=BudgetScope(row.scope),
        subject=row.subject,
        budget=budget,
        spent=spent,
        held=row.held,
        since=date_in(budget.reset.time_zone, start.moment).isoformat(),
        resets_at=next_reset(budget.period, budget.reset, now),
        thresholds=msgspec.json.decode(row.thresholds, type=tuple[int, ...]),
        is_enforced=row.is_enforced,
        created_at=row.created_at,
        additions=msgspec.json.decode(row.additions, type=tuple[Addition, ...]),
    )


def _budget(row: Row[*tuple[object, ...]]) -> Budget:
    reset = reset_of(row.time_zone, row.reset_minute, row.reset_weekday)
    return Budget(row.amount, BudgetPeriod(row.period), reset)


def _reset_columns(reset: BudgetReset) -> dict[str, object]:
    return {"time_zone": reset.time_zone, "reset_minute": reset.minute, "reset_weekday": reset.weekday.value}


def _lock_additions(connection: Connection, workspace_id: str, budget_id: str) -> tuple[Addition, ...]:
    """What is added to a budget, under the lock of its workspace; UnknownBudgetError."""
    _lock(connection, workspace_id)
    mine = budgets.c.id == budget_id, budgets.c.workspace_id == workspace_id
    stored = connection.scalar(select(budgets.c.additions).where(*mine))
    if stored is None:
        raise UnknownBudgetError(budget_id)
    return msgspec.json.decode(stored, type=tuple[Addition, ...])


def _store_additions(connection: Connection, budget_id: str, additions: tuple[Addition, ...]) -> None:
    # Under another limit the next refusal is news again.
    values = {"additions": msgspec.json.encode(additions).decode(), "told_refusal": False}
    connection.execute(update(budgets).where(budgets.c.id == budget_id).values(values))


def _lock(connection: Connection, workspace_id: str) -> None:
    """Lock a workspace, so that no run of it is admitted or ended until this transaction has ended."""
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update())


def _count_budgets(connection: Connection, workspace_id: str) -> None:
    counted = select(func.count()).where(budgets.c.workspace_id == workspace_id).scalar_subquery()
    connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(budgets=counted))
