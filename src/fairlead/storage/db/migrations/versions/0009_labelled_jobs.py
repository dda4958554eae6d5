"""Labels of jobs as sets of numbers, in place of a row for each label of each job."""

import hashlib
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_ID = sa.String(length=45).with_variant(sa.String(length=45, collation="C"), "postgresql")
_AT_ONCE = 10_000
_BLOCK = 7_168
_FEW = 32


def upgrade() -> None:
    _make()
    _gather("job_labels", ("workspace_id", "key", "value", "number"), "{} {}={}")
    _gather("jobs", ("workspace_id", "deployment_id", "number"), "{} @{}", "deployment_id", "labels")
    op.drop_table("job_labels")


def _make() -> None:
    op.create_table(
        "labelled_jobs",
        sa.Column("id", _ID, nullable=False, comment="digest of a workspace and a label, and a block in hexadecimal"),
        sa.Column(
            "numbers",
            sa.LargeBinary(),
            nullable=False,
            comment="those of the jobs that have it (number_blocks.py)",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_labelled_jobs")),
        sqlite_with_rowid=False,
    )


def _gather(table: str, names: Sequence[str], label: str, *needed: str) -> None:
    """Write a row for each block of each label; those of one follow one another in the order of an index."""
    rows = _rows(sa.table(table, *(sa.column(name) for name in {*names, *needed})), names, needed)
    blocks = (
        {"id": _id(label.format(*key[:-1]), key[-1]), "numbers": _pack([row[-1] % _BLOCK for row in those])}
        for key, those in itertools.groupby(rows, key=lambda row: (*row[:-1], row[-1] // _BLOCK))
    )
    while some := list(itertools.islice(blocks, _AT_ONCE)):
        op.get_bind().execute(sa.text("INSERT INTO labelled_jobs (id, numbers) VALUES (:id, :numbers)"), some)


def _rows(table: sa.TableClause, names: Sequence[str], needed: Sequence[str]) -> Iterator[Sequence[Any]]:
    columns = [table.c[name] for name in names]
    ordered = sa.select(*columns).where(*(table.c[name].is_not(None) for name in needed)).order_by(*columns)
    last = None
    while True:
        page = ordered if last is None else ordered.where(sa.tuple_(*columns) > sa.tuple_(*last))
        found = op.get_bind().execute(page.limit(_AT_ONCE)).all()
        yield from found
        if len(found) < _AT_ONCE:
            return
        last = found[-1]


def _id(label: str, block: int) -> str:
    return f"{hashlib.blake2b(label.encode(), digest_size=16).hexdigest()}{block:013x}"


def _pack(places: Sequence[int]) -> bytes:
    if len(places) <= _FEW:
        return struct.pack(f"<{len(places)}H", *places)
    bits = bytearray(_BLOCK // 8)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)
