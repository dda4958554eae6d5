"""Labels of jobs as rows, by which jobs are found: the newest first, with all of a few labels (J-04).

A label may be on one job or on all of a million, and it is not known before which is rare. So the search goes down the
numbers in strides: the label of which a stride reaches furthest leads, and its jobs are looked up among the others,
each by one step in an index, first where a stride reaches far, too. After some strides the search stops where it is,
and the next page goes on there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Connection, FromClause, Integer, Select, bindparam, delete, insert, literal_column, select

from fairlead.domain.jobs.listing import NUMBER_MAX, LabelFilter
from fairlead.storage.prepared import Prepared
from fairlead.storage.tables import job_labels

STRIDE: Final = 1_000
STRIDES_MAX: Final = 5

INSERT_LABEL: Final = Prepared(insert(job_labels), ("workspace_id", "key", "value", "number"))


class FoundNumbers(NamedTuple):
    """Numbers of jobs, the newest first, and the number before which there may be more; None for none."""

    numbers: Sequence[int]
    before: int | None


def find_labelled(
    connection: Connection, workspace_id: str, labels: Sequence[LabelFilter], before: int | None, limit: int
) -> FoundNumbers:
    """The newest jobs before a number that have all labels, at most `limit`; fewer where the search was too long."""
    position = NUMBER_MAX if before is None else before
    found: list[int] = []
    for _ in range(STRIDES_MAX):
        reaches = {label: _reach(connection, workspace_id, label, position) for label in labels}
        leading, *others = sorted(labels, key=reaches.__getitem__)
        bottom, room = reaches[leading], limit - len(found)
        found += _matching(connection, workspace_id, leading, others, (bottom, position, room))
        if len(found) >= limit:
            return FoundNumbers(found, found[-1])
        if bottom == 0:
            return FoundNumbers(found, None)
        position = bottom
    return FoundNumbers(found, position)


def delete_labels(connection: Connection, workspace_id: str, number: int, labels: str) -> None:
    """Forget the labels of a job, which are a JSON object."""
    pairs: Mapping[str, str] = msgspec.json.decode(labels, type=dict[str, str])
    rows = [{"w": workspace_id, "k": key, "v": value, "n": number} for key, value in pairs.items()]
    connection.execute(_DELETE, rows)


def _reach(connection: Connection, workspace_id: str, label: LabelFilter, position: int) -> int:
    """The number at which a stride of a label's jobs ends, counted down from a position; 0 where there are fewer."""
    values = {"w": workspace_id, "k": label.key, "v": label.value, "below": position}
    found: int | None = connection.execute(_REACH, values).scalar()
    return found or 0


def _matching(
    connection: Connection,
    workspace_id: str,
    leading: LabelFilter,
    others: Sequence[LabelFilter],
    bounds: tuple[int, int, int],
) -> Sequence[int]:
    """The jobs with a label, from a number on and below another, that have the others too; at most so many."""
    at_least, below, limit = bounds
    values: dict[str, Any] = {"w": workspace_id, "k": leading.key, "v": leading.value}
    values |= {"at_least": at_least, "below": below, "room": limit}
    for place, label in enumerate(others):
        values |= {f"k{place}": label.key, f"v{place}": label.value}
    return connection.execute(_MATCHING[len(others)], values).scalars().all()


def _of_label(table: FromClause, place: int | str = "") -> list[Any]:
    return [
        table.c.workspace_id == bindparam("w"),
        table.c.key == bindparam(f"k{place}"),
        table.c.value == bindparam(f"v{place}"),
    ]


def _match_all(others: int) -> Any:
    """Whether a job has a label is asked in a subquery that has one value: no planner makes a join of it."""
    leading = job_labels.alias("leading")
    statement = select(leading.c.number).where(
        *_of_label(leading), leading.c.number >= bindparam("at_least"), leading.c.number < bindparam("below")
    )
    for place in range(others):
        other = job_labels.alias(f"other{place}")
        is_there: Select[Any] = select(literal_column("1")).where(
            *_of_label(other, place), other.c.number == leading.c.number
        )
        statement = statement.where(is_there.scalar_subquery().is_not(None))
    return statement.order_by(leading.c.number.desc()).limit(bindparam("room", type_=Integer))


_REACH: Final = (
    select(job_labels.c.number)
    .where(*_of_label(job_labels), job_labels.c.number < bindparam("below"))
    .order_by(job_labels.c.number.desc())
    .limit(literal_column("1"))
    .offset(literal_column(str(STRIDE - 1)))
)
_MATCHING: Final = tuple(_match_all(others) for others in range(3))
_DELETE: Final = delete(job_labels).where(*_of_label(job_labels), job_labels.c.number == bindparam("n"))
