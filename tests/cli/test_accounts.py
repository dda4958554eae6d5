"""The books for people: usage, budgets, exports and statements, as commands on a database of either kind."""

import csv
import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.cli.mistakes import explanation
from fairlead.domain.days import NotADateError
from fairlead.domain.ledger.budgets import NoBudgetError
from fairlead.domain.ledger.usage import BadUsageQueryError
from fairlead.domain.runs.entries import RunEntry
from fairlead.operations.accounts.keys import UnknownKeyError
from fairlead.operations.accounts.workspaces import CreditKeyUsedError, UnknownWorkspaceError
from fairlead.operations.ledger.statements import UnknownRunError
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW, Books, admission, failure, new_key, redirection, settlement

CENT: Final = 1_000_000
DAYS: Final = ("--from", "2026-01-01", "--to", "2026-01-31")
Ran: TypeAlias = Callable[..., Result]

_KEY: Final = "0b54f1d0-6f0c-4c5e-9a53-000000000001"
_MODEL: Final = "local/procedural-text-1"
_NO_KEY: Final = "0b54f1d0-6f0c-4c5e-9a53-00000000dead"


@pytest.fixture(autouse=True)
def _books_are_proven(proven_books: None) -> None:
    """Prove the books after each test of this file."""


@pytest.fixture(autouse=True)
def books(database: Database, run: Run) -> Books:
    """Return books with a run that was redirected, one that failed, and one under way."""
    books = Books(database, run)
    books.open(name="lab", balance=1000 * CENT)
    books.open(id_="office", name="office", balance=7 * CENT)
    books.do(lambda c: workspaces.create_key(c, new_key(label="studio", id_=_KEY)))
    mine: dict[str, Any] = {"key_id": _KEY, "provider": "runware"}
    books.write(admission("moved", 10 * CENT, least=4 * CENT, dropped='["seed", "tags"]', **mine))
    books.write(redirection("moved", 15 * CENT, provider="fal"), admission("failed", 5 * CENT))
    event = RunEntry("call repeated", 1, "fal is asked for the second time after 0.5 s", NOW + 4)
    books.write(settlement("moved", 12 * CENT, events=(event,)), failure("failed"), admission("live", 3 * CENT, **mine))
    return books


@pytest.fixture
def ran(database_url: str) -> Ran:
    """Return a function that runs a command on the books."""
    return lambda *arguments: CliRunner().invoke(commands, [*arguments, "--database", database_url])


def document(done: Result) -> Any:
    """Check that a command went well, and return the JSON document it printed."""
    assert done.exception is None, done.output
    return json.loads(done.stdout)


def test_usage_is_printed_for_people_and_scripts(ran: Ran) -> None:
    """Scripts get what the route answers, people a table with names, dollars and a total."""
    told = document(ran("usage", "lab", *DAYS, "--by", "key,model", "--json"))
    assert (told["from"], told["to"], told["group_by"]) == ("2026-01-01", "2026-01-31", ["model", "key"])
    assert told["data"] == [
        {"model": "acme/one", "key": None, "runs": 1, "succeeded": 0, "failed": 1, "amount": "0", "credits": "0"},
        {
            "model": "acme/one",
            "key": {"id": _KEY, "label": "studio", "hint": "flk_a…z"},
            "runs": 1,
            "succeeded": 1,
            "failed": 0,
            "amount": "0.12",
            "credits": "25.32",
        },
    ]
    assert told["total"] == {"runs": 2, "succeeded": 1, "failed": 1, "amount": "0.12", "credits": "25.32"}
    table = ran("usage", "lab", *DAYS, "--by", "day,key")
    assert table.exception is None, table.exception
    lines = [line.split() for line in table.output.splitlines()]
    assert lines == [
        ["day", "key", "runs", "succeeded", "failed", "amount", "credits"],
        ["2026-01-15", "token", "1", "0", "1", "0", "0"],
        ["2026-01-15", "studio", "flk_a…z", "1", "1", "0", "0.12", "25.32"],
        ["total", "2", "1", "1", "0.12", "25.32"],
    ]


