"""What each workspace keeps, in bytes and files: counted by the database in the transaction that changes it (S-09).

Triggers count, so that no statement is missed, not even those of servers of an earlier version. Files of workflows,
copies of results, editors' documents and the large workflows of jobs are counted, each row by itself: bytes that
several rows name are stored once and count for each. The large bodies of runs are not counted: the backlog of the queue
bounds them, and they are deleted when their runs have ended, while a workflow is kept as long as its job.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from sqlalchemy import (
    Connection,
    Select,
    func,
    select,
    union_all,
)

from fairlead.domain.accounts.storage_limits import StorageLimits, StorageUsage
from fairlead.storage.db.schema import storage_usage
from fairlead.storage.db.statements import PreparedLookup, insert_into
from fairlead.storage.db.tables import assets, editor_documents, jobs, workflow_files, workspaces

_USAGE: Final = (
    storage_usage.c.bytes,
    storage_usage.c.files,
    storage_usage.c.bytes_limit,
    storage_usage.c.files_limit,
)
_LOOK_UP: Final = PreparedLookup(
    lambda one_of: select(storage_usage.c.workspace_id, *_USAGE).where(one_of(storage_usage.c.workspace_id))
)


class StorageFullError(Exception):
    """A workspace would keep more bytes or files than it may."""

    def __init__(self, what: Literal["bytes", "files"], limit: int) -> None:
        super().__init__(what)
        self.what = what
        self.limit = limit


def usage_of(connection: Connection, workspace_id: str) -> StorageUsage:
    """What a workspace keeps, and its own limits."""
    return usage_of_each(connection, [workspace_id]).get(workspace_id, StorageUsage())


def usage_of_each(connection: Connection, workspace_ids: Sequence[str]) -> dict[str, StorageUsage]:
    """What some workspaces keep, by their ids; one that has stored nothing yet may be absent."""
    return {row[0]: StorageUsage(*row[1:]) for row in _LOOK_UP.run(connection, workspace_ids)}


def check_room(connection: Connection, workspace_id: str, limits: StorageLimits) -> None:
    """Accept what was written in this transaction; StorageFullError where the workspace keeps too much with it.

    The writes hold the lock of the workspace's row, so two transactions cannot exceed the limit together.
    """
    exceeded = usage_of(connection, workspace_id).find_exceeded(limits)
    if exceeded is not None:
        raise StorageFullError(*exceeded)


def lock_usage(connection: Connection, workspace_ids: Collection[str]) -> None:
    """Lock the rows of workspaces in one order, before files of several are deleted, so that sweeps cannot deadlock."""
    mine = storage_usage.c.workspace_id.in_(sorted(set(workspace_ids)))
    rows = select(storage_usage.c.workspace_id).where(mine).order_by(storage_usage.c.workspace_id)
    connection.execute(rows.with_for_update()).all()


def set_limits(connection: Connection, workspace_id: str, changes: Mapping[str, int | None]) -> None:
    """Give a workspace limits of its own: `bytes_limit`, `files_limit` or both; None for that of the settings."""
    row = insert_into(connection, storage_usage).values(workspace_id=workspace_id, **changes)
    connection.execute(row.on_conflict_do_update(index_elements=["workspace_id"], set_=changes))


def list_usage(connection: Connection) -> list[tuple[str, StorageUsage]]:
    """What every workspace keeps, by the names of workspaces."""
    rows = connection.execute(
        select(workspaces.c.name, *_USAGE)
        .outerjoin(storage_usage, storage_usage.c.workspace_id == workspaces.c.id)
        .order_by(workspaces.c.name)
    )
    return [(name, StorageUsage(kept or 0, files or 0, *limits)) for name, kept, files, *limits in rows]


def wrong_usage() -> Select[*tuple[object, ...]]:
    """Workspaces whose counts differ from their rows."""
    kept = union_all(
        select(workflow_files.c.workspace_id, workflow_files.c.size.label("size")),
        select(assets.c.workspace_id, assets.c.size),
        select(editor_documents.c.workspace_id, func.length(editor_documents.c.content)),
        select(jobs.c.workspace_id, jobs.c.documents_size).where(jobs.c.documents_size.is_not(None)),
    ).subquery()
    rows = (
        select(kept.c.workspace_id, func.sum(kept.c.size).label("bytes"), func.count().label("files"))
        .group_by(kept.c.workspace_id)
        .subquery()
    )
    counted = func.coalesce(storage_usage.c.bytes, 0), func.coalesce(storage_usage.c.files, 0)
    there = func.coalesce(rows.c.bytes, 0), func.coalesce(rows.c.files, 0)
    return (
        select(workspaces.c.id, counted[0].label("bytes"), counted[1].label("files"))
        .outerjoin(storage_usage, storage_usage.c.workspace_id == workspaces.c.id)
        .outerjoin(rows, rows.c.workspace_id == workspaces.c.id)
        .where((counted[0] != there[0]) | (counted[1] != there[1]))
    )
