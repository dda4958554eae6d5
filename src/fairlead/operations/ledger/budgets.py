"""Budgets of workspaces, teams, keys, models and labels: listed, created, changed and deleted."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.domain.days import DAY_MS
from fairlead.domain.jobs.listing import fault_of_labels
from fairlead.domain.ledger.budgets import (
    ADDITION_DAYS_MAX,
    PERCENT_MAX,
    REASON_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    TEAM_CHARACTERS_MAX,
    THRESHOLDS,
    THRESHOLDS_MAX,
    Addition,
    BadBudgetError,
    Budget,
    BudgetScope,
    is_team,
)
from fairlead.domain.time_zones import is_time_zone
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.ledger import budgets
from fairlead.storage.ledger.budgets import (
    BudgetChanges,
    BudgetRecord,
    BudgetTakenError,
    TooManyAdditionsError,
    TooManyBudgetsError,
    UnknownAdditionError,
    UnknownBudgetError,
)

__all__ = [
    "BadBudgetError",
    "BudgetChanges",
    "BudgetDraft",
    "BudgetRecord",
    "BudgetTakenError",
    "TooManyAdditionsError",
    "TooManyBudgetsError",
    "UnknownAdditionError",
    "UnknownBudgetError",
    "add_to_budget",
    "change_budget",
    "create_budget",
    "delete_budget",
    "list_budgets",
    "unknown_time_zones",
    "withdraw_addition",
]

_PERCENTS: Final = range(1, PERCENT_MAX + 1)


class BudgetDraft(msgspec.Struct, frozen=True):
    """A requested budget; `subject` is a team, the id of a key or of a model, or a label such as `client=acme`.

    It is empty for the whole workspace.
    """

    scope: BudgetScope
    subject: str
    budget: Budget
    thresholds: tuple[int, ...] = THRESHOLDS
    is_enforced: bool = True


class AdditionDraft(msgspec.Struct, frozen=True):
    """What is to be added to a budget: an amount (10^-8 dollars), until when (ms since 1970), and why."""

    amount: int
    until: int
    reason: str


async def list_budgets(
    database: Database, workspace_id: str, clock: Clock, before: str | None, limit: int
) -> list[BudgetRecord]:
    """Up to `limit` budgets of a workspace with today's figures, the newest first, before a given one."""
    now = clock.now_ms()
    return await database.read(lambda c: budgets.list_budgets(c, workspace_id, now, before, limit))


async def create_budget(
    database: Database, workspace_id: str, draft: BudgetDraft, by: Actor, clock: Clock
) -> BudgetRecord:
    """Create a budget, which begins with what its period has cost so far.

    BadBudgetError, BudgetTakenError, TooManyBudgetsError.
    """
    _check_figures(draft.budget.limit, draft.thresholds)
    await _check_subject(database, workspace_id, draft)
    new = budgets.NewBudget(
        id=new_id(),
        workspace_id=workspace_id,
        scope=draft.scope,
        subject=draft.subject,
        budget=draft.budget,
        created_at=clock.now_ms(),
        thresholds=draft.thresholds,
        is_enforced=draft.is_enforced,
    )
    now, detail = new.created_at, msgspec.to_builtins(draft)
    act = Act("budget.created", workspace_id, new.id, detail)
    await database.write(with_entry(lambda c: budgets.create_budget(c, new, now), by, lambda _: act, now))
    return await _find(database, workspace_id, new.id, clock)


async def change_budget(
    database: Database, workspace_id: str, budget_id: str, changes: BudgetChanges, by: Actor, clock: Clock
) -> BudgetRecord:
    """Change a budget; admitted runs continue. BadBudgetError, BudgetTakenError, UnknownBudgetError."""
    _check_figures(changes.limit or 0, changes.thresholds or ())
    now, told = clock.now_ms(), msgspec.to_builtins(changes)
    act = Act("budget.changed", workspace_id, budget_id, {name: one for name, one in told.items() if one is not None})

    work = partial(budgets.change_budget, workspace_id=workspace_id, budget_id=budget_id, changes=changes, now=now)
    await database.write(with_entry(work, by, lambda _: act, now))
    return await _find(database, workspace_id, budget_id, clock)


async def delete_budget(database: Database, workspace_id: str, budget_id: str, by: Actor, clock: Clock) -> None:
    """Delete a budget; UnknownBudgetError."""
    work = partial(budgets.delete_budget, workspace_id=workspace_id, budget_id=budget_id)
    act = Act("budget.deleted", workspace_id, budget_id)
    await database.write(with_entry(work, by, lambda _: act, clock.now_ms()))


