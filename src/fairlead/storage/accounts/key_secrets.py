"""What API keys and personal keys have in common: their secrets, until when these are good, and their last use."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import BindParameter, ColumnElement, Connection, ScalarSelect, Table, delete, or_, select, update

from fairlead.storage.db.member_tables import key_uses
from fairlead.storage.db.statements import insert_into


def has_secret(table: Table, digest: str | BindParameter[str], now: int | BindParameter[int]) -> ColumnElement[bool]:
    """The condition for the key with a secret, by its digest: its own, or for a time the one before its rotation."""
    before = (table.c.previous_digest == digest) & (table.c.previous_until > now)
    return or_(table.c.digest == digest, before)


def is_unexpired(table: Table, now: int | BindParameter[int]) -> ColumnElement[bool]:
    """The condition for keys that have not ended by themselves."""
    return table.c.expires_at.is_(None) | (table.c.expires_at > now)


def last_use_of(table: Table) -> ScalarSelect[int]:
    """When a key was last used (ms), as a column of a query for keys; null for never."""
    return select(key_uses.c.used_at).where(key_uses.c.key_id == table.c.id).correlate(table).scalar_subquery()


def rotate_secret(
    connection: Connection, table: Table, key_id: str, digest: str, hint: str, previous_until: int
) -> None:
    """Give a key another secret, by its digest; the one before is good until a time (ms)."""
    values = {"digest": digest, "hint": hint, "previous_digest": table.c.digest, "previous_until": previous_until}
    connection.execute(update(table).where(table.c.id == key_id).values(values))


def note_uses(connection: Connection, uses: Mapping[str, int]) -> None:
    """Record when keys were last used (ms), by their ids."""
    # By id: two servers that write the same keys in other orders could wait for each other.
    rows = [{"key_id": key_id, "used_at": used_at} for key_id, used_at in sorted(uses.items())]
    row = insert_into(connection, key_uses)
    written = row.on_conflict_do_update(index_elements=[key_uses.c.key_id], set_={"used_at": row.excluded.used_at})
    connection.execute(written, rows)


def forget_uses(connection: Connection, key_ids: Sequence[str]) -> None:
    """Forget when keys were used that are no more."""
    for at in range(0, len(key_ids), _AT_ONCE):
        some = key_ids[at : at + _AT_ONCE]
        connection.execute(delete(key_uses).where(key_uses.c.key_id.in_(some)))


_AT_ONCE: Final = 500
