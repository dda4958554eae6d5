"""The statements that find work, made once for each table of work; and the servers whose work it is."""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    bindparam,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)

from fairlead.domain.runs.states import WORKING
from fairlead.storage.db.statements import is_sqlite
from fairlead.storage.db.tables import runs, servers, workspaces
from fairlead.storage.work.released import ReleasedLookup


class OwnedWork(msgspec.Struct, frozen=True):
    """Work that a server has claimed, as far as another must know it to take it over."""

    id: str
    workspace_id: str
    attempt: int


class Room(msgspec.Struct, frozen=True):
    """Workspaces in which work is parked though a slot is free.

    `depth` is how much work waits in all queues, and how much of that is parked; None where that is not counted.
    """

    workspace_ids: Sequence[str]
    depth: tuple[int, int] | None = None


def in_state(table: Table, states: Iterable[enum.StrEnum]) -> ColumnElement[bool]:
    """The condition that a row is in one of some states.

    The states are literals in the order in which the partial indexes name them: with parameters no planner would use
    those indexes.
    """
    return or_(*(table.c.state == literal_column(f"'{state.value}'") for state in sorted(states)))


_DATABASE_TIME: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")


def database_time(connection: Connection, machine_ms: int) -> int:
    """The time in ms since 1970 by the clock of the database: SQLite has the machine's, given as `machine_ms`."""
    return machine_ms if is_sqlite(connection) else int(connection.execute(_DATABASE_TIME).scalar_one())


def announce_server(connection: Connection, server_id: str, now: int, forget_before: int) -> None:
    """Say that a server is alive: its work is its own until it falls silent. Forgets servers long silent."""
    if connection.execute(update(servers).where(servers.c.id == server_id).values(seen_at=now)).rowcount == 0:
        connection.execute(insert(servers).values(id=server_id, seen_at=now))
    owners = select(runs.c.server_id).where(in_state(runs, WORKING))
    connection.execute(servers.delete().where(servers.c.seen_at < forget_before, servers.c.id.not_in(owners)))


class WorkTable:
    """Finds work of one kind in its `table`.

    The table has the columns `id`, `workspace_id`, `state`, `attempt`, `server_id` and `created_at`, and an index
    `ix_<table>_released` (`storage.work.released`).

    `number` is the column by which the work of a workspace is in order, and `begun_at` says when the server of a row
    took it. The conditions repeat the words of the table's partial indexes: `is_waiting`, `is_working`, `is_cancelled`
    (of work that is executed) and `is_queued`, which includes what waits. `parked` counts the parked work of a
    workspace, `has_room` says whether some of that may have a slot, and `waiting` counts all that waits.
    """

    def __init__(
        self,
        table: Table,
        *,
        number: Column[int],
        begun_at: ColumnElement[int],
        is_waiting: ColumnElement[bool],
        is_queued: ColumnElement[bool],
        is_working: ColumnElement[bool],
        is_cancelled: ColumnElement[bool],
        parked: Column[int],
        has_room: ColumnElement[bool],
        waiting: Column[int] | None = None,
    ) -> None:
        owned = select(table.c.id, table.c.workspace_id, table.c.attempt).where(is_working)
        self._released: Final = ReleasedLookup(table, number)
        self._ahead: Final = (
            select(func.count())
            .select_from(table)
            .where(table.c.workspace_id == bindparam("workspace"), is_waiting, number < bindparam("before"))
        )
        self._late: Final = (
            select(table.c.id, table.c.workspace_id)
            .where(is_queued, is_waiting, table.c.created_at < bindparam("before"))
            .order_by(table.c.created_at)
            .limit(bindparam("most"))
        )
        self._cancelled: Final = select(table.c.id).where(table.c.server_id == bindparam("server"), is_cancelled)
        self._with_room: Final = (
            select(workspaces.c.id)
            .where(parked > 0, has_room)
            .order_by(
                func.random()
            )  # where some are held back by another cap, the same must not stand first every time
            .limit(bindparam("most"))
        )
        self._depth: Final = (
            None if waiting is None else select(func.coalesce(func.sum(waiting), 0), func.coalesce(func.sum(parked), 0))
        )
        # The servers that work belongs to are asked for apart from the work: together, SQLite would read every row.
        self._owners: Final = select(table.c.server_id).where(is_working).distinct()
        self._of_owners: Final = (
            owned.where(table.c.server_id.in_(bindparam("owners", expanding=True)))
            .order_by(table.c.id)
            .limit(bindparam("most"))
        )
        self._owned: Final = owned.where(table.c.server_id == bindparam("server"), begun_at < bindparam("before"))

    def find_released(self, connection: Connection, behind: str, limit: int) -> Sequence[tuple[str, str]]:
        """Work that waits for a server, some of each workspace, as `ReleasedLookup.find` says."""
        return self._released.find(connection, behind, limit)

    def count_ahead(self, connection: Connection, workspace_id: str, number: int) -> int:
        """How much work of a workspace waits that was queued before the one of a number."""
        return int(connection.execute(self._ahead, {"workspace": workspace_id, "before": number}).scalar_one())

    def waiting_since(self, connection: Connection, before: int, limit: int) -> Sequence[tuple[str, str]]:
        """Work that has waited since before a time (ms), the oldest first: its ids, and those of its workspaces."""
        return [(row[0], row[1]) for row in connection.execute(self._late, {"before": before, "most": limit})]

    def cancelled(self, connection: Connection, server_id: str) -> Sequence[str]:
        """What a server has executed that was cancelled."""
        return [row[0] for row in connection.execute(self._cancelled, {"server": server_id})]

    def room(self, connection: Connection, limit: int) -> Room:
        """Workspaces in which work is parked though a slot is free: their limits were raised."""
        found = [row[0] for row in connection.execute(self._with_room, {"most": limit})]
        if self._depth is None:
            return Room(found)
        waiting, parked = connection.execute(self._depth).one()
        return Room(found, (int(waiting), int(parked)))

    def orphans(self, connection: Connection, server_id: str, silent_since: int, limit: int) -> Sequence[OwnedWork]:
        """Work of servers that were not seen since a time (ms), other than the one that asks."""
        owners = set(connection.execute(self._owners).scalars())
        alive = connection.execute(select(servers.c.id).where(servers.c.seen_at > silent_since)).scalars()
        silent = sorted(owner for owner in owners - {server_id, *alive} if owner is not None)
        if not silent:
            return []
        return [OwnedWork(*row) for row in connection.execute(self._of_owners, {"owners": silent, "most": limit})]

    def owned(self, connection: Connection, server_id: str, begun_before: int) -> Sequence[OwnedWork]:
        """The work a server has claimed, and took before a time (ms)."""
        return [
            OwnedWork(*row) for row in connection.execute(self._owned, {"server": server_id, "before": begun_before})
        ]
