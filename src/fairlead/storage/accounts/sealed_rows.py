"""All sealed texts: provider keys of workspaces, webhook secrets, addresses of alerts; and what sealed them."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import (
    Connection,
    LargeBinary,
    Table,
    delete,
    func,
    select,
    tuple_,
    update,
)

from fairlead.storage.db.budget_tables import alert_channels
from fairlead.storage.db.schema import webhook_origin, webhook_secrets
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import provider_keys, workspaces

_ID: Final = 1


class SealedRow(NamedTuple):
    """A sealed text of a workspace, its purpose, and its key in its table."""

    workspace_id: str
    key: object
    sealed: bytes


class SealedTable(msgspec.Struct, frozen=True):
    """A table with sealed texts: the column that identifies those of a workspace."""

    table: Table
    key: str
    what: str
    """The purpose of its texts; `{}` stands for the key."""

    def what_of(self, row: SealedRow) -> str:
        """The purpose of a row's text."""
        return self.what.format(row.key)


SEALED: Final = (
    SealedTable(provider_keys, "provider", "{}"),
    SealedTable(webhook_secrets, "number", "webhook secret {}"),
    SealedTable(alert_channels, "id", "alert channel {}"),
)


def outdated_rows(
    connection: Connection, sealed: SealedTable, prefix: bytes, after: SealedRow | None, limit: int
) -> list[SealedRow]:
    """Up to `limit` rows that do not begin with a prefix, in the order of their keys, after one of them."""
    columns = sealed.table.c
    place = tuple_(columns.workspace_id, columns[sealed.key])
    found = select(columns.workspace_id, columns[sealed.key], columns.sealed).where(
        func.substr(columns.sealed, 1, len(prefix), type_=LargeBinary) != prefix
    )
    if after is not None:
        found = found.where(place > tuple_(after.workspace_id, after.key))
    rows = connection.execute(found.order_by(columns.workspace_id, columns[sealed.key]).limit(limit))
    return [SealedRow(*row) for row in rows]


def replace_sealed(connection: Connection, sealed: SealedTable, changes: Sequence[tuple[SealedRow, bytes]]) -> int:
    """Replace sealed texts that are still as they were read; returns how many."""
    columns, done = sealed.table.c, 0
    for row, fresh in changes:
        mine = (columns.workspace_id == row.workspace_id) & (columns[sealed.key] == row.key)
        done += connection.execute(
            update(sealed.table).where(mine, columns.sealed == row.sealed).values(sealed=fresh)
        ).rowcount
    return done


def count_by_prefix(connection: Connection, length: int) -> dict[bytes, int]:
    """How many sealed texts there are of each prefix of a length."""
    counted: dict[bytes, int] = {}
    for sealed in SEALED:
        prefix = func.substr(sealed.table.c.sealed, 1, length, type_=LargeBinary).label("prefix")
        for found, count in connection.execute(select(prefix, func.count()).group_by(prefix)):
            counted[bytes(found)] = counted.get(bytes(found), 0) + count
    return counted


def note_origin(connection: Connection, secret: str) -> None:
    """Record the master secret that webhook secrets derive from, unless one is recorded."""
    connection.execute(insert_into(connection, webhook_origin).values(id=_ID, secret=secret).on_conflict_do_nothing())


def change_origin(connection: Connection, secret: str) -> None:
    """Have webhook secrets without a row derive from another master secret."""
    connection.execute(update(webhook_origin).values(secret=secret))


def find_origin(connection: Connection) -> str | None:
    """The master secret that webhook secrets without a row derive from."""
    found: str | None = connection.scalar(select(webhook_origin.c.secret))
    return found


def webhook_secrets_of(connection: Connection, workspace_ids: Iterable[str]) -> dict[str, dict[int, bytes]]:
    """The sealed webhook secrets of some workspaces, by their numbers."""
    found: dict[str, dict[int, bytes]] = {id_: {} for id_ in workspace_ids}
    if found:
        for row in connection.execute(select(webhook_secrets).where(webhook_secrets.c.workspace_id.in_([*found]))):
            found[row.workspace_id][row.number] = row.sealed
    return found


def keep_webhook_secrets(connection: Connection, rows: Sequence[tuple[str, int, bytes]]) -> None:
    """Store webhook secrets of workspaces, by their numbers, unless they are stored already."""
    for workspace_id, number, sealed in rows:
        connection.execute(
            insert_into(connection, webhook_secrets)
            .values(workspace_id=workspace_id, number=number, sealed=sealed)
            .on_conflict_do_nothing()
        )


def forget_webhook_secrets(connection: Connection, workspace_id: str, before: int) -> None:
    """Delete the webhook secrets of a workspace before one of them."""
    old = (webhook_secrets.c.workspace_id == workspace_id) & (webhook_secrets.c.number < before)
    connection.execute(delete(webhook_secrets).where(old))


def derived_webhook_secrets(connection: Connection, after: str, limit: int) -> list[tuple[str, int]]:
    """Workspaces after one of them whose newest webhook secret, or the one before it, has no row; with its number."""
    newest = workspaces.c.webhook_secret
    kept = (
        select(func.count())
        .where(webhook_secrets.c.workspace_id == workspaces.c.id, webhook_secrets.c.number.in_((newest, newest - 1)))
        .scalar_subquery()
    )
    found = (
        select(workspaces.c.id, newest)
        .where(workspaces.c.id > after, (kept == 0) | ((kept == 1) & (newest > 0)))
        .order_by(workspaces.c.id)
        .limit(limit)
    )
    return [(id_, number) for id_, number in connection.execute(found)]
