"""Assets: the files of a workspace by id, whichever API has made them (J-14)."""

from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, delete, or_, select

from fairlead.domain.accounts.storage_limits import UNLIMITED, StorageLimits
from fairlead.storage.assets.files import WorkflowFile, find_content, is_needed_by_jobs, keep_file
from fairlead.storage.db.tables import workflow_files

_FOUND_AT_ONCE: Final = 300


def find_assets(connection: Connection, workspace_id: str, ids: Collection[str], now: int) -> dict[str, WorkflowFile]:
    """The existing assets of a workspace with some ids."""
    found: dict[str, WorkflowFile] = {}
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), _FOUND_AT_ONCE):
        some = workflow_files.c.id.in_(wanted[start : start + _FOUND_AT_ONCE])
        rows = connection.execute(select(workflow_files).where(*_of(workspace_id, now), some)).mappings()
        found |= {row["id"]: WorkflowFile(**row) for row in rows}
    return found


class AddedFile(NamedTuple):
    """A file that was added: `is_new` unless it existed, `is_known` where its bytes were stored already."""

    file: WorkflowFile
    is_new: bool
    is_known: bool


def add_asset(connection: Connection, new: WorkflowFile, limits: StorageLimits = UNLIMITED) -> AddedFile:
    """Add an asset unless its workspace has one of its name and bytes; returns the one it then has.

    Its name is another where that is in use for other bytes. NoNameLeftError, StorageFullError.
    """
    known = find_content(connection, new.workspace_id, new.blob, new.created_at)
    kept = keep_file(connection, new, limits, overwrite=False)
    return AddedFile(kept, kept.id == new.id, known is not None)


def add_asset_of(connection: Connection, new: WorkflowFile, limits: StorageLimits = UNLIMITED) -> AddedFile | None:
    """Add an asset for bytes that its workspace has already, as `add_asset` does; None where it has no such bytes.

    Without a name it gets that of the file that has them.
    """
    known = find_content(connection, new.workspace_id, new.blob, new.created_at)
    if known is None:
        return None
    named = replace(
        new, name=new.name or known.name, path=new.path or known.path, size=known.size, content_type=known.content_type
    )
    return add_asset(connection, named, limits)


def delete_asset(connection: Connection, workspace_id: str, asset_id: str, now: int) -> bool | None:
    """Delete an asset unless a live job needs it: whether it was deleted. None where there is none."""
    mine = (*_of(workspace_id, now), workflow_files.c.id == asset_id)
    if connection.execute(delete(workflow_files).where(*mine, ~is_needed_by_jobs())).rowcount:
        return True
    return None if connection.execute(select(workflow_files.c.id).where(*mine)).first() is None else False


def _of(workspace_id: str, now: int) -> tuple[ColumnElement[bool], ...]:
    lives = or_(workflow_files.c.expires_at.is_(None), workflow_files.c.expires_at > now)
    return workflow_files.c.workspace_id == workspace_id, lives
