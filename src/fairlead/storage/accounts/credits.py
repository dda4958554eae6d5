"""Money that is booked into workspaces: within bounds, and once for each idempotency key."""

import msgspec
from sqlalchemy import Connection, insert, select, update

from fairlead.domain.ledger.books import EntryKind
from fairlead.domain.ledger.money import BALANCE_MAX, as_dollars
from fairlead.storage.accounts.workspaces import workspace_name_of
from fairlead.storage.db.tables import credit_keys, ledger_entries, workspaces


class BalanceBoundError(Exception):
    """A credit would take a balance beyond what sums can hold; the text is that bound."""

    def __init__(self) -> None:
        super().__init__(as_dollars(BALANCE_MAX))


class CreditKeyUsedError(Exception):
    """Another amount, or another reason, was booked with this idempotency key."""


class Booked(msgspec.Struct, frozen=True):
    """A credit of a workspace and the balance it led to, or the one there is where it was booked before (`is_new`)."""

    workspace_id: str
    name: str
    balance: int
    is_new: bool = True


class NewCredit(msgspec.Struct, frozen=True):
    """Money to be booked in (10^-8 dollars), or a correction out; `key_id` stands for the caller's idempotency key."""

    amount: int
    reason: str
    key_id: str | None = None


def credit(connection: Connection, workspace_id: str, new: NewCredit, now: int) -> tuple[int, bool]:
    """Book money in; the new balance, and False where the same key has booked the same before, which changes nothing.

    BalanceBoundError, CreditKeyUsedError.
    """
    of_workspace = workspaces.c.id == workspace_id
    # Under the lock of the workspace the second of two calls with one key finds the first.
    balance = int(connection.execute(select(workspaces.c.balance).where(of_workspace).with_for_update()).scalar_one())
    if new.key_id is not None and _was_booked(connection, new, new.key_id):
        return balance, False
    after = balance + new.amount
    if abs(after) > BALANCE_MAX and abs(after) > abs(balance):  # what leads back is always booked
        raise BalanceBoundError
    entry = insert(ledger_entries).values(
        workspace_id=workspace_id,
        kind=EntryKind.CREDIT,
        balance_change=new.amount,
        held_change=0,
        reason=new.reason,
        created_at=now,
    )
    entry_id = connection.execute(entry.returning(ledger_entries.c.id)).scalar_one()
    if new.key_id is not None:
        connection.execute(insert(credit_keys).values(id=new.key_id, entry_id=entry_id))
    connection.execute(update(workspaces).where(of_workspace).values(balance=after))
    return after, True


def credit_named_workspace(connection: Connection, name_or_id: str, new: NewCredit, now: int) -> Booked:
    """Book money in as `credit` does, into a workspace by name or id; UnknownWorkspaceError as well."""
    id_, name = workspace_name_of(connection, name_or_id)
    return Booked(id_, name, *credit(connection, id_, new, now))


def _was_booked(connection: Connection, new: NewCredit, key_id: str) -> bool:
    entry = ledger_entries.c
    of_key = select(entry.balance_change, entry.reason).join(credit_keys, credit_keys.c.entry_id == entry.id)
    found = connection.execute(of_key.where(credit_keys.c.id == key_id)).first()
    if found is None:
        return False
    if (found.balance_change, found.reason) != (new.amount, new.reason):
        raise CreditKeyUsedError
    return True
