"""Workspaces: made, changed, paid for; and the first one of a new installation."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.domain.accounts.callers import is_workspace_name
from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.operations.accounts.keys import IssuedKey, issue_key
from fairlead.operations.clock import Clock, new_id
from fairlead.storage.accounts import storage_usage, workspaces
from fairlead.storage.accounts.workspaces import (
    NameTakenError,
    NewWorkspace,
    UnknownWorkspaceError,
    workspace_id_of,
)
from fairlead.storage.db.database import Database

__all__ = ["NameTakenError", "NewWorkspace", "UnknownWorkspaceError"]

DEFAULT_NAME: Final = "default"


class BadNameError(Exception):
    """A workspace cannot have this name."""


class WorkspaceName(msgspec.Struct, frozen=True):
    """A workspace by its id and its name."""

    id: str
    name: str


async def create_workspace(database: Database, new: NewWorkspace, clock: Clock) -> str:
    """Make a workspace and return its id; BadNameError, NameTakenError."""
    if not is_workspace_name(new.name):
        raise BadNameError(new.name)
    workspace_id, now = new_id(), clock.now_ms()
    await database.write(lambda c: workspaces.create_workspace(c, workspace_id, new, now))
    return workspace_id


async def change_workspace(database: Database, name_or_id: str, changes: Mapping[str, object]) -> None:
    """Change some settings of a workspace; UnknownWorkspaceError."""
    await database.write(
        lambda c: workspaces.change_workspace(c, workspace_id_of(c, name_or_id), changes) if changes else None
    )


async def find_workspace(database: Database, name_or_id: str) -> str:
    """The id of a workspace; UnknownWorkspaceError."""
    return await database.read(lambda c: workspace_id_of(c, name_or_id))


async def find_workspace_name(database: Database, name_or_id: str) -> WorkspaceName:
    """A workspace's id and name, by either; UnknownWorkspaceError."""
    return WorkspaceName(*await database.read(lambda c: workspaces.workspace_name_of(c, name_or_id)))


async def list_workspace_names(database: Database, limit: int) -> list[WorkspaceName]:
    """Up to `limit` workspaces, by name."""
    return [WorkspaceName(*row) for row in await database.read(lambda c: workspaces.workspace_names(c, limit))]


async def credit(database: Database, name_or_id: str, amount: int, reason: str, clock: Clock) -> int:
    """Book money in, or a correction out, and return the new balance in 10^-8 dollars; UnknownWorkspaceError."""
    now = clock.now_ms()
    return await database.write(lambda c: workspaces.credit(c, workspace_id_of(c, name_or_id), amount, reason, now))


async def list_workspaces(database: Database) -> list[dict[str, object]]:
    """Every workspace with its figures."""
    return await database.read(workspaces.list_workspaces)


async def list_storage(database: Database, usual: StorageLimits) -> list[dict[str, object]]:
    """What every workspace keeps, and may keep, in bytes and files; a limit of 0 is none."""
    found = await database.read(storage_usage.list_usage)
    rows = []
    for name, usage in found:
        limits = usage.limits(usual)
        rows.append(
            {
                "name": name, "bytes": usage.bytes, "files": usage.files, "bytes_limit": limits.bytes,
                "files_limit": limits.files, "own_limits": (usage.bytes_limit, usage.files_limit) != (None, None),
            }
        )  # fmt: skip
    return rows


async def limit_storage(database: Database, name_or_id: str, changes: dict[str, int | None]) -> None:
    """Give a workspace limits of its own, `bytes_limit` and `files_limit`: 0 for none, None for those of the settings.

    UnknownWorkspaceError.
    """
    await database.write(
        lambda c: storage_usage.set_limits(c, workspace_id_of(c, name_or_id), changes) if changes else None
    )


async def bootstrap(
    database: Database, key_prefix: str, subscription: tuple[str, int], clock: Clock
) -> IssuedKey | None:
    """Give an empty installation its `default` workspace and a first key; None when it has workspaces already.

    The `subscription` of the workspace is a tier and its parallel jobs.
    """
    if await database.read(workspaces.has_workspaces):
        return None
    try:
        tier, jobs = subscription
        command = NewWorkspace(name=DEFAULT_NAME, subscription=tier, jobs_limit=jobs)
        await create_workspace(database, command, clock)
    except NameTakenError:  # another server started at the same moment, and was first
        return None
    return await issue_key(database, DEFAULT_NAME, "first key", None, key_prefix, clock)
