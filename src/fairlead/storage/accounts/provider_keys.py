"""Workspaces' own keys at providers, sealed: one for each provider, stored as bytes and a hint."""

import msgspec
from sqlalchemy import Connection, delete, select, update

from fairlead.domain.accounts.provider_keys import StoredKey
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import provider_keys


class SealedKey(msgspec.Struct, frozen=True):
    """A key to be stored: sealed, with what may be shown of it."""

    workspace_id: str
    sealed: bytes
    told: StoredKey


def put_key(connection: Connection, new: SealedKey) -> bool:
    """Store a key, replacing the one before; True when there was none."""
    place = (provider_keys.c.workspace_id == new.workspace_id) & (provider_keys.c.provider == new.told.provider)
    values: dict[str, object] = {"sealed": new.sealed, "hint": new.told.hint, "created_at": new.told.created_at}
    if connection.execute(update(provider_keys).where(place).values(values)).rowcount:
        return False
    row = insert_into(connection, provider_keys).values(
        workspace_id=new.workspace_id, provider=new.told.provider, **values
    )
    # Another server may have stored one since: the later key wins, as everywhere.
    connection.execute(row.on_conflict_do_update(index_elements=provider_keys.primary_key.columns.keys(), set_=values))
    return True


def list_keys(connection: Connection, workspace_id: str) -> list[StoredKey]:
    """What may be shown of a workspace's keys, by provider. There is at most one for each provider."""
    found = select(provider_keys.c.provider, provider_keys.c.hint, provider_keys.c.created_at)
    mine = found.where(provider_keys.c.workspace_id == workspace_id).order_by(provider_keys.c.provider)
    return [StoredKey(*row) for row in connection.execute(mine)]


def find_sealed(connection: Connection, workspace_id: str, provider: str) -> bytes | None:
    """The sealed key of a workspace at a provider; None when it has none."""
    found: bytes | None = connection.execute(
        select(provider_keys.c.sealed).where(
            provider_keys.c.workspace_id == workspace_id, provider_keys.c.provider == provider
        )
    ).scalar()
    return found


def delete_key(connection: Connection, workspace_id: str, provider: str) -> bool:
    """Forget a key; False when there was none."""
    done = connection.execute(
        delete(provider_keys).where(provider_keys.c.workspace_id == workspace_id, provider_keys.c.provider == provider)
    )
    return done.rowcount > 0
