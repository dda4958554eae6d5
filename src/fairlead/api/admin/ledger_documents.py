"""The documents of the ledger, of statements, of usage and of the proof of the books, as types."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from fairlead.api.admin.documents import Dollars
from fairlead.api.admin.run_documents import EntryName, KeyOfRun
from fairlead.api.http.schemas import AnyObject, Day, Time, Uuid


class AccountEntryShown(TypedDict):
    """An entry of the ledger; `run`, `model` and `key` are null for what was paid in.

    `labels` is a JSON object as a text, null where the run has none.
    """

    id: int
    at: Time
    kind: EntryName
    balance_change: Dollars
    held_change: Dollars
    reason: str
    rate_version: str | None
    run: Uuid | None
    model: str | None
    key: Uuid | None
    labels: str | None


class LedgerLineShown(AccountEntryShown):
    """An entry in a file of the entries of all workspaces."""

    workspace: str


class LedgerPage(TypedDict):
    """A page of the ledger.

    The entries of runs that ended before `archived_before` are in archives; it is null where none of the wanted time
    are.
    """

    items: Sequence[AccountEntryShown]
    next_cursor: str | None
    archived_before: Time | None


class ArchiveShown(TypedDict):
    """An archive: which runs it has, its file, and the checksums; `finished_at` is null while rows are deleted."""

    number: int
    before: Time
    first_run: Uuid
    last_run: Uuid
    runs: int
    entries: int
    events: int
    file: str
    size: int
    sha256: str
    previous_checksum: str
    checksum: str
    created_at: Time
    finished_at: Time | None


class CreditShown(TypedDict):
    """Money that was paid in, or corrected."""

    at: Time
    amount: Dollars
    reason: str


class SpendingShown(TypedDict):
    """What the runs of a model cost that one key has called; the key is null for runs called with a token."""

    model: str
    key: Uuid | None
    key_label: str | None
    runs: int
    succeeded: int
    charge: Dollars


class StatementShown(TypedDict):
    """A month: the balance at its beginning and end, what was paid in, and what was spent on each model."""

    workspace: str
    month: str
    opening_balance: Dollars
    closing_balance: Dollars
    credited: Dollars
    charged: Dollars
    credits: Sequence[CreditShown]
    spending: Sequence[SpendingShown]


class LabelUsed(TypedDict):
    """A value of a label; null stands for all values that are not counted apart."""

    name: str
    value: str | None


class UsageShown(TypedDict):
    """What was used: runs that ended, those that succeeded, and what was charged, in the groups that were asked for.

    `label` is null for the runs without it.
    """

    day: NotRequired[Day]
    model: NotRequired[str]
    key: NotRequired[KeyOfRun | None]
    label: NotRequired[LabelUsed | None]
    workspace: NotRequired[str]
    runs: int
    succeeded: int
    charge: Dollars


# `from` is a word of Python.
UsageReport = TypedDict("UsageReport", {"from": Day, "to": Day, "items": Sequence[UsageShown], "next_cursor": None})


class BooksShown(TypedDict):
    """The proof of the books: how much was checked, the contradictions found (none in right books), and lost runs."""

    is_right: bool
    totals: Mapping[str, int]
    disagreements: Sequence[AnyObject]
    lost: Sequence[AnyObject]
