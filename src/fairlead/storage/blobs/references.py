"""The rows that name blobs: result assets, stored results of runs, large requests of live runs, files, large workflows.

And the store that the installation has recorded for them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, delete, or_, select

from fairlead.storage.assets.files import is_needed_by_jobs
from fairlead.storage.db.schema import blob_store
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import assets, jobs, runs, workflow_files

KINDS: Final = ("asset", "result", "request", "file", "workflow")


class BlobReference(NamedTuple):
    """A row that names a blob: its kind, its id, its workspace, and how large the blob is.

    The id of a result and of a request is the run's, that of a workflow the job's.
    """

    kind: str
    id: str
    workspace_id: str
    blob: str
    size: int


def references_after(connection: Connection, kind: str, after: str, now: int, limit: int) -> Sequence[BlobReference]:
    """The references of a kind whose ids come after one, in the order of their ids; "" is before the first."""
    id_ = _ids()[kind]
    rows = connection.execute(_live(kind, now).where(id_ > after).order_by(id_).limit(limit))
    return [BlobReference(kind, *row) for row in rows]


def references_to(connection: Connection, blob: str, now: int, limit: int) -> Sequence[BlobReference]:
    """Up to `limit` references of each kind to a blob."""
    return [
        BlobReference(kind, *row)
        for kind in KINDS
        for row in connection.execute(_live(kind, now).where(_blob(kind) == blob).limit(limit))
    ]


def sample_references(connection: Connection, beginning: str, now: int, limit: int) -> Sequence[BlobReference]:
    """Up to `limit` references of each kind, to the blobs whose names come after a prefix.

    Names are hashes, so a random prefix gives a random sample.
    """
    return [
        BlobReference(kind, *row)
        for kind in KINDS
        for row in connection.execute(
            _live(kind, now).where(_blob(kind) >= beginning).order_by(_blob(kind)).limit(limit)
        )
    ]


def recorded_marker(connection: Connection) -> str | None:
    """The marker of the installation's store; None where no server has recorded one yet."""
    found: str | None = connection.scalar(select(blob_store.c.marker))
    return found


def record_marker(connection: Connection, marker: str, now: int) -> str:
    """Record the marker of a store where none is recorded, and return the one that is."""
    row = insert_into(connection, blob_store).values(id=1, marker=marker, recorded_at=now)
    connection.execute(row.on_conflict_do_nothing())
    return recorded_marker(connection) or marker


def replace_marker(connection: Connection, marker: str, now: int) -> None:
    """Record another store, replacing the one before."""
    connection.execute(delete(blob_store))
    record_marker(connection, marker, now)


def _live(kind: str, now: int) -> Select[*tuple[str, str, str, int]]:
    """The rows of a kind that name a blob and have not expired."""
    match kind:
        case "asset":
            columns = (assets.c.id, assets.c.workspace_id, assets.c.blob, assets.c.size)
            return select(*columns).where(assets.c.expires_at > now)
        case "result":
            columns = (runs.c.id, runs.c.workspace_id, runs.c.result_blob, runs.c.result_size)
            return select(*columns).where(runs.c.result_blob.is_not(None), runs.c.result_expires_at > now)
        case "request":
            columns = (runs.c.id, runs.c.workspace_id, runs.c.request_blob, runs.c.request_size)
            return select(*columns).where(runs.c.request_blob.is_not(None), runs.c.finished_at.is_(None))
        case "workflow":
            columns = (jobs.c.id, jobs.c.workspace_id, jobs.c.documents_blob, jobs.c.documents_size)
            return select(*columns).where(jobs.c.documents_blob.is_not(None))
        case _:
            stays = or_(workflow_files.c.expires_at.is_(None), workflow_files.c.expires_at > now, is_needed_by_jobs())
            file = workflow_files.c
            return select(file.id, file.workspace_id, file.blob, file.size).where(stays)


def _ids() -> dict[str, ColumnElement[str]]:
    return {
        "asset": assets.c.id,
        "result": runs.c.id,
        "request": runs.c.id,
        "file": workflow_files.c.id,
        "workflow": jobs.c.id,
    }


def _blob(kind: str) -> ColumnElement[str]:
    columns: dict[str, ColumnElement[str]] = {
        "asset": assets.c.blob,
        "result": runs.c.result_blob,
        "request": runs.c.request_blob,
        "file": workflow_files.c.blob,
        "workflow": jobs.c.documents_blob,
    }
    return columns[kind]