@pytest.mark.req("M-07")
def test_usage_is_printed_by_label(ran: Ran, books: Books) -> None:
    """Runs without the label come last; one value is asked for by its name."""
    books.write(admission("labelled", CENT, labels='{"client":"acme"}'))
    books.write(settlement("labelled", CENT, booked=None))
    lines = [line.split() for line in ran("usage", "lab", *DAYS, "--by", "label:client").output.splitlines()]
    assert lines == [
        ["label:client", "runs", "succeeded", "failed", "amount", "credits"],
        ["acme", "1", "1", "0", "0.01", "2.11"],
        ["(without)", "2", "1", "1", "0.12", "25.32"],
        ["total", "3", "2", "1", "0.13", "27.43"],
    ]
    one = document(ran("usage", "lab", *DAYS, "--label", "client=acme", "--json"))
    assert [(row["day"], row["amount"]) for row in one["data"]] == [("2026-01-15", "0.01")]


def test_no_usage_is_said_in_a_sentence(ran: Ran) -> None:
    """Where nothing ended, a sentence says so."""
    assert ran("usage", "office", *DAYS).output == "No run of this workspace ended from 2026-01-01 to 2026-01-31.\n"
    assert document(ran("usage", "office", *DAYS, "--json"))["data"] == []


def test_export_holds_the_ledger(ran: Ran, tmp_path: Path) -> None:
    """A file with a header row and an entry a line, in dollars; it adds up to the balance."""
    file = tmp_path / "lab.csv"
    file.write_text("what was there before")
    done = ran("ledger", "export", "lab", "-o", str(file))
    assert (done.exit_code, done.output) == (0, "")
    rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))
    assert [(row["kind"], row["balance_change"], row["held_change"]) for row in rows] == [
        ("credit", "10", "0"),
        ("hold", "0", "0.1"),
        ("raise", "0", "0.05"),
        ("hold", "0", "0.05"),
        ("post", "-0.12", "-0.15"),
        ("void", "0", "-0.05"),
        ("hold", "0", "0.03"),
    ]
    assert rows[4]["created_at"] == "2026-01-15T08:00:00.005Z"
    assert (rows[4]["workspace"], rows[4]["key_id"], rows[4]["run_id"]) == ("lab", _KEY, "moved")
    assert (rows[0]["model_id"], rows[0]["rate_version"]) == ("", "")
    assert [path.name for path in tmp_path.glob("lab*")] == ["lab.csv"]
    assert [path.name for path in tmp_path.glob(".lab*")] == []


def test_export_of_lines_is_json(ran: Ran) -> None:
    """One JSON object a line, of every workspace, printed where no file is named."""
    done = ran("ledger", "export", "--all", "--format", "jsonl")
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert {line["workspace"] for line in lines} == {"lab", "office"}
    assert lines[0] == {
        "id": lines[0]["id"], "created_at": "2026-01-15T08:00:00.000Z", "workspace": "lab", "kind": "credit",
        "balance_change": "10", "held_change": "0", "model_id": None, "key_id": None, "run_id": None,
        "reason": "paid in", "rate_version": None, "labels": None,
    }  # fmt: skip
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("days", "entries"),
    [
        (("--from", "2026-01-15"), 7),
        (("--to", "2026-01-15"), 7),
        (("--from", "2026-01-16"), 0),
        (("--to", "2026-01-14"), 0),
    ],
)
def test_export_includes_both_days(ran: Ran, days: tuple[str, str], entries: int) -> None:
    """Both days are in it; an export of nothing still has its header."""
    rows = list(csv.reader(io.StringIO(ran("ledger", "export", "lab", *days).output)))
    assert len(rows) == entries + 1
    assert rows[0][:4] == ["id", "created_at", "workspace", "kind"]


def test_failed_export_leaves_the_old_file(ran: Ran, tmp_path: Path) -> None:
    """A file that cannot be written is one line; what was there before stays as it was."""
    file = tmp_path / "lab.csv"
    file.write_text("before")
    assert isinstance(ran("ledger", "export", "nobody", "-o", str(file)).exception, UnknownWorkspaceError)
    assert file.read_text() == "before"
    assert list(tmp_path.glob(".lab*")) == []
    nowhere = ran("ledger", "export", "lab", "-o", str(tmp_path / "no" / "lab.csv"))
    assert nowhere.exit_code == 1
    assert "lab.csv cannot be written: No such file or directory" in nowhere.output


def test_export_writes_into_a_device(ran: Ran, tmp_path: Path) -> None:
    """A device or a pipe is written to, by whatever name it goes; one that is full is told in one line."""
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    full = ran("ledger", "export", "lab", "-o", str(link))
    assert full.exit_code == 1
    assert "link cannot be written: No space left on device" in full.output
    assert link.is_char_device()


