"""Tables as files: each a file of lines of JSON, written from one snapshot and read back in one transaction."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from blake3 import blake3
from sqlalchemy import Connection

from fairlead.storage.db.schema import metadata
from fairlead.storage.db.snapshots import Snapshot
from fairlead.storage.db.table_copy import PAGE, Row, TableCopier, TotalsCounter, filled_table, number_on

_BUFFER: Final = 1024 * 1024


class TableFile(msgspec.Struct, frozen=True):
    """One table as it was written: its columns in order, its rows, the sum of their digests, the BLAKE3 of its file."""

    name: str
    columns: list[str]
    rows: int
    digest: str
    file_digest: str

    @property
    def file_name(self) -> str:
        """What its file is called."""
        return f"{self.name}.jsonl"


class BadTableFileError(Exception):
    """A file was changed, or has no table of this version."""


async def dump_tables(snapshot: Snapshot, folder: Path) -> list[TableFile]:
    """Write every table of a snapshot into a folder; OSError, DatabaseUnavailableError."""
    return [await _dump(snapshot, folder, copier) for copier in TableCopier.of_all()]


async def _dump(snapshot: Snapshot, folder: Path, copier: TableCopier) -> TableFile:
    counter, whole, after = TotalsCounter(), blake3(), None
    with (folder / f"{copier.name}.jsonl").open("xb") as file:
        while page := await snapshot.read(partial(copier.read_page, after=after)):
            lines = [copier.encode(row) for row in page]
            counter.add(lines)
            content = b"".join(lines)
            whole.update(content)
            file.write(content)
            after = copier.key_of(page[-1])
    totals = counter.totals
    return TableFile(copier.name, copier.column_names, totals.rows, totals.digest, whole.hexdigest())


def check_tables(folder: Path, files: Sequence[TableFile]) -> None:
    """Compare every file with its digest; BadTableFileError, OSError."""
    for one in files:
        if file_digest(folder / one.file_name) != one.file_digest:
            raise BadTableFileError(f"{one.file_name} is not as it was written")


def load_tables(connection: Connection, folder: Path, files: Sequence[TableFile]) -> None:
    """Write the rows of every file into an empty database; BadTableFileError where they are not those that were read.

    ValueError where the database has rows already.
    """
    if (filled := filled_table(connection)) is not None:
        raise ValueError(f"the database is not empty: the table {filled} has rows")
    by_name = {one.name: one for one in files}
    for copier in TableCopier.of_all():
        if (one := by_name.pop(copier.name, None)) is not None:
            _load(connection, folder / one.file_name, one)
    if by_name:
        raise BadTableFileError(f"this version has no table {', '.join(by_name)}")
    number_on(connection)


def _load(connection: Connection, path: Path, one: TableFile) -> None:
    counter, copier = TotalsCounter(), TableCopier(metadata.tables[one.name], one.columns)
    with path.open("rb") as file:
        while lines := list(islice(file, PAGE)):
            counter.add(lines)
            copier.write_rows(connection, _rows(copier, lines))
    totals = counter.totals
    if (totals.rows, totals.digest) != (one.rows, one.digest):
        raise BadTableFileError(f"{path.name} has other rows than were written")


def _rows(copier: TableCopier, lines: Sequence[bytes]) -> list[Row]:
    try:
        return [copier.decode(line) for line in lines]
    except ValueError as error:
        raise BadTableFileError(f"{copier.name}: {error}") from error


def file_digest(path: Path) -> str:
    """The BLAKE3 of a file; OSError."""
    digest = blake3()
    with path.open("rb") as file:
        for piece in _pieces(file):
            digest.update(piece)
    return digest.hexdigest()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_BUFFER):
        yield piece
