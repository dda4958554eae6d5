"""Sessions of members who have signed in: a row each, found by the digest of its cookie."""

from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from fairlead.domain.accounts.callers import MEMBER_SUBJECT, Caller, Patterns
from fairlead.domain.accounts.rights import SESSION_IDLE_MS, SESSION_LASTS_MS, Principal, Role
from fairlead.storage.accounts.key_secrets import is_unexpired
from fairlead.storage.accounts.members import principal_of, select_members
from fairlead.storage.accounts.workspaces import caller_by_workspace
from fairlead.storage.db.member_tables import members, personal_keys, sessions

_SHOWN: Final = (sessions.c.id, sessions.c.address, sessions.c.agent, sessions.c.created_at, sessions.c.seen_at)


class NoSessionError(Exception):
    """The member has no such session."""


class Session(msgspec.Struct, frozen=True):
    """What may be shown of a session. Times are milliseconds since 1970."""

    id: str
    address: str | None
    agent: str | None
    created_at: int
    seen_at: int


class NewSession(Session, frozen=True, kw_only=True):
    """A session to be stored: the digest of its cookie, never the cookie. `key_id` is the key it was begun with."""

    member_id: str
    digest: str
    key_id: str | None = None


class SessionCaller(msgspec.Struct, frozen=True):
    """The caller of a session for a workspace, None without a role there; and when the session was last seen."""

    caller: Caller | None
    seen_at: int


class Lifetime(msgspec.Struct, frozen=True):
    """The bounds of sessions that are valid `now`: they were begun, and last seen, no earlier than these times (ms)."""

    begun_from: int
    seen_from: int
    now: int

    @classmethod
    def at(cls, now: int) -> "Lifetime":
        """The bounds at a time (ms)."""
        return cls(now - SESSION_LASTS_MS, now - SESSION_IDLE_MS, now)


def begin_session(connection: Connection, new: NewSession, most: int) -> None:
    """Store a session, and delete the oldest of its member where there are more than `most`."""
    connection.execute(insert(sessions).values(msgspec.structs.asdict(new)))
    mine = select(sessions.c.id).where(sessions.c.member_id == new.member_id)
    kept = list(connection.scalars(mine.order_by(sessions.c.id.desc()).limit(most)))
    connection.execute(delete(sessions).where(sessions.c.member_id == new.member_id, sessions.c.id.not_in(kept)))


def find_session(connection: Connection, digest: str, lifetime: Lifetime) -> tuple[Principal, int] | None:
    """The principal of a cookie, by its digest, and when it was last seen; None for an invalid one."""
    found = (
        select_members()
        .add_columns(sessions.c.id.label("session_id"), sessions.c.seen_at)
        .join(sessions, sessions.c.member_id == members.c.id)
        .outerjoin(personal_keys, personal_keys.c.id == sessions.c.key_id)
        .where(
            sessions.c.digest == digest,
            is_unexpired(personal_keys, lifetime.now),
            sessions.c.created_at >= lifetime.begun_from,
            sessions.c.seen_at >= lifetime.seen_from,
        )
    )
    row = connection.execute(found).mappings().first()
    return None if row is None else (principal_of(connection, row, row["session_id"]), row["seen_at"])


def caller_by_session(connection: Connection, digest: str, named: str, lifetime: Lifetime) -> SessionCaller:
    """The caller of a cookie for a workspace, by the workspace's name or id; NoSessionError.

    An operator without a role there counts as an owner. There is no caller without a role, or without such a workspace.
    """
    found = find_session(connection, digest, lifetime)
    if found is None:
        raise NoSessionError
    principal, seen_at = found
    membership = principal.membership(named)
    role = Role.OWNER if principal.is_operator else None if membership is None else membership.role
    if role is None:
        return SessionCaller(None, seen_at)
    workspace = named if membership is None else membership.workspace_id
    caller = caller_by_workspace(connection, workspace, MEMBER_SUBJECT + principal.id, Patterns())
    return SessionCaller(None if caller is None else msgspec.structs.replace(caller, role=role), seen_at)


def note_seen(connection: Connection, digest: str, now: int) -> None:
    """Record that a session was used, by the digest of its cookie."""
    connection.execute(update(sessions).where(sessions.c.digest == digest).values(seen_at=now))


def list_sessions(connection: Connection, member_id: str, lifetime: Lifetime) -> list[Session]:
    """The valid sessions of a member, the newest first."""
    mine = select(*_SHOWN).where(
        sessions.c.member_id == member_id,
        sessions.c.created_at >= lifetime.begun_from,
        sessions.c.seen_at >= lifetime.seen_from,
    )
    return [Session(*row) for row in connection.execute(mine.order_by(sessions.c.id.desc()))]


def end_session(connection: Connection, member_id: str, session_id: str) -> None:
    """Delete a session of a member; NoSessionError."""
    mine = (sessions.c.id == session_id) & (sessions.c.member_id == member_id)
    if connection.execute(delete(sessions).where(mine)).rowcount == 0:
        raise NoSessionError


def end_sessions(connection: Connection, member_id: str) -> int:
    """Delete every session of a member; returns how many."""
    return connection.execute(delete(sessions).where(sessions.c.member_id == member_id)).rowcount


def has_ended(connection: Connection, lifetime: Lifetime) -> bool:
    """Whether there are sessions that are no longer valid."""
    return connection.execute(select(sessions.c.id).where(_has_ended(lifetime)).limit(1)).first() is not None


def forget_ended(connection: Connection, lifetime: Lifetime) -> int:
    """Delete the sessions that are no longer valid; returns how many."""
    return connection.execute(delete(sessions).where(_has_ended(lifetime))).rowcount


def _has_ended(lifetime: Lifetime) -> ColumnElement[bool]:
    return (sessions.c.created_at < lifetime.begun_from) | (sessions.c.seen_at < lifetime.seen_from)
