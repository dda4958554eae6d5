"""Workspaces: created, changed, credited; and the first one of a new installation."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import is_workspace_name
from fairlead.domain.accounts.rights import SERVER, Actor
from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.jobs.subscriptions import first_of
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR, as_dollars
from fairlead.operations.accounts.keys import IssuedKey, issue_key
from fairlead.storage.accounts import storage_usage, workspace_records, workspaces
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.credits import (
    BalanceBoundError,
    Booked,
    CreditKeyUsedError,
    NewCredit,
    credit_named_workspace,
)
from fairlead.storage.accounts.workspace_records import WorkspaceRecord
from fairlead.storage.accounts.workspaces import (
    NameTakenError,
    NewWorkspace,
    UnknownWorkspaceError,
    workspace_id_of,
)
from fairlead.storage.db.database import Database

__all__ = [
    "BalanceBoundError",
    "Booked",
    "CreditKeyUsedError",
    "NameTakenError",
    "NewCredit",
    "NewWorkspace",
    "UnknownWorkspaceError",
    "WorkspaceRecord",
]

DEFAULT_NAME: Final = "default"


class BadNameError(Exception):
    """The name is not valid for a workspace."""


class WorkspaceName(msgspec.Struct, frozen=True):
    """A workspace by its id and its name."""

    id: str
    name: str


class BadChangeError(Exception):
    """A change of a workspace or a key is not valid; `field` is the field that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Tiers(msgspec.Struct, frozen=True):
    """The tiers of an installation: limits of runs in flight, of committed spend in US cents, and of parallel jobs."""

    in_flight: Sequence[int]
    commitment: Sequence[int]
    subscriptions: Sequence[tuple[str, int]]

    def limits_of(self, tier: int) -> dict[str, object]:
        """The present limits of a tier; a later change of the setting changes no workspace. BadChangeError."""
        tiers = min(len(self.in_flight), len(self.commitment))
        if not 1 <= tier <= tiers:
            raise BadChangeError("tier", f"must be 1 to {tiers}")
        commitment = self.commitment[tier - 1] * (UNITS_PER_DOLLAR // 100)
        return {"in_flight_limit": self.in_flight[tier - 1], "commitment_limit": commitment, "tier": str(tier)}

    def subscription(self, name: str) -> dict[str, object]:
        """A subscription with its present number of parallel jobs; BadChangeError."""
        parallel = dict(self.subscriptions)
        if name not in parallel:
            raise BadChangeError("subscription", f"must be one of {', '.join(parallel)}")
        return {"subscription": name, "jobs_limit": parallel[name]}


def usual_subscription(tiers: Tiers) -> str:
    """The subscription of a workspace that was given none."""
    return first_of(tiers.subscriptions)[0]


async def create_workspace(
    database: Database,
    new: NewWorkspace,
    clock: Clock,
    by: Actor = SERVER,
    storage: Mapping[str, int | None] = MappingProxyType({}),
) -> str:
    """Create a workspace and return its id; `storage` as in `change_workspace`. BadNameError, NameTakenError."""
    if not is_workspace_name(new.name):
        raise BadNameError(new.name)
    workspace_id, now = new_id(), clock.now_ms()
    terms = {"billing": new.billing, **({} if new.markup is None else {"markup": new.markup})}
    act = Act("workspace.created", workspace_id, new.name, terms)
    work = partial(workspace_records.create_workspace, id_=workspace_id, new=new, now=now, storage=storage)
    await database.write(with_entry(work, by, lambda _: act, now))
    return workspace_id


async def change_workspace(
    database: Database,
    name_or_id: str,
    changes: Mapping[str, object],
    clock: Clock,
    by: Actor = SERVER,
    storage: Mapping[str, int | None] = MappingProxyType({}),
) -> str:
    """Change some settings of a workspace, and return its id; UnknownWorkspaceError.

    `storage` are the workspace's own limits of what it stores, `bytes_limit` and `files_limit`: 0 for no limit, None
    for the limit in the settings.
    """
    detail = told_changes(changes) | {f"storage_{name}": value for name, value in storage.items()}

    def describe(changed: tuple[str, str]) -> Act:
        return Act("workspace.changed", *changed, detail)

    work = partial(workspace_records.change_workspace, name_or_id=name_or_id, changes=changes, storage=storage)
    return (await database.write(with_entry(work, by, describe, clock.now_ms())))[0]


async def suspend_workspace(database: Database, workspace_id: str, clock: Clock, by: Actor) -> WorkspaceRecord:
    """Let a workspace begin no further work; work that has begun continues to its end. UnknownWorkspaceError."""
    return await _change_state(database, workspace_id, "suspended", {"suspended_at": clock.now_ms()}, clock, by)


async def resume_workspace(database: Database, workspace_id: str, clock: Clock, by: Actor) -> WorkspaceRecord:
    """Let a suspended workspace begin work again; UnknownWorkspaceError."""
    return await _change_state(database, workspace_id, "resumed", {"suspended_at": None}, clock, by)


async def delete_workspace(
    database: Database, workspace_id: str, grace_ms: int, clock: Clock, by: Actor
) -> WorkspaceRecord:
    """Delete a workspace after a grace period; UnknownWorkspaceError.

    In that period it begins no work and can be restored.
    """
    return await _change_state(database, workspace_id, "deleted", {"delete_at": clock.now_ms() + grace_ms}, clock, by)


async def restore_workspace(database: Database, workspace_id: str, clock: Clock, by: Actor) -> WorkspaceRecord:
    """Undo the deletion of a workspace before its grace period ends; UnknownWorkspaceError."""
    return await _change_state(database, workspace_id, "restored", {"delete_at": None}, clock, by)


async def _change_state(
    database: Database, workspace_id: str, what: str, changes: Mapping[str, int | None], clock: Clock, by: Actor
) -> WorkspaceRecord:
    def describe(found: WorkspaceRecord) -> Act:
        return Act(f"workspace.{what}", found.id, found.name)

    work = partial(workspace_records.change_state, workspace_id=workspace_id, changes=changes)
    return await database.write(with_entry(work, by, describe, clock.now_ms()))


async def find_record(database: Database, workspace_id: str) -> WorkspaceRecord:
    """A workspace with its figures, by its id; UnknownWorkspaceError."""
    return await database.read(lambda c: workspace_records.find_record(c, workspace_id))


async def list_records(
    database: Database, within: tuple[str, ...] | None, after: str | None, limit: int
) -> list[WorkspaceRecord]:
    """Up to `limit` workspaces by name, after a given name: all of them, or those with some ids."""
    return await database.read(lambda c: workspace_records.list_records(c, within, after, limit))


async def find_workspace(database: Database, name_or_id: str) -> str:
    """The id of a workspace; UnknownWorkspaceError."""
    return await database.read(lambda c: workspace_id_of(c, name_or_id))


async def find_workspace_name(database: Database, name_or_id: str) -> WorkspaceName:
    """A workspace's id and name, by either; UnknownWorkspaceError."""
    return WorkspaceName(*await database.read(lambda c: workspaces.workspace_name_of(c, name_or_id)))


async def list_workspace_names(database: Database, limit: int) -> list[WorkspaceName]:
    """Up to `limit` workspaces, by name."""
    return [WorkspaceName(*row) for row in await database.read(lambda c: workspaces.workspace_names(c, limit))]


async def credit(database: Database, name_or_id: str, new: NewCredit, clock: Clock, by: Actor = SERVER) -> Booked:
    """Book a payment, or a negative correction; what was booked, now or with the same key before.

    UnknownWorkspaceError, BalanceBoundError; CreditKeyUsedError.
    """
    now = clock.now_ms()
    detail = {"amount": as_dollars(new.amount), "reason": new.reason}

    def describe(booked: Booked) -> Act | None:
        return Act("workspace.credited", booked.workspace_id, booked.name, detail) if booked.is_new else None

    work = partial(credit_named_workspace, name_or_id=name_or_id, new=new, now=now)
    return await database.write(with_entry(work, by, describe, now))


async def list_workspaces(database: Database) -> list[dict[str, object]]:
    """Every workspace with its figures."""
    return await database.read(workspaces.list_workspaces)


async def list_storage(database: Database, usual: StorageLimits) -> list[dict[str, object]]:
    """What every workspace stores, and may store, in bytes and files; a limit of 0 means none."""
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


async def bootstrap(
    database: Database, key_prefix: str, subscription: tuple[str, int], clock: Clock
) -> IssuedKey | None:
    """Give an empty installation its `default` workspace and a first key; None if it has workspaces already.

    `subscription` is the workspace's tier with its parallel jobs.
    """
    if await database.read(workspaces.has_workspaces):
        return None
    try:
        tier, jobs = subscription
        command = NewWorkspace(name=DEFAULT_NAME, subscription=tier, jobs_limit=jobs)
        await create_workspace(database, command, clock)
    except NameTakenError:  # another server started at the same time and was first
        return None
    return await issue_key(database, DEFAULT_NAME, "first key", None, key_prefix, clock)


async def installation_name(database: Database) -> str:
    """The name of an installation in messages between its servers; others cannot guess it, and it never changes.

    It is derived from the id of the first workspace, whose row is never deleted.
    """
    first = await database.read(workspaces.first_workspace_id)
    return hashlib.sha256(f"fairlead: the name of an installation\n{first}".encode()).hexdigest()[:32]


def told_changes(changes: Mapping[str, object]) -> dict[str, object]:
    """Changes in the form of the audit log: amounts in dollars, switches by their names."""
    told = dict(changes)
    for name in ("cap", "commitment_limit"):
        if isinstance(amount := told.get(name), int):
            told[name] = as_dollars(amount)
    return told