def test_statement_explains_what_a_run_cost(ran: Ran) -> None:
    """How it came, where it went, what it was estimated, held and charged at, and what befell it."""
    told = document(ran("runs", "show", "moved", "--json"))
    assert {name: told[name] for name in ("came", "state", "reason", "least", "most", "hold", "charge", "dropped")} == {
        "came": "at once", "state": "succeeded", "reason": "completed", "least": "0.04", "most": "0.1", "hold": "0.15",
        "charge": "0.12", "dropped": ["seed", "tags"],
    }  # fmt: skip
    assert [(leg["provider"], leg["hold"], leg["rate_version"]) for leg in told["legs"]] == [
        ("runware", "0.1", "v1"),
        ("fal", "0.15", "f1"),
    ]
    assert [entry["kind"] for entry in told["entries"]] == ["hold", "raise", "post"]
    assert told["events"][0] == {
        "at": "2026-01-15T08:00:00.004Z", "kind": "call repeated", "attempt": 1,
        "detail": "fal is asked for the second time after 0.5 s",
    }  # fmt: skip
    assert (told["webhook"], told["tries"], told["workspace"]) == (None, [], "lab")
    shown = ran("runs", "show", "moved").output
    for words in (
        "0.04 to 0.1",
        "seed, tags",
        f"studio flk_a…z ({_KEY})",
        "What happened to it:",
        "redirected from runware to fal",
    ):
        assert words in shown
    assert "tell" not in shown


@pytest.mark.parametrize(
    ("run_id", "words"),
    [
        ("failed", ["none, but a token", "provider_error", "at most 0.05"]),
        ("live", ["dispatched", "held", "runware"]),
    ],
)
def test_statements_of_failed_and_live_runs_leave_out_what_does_not_apply(
    ran: Ran, run_id: str, words: list[str]
) -> None:
    """Runs that failed or go on have statements, with what does not apply left out."""
    shown = ran("runs", "show", run_id).output
    assert all(word in shown for word in words)
    assert ("charged" in shown) is (run_id == "failed")
    assert "left out" not in shown


def test_receiver_of_a_webhook_is_shown_without_its_secret(books: Books, ran: Ran) -> None:
    """The address of a webhook is told without what may be a secret in it."""
    books.sql(
        "INSERT INTO webhook_deliveries (run_id, workspace_id, url, tries) VALUES ('live', :lab, :url, 0)",
        lab=LAB,
        url="https://somebody:word@receiver.example:8443/hook?token=secret#x",
    )
    assert document(ran("runs", "show", "live", "--json"))["webhook"]["url"] == "https://receiver.example:8443/hook"
    shown = ran("runs", "show", "live").output
    assert "Its webhook:" in shown
    assert "secret" not in shown


def test_newest_runs_are_listed_by_state(ran: Ran) -> None:
    """The newest runs of a workspace by state, in either form."""
    rows = document(ran("runs", "list", "lab", "--json"))
    assert sorted(row["id"] for row in rows) == ["failed", "live", "moved"]
    (row,) = document(ran("runs", "list", "lab", "--state", "failed", "--json"))
    assert (row["id"], row["charge"], row["hold"]) == ("failed", "0", "0.05")
    assert len(document(ran("runs", "list", "lab", "--limit", "2", "--json"))) == 2
    assert ran("runs", "list", "office").output == "There are no such runs.\n"
    assert "at once" in ran("runs", "list", "lab").output


def test_budget_of_a_key_is_given_changed_and_taken_away(ran: Ran) -> None:
    """A budget is given with the key or later, changed in part, listed with what is spent, and taken away."""
    made = document(ran("keys", "create", "lab", "--budget", "20", "--json"))["id"]
    assert ran("keys", "set", _KEY, "--budget", "0.5", "--budget-period", "total").exit_code == 0
    changed = ran("keys", "set", made, "--budget-period", "day")
    assert changed.output == f"The budget of {made} is 20 dollars (day).\n"
    rows = {row["id"]: row for row in document(ran("keys", "list", "--json"))}
    told = [[rows[id_][name] for name in ("budget", "budget_period", "spent", "held")] for id_ in (_KEY, made)]
    assert told == [["0.5", "total", "0.12", "0.03"], ["20", "day", "0", "0"]]
    assert ran("keys", "set", made, "--budget", "none").output == f"{made} has no budget now.\n"
    rows = {row["id"]: row for row in document(ran("keys", "list", "--json"))}
    assert (rows[made]["budget"], rows[made]["budget_period"], rows[made]["spent"]) == (None, None, None)


