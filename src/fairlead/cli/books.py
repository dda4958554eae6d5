"""`fairlead ledger` reads the ledger; `fairlead archive` moves old entries into files."""

import csv
import datetime
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, TextIO

import click
import msgspec
from msgspec.structs import asdict

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import (
    json_option,
    print_result,
    print_rows,
    with_dollars,
    with_times,
)
from fairlead.clock import Clock
from fairlead.domain.days import DAY_MS, day_of, read_date, start_of
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.ledger import archives
from fairlead.operations.ledger import books as operations
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS = ("created_at", "kind", "balance_change", "held_change", "model_id", "reason", "rate_version", "run_id")
_MONEY = ("balance_change", "held_change")
_ARCHIVE_COLUMNS: Final = ("number", "before", "runs", "entries", "file", "created_at", "finished_at")
_EXPORTED: Final = operations.LedgerLine._fields


@click.group()
def ledger() -> None:
    """Read the ledger."""


@ledger.command()
@click.argument("workspace", default="default")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many of the newest.")
@settings_option
@json_option
def show(workspace: str, limit: int, settings: Settings, as_json: bool) -> None:
    """Show the newest entries of WORKSPACE, oldest first, in dollars."""
    found, before = in_database(settings, lambda opened: operations.entries(opened, workspace, limit))
    rows = [with_times(with_dollars(row, *_MONEY), "created_at") for row in found]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="The ledger of this workspace is empty.")
    if len(rows) < limit:
        _tell_archived(before)


@ledger.command("archives")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many of the newest.")
@settings_option
@json_option
def list_archives(limit: int, settings: Settings, as_json: bool) -> None:
    """List the archives that `fairlead archive` has made, the newest first."""
    found = in_database(settings, lambda opened: archives.list_archives(opened, None, limit))
    rows = [_archive_row(one) for one in found]
    print_rows(rows, _ARCHIVE_COLUMNS, as_json=as_json, empty="Nothing was archived.")


@ledger.command()
@click.argument("workspace", required=False)
@click.option("--all", "everybody", is_flag=True, help="The entries of every workspace.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    show_default=True,
    help="CSV with a row of names first, or one JSON object a line.",
)
@click.option("--from", "first", metavar="DATE", help="The first day (UTC), such as 2026-01-31. [default: the first]")
@click.option("--to", "last", metavar="DATE", help="The last day (UTC). [default: today]")
@click.option("-o", "--output", metavar="FILE", help="Where to; the file is there once it is whole. [default: print]")
@click.option("--archives", "folder", metavar="DIR", help="With the entries in the archives of this folder.")
@settings_option
def export(
    workspace: str | None,
    everybody: bool,
    form: str,
    first: str | None,
    last: str | None,
    output: str | None,
    folder: str | None,
    settings: Settings,
) -> None:
    """Write the entries of WORKSPACE (`default` when absent), oldest first, in dollars, as of one moment."""
    if everybody and workspace is not None:
        raise click.UsageError("name a workspace or give --all, not both")
    whose = None if everybody else workspace or "default"
    since = None if first is None else start_of(read_date("--from", first))
    until = None if last is None else start_of(read_date("--to", last)) + DAY_MS

    try:
        with nullcontext(sys.stdout) if output is None else _whole_file(Path(output)) as file:
            write = _writer(form, file)
            archived = None if folder is None else Path(folder)
            before = in_database(
                settings, lambda opened: operations.export(opened, whose, since, until, write, archived)
            )
    except (OSError, operations.ExportError) as error:
        if isinstance(error.__cause__, BrokenPipeError):  # the reader has closed the pipe; click handles that
            raise error.__cause__ from None
        reason = getattr(error, "strerror", None) or error
        raise click.ClickException(f"{output or 'the output'} cannot be written: {reason}") from error
    _tell_archived(before)


@click.command()
@click.option("--before", metavar="DATE", help="The day (UTC) before which the runs have ended.")
@click.option("--keep-days", type=click.IntRange(0, 36_500), help="Or how many days stay; archives what it may.")
@click.option("--to", metavar="DIR", help="The folder for the files. [default: archives in the data directory]")
@settings_option
@json_option
def archive(before: str | None, keep_days: int | None, to: str | None, settings: Settings, as_json: bool) -> None:
    """Move runs that have ended, and all that was booked for them, out of the database into files.

    If it is killed, run it again: no entry is lost or duplicated. A server may run meanwhile.
    """
    if (before is None) == (keep_days is None):
        raise click.UsageError("give --before DATE or --keep-days DAYS")
    told: list[archives.Moved] = []

    def tell(moved: archives.Moved) -> None:
        told.append(moved)
        if not as_json:
            click.echo(_moved_words(moved))

    async def work(opened: Database) -> tuple[datetime.date, int]:
        folder = settings.data / "archives" if to is None else Path(to)
        archiver = archives.Archiver(opened, Clock(), folder.absolute(), shell_actor(), tell)
        if before is None:
            return await archiver.archive_older_than(keep_days or 0)
        return (day := read_date("--before", before)), await archiver.archive(day)

    day, moved = in_database(settings, work)
    words = f"Moved {moved} runs that ended before {day}." if moved else f"Nothing is left to archive before {day}."
    document = {"before": str(day), "moved": moved, "archives": [_archive_row(one.archive) for one in told]}
    print_result(document, words, as_json=as_json)


def _moved_words(moved: archives.Moved) -> str:
    one = moved.archive
    began = "Finished" if moved.was_resumed else "Wrote"
    return f"{began} {one.file}: {one.runs} runs, {one.entries} entries, {one.size} bytes."


def _archive_row(one: archives.Archive) -> dict[str, object]:
    row = with_times(asdict(one), "created_at", "finished_at")
    return {**row, "before": str(day_of(one.before))}


def _tell_archived(before: int | None) -> None:
    """Say on standard error that entries are missing here."""
    if before is not None:
        click.echo(
            f"Entries of runs that ended before {day_of(before)} are archived: `fairlead ledger export --archives DIR`"
            " writes them too.",
            err=True,
        )


def _writer(form: str, file: TextIO) -> Callable[[Sequence[operations.LedgerLine]], None]:
    """A function that writes pages of entries to a file, in one of two formats."""
    if form == "jsonl":
        encode = msgspec.json.Encoder().encode
        return lambda page: file.writelines(encode(_export_row(line)).decode() + "\n" for line in page)
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(_EXPORTED)
    return lambda page: rows.writerows(_export_row(line).values() for line in page)


def _export_row(line: operations.LedgerLine) -> dict[str, object]:
    return with_times(with_dollars(line._asdict(), *_MONEY), "created_at")


@contextmanager
def _whole_file(path: Path) -> Iterator[TextIO]:
    """A file that takes its name when it is complete: until then, and when writing fails, the old file stays.

    A pipe or a device is written to directly.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="") as device:
            yield device
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
