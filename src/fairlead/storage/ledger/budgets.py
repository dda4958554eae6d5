"""Makes, changes, lists and recounts budgets.

The holds and the spending of a budget are in its row, so that an admission reads one row and no history. They change in
the transactions of runs (`run_books`), and are recounted where a budget is made or a key changes its team. All of it
happens under the lock of the workspace.
"""

import datetime
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
    BudgetScope,
    additions_in_force,
    limit_in_force,
    period_start,
    target_of,
)
from fairlead.storage.accounts import workspaces as accounts
from fairlead.storage.accounts.workspaces import UnknownKeyError
from fairlead.storage.db.budget_tables import budgets
from fairlead.storage.db.tables import api_keys, workspaces
from fairlead.storage.ledger.budget_figures import count_figures, spent_since

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
    """A budget to be made; `subject` is a team, the id of a key or of a model, and empty for the workspace."""

    id: str
    workspace_id: str
    scope: BudgetScope
    subject: str
    budget: Budget
    created_at: int
    thresholds: tuple[int, ...] = THRESHOLDS
    is_enforced: bool = True


class BudgetRecord(msgspec.Struct, frozen=True):
    """A budget on a day: `since` is the first day of its period, `spent` the spending from there on.

    Some of the `additions` may have ended.
    """

    id: str
    scope: BudgetScope
    subject: str
    budget: Budget
    spent: int
    held: int
    since: str
    thresholds: tuple[int, ...]
    is_enforced: bool
    created_at: int
    additions: tuple[Addition, ...] = ()

    def limit_at(self, now: int) -> int:
        """What may be spent of it at a time (ms since 1970), with what is added to it."""
        return limit_in_force(self.budget.limit, self.additions, now)


def create_budget(connection: Connection, new: NewBudget, today: datetime.date) -> None:
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
        **count_figures(connection, new.workspace_id, new.scope, new.subject, new.budget.period, today),
    }
    try:
        connection.execute(insert(budgets).values(row))
    except IntegrityError as error:
        raise BudgetTakenError(new.subject) from error
    _count_budgets(connection, new.workspace_id)


class BudgetChanges(msgspec.Struct, frozen=True):
    """What is to be changed of a budget; None stays as it is."""

    limit: int | None = None
    period: BudgetPeriod | None = None
    thresholds: tuple[int, ...] | None = None
    is_enforced: bool | None = None


def change_budget(
    connection: Connection, workspace_id: str, budget_id: str, changes: BudgetChanges, today: datetime.date
) -> None:
    """Change a budget; UnknownBudgetError, BudgetTakenError. Runs that were admitted go on."""
    _lock(connection, workspace_id)
    before = find_budget(connection, workspace_id, budget_id, today)
    if before is None:
        raise UnknownBudgetError(budget_id)
    # Under other terms the next refusal is news again.
    values: dict[str, object] = {"told_refusal": False}
    if changes.limit is not None:
        values["amount"] = changes.limit
    if changes.is_enforced is not None:
        values["is_enforced"] = changes.is_enforced
    if changes.thresholds is not None:
        values["thresholds"] = msgspec.json.encode(changes.thresholds).decode()
    if changes.period is not None:
        values["period"] = changes.period.value
        values |= count_figures(connection, workspace_id, before.scope, before.subject, changes.period, today)
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


def find_budget(connection: Connection, workspace_id: str, budget_id: str, today: datetime.date) -> BudgetRecord | None:
    """A budget of a workspace as it is today; None where the workspace has none of this id."""
    mine = budgets.c.id == budget_id, budgets.c.workspace_id == workspace_id
    row = connection.execute(select(budgets).where(*mine)).first()
    return None if row is None else _record(connection, row, today)


def list_budgets(
    connection: Connection, workspace_id: str, today: datetime.date, before: str | None, limit: int
) -> list[BudgetRecord]:
    """Up to `limit` budgets of a workspace as they are today, the newest first, those made before one of them."""
    mine = select(budgets).where(budgets.c.workspace_id == workspace_id)
    if before is not None:
        mine = mine.where(budgets.c.id < before)
    return [
        _record(connection, row, today) for row in connection.execute(mine.order_by(budgets.c.id.desc()).limit(limit))
    ]


