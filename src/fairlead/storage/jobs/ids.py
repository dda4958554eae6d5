"""Finds jobs: by their public id, which is chosen by the submitter or the job's own (C-04), and by idempotency key.

A public id names one job of its workspace, and may name others of other workspaces. An id that was chosen is unique by
its index; that it is not another job's own is looked up under the lock of the workspace, and own ids are always new. An
idempotency key is used by at most one job, and is written with it (J-12).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Connection,
    Select,
    String,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.sql.expression import CompoundSelect

from fairlead.storage.db.statements import Prepared, PreparedLookup, PreparedQuery, is_sqlite
from fairlead.storage.db.tables import job_keys, jobs


class FoundJob(NamedTuple):
    """A job of a workspace, by both of its ids."""

    workspace_id: str
    public_id: str
    job_id: str


class JobByPublicId:
    """A query of some columns of a workspace's job by its public id."""

    def __init__(self, columns: Sequence[ColumnElement[object]]) -> None:
        self._names = [str(column.key) for column in columns]
        chosen = and_(jobs.c.workspace_id == bindparam("workspace"), jobs.c.chosen_id == bindparam("chosen"))
        is_own = and_(jobs.c.id == bindparam("own"), jobs.c.chosen_id.is_(None))
        own = and_(is_own, jobs.c.workspace_id == bindparam("its_workspace"))
        statement = select(*columns).where(or_(chosen, own))  # each half has an index
        self._query = PreparedQuery(statement, ("workspace", "chosen", "own", "its_workspace"))

    def run(self, connection: Connection, workspace_id: str, public_id: str) -> Mapping[str, object] | None:
        """The values of the job by the names of their columns; None where there is none."""
        rows = self._query.run(connection, (workspace_id, public_id, public_id, workspace_id))
        return dict(zip(self._names, rows[0], strict=True)) if rows else None


def public_id_of(connection: Connection, workspace_id: str, job_id: str) -> str | None:
    """The public id of a job of a workspace, by its own id; None where it has expired."""
    mine = select(jobs.c.chosen_id, jobs.c.id).where(jobs.c.id == job_id, jobs.c.workspace_id == workspace_id)
    row = connection.execute(mine).first()
    return None if row is None else row.chosen_id or row.id


def find_known_as(connection: Connection, wanted: Iterable[tuple[str, str]]) -> list[FoundJob]:
    """The existing jobs of some, by workspace and public id."""
    pairs = sorted(set(wanted))
    if not pairs:
        return []
    if is_sqlite(connection):
        rows = _IN_SQLITE.run(connection, (msgspec.json.encode(pairs).decode(),))
    else:
        rows = _IN_POSTGRESQL.run(connection, [list(column) for column in zip(*pairs, strict=True)])
    return [FoundJob(*row) for row in rows]


def _wanted_pairs(workspace_id: ColumnElement[str], public_id: ColumnElement[str], source: Any) -> CTE:
    columns = workspace_id.label("workspace_id"), public_id.label("public_id")
    return select(*columns).select_from(source).cte("wanted")


def _wanted_for_sqlite() -> CTE:
    pairs = func.json_each(bindparam("pairs")).table_valued("value")
    first, second = (func.json_extract(pairs.c.value, literal_column(f"'$[{at}]'"), type_=String) for at in (0, 1))
    return _wanted_pairs(first, second, pairs)


def _wanted_for_postgresql() -> CTE:
    lists = (bindparam(name, type_=ARRAY(String)) for name in ("workspaces", "public_ids"))
    pairs = func.unnest(*lists).table_valued("workspace_id", "public_id").render_derived("pairs")
    return _wanted_pairs(pairs.c.workspace_id, pairs.c.public_id, pairs)


def _select_known(wanted: CTE) -> CompoundSelect[*tuple[object, ...]]:
    """Each half is a statement of its own: joined by an OR, neither database is sure to use both indexes.

    A join with the wanted ids is no better: for it SQLite may first read all jobs into a Bloom filter.
    """

    def select_by(public_id: ColumnElement[str], condition: ColumnElement[bool]) -> Select[*tuple[object, ...]]:
        is_wanted = tuple_(public_id, jobs.c.workspace_id).in_(select(wanted.c.public_id, wanted.c.workspace_id))
        return select(jobs.c.workspace_id, public_id, jobs.c.id).where(is_wanted, condition)

    chosen = select_by(jobs.c.chosen_id, jobs.c.chosen_id.is_not(None))
    return union_all(chosen, select_by(jobs.c.id, jobs.c.chosen_id.is_(None)))


_IN_SQLITE: Final = PreparedQuery(_select_known(_wanted_for_sqlite()), ("pairs",))
_IN_POSTGRESQL: Final = PreparedQuery(_select_known(_wanted_for_postgresql()), ("workspaces", "public_ids"))


INSERT_KEY: Final = Prepared(insert(job_keys), ("id", "job_id", "expires_at"))
_USED: Final = PreparedLookup(lambda one_of: select(job_keys.c.id).where(one_of(job_keys.c.id)))


def used_keys(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Which of some keys are used. An expired one counts as used until it is deleted."""
    return {row[0] for row in _USED.run(connection, sorted(ids))}


def delete_expired_keys(connection: Connection, now: int, limit: int) -> int:
    """Delete expired keys; returns how many there were."""
    old = select(job_keys.c.id).where(job_keys.c.expires_at <= now).order_by(job_keys.c.expires_at).limit(limit)
    ids = list(connection.execute(old).scalars())
    if ids:
        connection.execute(delete(job_keys).where(job_keys.c.id.in_(ids)))
    return len(ids)
