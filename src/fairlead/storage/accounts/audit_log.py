"""The audit log: who has done what, when and from where. Entries are written with the change, and never changed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, select

from fairlead.domain.accounts.rights import Actor, ActorKind
from fairlead.storage.db.database import Work
from fairlead.storage.db.member_tables import audit_entries
from fairlead.storage.db.tables import workspaces

T = TypeVar("T")

_TARGET_MAX: Final = 254


class Act(msgspec.Struct, frozen=True):
    """What was done: an action such as `key.created`, the workspace it is about, what it was done to, and the rest.

    `detail` must hold no secret: it is shown to everybody who may read the log.
    """

    action: str
    workspace_id: str | None = None
    target: str | None = None
    detail: Mapping[str, object] = msgspec.field(default_factory=dict)


class AuditEntry(msgspec.Struct, frozen=True):
    """An entry of the log; `workspace` is the name that the workspace has now."""

    id: int
    at: int
    actor: Actor
    act: Act
    workspace: str | None


class AuditFilter(msgspec.Struct, frozen=True):
    """Which entries are wanted: of a workspace, of a member, of an action, older than the entry `before`.

    And written from `since` on and before `until` (ms).
    """

    workspace_id: str | None = None
    member_id: str | None = None
    action: str | None = None
    before: int | None = None
    since: int | None = None
    until: int | None = None


def record_act(connection: Connection, by: Actor, act: Act, now: int) -> None:
    """Write an entry, in the transaction of the change."""
    connection.execute(
        insert(audit_entries).values(
            at=now,
            actor_kind=by.kind,
            actor_id=by.id,
            actor_name=by.name,
            address=by.address,
            action=act.action,
            workspace_id=act.workspace_id,
            target=None if act.target is None else act.target[:_TARGET_MAX],
            detail=msgspec.json.encode(act.detail).decode(),
        )
    )


def record_acts(connection: Connection, acts: Iterable[tuple[Actor, Act, int]]) -> None:
    """Write an entry for each act of an actor at a time (ms), in the transaction of a batch of changes."""
    for by, act, at in acts:
        record_act(connection, by, act, at)


def with_entry(work: Work[T], by: Actor, describe: Callable[[T], Act | None], now: int) -> Work[T]:
    """Work that also writes its entry, in its own transaction.

    `describe` says of its result what was done; None where nothing was.
    """

    def work_and_record(connection: Connection) -> T:
        result = work(connection)
        if (act := describe(result)) is not None:
            record_act(connection, by, act, now)
        return result

    return work_and_record


def forget_entries(connection: Connection, before: int, limit: int) -> int:
    """Delete entries of before a time (ms), looking at the `limit` oldest; how many there were."""
    oldest = select(audit_entries.c.id, audit_entries.c.at).order_by(audit_entries.c.id).limit(limit).subquery()
    old = connection.execute(select(oldest.c.id).where(oldest.c.at < before)).scalars().all()
    if old:
        connection.execute(delete(audit_entries).where(audit_entries.c.id.in_(old)))
    return len(old)


def list_entries(connection: Connection, wanted: AuditFilter, limit: int) -> list[AuditEntry]:
    """Up to `limit` entries, the newest first."""
    found = (
        select(audit_entries, workspaces.c.name.label("workspace"))
        .outerjoin(workspaces, workspaces.c.id == audit_entries.c.workspace_id)
        .order_by(audit_entries.c.id.desc())
        .limit(limit)
    )
    for column, value in (
        (audit_entries.c.workspace_id, wanted.workspace_id),
        (audit_entries.c.actor_id, wanted.member_id),
        (audit_entries.c.action, wanted.action),
    ):
        if value is not None:
            found = found.where(column == value)
    if wanted.before is not None:
        found = found.where(audit_entries.c.id < wanted.before)
    if wanted.since is not None:
        found = found.where(audit_entries.c.at >= wanted.since)
    if wanted.until is not None:
        found = found.where(audit_entries.c.at < wanted.until)
    return [
        AuditEntry(
            row["id"],
            row["at"],
            Actor(ActorKind(row["actor_kind"]), row["actor_id"], row["actor_name"], row["address"]),
            Act(row["action"], row["workspace_id"], row["target"], msgspec.json.decode(row["detail"])),
            row["workspace"],
        )
        for row in connection.execute(found).mappings()
    ]
