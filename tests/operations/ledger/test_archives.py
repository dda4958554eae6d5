"""Archiving what ended long ago: nothing is lost or doubled wherever it is killed, and what is needed stays."""

import datetime
import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER
from fairlead.domain.days import DAY_MS, first_id, start_of
from fairlead.domain.ledger.archives import ArchivedEntry, ArchivedRun, wrong_in
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetReset, BudgetScope
from fairlead.domain.ledger.corrections import Refund, RefundOrder
from fairlead.domain.runs.states import RunState
from fairlead.operations.ledger import books as ledger_books
from fairlead.operations.ledger.archive_proof import ArchiveProof, prove_archives
from fairlead.operations.ledger.archives import ArchiveFileError, Archiver, BadArchiveDateError, Moved
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database, Work
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.archive_files import read_archive
from fairlead.storage.ledger.archives import (
    ArchiveMismatchError,
    ArchiveTakenError,
    CorrectedMeanwhileError,
    record_archive,
)
from fairlead.storage.ledger.budgets import NewBudget, create_budget
from fairlead.storage.ledger.corrections import refund_run
from storage.bookings import LAB, Books, admission, failure, kept_result, key, new_key, redirection, settlement

T = TypeVar("T")

DAY: Final = datetime.date(2026, 8, 10)
"""The day on which the runs of these tests end."""
BEFORE: Final = datetime.date(2026, 9, 1)
TODAY: Final = datetime.date(2026, 11, 25)
AT: Final = start_of(DAY) + 3_600_000
LABELS: Final = '{"client":"acme"}'
RUNS: Final = 7


