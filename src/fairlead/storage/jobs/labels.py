"""Finds jobs by their labels: the newest first, with all of a few labels (J-04).

A label may be on one job or on all of a million, and labels that are each on many jobs may be on none together. So the
numbers of a label's jobs are stored as sets (number_blocks.py), a row for each block that has any, and a search reads
down the blocks of all its labels in parallel. After some steps it stops, and the next page goes on there. For a job
with labels, its deployment counts as a further label, so that a deployment's jobs are found by labels in the same way.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    Select,
    String,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    true,
)

from fairlead.domain.jobs.listing import NUMBER_MAX, ListQuery
from fairlead.storage.db.number_blocks import BLOCK, places_in_all, with_places, without_places
from fairlead.storage.db.statements import Prepared, PreparedLookup, PreparedQuery, insert_in, is_sqlite
from fairlead.storage.db.tables import labelled_jobs

STRIDES: Final = (8, 256, 256, 256)
"""How many blocks of each label are read at once: at first as many as hold a page of a common label."""
_DIGEST_BYTES: Final = 16

LabelIndex: TypeAlias = dict[str, list[int]]
"""Places of jobs, by the ids of their rows."""


class FoundNumbers(NamedTuple):
    """Numbers of jobs, the newest first, and the number before which there may be more; None for none."""

    numbers: Sequence[int]
    before: int | None


class _Stretch(NamedTuple):
    """Blocks of each label, down to the `bottom`, and the block at which the search goes on; None for nowhere."""

    blocks: Sequence[Mapping[str, bytes]]
    bottom: str
    next_top: int | None


def index_job(
    index: LabelIndex, workspace_id: str, number: int, labels: Mapping[str, str], deployment_id: str | None
) -> None:
    """Collect the rows in which a job with labels is, or was."""
    if not labels:
        return
    block, place = divmod(number, BLOCK)
    for label in _label_ids(workspace_id, labels.items(), deployment_id):
        index.setdefault(label + _block_name(block), []).append(place)


def add_to_index(connection: Connection, index: LabelIndex) -> None:
    """Make new jobs findable by their labels, in the transaction that makes them."""
    ids = sorted(index)
    there = dict(_LOCK.run(connection, ids))
    _put(connection, {id_: with_places(there.get(id_, b""), index[id_]) for id_ in ids})


def remove_from_index(connection: Connection, index: LabelIndex) -> None:
    """Remove jobs from their labels."""
    left = {id_: without_places(numbers, index[id_]) for id_, numbers in _LOCK.run(connection, sorted(index))}
    _put(connection, {id_: numbers for id_, numbers in left.items() if numbers})
    _DELETE.run(connection, [(id_,) for id_, numbers in left.items() if not numbers])


def find_labelled(connection: Connection, workspace_id: str, query: ListQuery, limit: int) -> FoundNumbers:
    """The newest jobs that a query with labels asks for, at most `limit`; fewer where the search was too long."""
    pairs = [(label.key, label.value) for label in query.labels]
    labels = _label_ids(workspace_id, pairs, query.deployment_id)
    below = NUMBER_MAX if query.before is None else query.before
    top: int | None = (below - 1) // BLOCK
    found: list[int] = []
    for stride in STRIDES:
        if top is None or top < 0:
            return FoundNumbers(found, None)
        stretch = _stretch(connection, labels, top, stride)
        for number in _numbers(stretch):
            if number < below:
                found.append(number)
            if len(found) == limit:
                return FoundNumbers(found, number)
        top = stretch.next_top
    return FoundNumbers(found, None if top is None else (top + 1) * BLOCK)


def _put(connection: Connection, rows: Mapping[str, bytes]) -> None:
    if not rows:
        return
    if is_sqlite(connection):
        _PUT_IN_SQLITE.run(connection, list(rows.items()))
    else:  # one statement for each row would take several times as long
        connection.exec_driver_sql(_put_in_postgresql().sql(connection), (list(rows), list(rows.values())))


def _stretch(connection: Connection, labels: Sequence[str], top: int, stride: int) -> _Stretch:
    """Read down from a block; where one label ends above the others, the blocks of these below it can be skipped."""
    blocks = [dict(rows) for rows in _rows_below(connection, labels, top, stride)]
    bottom = max(min(those) if len(those) == stride else _block_name(0) for those in blocks)
    nexts = []
    for those in blocks:
        lower = max((block for block in those if block < bottom), default=None)
        is_all = len(those) < stride
        nexts.append(int(lower, 16) if lower is not None else -1 if is_all else int(bottom, 16) - 1)
    return _Stretch(blocks, bottom, None if min(nexts) < 0 else min(nexts))


def _rows_below(
    connection: Connection, labels: Sequence[str], top: int, stride: int
) -> Iterable[Iterable[tuple[str, bytes]]]:
    """Of each label the names of blocks, from one on downwards, and what they have."""
    lowest, highest = ([label + _block_name(block) for label in labels] for block in (0, top))
    if is_sqlite(connection):
        return (_SEARCH_IN_SQLITE.run(connection, (*ends, stride)) for ends in zip(lowest, highest, strict=True))
    rows = _SEARCH_IN_POSTGRESQL.run(connection, (lowest, highest, stride))
    return (zip(names or (), numbers or (), strict=True) for _, names, numbers in sorted(rows))


def _numbers(stretch: _Stretch) -> Iterator[int]:
    """The numbers that all labels have in a stretch, the newest first."""
    in_all = set(stretch.blocks[0]).intersection(*stretch.blocks[1:])
    for block in sorted(in_all, reverse=True):
        if block >= stretch.bottom:
            first = int(block, 16) * BLOCK
            for place in places_in_all([numbers[block] for numbers in stretch.blocks]):
                yield first + place


def _label_ids(workspace_id: str, pairs: Iterable[tuple[str, str]], deployment_id: str | None) -> Sequence[str]:
    """The names of labels in rows: digests, because texts may be long. No key has an `=` or an `@`."""
    texts = [f"{key}={value}" for key, value in pairs]
    if deployment_id is not None:
        texts.append(f"@{deployment_id}")
    return [hashlib.blake2b(f"{workspace_id} {text}".encode(), digest_size=_DIGEST_BYTES).hexdigest() for text in texts]


def _block_name(block: int) -> str:
    """The end of a row's id: names sort as their blocks do, of which that of NUMBER_MAX has 13 digits."""
    return f"{block:013x}"


