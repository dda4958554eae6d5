"""Sessions of members who have signed in: a row each, found by the digest of its cookie."""

from typing import Final

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from fairlead.domain.accounts.rights import Principal
from fairlead.storage.accounts.members import principal_of, select_members
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


class Lifetime(msgspec.Struct, frozen=True):
    """Which sessions still count: those begun and last seen no earlier than two times (ms)."""

    begun_from: int
    seen_from: int


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


def note_seen(connection: Connection, session_id: str, now: int) -> None:
    """Note that a session was used."""
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(seen_at=now))


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


def forget_ended(connection: Connection, lifetime: Lifetime) -> int:
    """Forget the sessions that do not count any more; how many."""
    ended = (sessions.c.created_at < lifetime.begun_from) | (sessions.c.seen_at < lifetime.seen_from)
    return connection.execute(delete(sessions).where(ended)).rowcount
