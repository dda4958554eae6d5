"""`fairlead audit`: proves the books and the stored files."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from msgspec.structs import asdict

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import (
    json_option,
    print_json,
    print_table,
    show_value,
    with_dollars,
    with_times,
)
from fairlead.cli.store.blobs import wrong_store
from fairlead.clock import Clock
from fairlead.operations.assets.stored_files import BlobAudit, Count, Finding
from fairlead.operations.ledger import books as operations
from fairlead.operations.ledger.archive_proof import ArchiveProof, prove_archives
from fairlead.server.blob_stores import stored_blobs
from fairlead.server.settings import Settings
from fairlead.storage.blobs.store import BlobsUnavailableError
from fairlead.storage.db.database import Database

_LISTED_MAX: Final = 1000
"""The most findings of each kind in one JSON document, which is held in memory; as lines all are printed."""
_PROGRESS_SECONDS: Final = 5.0
_FILES: Final = ("references", "blobs", "bytes", "damaged", "missing", "orphaned")


@click.command()
@click.option("--blobs", "thoroughly", is_flag=True, help="Read every stored file and compare it with its name.")
@click.option("--archives", "folder", metavar="DIR", help="Read the archives of this folder and prove them too.")
@settings_option
@json_option
def audit(thoroughly: bool, folder: str | None, settings: Settings, as_json: bool) -> None:
    """Prove the books, and that every stored file that the database names is there.

    Exits with status 1 when the books do not add up, or a file or an archive is missing or damaged. Runs whose outcome
    could not be found out are listed; they were voided. A server may run meanwhile.
    """
    listed = _Listed() if as_json else None

    async def work(database: Database) -> tuple[operations.AuditReport, ArchiveProof | None, Count | None]:
        report = await operations.audit(database)
        archived = None if folder is None else await prove_archives(database, Path(folder))
        if listed is None:
            _print(report)
            _print_archives(report, archived)
        tell = _print_finding if listed is None else listed.add
        return report, archived, await _files(settings, database, thoroughly, tell)

    try:
        report, archived, count = in_database(settings, work)
    except BlobsUnavailableError as error:
        raise click.ClickException(f"the stored files cannot be read: {error}") from error
    is_clean = report.is_clean and (count is None or count.is_clean) and (archived is None or archived.is_clean)
    if listed is None:
        _print_count(count, settings, thoroughly)
    else:
        files = None if count is None else {**asdict(count), "findings": listed.findings}
        lost = _lost_rows(report)
        print_json({"clean": is_clean, "totals": report.totals, "disagreements": report.disagreements, "lost": lost,
                    "archives": None if archived is None else asdict(archived), "files": files})  # fmt: skip
    if not is_clean:
        raise click.exceptions.Exit(1)


async def _files(
    settings: Settings,
    opened: Database,
    thoroughly: bool,
    tell: Callable[[Finding], None],
) -> Count | None:
    """Check the stored files; None where this machine has none, or has another store."""
    blobs = stored_blobs(settings)
    if blobs is None:
        return None
    if (problem := await wrong_store(settings, opened, blobs)) is not None:
        click.echo(f"The stored files were not looked at: {problem}.", err=True)
        return None
    auditor = BlobAudit(opened, blobs, Clock(), tell, _Progress().show)
    return await (auditor.verify_all() if thoroughly else auditor.look_for_all())


class _Listed:
    """Findings for one document: a bounded number of each kind."""

    def __init__(self) -> None:
        self.findings: list[dict[str, object]] = []
        self._counts = Counter[str]()

    def add(self, finding: Finding) -> None:
        """Add one, unless its kind is full."""
        self._counts[finding.problem] += 1
        if self._counts[finding.problem] <= _LISTED_MAX:
            named_by = [one._asdict() for one in finding.named_by]
            self.findings.append({"problem": finding.problem, "blob": finding.blob, "named_by": named_by})


class _Progress:
    """Prints every few seconds on standard error how many files were read."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def show(self, done: int, parts: int, count: Count) -> None:
        """Print the progress, at most every few seconds."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_SECONDS
        print(f"{done * 100 // parts} %: {count.blobs} files, {count.bytes // 2**20} MiB", file=sys.stderr)  # noqa: T201 -- progress is not output


def _print(report: operations.AuditReport) -> None:
    print_table([[name.replace("_", " "), str(count)] for name, count in report.totals.items()], ("proven", "number"))
    for row in report.disagreements:
        click.echo(
            f"WRONG: {row['check']}: " + show_value({key: value for key, value in row.items() if key != "check"})
        )
    for row in _lost_rows(report):
        click.echo(f"lost (voided): {show_value(row)}")
    click.echo("The books are right." if report.is_clean else "The books are WRONG.")


def _print_archives(report: operations.AuditReport, proof: ArchiveProof | None) -> None:
    if proof is None:
        if report.totals["archives"]:
            click.echo("The files of the archives were not read; --archives DIR proves them too.")
        return
    print_table([[name.replace("_", " "), str(count)] for name, count in proof.totals.items()], ("archives", "number"))
    for finding in proof.findings:
        click.echo(f"WRONG: {show_value(finding)}")
    for name in proof.strange_files:
        click.echo(f"no archive: {name} was left by an interrupted command; it may be deleted")
    click.echo("The archives are right." if proof.is_clean else "The archives are WRONG.")


def _lost_rows(report: operations.AuditReport) -> list[dict[str, object]]:
    return [with_times(with_dollars(row, "hold"), "finished_at") for row in report.lost]


def _print_finding(finding: Finding) -> None:
    named_by = ", ".join(f"{one.kind} {one.id} of workspace {one.workspace_id}" for one in finding.named_by)
    click.echo(f"{finding.problem.upper()}: {finding.blob}: named by {named_by or 'nobody'}")


def _print_count(count: Count | None, settings: Settings, thoroughly: bool) -> None:
    if count is None:
        click.echo(f"Stored files were not looked for: there is no data directory {settings.data}.")
        return
    names = [name for name in _FILES if thoroughly or name not in ("blobs", "bytes", "orphaned")]
    print_table([[name, str(getattr(count, name))] for name in names], ("stored files", "number"))
    click.echo("The stored files are right." if count.is_clean else "The stored files are WRONG.")