@pytest.mark.req("J-11")
def test_organization_is_given_listed_and_taken_away(ran: Ran) -> None:
    """Workspaces and keys are given one at first or later, are listed with it, and are rid of it."""
    assert ran("workspaces", "create", "held", "--organization", "org_7", "--sso-required").exit_code == 0
    made = document(ran("keys", "create", "held", "--organization", "org_8", "--json"))["id"]
    assert ran("keys", "set", made, "--sso-required").output == f"Changed {made}.\n"

    def hold_of(*list_: str, by: str) -> dict[str, tuple[Any, Any]]:
        rows = document(ran(*list_, "list", "--json"))
        return {row[by]: (row["organization_id"], row["sso_required"]) for row in rows}

    assert hold_of("workspaces", by="name") == {"held": ("org_7", True), "lab": (None, False), "office": (None, False)}
    assert hold_of("keys", by="id") == {made: ("org_8", True), _KEY: (None, False)}
    ran("workspaces", "change", "held", "--organization", "none", "--no-sso-required")
    ran("keys", "set", made, "--organization", "none")
    assert hold_of("workspaces", by="name")["held"] == (None, False)
    assert hold_of("keys", by="id")[made] == (None, True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("usage", "nobody"), UnknownWorkspaceError),
        (("usage", "lab", "--from", "yesterday"), NotADateError),
        (("usage", "lab", "--from", "2020-01-01", "--to", "2026-01-01"), BadUsageQueryError),
        (("usage", "lab", "--by", "week"), BadUsageQueryError),
        (("ledger", "export", "lab", "--to", "2026"), NotADateError),
        (("runs", "show", "nothing"), UnknownRunError),
        (("runs", "list", "nobody"), UnknownWorkspaceError),
        (("keys", "set", _NO_KEY, "--budget", "1"), UnknownKeyError),
        (("keys", "set", _NO_KEY, "--sso-required"), UnknownKeyError),
        (("keys", "set", _KEY, "--budget-period", "day"), NoBudgetError),
    ],
)
def test_each_mistake_has_its_error(ran: Ran, arguments: tuple[str, ...], error: type[Exception]) -> None:
    """What an operator can mend is one of the errors the command line words."""
    assert isinstance(ran(*arguments).exception, error)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ledger", "export", "lab", "--all"),
        ("ledger", "export", "--format", "xml"),
        ("runs", "list", "--state", "sleeping"),
        ("keys", "create", "lab", "--budget-period", "day"),
        ("keys", "create", "lab", "--budget", "-1"),
        ("keys", "set", _KEY),
        ("keys", "set", _KEY, "--budget", "none", "--budget-period", "day"),
        ("keys", "set", _KEY, "--organization", "a b"),
        ("workspaces", "change", "lab", "--organization", "o" * 101),
        ("keys", "set", _KEY, "--budget", "1", "--budget-period", "year"),
    ],
    ids=" ".join,
)
def test_contradicting_options_are_a_usage_error(ran: Ran, arguments: tuple[str, ...]) -> None:
    """Options that contradict each other are a wrong command, with exit status 2."""
    assert ran(*arguments).exit_code == 2


@pytest.mark.req("M-07")
def test_credit_with_a_reference_is_booked_once(ran: Ran) -> None:
    """A repeat says what was booked before; another amount or reason under the reference is refused."""
    credit = ("workspaces", "credit", "lab", "25", "--reason", "invoice 17", "--reference", "17")
    first, again = (document(ran(*credit, "--json")) for _ in range(2))
    assert (first["is_new"], again) == (True, {**first, "is_new": False})
    assert ran(*credit).output.startswith("Booked before: 25 dollars into lab")
    for other in (("26", "--reason", "invoice 17"), ("25", "--reason", "a gift")):
        refused = ran("workspaces", "credit", "lab", *other, "--reference", "17").exception
        assert isinstance(refused, CreditKeyUsedError)
    assert ran("workspaces", "credit", "lab", "1", "--reference", "").exit_code == 2


@pytest.mark.req("A-03")
def test_model_of_a_budget_or_a_key_must_exist(ran: Ran) -> None:
    """A typing error is told with the models that are alike."""
    wrong = "local/procedural-text-2"
    for command in (("budgets", "create", "lab", "20", "--model", wrong), ("keys", "create", "lab", "--models", wrong)):
        assert "Did you mean local/procedural-text-1" in str(ran(*command).exception)