async def add_to_budget(
    database: Database, workspace_id: str, budget_id: str, draft: AdditionDraft, by: Actor, clock: Clock
) -> BudgetRecord:
    """Add to a budget until a time. BadBudgetError, TooManyAdditionsError, UnknownBudgetError."""
    now = clock.now_ms()
    _check_addition(draft, now)
    new = Addition(new_id(), draft.amount, draft.until, draft.reason, by.name, now)
    work = partial(budgets.add_to_budget, workspace_id=workspace_id, budget_id=budget_id, new=new)
    act = Act("budget.addition_created", workspace_id, budget_id, {"addition": new.id, **msgspec.to_builtins(draft)})
    await database.write(with_entry(work, by, lambda _: act, now))
    return await _find(database, workspace_id, budget_id, clock)


async def withdraw_addition(
    database: Database, workspace_id: str, budget_id: str, addition_id: str, by: Actor, clock: Clock
) -> None:
    """End an addition before its time; runs that were admitted go on. UnknownAdditionError, UnknownBudgetError."""
    act = Act("budget.addition_withdrawn", workspace_id, budget_id, {"addition": addition_id})

    def work(connection: Transaction) -> None:
        budgets.withdraw_addition(connection, workspace_id, budget_id, addition_id)

    await database.write(with_entry(work, by, lambda _: act, clock.now_ms()))


async def unknown_time_zones(database: Database) -> list[str]:
    """The time zones of budgets that this machine does not know, so that it begins their periods by UTC."""
    return [name for name in await database.read(budgets.time_zones) if not is_time_zone(name)]


async def _find(database: Database, workspace_id: str, budget_id: str, clock: Clock) -> BudgetRecord:
    now = clock.now_ms()
    found = await database.read(lambda c: budgets.find_budget(c, workspace_id, budget_id, now))
    if found is None:  # deleted in the meantime
        raise UnknownBudgetError(budget_id)
    return found


def _check_figures(limit: int, thresholds: Sequence[int]) -> None:
    if limit < 0:
        raise BadBudgetError("limit", "A budget must not be negative.")
    if len(thresholds) > THRESHOLDS_MAX or not all(percent in _PERCENTS for percent in thresholds):
        raise BadBudgetError("thresholds", f"At most {THRESHOLDS_MAX} thresholds, from 1 to {PERCENT_MAX} percent.")


def _check_addition(draft: AdditionDraft, now: int) -> None:
    if draft.amount <= 0:
        raise BadBudgetError("amount", "An addition must be more than nothing.")
    if not now < draft.until <= now + ADDITION_DAYS_MAX * DAY_MS:
        raise BadBudgetError("until", f"An addition ends later than now, and within {ADDITION_DAYS_MAX} days.")
    if not (draft.reason.strip() and draft.reason.isprintable() and len(draft.reason) <= REASON_CHARACTERS_MAX):
        raise BadBudgetError("reason", f"Say why, in 1 to {REASON_CHARACTERS_MAX} characters.")


def _check_label(subject: str) -> None:
    name, sign, value = subject.partition("=")
    if not sign:
        raise BadBudgetError("subject", "A label is written as its name and its value, such as client=acme.")
    if (fault := fault_of_labels({name: value})) is not None:
        raise BadBudgetError("subject", fault.detail)
    if len(subject) > SUBJECT_CHARACTERS_MAX:
        most = f"at most {SUBJECT_CHARACTERS_MAX} characters"
        raise BadBudgetError("subject", f"A label that has a budget has {most}, with its name.")


async def _check_subject(database: Database, workspace_id: str, draft: BudgetDraft) -> None:
    match draft.scope:
        case BudgetScope.WORKSPACE:
            if draft.subject:
                raise BadBudgetError("subject", "The budget of the workspace has no subject.")
        case BudgetScope.TEAM:
            if not is_team(draft.subject):
                raise BadBudgetError("subject", f"A team has a name of 1 to {TEAM_CHARACTERS_MAX} characters.")
        case BudgetScope.MODEL:
            if not is_model_id(draft.subject):
                raise BadBudgetError("subject", "A model is named by its id, such as acme/image-1.")
        case BudgetScope.LABEL:
            _check_label(draft.subject)
        case BudgetScope.KEY:
            if not await database.read(lambda c: workspaces.has_key(c, workspace_id, draft.subject)):
                raise BadBudgetError("subject", "The workspace has no living key with this id.")
