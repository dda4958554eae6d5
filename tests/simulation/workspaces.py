"""Who calls in a simulation: three workspaces, each narrow in its own way."""

from typing import Final

from sqlalchemy import Connection, text

from fairlead.domain.accounts.callers import Billing, Caller
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod
from fairlead.storage.accounts import workspaces as callers
from simulation.storage import Store

EPOCH_MS: Final = 1_800_000_000_000
"""When every history begins, in ms since 1970."""
DOLLAR: Final = 100_000_000
CREDITS: Final = {"lab": 100 * DOLLAR, "purse": 3 * DOLLAR, "shop": 0}
"""What is paid in: the shop pays later, and its key has a budget."""


def open_workspaces(store: Store) -> dict[str, Caller]:
    """Make the workspaces and their keys; who calls for each."""
    return {name: store.transact(lambda c, name=name: _open(c, name)) for name in CREDITS}  # type: ignore[misc]


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
        callers.credit(connection, name, CREDITS[name], "paid in", EPOCH_MS)
    budget = None if is_prepaid else Budget(8 * DOLLAR, BudgetPeriod.TOTAL)
    key = callers.NewKey(f"key-of-{name}", name, f"digest-of-{name}", "flk_a…z", "", EPOCH_MS, budget=budget)
    callers.create_key(connection, key)
    caller = callers.caller_by_key(connection, key.digest)
    assert caller is not None
    return caller
