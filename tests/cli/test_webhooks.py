"""`fairlead webhooks`: what an operator sees of secrets and of deliveries."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.domain.runs.webhooks import Prospect, Try
from fairlead.operations.accounts.workspaces import UnknownWorkspaceError
from fairlead.storage.db.database import Database
from fairlead.storage.runs import webhooks
from storage.bookings import LAB, NOW, Books
from storage.queued_runs import end, queue, run_id

Ran = Callable[..., Result]


@pytest.fixture(autouse=True)
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database, with a lab that has money for its runs."""
    opened = Books(database, run)
    opened.open(balance=10_000)
    return opened


@pytest.fixture
def ran(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a function that runs a command on the database of the books."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", "A" * 43 + "=")

    def run(*arguments: str) -> Result:
        where = ("--data", str(tmp_path), "--database", database_url)
        return CliRunner().invoke(commands, ["webhooks", *arguments, *where])

    return run


def test_webhook_secret_stays_until_it_is_rotated(ran: Ran) -> None:
    """It is the same however often it is asked for, by name or by id, and another one after a rotation."""
    first = ran("secret", f"{LAB}-name").output
    assert first.startswith("whsec_")
    assert ran("secret", LAB).output == first
    told = json.loads(ran("secret", LAB, "--json").output)
    assert told == {"secret": first.strip(), "rotated_at": None}
    rotated = json.loads(ran("secret", LAB, "--rotate", "--json").output)
    assert rotated["secret"] != first.strip()
    assert rotated["rotated_at"].endswith("Z")
    assert json.loads(ran("secret", LAB, "--json").output) == rotated
    assert ran("secret", LAB, "--rotate").output.strip() not in (first.strip(), rotated["secret"])


def test_secret_of_an_unknown_workspace_is_refused(ran: Ran) -> None:
    """An unknown workspace is told by the command's usual line."""
    assert isinstance(ran("secret", "nobody").exception, UnknownWorkspaceError)


def test_log_without_a_delivery_says_so(books: Books, ran: Ran) -> None:
    """A run without a webhook, and one that goes on."""
    queue(books, run_id(1))
    queue(books, run_id(2), url=None)
    assert ran("log", run_id(1)).output.splitlines() == [
        "https://receiver.example/hook", "It was not tried yet.", "Its run is in progress.",
    ]  # fmt: skip
    for missing in (run_id(2), run_id(3)):
        done = ran("log", missing)
        assert (done.exit_code, done.output) == (1, f"Error: no webhook of a run {missing} is kept\n")


def test_log_shows_every_try_and_no_query(books: Books, ran: Ran) -> None:
    """The tries in order and what is left to do; the query of the address, often a password, is nowhere."""
    queue(books, run_id(1))
    end(books, run_id(1))
    for done, prospect in (
        (Try(NOW + 6, 15_000, None, "too_slow"), Prospect(next_at=NOW + 20_000)),
        (Try(NOW + 20_000, 40, 503), Prospect(next_at=NOW + 90_000)),
    ):
        _record(books, done, prospect)
    lines = ran("log", run_id(1)).output.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["number", "at", "milliseconds", "status", "error"],
        ["1", "2026-01-15T08:00:00.006Z", "15000", "-", "too_slow"],
        ["2", "2026-01-15T08:00:20.000Z", "40", "503", "-"],
    ]
    assert lines[4:] == ["Tried next at 2026-01-15T08:01:30.000Z."]
    _record(books, Try(NOW + 90_000, 30, 200), Prospect(delivered_at=NOW + 90_030))
    assert ran("log", run_id(1)).output.splitlines()[-1] == "Delivered at 2026-01-15T08:01:30.030Z."
    told = json.loads(ran("log", run_id(1), "--json").output)
    assert [one["status"] for one in told["tries"]] == [None, 503, 200]
    assert (told["url"], told["delivered_at"]) == ("https://receiver.example/hook", "2026-01-15T08:01:30.030Z")
    assert (told["gave_up_at"], told["next_at"]) == (None, None)


def test_delivery_that_was_given_up_says_so(books: Books, ran: Ran) -> None:
    """The last line says which it was."""
    queue(books, run_id(1))
    end(books, run_id(1))
    _record(books, Try(NOW + 6, 4, 410), Prospect(gave_up_at=NOW + 10))
    assert ran("log", run_id(1)).output.splitlines()[-1] == "Given up at 2026-01-15T08:00:00.010Z."


def _record(books: Books, done: Try, prospect: Prospect) -> None:
    (due,) = books.do(lambda c: webhooks.claim_due(c, done.at, done.at + 60_000, 10))
    assert books.do(lambda c: webhooks.record_try(c, due, done, prospect))