def create_key(
    connection: Connection, new: accounts.NewKey, budget: Budget | None, budget_id: str, today: datetime.date
) -> None:
    """Store a new key, with the budget it is given."""
    accounts.create_key(connection, new)
    if budget is not None:
        change_key_budget(connection, new.id, lambda _: budget, budget_id, new.created_at, today)


class KeyChanges(msgspec.Struct, frozen=True):
    """What is to be changed of a key; what is left out stays.

    `fields` are some of label, models, organization_id and sso_required. Spending goes with a key into another team.
    `budget` makes the new budget from the old one, None for none.
    """

    fields: Mapping[str, object] = msgspec.field(default_factory=dict)
    team: str | msgspec.UnsetType | None = msgspec.UNSET
    budget: Callable[[Budget | None], Budget | None] | None = None


def change_key(
    connection: Connection, key_id: str, changes: KeyChanges, budget_id: str, now: int, today: datetime.date
) -> Budget | None:
    """Change a living key; returns its new budget, None also where that is not changed. UnknownKeyError."""
    if changes.fields:
        accounts.change_key(connection, key_id, changes.fields)
    if changes.team is not msgspec.UNSET:
        change_team(connection, key_id, changes.team, today)
    if changes.budget is None:
        return None
    return change_key_budget(connection, key_id, changes.budget, budget_id, now, today)


def change_key_budget(
    connection: Connection,
    key_id: str,
    change: Callable[[Budget | None], Budget | None],
    budget_id: str,
    now: int,
    today: datetime.date,
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
    changed = change(None if row is None else Budget(row.amount, BudgetPeriod(row.period)))
    if changed is None:
        if row is not None:
            delete_budget(connection, workspace_id, row.id)
        return None
    if row is not None:
        is_same = budgets.c.period == changed.period.value
        # A key has one budget of each period: one that has the new period already gives way.
        connection.execute(delete(budgets).where(of_key, is_same, budgets.c.id != row.id))
        changes = BudgetChanges(limit=changed.limit, period=changed.period)
        change_budget(connection, workspace_id, row.id, changes, today)
        _count_budgets(connection, workspace_id)
    else:
        scope = BudgetScope.KEY
        new = NewBudget(
            id=budget_id, workspace_id=workspace_id, scope=scope, subject=key_id, budget=changed, created_at=now
        )
        create_budget(connection, new, today)
    return changed


def with_budgets(
    connection: Connection, keys: Sequence[Mapping[str, object]], today: datetime.date
) -> list[dict[str, object]]:
    """Rows of keys with the oldest budget of each, and what is `spent` of it; None without a budget."""
    of_keys = select(budgets).where(
        budgets.c.scope == BudgetScope.KEY.value, budgets.c.subject.in_([key["id"] for key in keys])
    )
    oldest: dict[object, BudgetRecord] = {}
    for row in connection.execute(of_keys.order_by(budgets.c.created_at, budgets.c.id)):
        oldest.setdefault(row.subject, _record(connection, row, today))
    found = []
    for key in keys:
        one = oldest.get(key["id"])
        figures = (None, None, None) if one is None else (one.budget.limit, one.budget.period.value, one.spent)
        found.append({**key, **dict(zip(("budget", "budget_period", "spent"), figures, strict=True))})
    return found


def change_team(connection: Connection, key_id: str, team: str | None, today: datetime.date) -> bool:
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
        period = BudgetPeriod(row.period)
        counted = count_figures(connection, workspace_id, BudgetScope.TEAM, row.subject, period, today)
        connection.execute(update(budgets).where(budgets.c.id == row.id).values(counted))
    return True


def _record(connection: Connection, row: Row[*tuple[object, ...]], today: datetime.date) -> BudgetRecord:
    """A budget on a day: where no run has ended since its period began, nothing is spent yet."""
    budget = Budget(row.amount, BudgetPeriod(row.period))
    since = period_start(budget.period, today).isoformat()
    spent = row.spent if row.since == since else 0
    if row.since > since:  # a clock that was ahead began a later period
        spent = spent_since(connection, row.id, since)
    return BudgetRecord(
        id=row.id,
        scope=BudgetScope(row.scope),
        subject=row.subject,
        budget=budget,
        spent=spent,
        held=row.held,
        since=since,
        thresholds=msgspec.json.decode(row.thresholds, type=tuple[int, ...]),
        is_enforced=row.is_enforced,
        created_at=row.created_at,
        additions=msgspec.json.decode(row.additions, type=tuple[Addition, ...]),
    )


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
