"""Queued runs with webhooks, brought to their ends by the books themselves."""

from typing import Any, Final

from fairlead.domain.runs.entries import QueueTicket, Settlement, Withdrawal
from fairlead.domain.work.entries import Claim
from fairlead.storage.runs.entries import write_entries
from storage.bookings import LAB, NOW, SERVER, Books, admission, kept_result, settlement

BASE_URL: Final = "https://router.example"
BACKLOG: Final = 1000
RECEIVER: Final = "https://receiver.example/hook?token=hidden"


def run_id(number: int = 1) -> str:
    """Return an id as runs have it; the greater its number, the later it was made."""
    return f"01a1fb60-0000-7000-8000-{number:012d}"


def queue(books: Books, id_: str, url: str | None = RECEIVER, **changes: Any) -> None:
    """Admit a run to the queue of the lab, to tell a URL of its end."""
    ticket = QueueTicket(backlog=BACKLOG, base_url=BASE_URL, webhook_url=url)
    entry = admission(id_, ticket=ticket, **changes)
    books.do(lambda c: write_entries(c, [entry]))


def end(books: Books, id_: str, workspace_id: str = LAB, **changes: Any) -> Settlement:
    """Claim a queued run and bring it to an end: to success, where nothing else is said."""
    ended = settlement(id_, **{"workspace_id": workspace_id, "result": kept_result(), **changes})
    claim = Claim(id_, workspace_id, SERVER, NOW + 1)
    books.do(lambda c: write_entries(c, [claim]))
    books.do(lambda c: write_entries(c, [ended]))
    return ended


def withdraw(books: Books, id_: str, reason: str = "cancelled", at: int = NOW + 2) -> None:
    """End a run that waits."""
    entry = Withdrawal(id_, LAB, reason, kept_result(), at)
    books.do(lambda c: write_entries(c, [entry]))
