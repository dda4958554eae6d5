"""Result assets: the copies we serve in place of partners' links, each a row that names a blob."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import asdict
from sqlalchemy import Connection, delete, insert, or_, select

from fairlead.storage.accounts.storage_usage import lock_usage
from fairlead.storage.assets.files import is_needed_by_jobs
from fairlead.storage.db.tables import assets, jobs, runs, workflow_files


class Asset(msgspec.Struct, frozen=True):
    """One copy: whose it is, which blob holds it, and what it is served as; times in milliseconds since 1970."""

    id: str
    workspace_id: str
    run_id: str
    blob: str
    size: int
    content_type: str
    name: str
    created_at: int
    expires_at: int


def insert_assets(connection: Connection, new: Iterable[Asset]) -> None:
    """Store the copies of a run."""
    if rows := [asdict(asset) for asset in new]:
        connection.execute(insert(assets), rows)


def find_asset(connection: Connection, asset_id: str) -> Asset | None:
    """The asset of an id, expired or not; None when there is none."""
    row = connection.execute(select(assets).where(assets.c.id == asset_id)).mappings().one_or_none()
    return None if row is None else Asset(**row)


def delete_expired(connection: Connection, now: int, limit: int) -> int:
    """Delete up to `limit` assets that have expired, oldest first; returns how many there were."""
    oldest = (
        select(assets.c.id, assets.c.workspace_id)
        .where(assets.c.expires_at <= now)
        .order_by(assets.c.expires_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found = connection.execute(oldest).all()
    if found:
        lock_usage(connection, [row.workspace_id for row in found])
        connection.execute(delete(assets).where(assets.c.id.in_([row.id for row in found])))
    return len(found)


def named_blobs(connection: Connection, names: Sequence[str], now: int) -> set[str]:
    """The blobs, of some, that a live asset, a stored result, a live run, a file of workflows or a job still names."""
    of_assets = select(assets.c.blob).where(assets.c.blob.in_(names), assets.c.expires_at > now)
    of_results = select(runs.c.result_blob).where(runs.c.result_blob.in_(names))
    of_requests = select(runs.c.request_blob).where(runs.c.request_blob.in_(names), runs.c.finished_at.is_(None))
    stays = or_(workflow_files.c.expires_at.is_(None), workflow_files.c.expires_at > now, is_needed_by_jobs())
    of_files = select(workflow_files.c.blob).where(workflow_files.c.blob.in_(names), stays)
    of_jobs = select(jobs.c.documents_blob).where(jobs.c.documents_blob.in_(names))
    return set(connection.execute(of_assets.union(of_results, of_requests, of_files, of_jobs)).scalars())
