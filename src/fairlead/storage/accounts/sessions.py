"""Sessions of members who have signed in: a row each, found by the digest of its cookie."""

from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from fairlead.domain.accounts.callers import MEMBER_SUBJECT, Caller, Patterns
from fairlead.domain.accounts.rights import SESSION_IDLE_MS, SESSION_LASTS_MS, Principal, Role
from fairlead.storage.accounts.members import principal_of, select_members
from fairlead.storage.accounts.workspaces import caller_by_workspace
from fairlead.storage.db.member_tables import members, sessions

_SHOWN: Final = (sessions.c.id, sessions.c.address, sessions.c.agent, sessions.c.created_at, sessions.c.seen_at)


class NoSessionError(Exception):
    """The member has no such session."""


class Session(msgspec.Struct, frozen=True):
    """What may be told of a session. Times are milliseconds since 1970."""

    id: str
    address: str | None
    agent: str | None
    created_at: int
    seen_at: int


class NewSession(Session, frozen=True, kw_only=True):
    """A session to be remembered: the digest of its cookie, never the cookie. `key_id` is the key it was begun with."""

    member_id: str
    digest: str
    key_id: str | None = None


class SessionCaller(msgspec.Struct, frozen=True):
    """Who calls for a workspace in a session, None without a role there; and when the session was last seen."""

    caller: Caller | None
    seen_at: int


class Lifetime(msgspec.Struct, frozen=True):
    """Which sessions still count: those begun and last seen no earlier than two times (ms)."""

    begun_from: int
    seen_from: int

    @classmethod
    def at(cls, now: int) -> "Lifetime":
        """Those that count at a time (ms)."""
        return cls(now - SESSION_LASTS_MS, now - SESSION_IDLE_MS)


def begin_session(connection: Connection, new: NewSession, most: int) -> None:
    """Remember a session, and forget the oldest of its member where there are more than `most`."""
    connection.execute(insert(sessions).values(msgspec.structs.asdict(new)))
    mine = select(sessions.c.id).where(sessions.c.member_id == new.member_id)
    kept = list(connection.scalars(mine.order_by(sessions.c.id.desc()).limit(most)))
    connection.execute(delete(sessions).where(sessions.c.member_id == new.member_id, sessions.c.id.not_in(kept)))


def find_session(connection: Connection, digest: str, lifetime: Lifetime) -> tuple[Principal, int] | None:
    """Who has signed in with a cookie, by its digest, and when it was last seen; None for one that does not count."""
    found = (
        select_members()
        .add_columns(sessions.c.id.label("session_id"), sessions.c.seen_at)
        .join(sessions, sessions.c.member_id == members.c.id)
        .where(
            sessions.c.digest == digest,
            sessions.c.created_at >= lifetime.begun_from,
            sessions.c.seen_at >= lifetime.seen_from,
        )
    )
    row = connection.execute(found).mappings().first()
    return None if row is None else (principal_of(connection, row, row["session_id"]), row["seen_at"])


def caller_by_session(connection: Connection, digest: str, named: str, lifetime: Lifetime) -> SessionCaller:
    """Who calls with a cookie for a workspace, by the workspace's name or id; NoSessionError.

    An operator without a role there counts as an owner. There is no caller where somebody has no role, or there is no
    such workspace.
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
    """Note that a session was used, by the digest of its cookie."""
    connection.execute(update(sessions).where(sessions.c.digest == digest).values(seen_at=now))


def list_sessions(connection: Connection, member_id: str, lifetime: Lifetime) -> list[Session]:
    """The sessions of a member that still count, the newest first."""
    mine = select(*_SHOWN).where(
        sessions.c.member_id == member_id,
        sessions.c.created_at >= lifetime.begun_from,
        sessions.c.seen_at >= lifetime.seen_from,
    )
    return [Session(*row) for row in connection.execute(mine.order_by(sessions.c.id.desc()))]


def end_session(connection: Connection, member_id: str, session_id: str) -> None:
    """Forget a session of a member; NoSessionError."""
    mine = (sessions.c.id == session_id) & (sessions.c.member_id == member_id)
    if connection.execute(delete(sessions).where(mine)).rowcount == 0:
        raise NoSessionError


def end_sessions(connection: Connection, member_id: str) -> int:
    """Forget every session of a member; how many."""
    return connection.execute(delete(sessions).where(sessions.c.member_id == member_id)).rowcount


def has_ended(connection: Connection, lifetime: Lifetime) -> bool:
    """Whether there are sessions that do not count any more."""
    return connection.execute(select(sessions.c.id).where(_ended(lifetime)).limit(1)).first() is not None


def forget_ended(connection: Connection, lifetime: Lifetime) -> int:
    """Forget the sessions that do not count any more; how many."""
    return connection.execute(delete(sessions).where(_ended(lifetime))).rowcount


def _ended(lifetime: Lifetime) -> ColumnElement[bool]:
    return (sessions.c.created_at < lifetime.begun_from) | (sessions.c.seen_at < lifetime.seen_from)