def clock(day: datetime.date = TODAY) -> Clock:
    """Return a clock that stands at noon of a day."""
    return Clock(lambda: (start_of(day) + DAY_MS // 2) * 1_000_000)


def run_id(number: int, at: int = AT) -> str:
    """Return an id as it is made at a time, which sorts by it."""
    return f"{first_id(at + number)}-7000-8000-{number:012d}"


def ran(books: Books, number: int, at: int = AT, **changes: Any) -> str:
    """Have a run of the lab begin and end; its id."""
    id_ = run_id(number, at)
    books.write(admission(id_, created_at=at, **changes))
    of = {name: changes[name] for name in ("workspace_id",) if name in changes}
    books.write(settlement(id_, charge=10 + number, finished_at=at + 5, booked=None, **of))
    return id_


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the archives, which nobody has made yet."""
    return tmp_path / "archives"


@pytest.fixture
def filled(books: Books) -> Books:
    """Return books with runs that ended in August in every way, and one that ended in November."""
    books.open(balance=100_000)
    books.open(id_="office", balance=100_000)
    books.do(lambda c: workspaces.create_key(c, new_key()))
    for number in range(RUNS - 3):
        ran(books, number, key_id="key-1" if number % 2 else None, labels=LABELS)
    ran(books, RUNS - 3, workspace_id="office")
    redirected, failed = run_id(RUNS - 2), run_id(RUNS - 1)
    books.write(admission(redirected, created_at=AT))
    books.write(redirection(redirected))
    books.write(settlement(redirected, charge=120, finished_at=AT + 9, booked=None))
    books.write(admission(failed, created_at=AT))
    books.write(failure(failed, finished_at=AT + 9, booked=None))
    ran(books, 90, at=start_of(datetime.date(2026, 11, 24)), labels=LABELS)
    return books


class Archives:
    """Archives of one database in one folder."""

    def __init__(self, database: Database, folder: Path, run: Run) -> None:
        self._run = run
        self.database = database
        self.folder = folder
        self.told: list[Moved] = []

    def archiver(self, database: Database | None = None, **changes: Any) -> Archiver:
        """Return an archiver that makes files of three runs, and deletes two at a time."""
        usual: dict[str, Any] = {"runs_per_file": 3, "batch": 2}
        given = database or self.database
        return Archiver(given, clock(), self.folder, SERVER, self.told.append, **{**usual, **changes})

    def archive(self, before: datetime.date = BEFORE, **changes: Any) -> int:
        """Archive; how many runs were moved."""
        moved: int = self._run(self.archiver(**changes).archive(before))
        return moved

    def proof(self) -> ArchiveProof:
        """Prove the files."""
        proof: ArchiveProof = self._run(prove_archives(self.database, self.folder))
        return proof

    def audit(self) -> ledger_books.AuditReport:
        """Prove the books without the files."""
        report: ledger_books.AuditReport = self._run(ledger_books.audit(self.database, clock().now_ms))
        return report

    def files(self) -> list[Path]:
        """Return the files in the order of their numbers."""
        return sorted(self.folder.glob("fairlead-archive-*"))

    def all_runs(self) -> list[ArchivedRun]:
        """Return every run of every file."""
        return [line for path in self.files() for line in read_archive(path) if isinstance(line, ArchivedRun)]


@pytest.fixture
def archives(database: Database, folder: Path, run: Run) -> Archives:
    """Return the archives of the test's database."""
    return Archives(database, folder, run)


@pytest.mark.req("M-06")
def test_archived_entries_and_those_left_add_up_to_every_balance(filled: Books, archives: Archives) -> None:
    """Everything of the old runs is in the files and nothing of it in the tables; the books are proven without them."""
    before, entries = filled.figures(), filled.rows("SELECT id FROM ledger_entries WHERE run_id IS NOT NULL")
    assert archives.archive() == RUNS
    assert filled.figures() == before
    left = filled.rows("SELECT id FROM ledger_entries WHERE run_id IS NOT NULL")
    moved = [one.id for line in archives.all_runs() for one in line.entries]
    assert sorted([*moved, *(row["id"] for row in left)]) == sorted(row["id"] for row in entries)
    assert len(left) == 2, "the run of November"
    assert (len(filled.rows("SELECT * FROM runs")), len(filled.rows("SELECT * FROM run_events"))) == (1, 0)
    report = archives.audit()
    assert report.disagreements == []
    assert (report.totals["archives"], report.totals["archived_entries"]) == (3, len(moved))
    proof = archives.proof()
    assert (proof.findings, proof.strange_files) == ([], [])
    assert proof.totals == {"archives": 3, "archived_runs_read": RUNS, "archived_entries_read": len(moved)}


@pytest.mark.req("M-06")
@pytest.mark.usefixtures("filled")
def test_file_is_json_lines_that_anything_reads(archives: Archives) -> None:
    """A line each: what it is, then runs with their entries and events, then the sums."""
    archives.archive(runs_per_file=100)
    (path,) = archives.files()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [line["line"] for line in lines] == ["header", *["run"] * RUNS, "summary"]
    assert (lines[0]["format"], lines[0]["before"], lines[0]["number"]) == ("fairlead-archive", start_of(BEFORE), 1)
    run, entries = lines[1]["run"], lines[1]["entries"]
    assert (run["id"], run["workspace_id"], run["charge"], run["strict"]) == (run_id(0), LAB, 10, False)
    assert [(one["kind"], one["balance_change"], one["held_change"]) for one in entries] == [
        ("hold", 0, 100),
        ("post", -10, -100),
    ]
    assert not {"request", "result_content", "idempotency_id"} & run.keys()
    assert [one["workspace_id"] for one in lines[-1]["sums"]] == [LAB, "office"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.req("M-06")
def test_later_archive_follows_the_earlier_ones(filled: Books, archives: Archives) -> None:
    """Each record has the checksum of the one before it; an archive of nothing makes none."""
    archives.archive()
    assert archives.archive() == 0
    ran(filled, 50)
    ran(filled, 81, at=start_of(datetime.date(2026, 11, 24)))
    assert archives.archive() == 1
    rows = filled.rows("SELECT number, previous, checksum, finished_at FROM archives ORDER BY number")
    assert [row["number"] for row in rows] == [1, 2, 3, 4]
    assert [row["previous"] for row in rows[1:]] == [row["checksum"] for row in rows[:-1]]
    assert all(row["finished_at"] for row in rows)
    assert archives.proof().findings == []


class PowerCutError(BaseException):
    """The process ends here."""


class FailingDatabase:
    """A database whose process dies at one of its transactions: before it, or when it has just been committed."""

    def __init__(self, database: Database, at: int, *, committed: bool) -> None:
        self._database = database
        self._left = at
        self._committed = committed

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Write, or die."""
        self._die(committed=False)
        result = await self._database.write(work, durable=durable)
        self._die(committed=True)
        return result

    async def read(self, work: Work[T]) -> T:
        """Read, or die."""
        self._die(committed=False)
        return await self._database.read(work)

    async def close(self) -> None:
        """Stay open."""

    def _die(self, *, committed: bool) -> None:
        if committed == self._committed:
            self._left -= 1
            if self._left == 0:
                raise PowerCutError


@pytest.mark.req("M-06")
@pytest.mark.parametrize("committed", [False, True])
def test_death_at_any_transaction_loses_and_doubles_nothing(
    filled: Books,
    archives: Archives,
    run: Run,
    committed: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    """After every death the books are right as they stand, and the same command goes on from there."""
    expected = filled.figures()
    deaths = 0
    while True:
        failing = FailingDatabase(archives.database, deaths + 1, committed=committed)
        try:
            run(archives.archiver(failing).archive(BEFORE))
        except PowerCutError:
            deaths += 1
            assert archives.audit().disagreements == []
        else:
            break
    assert deaths >= 4
    ids = [one.run["id"] for number in named_files(filled, archives) for one in number]
    assert sorted(ids) == [run_id(number) for number in range(RUNS)]
    assert filled.figures() == expected
    assert archives.proof().findings == []


def named_files(books: Books, archives: Archives) -> Iterator[list[ArchivedRun]]:
    """Return the runs of each file that has a record: a death before it leaves one that nobody names."""
    for row in books.rows("SELECT file FROM archives ORDER BY number"):
        yield [line for line in read_archive(archives.folder / row["file"]) if isinstance(line, ArchivedRun)]


@pytest.mark.req("M-06")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_death_while_the_file_is_written_deletes_nothing(
    filled: Books, archives: Archives, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A file that is not durable under its name was recorded by nobody."""

    def die(*_: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patched, suppress(PowerCutError):
        patched.setattr(os if call == "fsync" else Path, call, die)
        archives.archive()
        pytest.fail("it did not die")
    assert filled.rows("SELECT * FROM archives") == []
    assert archives.archive() == RUNS
    assert archives.proof().findings == []


@pytest.mark.req("M-06")
def test_unfinished_archive_is_not_finished_without_its_file(filled: Books, archives: Archives, run: Run) -> None:
    """Nothing is deleted by a record alone, nor by a file that was changed since."""
    with suppress(PowerCutError):
        run(archives.archiver(FailingDatabase(archives.database, 2, committed=True)).archive(BEFORE))
    (path,) = archives.files()
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(ArchiveFileError, match="give the folder"):
        archives.archive()
    path.write_bytes(content + b"x")
    with pytest.raises(ArchiveFileError, match="not what was written"):
        archives.archive()
    assert len(filled.rows("SELECT * FROM runs")) == RUNS + 1 - 2
    path.write_bytes(content)
    assert archives.archive() == RUNS - 2
    assert archives.told[0].was_resumed


def test_run_that_differs_from_its_archive_is_not_deleted(filled: Books, archives: Archives, run: Run) -> None:
    """What was changed behind our back stays, and is said."""
    with suppress(PowerCutError):
        run(archives.archiver(FailingDatabase(archives.database, 1, committed=True)).archive(BEFORE))
    filled.sql("UPDATE runs SET reason = 'changed' WHERE id = :id", id=run_id(0))
    with pytest.raises(ArchiveMismatchError, match=run_id(0)):
        archives.archive()
    filled.sql("UPDATE runs SET reason = 'completed' WHERE id = :id", id=run_id(0))
    assert archives.archive() == RUNS


@pytest.mark.usefixtures("filled")
def test_second_command_in_the_same_folder_is_refused(archives: Archives, run: Run) -> None:
    """Two would write the same file."""
    refused: list[str] = []

    class Meddling(FailingDatabase):
        async def write(self, work: Work[T], *, durable: bool = True) -> T:
            if not refused:
                with pytest.raises(ArchiveFileError) as caught:
                    await archives.archiver().archive(BEFORE)
                refused.append(str(caught.value))
            return await super().write(work, durable=durable)

    run(archives.archiver(Meddling(archives.database, 0, committed=False)).archive(BEFORE))
    assert "another `fairlead archive`" in refused[0]


def test_number_of_an_archive_is_given_once(filled: Books, archives: Archives) -> None:
    """A command in another folder that was faster has the number."""
    archives.archive(runs_per_file=100)
    taken = msgspec.structs.replace(archives.told[0].archive, file="other")
    with pytest.raises(ArchiveTakenError):
        filled.do(lambda c: record_archive(c, taken, AT))


@pytest.mark.req("M-07")
def test_run_that_is_refunded_while_it_is_written_is_not_archived(filled: Books, archives: Archives, run: Run) -> None:
    """Its file has the charge of before, so the file is not recorded; a later command writes another one."""
    refunded: list[Refund | None] = []

    class Refunding(FailingDatabase):
        async def write(self, work: Work[T], *, durable: bool = True) -> T:
            if not refunded:
                order, now = RefundOrder("black"), clock().now_ms()
                refund = partial(refund_run, run_id=run_id(0), order=order, now=now, is_dry=False)
                refunded.append(await super().write(refund))
            return await super().write(work, durable=durable)

    with pytest.raises(CorrectedMeanwhileError):
        run(archives.archiver(Refunding(archives.database, 99, committed=False)).archive(BEFORE))
    assert archives.told == []
    filled.sql("UPDATE ledger_entries SET created_at = created_at - 700000 WHERE kind = 'refund'")
    ran(filled, 89, at=start_of(datetime.date(2026, 11, 24)))  # whose entry is the newest
    archives.archive()
    written = [one for one in archives.all_runs() if one.run["id"] == run_id(0)]
    assert {(one.run["charge"], wrong_in(one)) for one in written} == {(10, None), (0, None)}, "one was not recorded"
    assert archives.audit().is_clean


@pytest.mark.req("M-06")
def test_current_month_is_never_archived(filled: Books, archives: Archives) -> None:
    """Budgets and the statement of the month are proven by its runs."""
    ran(filled, 60, at=start_of(datetime.date(2026, 11, 1)))
    with pytest.raises(BadArchiveDateError, match="2026-11-01 is the latest"):
        archives.archive(datetime.date(2026, 11, 2))
    assert archives.archive(datetime.date(2026, 11, 1)) == RUNS


def give_budget(books: Books, period: str, reset: BudgetReset, now: int) -> None:
    """Give the lab a budget."""
    new = NewBudget(
        id="budget", workspace_id=LAB, scope=BudgetScope.WORKSPACE, subject="",
        budget=Budget(1_000, BudgetPeriod(period), reset), created_at=now,
    )  # fmt: skip
    books.do(lambda c: create_budget(c, new, now))


@pytest.mark.req("M-07")
def test_day_on_which_a_period_of_a_budget_began_stays(filled: Books, archives: Archives) -> None:
    """November began on October 31 in UTC, and the runs of that evening count in it."""
    give_budget(filled, "month", BudgetReset("Europe/Vienna"), clock().now_ms())
    with pytest.raises(BadArchiveDateError, match="2026-10-31 is the latest"):
        archives.archive(datetime.date(2026, 11, 1))
    assert archives.archive(datetime.date(2026, 10, 31)) == RUNS


@pytest.mark.req("M-07")
def test_budget_is_proven_after_the_runs_of_its_last_period_were_archived(filled: Books, archives: Archives) -> None:
    """Nothing of it ran since August, and its period began among the runs of a day."""
    ran(filled, 60, at=AT + 60_000)
    give_budget(filled, "day", BudgetReset(minute=61), AT + 120_000)
    assert [row["spent_before"] for row in filled.rows("SELECT spent_before FROM budgets")] == [166]
    assert archives.archive() == RUNS, "the run of the newest entry stays"
    assert archives.audit().disagreements == []
    ran(filled, 70, at=clock().now_ms())
    assert archives.audit().disagreements == []


@pytest.mark.req("M-06")
@pytest.mark.parametrize("what", ["run", "key", "result", "webhook", "job"])
def test_date_that_would_take_what_is_needed_is_refused(filled: Books, archives: Archives, what: str) -> None:
    """The refusal names it and the latest date that could be archived; nothing was moved."""
    at = start_of(datetime.date(2026, 8, 20)) + 5
    far = start_of(TODAY) + 10 * DAY_MS
    id_ = run_id(70, at)
    match what:
        case "run":
            filled.write(admission(id_, created_at=at))
        case "key":
            filled.write(admission(id_, created_at=at, key=key(expires_at=far)))
            filled.write(settlement(id_, finished_at=at + 5, booked=None, result=kept_result(expires_at=far)))
        case "result":
            filled.write(admission(id_, created_at=at))
            filled.write(settlement(id_, finished_at=at + 5, booked=None, result=kept_result(expires_at=far)))
        case "webhook":
            ran(filled, 70, at)
            filled.sql(
                "INSERT INTO webhook_deliveries (run_id, workspace_id, url, tries, next_at) VALUES (:r, :w, 'x', 0, 1)",
                r=id_, w=LAB,
            )  # fmt: skip
        case _:
            filled.sql(
                """
                INSERT INTO jobs (id, workspace_id, number, state, attempt, workflow, extra, wanted, nodes, created_at,
                                  updated_at)
                VALUES ('job-1', :w, 1, 'running', 1, :b, :b, '[]', 1, :at, :at)
                """,
                w=LAB, b=b"", at=at,
            )  # fmt: skip
            filled.sql("UPDATE workspaces SET jobs_active = 1 WHERE id = :w", w=LAB)
    with pytest.raises(BadArchiveDateError, match=r"\(1\); 2026-08-20 is the latest date"):
        archives.archive()
    assert archives.files() == []
    assert archives.archive(datetime.date(2026, 8, 20)) == RUNS
    if what == "run":
        filled.write(failure(id_, finished_at=at + 5, booked=None))


def test_regular_archive_takes_what_it_may(filled: Books, archives: Archives, run: Run) -> None:
    """A machine is not refused: it archives up to the latest date that can be."""
    at = start_of(datetime.date(2026, 8, 20)) + 5
    filled.write(admission(run_id(70, at), created_at=at))
    before, moved = run(archives.archiver().archive_older_than(30))
    assert (before, moved) == (datetime.date(2026, 8, 20), RUNS)
    filled.write(failure(run_id(70, at), finished_at=at + 5, booked=None))
    assert run(archives.archiver().archive_older_than(0))[0] == datetime.date(2026, 11, 1)


def test_entries_are_never_numbered_twice(books: Books, archives: Archives) -> None:
    """The run of the newest entry stays, because SQLite numbers behind the newest there is."""
    books.open()
    books.sql("UPDATE workspaces SET billing = 'postpaid', cap = 100000")
    first, second = ran(books, 1), ran(books, 2)
    assert archives.archive() == 1
    assert [row["id"] for row in books.rows("SELECT id FROM runs")] == [second]
    ran(books, 3)
    ids = [one.id for line in archives.all_runs() for one in line.entries]
    assert not set(ids) & {row["id"] for row in books.rows("SELECT id FROM ledger_entries")}
    assert first in {line.run["id"] for line in archives.all_runs()}


@pytest.mark.req("M-06")
@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE archive_sums SET balance_change = balance_change - 1 WHERE archive = 1", "workspace figures differ"),
        ("UPDATE archive_sums SET charge = charge + 1 WHERE archive = 1", "usage of the archived days differs"),
        ("UPDATE archives SET digest = 'x' WHERE number = 2", "record or sums differ from its checksum"),
        ("UPDATE archives SET previous = 'x' WHERE number = 2", "does not follow the one before it"),
        ("UPDATE usage_days SET charge = charge + 1 WHERE day < '2026-09-01'", "usage of the archived days differs"),
        ("UPDATE usage_days SET charge = charge + 1 WHERE day > '2026-09-01'", "usage of a day differs"),
        ("UPDATE label_days SET charge = charge + 1 WHERE day > '2026-09-01'", "usage of a label differs"),
    ],
)
def test_audit_finds_what_was_changed_without_the_files(
    filled: Books, archives: Archives, run: Run, statement: str, check: str
) -> None:
    """Sums, records, their chain and the usage are proven by what is in the database."""
    archives.archive()
    assert archives.audit().is_clean

    async def find_changes() -> list[str]:
        found: list[str] = []

        def work(connection: Any) -> None:
            connection.exec_driver_sql(statement)
            found.extend(str(row["check"]) for row in ledger.disagreements(connection))
            raise LookupError  # so that it is not kept

        with suppress(LookupError):
            await archives.database.write(work)
        return found

    assert any(check in found for found in run(find_changes()))
    assert filled.rows("SELECT * FROM archives")


def _lose(paths: list[Path]) -> None:
    paths[1].unlink()


def _truncate(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[1].read_bytes()[:-20])


def _exchange(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[0].read_bytes())


@pytest.mark.req("M-06")
@pytest.mark.parametrize("damage", [_lose, _truncate, _exchange])
@pytest.mark.usefixtures("filled")
def test_audit_finds_what_happened_to_a_file(archives: Archives, damage: Callable[[list[Path]], None]) -> None:
    """A file that is missing, cut or another one is named."""
    archives.archive()
    damage(archives.files())
    (finding,) = archives.proof().findings
    assert finding["archive"] == 2


@pytest.mark.req("M-06")
def test_audit_finds_what_differs_from_the_files(filled: Books, archives: Archives) -> None:
    """An archived run that is there again, and usage that no run explains, are found by reading the files."""
    archives.archive()
    row = archives.all_runs()[0].run
    filled.sql("UPDATE usage_days SET day = '2026-08-09' WHERE day = '2026-08-10' AND workspace_id = 'office'")
    assert archives.audit().is_clean, "in sum it is right"
    assert {finding["problem"] for finding in archives.proof().findings} == {
        "usage of a day differs from the runs that ended on it"
    }
    filled.sql("UPDATE usage_days SET day = '2026-08-10' WHERE day = '2026-08-09'")
    columns = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    filled.sql(f"INSERT INTO runs ({columns}) VALUES ({values})", **row)  # noqa: S608 -- names of columns
    assert "an archived run that is in the database too" in {one["problem"] for one in archives.proof().findings}
    filled.sql("DELETE FROM runs WHERE id = :id", id=row["id"])


@pytest.mark.usefixtures("filled")
def test_file_that_no_record_names_is_told(archives: Archives) -> None:
    """It may be deleted: an interrupted command has left it."""
    archives.archive()
    (archives.folder / "fairlead-archive-000009-0.jsonl.gz").write_bytes(b"")
    proof = archives.proof()
    assert (proof.is_clean, proof.strange_files) == (True, ["fairlead-archive-000009-0.jsonl.gz"])


def test_account_of_an_archived_run_is_proven_like_any_other() -> None:
    """Each rule that the audit has for runs in the database is one for runs in files."""
    run = {"hold": 100, "charge": 60, "state": RunState.SUCCEEDED, "reason": "completed"}
    hold = ArchivedEntry(1, 1, "hold", 0, 100, "", None, 1)
    post = ArchivedEntry(2, 2, "post", -60, -100, "", None, 1)
    void = ArchivedEntry(2, 2, "void", 0, -100, "", None, 1)
    failed = {**run, "state": "failed", "charge": 0, "reason": "provider_error"}
    refused = {**run, "state": "failed", "reason": "content_policy_violation"}
    for right in (ArchivedRun(run, [hold, post], []), ArchivedRun(failed, [hold, void], []),
                  ArchivedRun(refused, [hold, post], [])):  # fmt: skip
        assert wrong_in(right) is None
    for wrong in (
        ArchivedRun(run, [hold], []),
        ArchivedRun(run, [hold, post, post], []),
        ArchivedRun({**run, "charge": 61}, [hold, post], []),
        ArchivedRun({**run, "hold": 50}, [hold, post], []),
        ArchivedRun({**failed, "charge": 60}, [hold, post], []),
        ArchivedRun({**run, "charge": 0}, [hold, void], []),
    ):
        assert wrong_in(wrong) is not None
