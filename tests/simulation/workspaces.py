"""Who calls in a simulation: three workspaces, each narrow in its own way."""

from typing import Final

from sqlalchemy import Connection, text

from fairlead.domain.accounts.callers import Billing, Caller
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetScope
from fairlead.storage.accounts import workspaces as callers
from fairlead.storage.accounts.credits import NewCredit, credit
from fairlead.storage.ledger.budgets import NewBudget, create_budget
from simulation.storage import Store

EPOCH_MS: Final = 1_800_000_000_000
"""When every history begins, in ms since 1970."""
DOLLAR: Final = 100_000_000
CREDITS: Final = {"lab": 100 * DOLLAR, "purse": 3 * DOLLAR, "shop": 0}
"""What is paid in: the shop pays later, and its key has a budget."""


def open_workspaces(store: Store) -> dict[str, Caller]:
    """Make the workspaces and their keys; who calls for each."""
    return {name: store.transact(lambda c, name=name: _open(c, name)) for name in CREDITS}  # type: ignore[misc]


def _set_budgets(connection: Connection, name: str, key_id: str) -> None:
    """Have one budget refuse runs, and others count along: the audit proves the figures of all."""
    counted = [(BudgetScope.WORKSPACE, "", BudgetPeriod.DAY), (BudgetScope.TEAM, "studio", BudgetPeriod.MONTH)]
    for scope, subject, period in ((BudgetScope.KEY, key_id, BudgetPeriod.TOTAL), *counted):
        new = NewBudget(
            id=f"{scope} of {name}",
            workspace_id=name,
            scope=scope,
            subject=subject,
            budget=Budget(8 * DOLLAR, period),
            created_at=EPOCH_MS,
            is_enforced=scope is BudgetScope.KEY,
        )
        create_budget(connection, new, EPOCH_MS)


def set_slots(connection: Connection, slots: tuple[int, int, int]) -> None:
    """Say how many runs each workspace may have in flight."""
    for name, limit in zip(CREDITS, slots, strict=True):
        connection.execute(text("UPDATE workspaces SET in_flight_limit = :n WHERE id = :id"), {"n": limit, "id": name})


def _open(connection: Connection, name: str) -> Caller:
    is_prepaid = CREDITS[name] > 0
    new = callers.NewWorkspace(
        name=name,
        billing=Billing.PREPAID if is_prepaid else Billing.POSTPAID,
        cap=20 * DOLLAR,
        in_flight_limit=UNLIMITED,
        commitment_limit=DOLLAR // 2 if name == "purse" else None,
    )
    callers.create_workspace(connection, name, new, EPOCH_MS)
    if is_prepaid:
        credit(connection, name, NewCredit(CREDITS[name], "paid in"), EPOCH_MS)
    key = callers.NewKey(f"key-of-{name}", name, f"digest-of-{name}", "flk_a…z", "", EPOCH_MS, team="studio")
    callers.create_key(connection, key)
    if not is_prepaid:
        _set_budgets(connection, name, key.id)
    caller = callers.caller_by_key(connection, key.digest, EPOCH_MS)
    assert caller is not None
    return caller
