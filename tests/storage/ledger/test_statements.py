"""Runs as their accounts are told."""

from typing import Any

import pytest

from fairlead.domain.runs.entries import RunEntry
from fairlead.storage.accounts import workspaces
from fairlead.storage.ledger import statements
from fairlead.storage.ledger.statements import RunRows
from storage.bookings import LAB, NOW, Books, admission, failure, kept_result, key, new_key, redirection, settlement


def of_run(books: Books, run_id: str = "run-1") -> RunRows:
    """Return what is known of a run."""
    found: RunRows = books.do(lambda c: statements.rows_of_run(c, run_id))
    return found


def newest(books: Books, state: str | None = None, limit: int = 10, workspace_id: str = LAB) -> list[str]:
    """Return the ids of the newest runs."""
    rows = books.do(lambda c: statements.newest_runs(c, workspace_id, state, limit))
    return [row["id"] for row in rows]


@pytest.fixture
def ended(books: Books) -> Books:
    """Return books with a run that was redirected, told of by an event, and kept for its key."""
    books.open(balance=1000)
    books.do(lambda c: workspaces.create_key(c, new_key(label="studio")))
    books.write(admission(key_id="key-1", key=key(), least=40, dropped='["seed"]'))
    books.write(redirection(hold=150))
    event = RunEntry("call repeated", 1, "fal is asked for the second time after 0.5 s", NOW + 4)
    books.write(settlement(charge=90, events=(event,), key_id="key", result=kept_result(expires_at=NOW + 77)))
    return books


def test_statement_holds_the_run_its_entries_and_events(ended: Books) -> None:
    """The run with its key, its entries in order, and what befell it."""
    found = of_run(ended)
    assert {name: found.run[name] for name in ("workspace", "key_label", "provider", "hold", "charge", "least")} == {
        "workspace": "lab-id-name",
        "key_label": "studio",
        "provider": "fal",
        "hold": 150,
        "charge": 90,
        "least": 40,
    }
    assert (found.run["dropped"], found.run["result_kept_until"]) == ('["seed"]', NOW + 77)
    assert [(row["kind"], row["balance_change"], row["held_change"]) for row in found.entries] == [
        ("hold", 0, 100),
        ("raise", 0, 50),
        ("post", -90, -150),
    ]
    assert [(row["kind"], row["at"]) for row in found.events] == [("call repeated", NOW + 4)]
    assert (found.webhook, found.tries) == (None, [])


def test_statement_shows_no_body(ended: Books) -> None:
    """A statement holds neither the request nor the answer."""
    assert not {"request", "content", "fault", "blob"} & set(of_run(ended).run)


def test_statement_shows_the_webhook_and_its_tries(ended: Books) -> None:
    """Whom the end is told to, and each try."""
    ended.sql(
        "INSERT INTO webhook_deliveries (run_id, workspace_id, url, tries, next_at, delivered_at, gave_up_at)"
        " VALUES ('run-1', 'lab-id', 'https://receiver.example/x', 2, NULL, 9, NULL)"
    )
    for number, status in ((1, 500), (2, 204)):
        ended.sql(
            "INSERT INTO webhook_tries (run_id, number, at, milliseconds, status, error)"
            " VALUES ('run-1', :number, :number, 12, :status, NULL)",
            number=number,
            status=status,
        )
    found = of_run(ended)
    assert found.webhook is not None
    assert (found.webhook["url"], found.webhook["delivered_at"]) == ("https://receiver.example/x", 9)
    assert [(row["number"], row["status"]) for row in found.tries] == [(1, 500), (2, 204)]


def test_unknown_run_has_no_statement(ended: Books) -> None:
    """An id that no run has is told by nothing."""
    assert ended.do(lambda c: statements.rows_of_run(c, "run-9")) is None


def test_newest_runs_are_listed_oldest_first(books: Books) -> None:
    """The newest of a workspace, oldest first, in one state or in any."""
    books.open(balance=1000)
    books.open(id_="office", balance=1000)
    books.write(*(admission(f"run-{n}") for n in range(4)), admission("run-9", workspace_id="office"))
    books.write(settlement("run-1"), failure("run-2"))
    assert newest(books) == ["run-0", "run-1", "run-2", "run-3"]
    assert newest(books, limit=2) == ["run-2", "run-3"]
    assert newest(books, state="dispatched") == ["run-0", "run-3"]
    assert newest(books, state="failed", limit=1) == ["run-2"]
    assert newest(books, workspace_id="office") == ["run-9"]
    row: dict[str, Any] = books.do(lambda c: statements.newest_runs(c, LAB, "succeeded", 1))[0]
    assert (row["charge"], row["key_id"], row["workspace"]) == (60, None, "lab-id-name")
