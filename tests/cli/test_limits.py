"""Suspending and deleting workspaces, limits of requests, and alert channels, as commands on either database."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.cli.mistakes import explanation
from fairlead.domain.accounts.rights import ActorKind
from fairlead.operations.accounts.workspaces import find_record
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.audit_log import AuditFilter, list_entries
from fairlead.storage.db.database import Database
from storage.bookings import LAB, Books, new_key

pytestmark = pytest.mark.req("A-01")

Ran: TypeAlias = Callable[..., Result]
_KEY: Final = "0b54f1d0-6f0c-4c5e-9a53-000000000001"
_HOOK: Final = "https://93.184.216.34/hooks/very-secret-path"


@pytest.fixture(autouse=True)
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database, with a lab that has a key."""
    opened = Books(database, run)
    opened.open(name="lab", balance=10_000)
    opened.do(lambda c: workspaces.create_key(c, new_key(label="studio", id_=_KEY)))
    return opened


@pytest.fixture
def ran(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a function that runs a command on the database of the books."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", "A" * 43 + "=")
    monkeypatch.setenv("FAIRLEAD_WORKSPACE_GRACE_HOURS", "2")

    def run(*arguments: str, stdin: str = "") -> Result:
        where = ("--data", str(tmp_path), "--database", database_url)
        done = CliRunner().invoke(commands, [*arguments, *where], input=stdin)
        assert _HOOK not in done.output
        return done

    return run


def output_of(done: Result) -> Any:
    """What a command printed as JSON."""
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def mistake(done: Result) -> str:
    """The line that explains why a command was refused."""
    assert isinstance(done.exception, Exception)
    line = explanation(done.exception)
    assert line is not None, done.exception
    return line


def acts(books: Books) -> list[str]:
    """What the audit log has, the oldest first; all of it was done at a shell."""
    entries = books.do(lambda c: list_entries(c, AuditFilter(), 99))
    assert {one.actor.kind for one in entries} == {ActorKind.COMMAND}
    return [one.act.action for one in reversed(entries)]


def test_workspace_is_suspended_deleted_and_taken_back(ran: Ran, books: Books, database: Database, run: Run) -> None:
    """By name or id; a deleted one can be restored until the time that is printed."""
    for verb, has_stopped in (("suspend", True), ("resume", False)):
        assert ran("workspaces", verb, "lab").exit_code == 0
        assert (run(find_record(database, LAB)).suspended_at is not None) == has_stopped
    deleted = output_of(ran("workspaces", "delete", LAB, "--json"))
    end = run(find_record(database, LAB)).delete_at
    assert end is not None
    assert (deleted["name"], deleted["delete_at"][-1]) == ("lab", "Z")
    assert ran("workspaces", "restore", "lab").output == "lab is restored.\n"
    assert run(find_record(database, LAB)).delete_at is None
    assert acts(books) == [f"workspace.{what}" for what in ("suspended", "resumed", "deleted", "restored")]
    assert "there is no workspace nobody" in mistake(ran("workspaces", "suspend", "nobody"))


def test_markup_of_a_workspace_is_changed_and_told(ran: Ran, books: Books) -> None:
    """A percentage is added to list prices from now on, or taken off them; the log has the one that was set."""
    for given in ("-7.50", "default"):
        assert ran("workspaces", "change", "lab", "--markup", given).exit_code == 0
    entries = books.do(lambda c: list_entries(c, AuditFilter(), 99))
    assert [one.act.detail for one in reversed(entries)] == [{"markup": "-7.5"}, {"markup": None}]
    for wrong in ("-91", "1.005", "ten"):
        assert ran("workspaces", "change", "lab", "--markup", wrong).exit_code == 2


def test_limits_of_requests_are_set_listed_and_deleted(ran: Ran, books: Books) -> None:
    """A limit takes the place of the one that its subject has; what has none is refused in a line."""
    first = output_of(ran("rate-limits", "set", "lab", "60", "--key", _KEY, "--json"))
    again = output_of(ran("rate-limits", "set", "lab", "30", "--key", _KEY, "--json"))
    assert again == {**first, "per_minute": 30}
    made = ran("rate-limits", "set", "lab", "9", "--model", "local/procedural-text-1")
    assert "is 9 requests a minute" in made.output
    listed = output_of(ran("rate-limits", "list", "lab", "--json"))
    assert [(one["scope"], one["per_minute"]) for one in listed] == [("key", 30), ("model", 9)]
    assert ran("rate-limits", "delete", "lab", first["id"]).exit_code == 0
    assert "list` shows them" in mistake(ran("rate-limits", "delete", "lab", first["id"]))
    assert mistake(ran("rate-limits", "set", "lab", "9", "--model", "no id")).startswith("A model is named by its id")
    assert "Did you mean local/procedural-text-1" in mistake(
        ran("rate-limits", "set", "lab", "9", "--model", "local/procedural-text-2")
    )
    for wrong in (("9",), ("0", "--model", "fake/json-1"), ("9", "--key", _KEY, "--model", "fake/json-1")):
        assert ran("rate-limits", "set", "lab", *wrong).exit_code == 2
    assert acts(books) == ["rate_limit.set"] * 3 + ["rate_limit.deleted"]


def test_alert_channels_are_added_tried_and_deleted(ran: Ran, books: Books) -> None:
    """The address comes from standard input and is never shown; `log` tells of the test that was asked for."""
    made = output_of(ran("alert-channels", "create", "lab", "slack", "--json", stdin=f"{_HOOK}\n"))
    assert made["target"] == "https://93.184.216.34/…path"
    assert output_of(ran("alert-channels", "list", "lab", "--json")) == [made]
    assert ran("alert-channels", "test", "lab", made["id"]).exit_code == 0
    (alert,) = output_of(ran("alert-channels", "log", "lab", "--json"))
    assert (alert["kind"], alert["delivered"]) == ("test", {made["target"]: "waiting"})
    assert ran("alert-channels", "delete", "lab", made["id"]).exit_code == 0
    assert "no alert channel" in mistake(ran("alert-channels", "delete", "lab", made["id"]))
    assert "no alert channel" in mistake(ran("alert-channels", "test", "lab", made["id"]))
    assert acts(books) == [f"alert_channel.{what}" for what in ("created", "tested", "deleted")]


def test_address_that_cannot_be_told_anything_is_refused(ran: Ran) -> None:
    """One that is private, none at all, one that is too long, and e-mail without a mail server."""
    for kind, address in (
        ("webhook", "http://127.0.0.1/x"),
        ("webhook", ""),
        ("slack", f"https://93.184.216.34/{'a' * 2048}"),
        ("email", "ada@example.com"),
    ):
        assert mistake(ran("alert-channels", "create", "lab", kind, stdin=address))
    assert ran("alert-channels", "list", "lab").output == "This workspace has no alert channels.\n"