@pytest.mark.req("A-03")
def test_budgets_are_made_listed_changed_and_deleted(ran: Ran) -> None:
    """Each scope is given a budget, which begins with what was spent; all of it can be changed, and taken away."""
    assert ran("keys", "set", _KEY, "--team", "render").output == f"{_KEY} is in the team render.\n"
    options = {"workspace": (), "team": ("--team", "render"), "key": ("--key", _KEY), "model": ("--model", _MODEL)}
    options["label"] = ("--label", "client=acme")
    for scope, chosen in options.items():
        made = document(ran("budgets", "create", "lab", "20", "--period", "total", *chosen, "--json"))
        assert (made["scope"], made["limit"], made["thresholds"]) == (scope, "20", [50, 80, 100])
    rows = {row["scope"]: row for row in document(ran("budgets", "list", "lab", "--json"))}
    assert [rows[scope]["spent"] for scope in ("workspace", "team", "key")] == ["0.12"] * 3
    id_ = rows["team"]["id"]
    changed = ran("budgets", "set", "lab", id_, "--limit", "30", "--period", "day", "--thresholds", "", "--only-tell")
    assert changed.output == f"The budget {id_} is 30 dollars (day).\n"
    (row,) = [row for row in document(ran("budgets", "list", "lab", "--json")) if row["id"] == id_]
    assert (row["limit"], row["period"], row["thresholds"], row["is_enforced"]) == ("30", "day", [], False)
    weekly = "--period", "week", "--time-zone", "Asia/Kolkata", "--reset-time", "06:00", "--reset-weekday", "friday"
    changed = ran("budgets", "set", "lab", id_, *weekly)
    assert changed.output == f"The budget {id_} is 30 dollars (week from Friday 06:00 Asia/Kolkata).\n"
    (row,) = [row for row in document(ran("budgets", "list", "lab", "--json")) if row["id"] == id_]
    assert (row["time_zone"], row["reset_time"], row["reset_weekday"]) == ("Asia/Kolkata", "06:00", "friday")
    assert row["resets_at"].endswith("T00:30:00.000Z")
    until = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=2)
    added = ran("budgets", "add", "lab", id_, "12.5", "--until", until.isoformat(), "--reason", "the fair")
    assert added.output.startswith(f"The budget {id_} is 42.5 dollars now, with the addition ")
    (row,) = [row for row in document(ran("budgets", "list", "lab", "--json")) if row["id"] == id_]
    (addition,) = row["additions"]
    assert (row["limit"], row["added"], addition["amount"], addition["reason"]) == ("30", "12.5", "12.5", "the fair")
    assert ran("budgets", "withdraw", "lab", id_, addition["id"]).output == f"Ended {addition['id']}.\n"
    assert ran("budgets", "delete", "lab", id_).output == f"Deleted {id_}.\n"
    assert len(document(ran("budgets", "list", "lab", "--json"))) == 4
    assert ran("budgets", "list", "office").output == "This workspace has no budgets.\n"
    assert ran("keys", "set", _KEY, "--team", "none").output == f"{_KEY} is in no team now.\n"


@pytest.mark.req("A-03")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "lab", "nothing", "--limit", "-1"), "must not be negative"),
        (("create", "lab", "5", "--team", " "), "A team has a name"),
        (("create", "lab", "5", "--model", "nothing"), "A model is named by its id"),
        (("create", "lab", "5", "--key", "nothing"), "no living key with this id"),
        (("create", "lab", "5", "--key", "one", "--team", "two"), "give one of"),
        (("create", "lab", "5", "--thresholds", "0"), "from 1 to 1000 percent"),
        (("create", "lab", "5", "--thresholds", "half"), "must be whole numbers"),
        (("create", "lab", "5", "--time-zone", "Europe/Wien"), "did you mean Europe/Vienna"),
        (("create", "lab", "5", "--reset-time", "6am"), "written as 06:30"),
        (("create", "lab", "5", "--reset-weekday", "friday"), "Only a budget of a week"),
        (("set", "lab", "nothing", "--limit", "5"), "has no budget with the id nothing"),
        (("add", "lab", "nothing", "5", "--until", "Christmas", "--reason", "x"), "--until must be a date"),
        (("add", "lab", "nothing", "5", "--until", "2026-01-01", "--reason", "x"), "ends later than now"),
        (("withdraw", "lab", "nothing", "none"), "has no budget with the id nothing"),
        (("delete", "lab", "nothing"), "has no budget with the id nothing"),
    ],
)
def test_budget_that_cannot_be_is_refused_in_a_line(ran: Ran, arguments: tuple[str, ...], words: str) -> None:
    """What is wrong is said in one line."""
    result = ran("budgets", *arguments)
    assert result.exit_code != 0
    line = explanation(result.exception) if isinstance(result.exception, Exception) else None
    assert words in f"{result.output} {line}"