def _below(lowest: ColumnElement[str], highest: ColumnElement[str]) -> Select[*tuple[object, ...]]:
    """Rows from the one of an id on downwards to the one of another."""
    name = func.substr(labelled_jobs.c.id, literal_column(str(2 * _DIGEST_BYTES + 1)), type_=String)
    return (
        select(name.label("name"), labelled_jobs.c.numbers)
        .where(labelled_jobs.c.id >= lowest, labelled_jobs.c.id <= highest)
        .order_by(labelled_jobs.c.id.desc())
        .limit(bindparam("stride", type_=Integer))
        .offset(literal_column("0"))  # SQLite needs the index named, which would otherwise be a parameter
    )


def _all_below() -> Select[*tuple[object, ...]]:
    """The same of several labels, in a row each: PostgreSQL takes longer over a row than over what is in it."""
    ends = [bindparam(name, type_=ARRAY(String)) for name in ("lowest", "highest")]
    labels = func.unnest(*ends).table_valued("lowest", "highest", with_ordinality="place").render_derived("labels")
    rows = _below(labels.c.lowest, labels.c.highest).correlate(labels).subquery("rows")
    gathered = select(func.array_agg(rows.c.name).label("names"), func.array_agg(rows.c.numbers).label("numbers"))
    of_label = gathered.lateral("of_label")
    return select(labels.c.place, of_label.c.names, of_label.c.numbers).select_from(labels.join(of_label, true()))


def _upsert(statement: Any) -> Any:
    """An INSERT that replaces existing rows."""
    return statement.on_conflict_do_update(
        index_elements=[labelled_jobs.c.id], set_={"numbers": statement.excluded.numbers}
    )


@functools.cache
def _put_in_postgresql() -> PreparedQuery:
    rows = insert_in("postgresql", labelled_jobs).from_select(["id", "numbers"], _unnest())
    return PreparedQuery(_upsert(rows), ("ids", "numbers"))


def _unnest() -> Select[*tuple[object, ...]]:
    ids, numbers = bindparam("ids", type_=ARRAY(String)), bindparam("numbers", type_=ARRAY(LargeBinary))
    return select(func.unnest(ids), func.unnest(numbers))


_SEARCH_PARAMETERS: Final = ("lowest", "highest", "stride")
_SEARCH_IN_SQLITE: Final = PreparedQuery(_below(bindparam("lowest"), bindparam("highest")), _SEARCH_PARAMETERS)
_SEARCH_IN_POSTGRESQL: Final = PreparedQuery(_all_below(), _SEARCH_PARAMETERS)
_LOCK: Final = PreparedLookup(
    lambda one_of: (
        select(labelled_jobs.c.id, labelled_jobs.c.numbers)
        .where(one_of(labelled_jobs.c.id))
        .order_by(labelled_jobs.c.id)
        .with_for_update()
    )
)
_PUT_IN_SQLITE: Final = Prepared(_upsert(insert_in("sqlite", labelled_jobs)), ("id", "numbers"))
_DELETE: Final = Prepared(delete(labelled_jobs).where(labelled_jobs.c.id == bindparam("row")), ("row",))
