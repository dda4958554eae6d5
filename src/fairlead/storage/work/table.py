"""The statements that find work, made once for each table of work; and the servers that own it."""

import enum
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Table,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from fairlead.domain.runs.states import WORKING
from fairlead.domain.work.entries import Released
from fairlead.domain.work.pools import DEFAULT_POOL, WorkedPools
from fairlead.storage.db.figures import DatabaseFigures, read_figures
from fairlead.storage.db.migrate import HEAD
from fairlead.storage.db.statements import DATABASE_TIME, PreparedQuery, is_sqlite
from fairlead.storage.db.tables import runs, servers, workspaces
from fairlead.storage.work.released import ReleasedLookup


class OwnedWork(msgspec.Struct, frozen=True):
    """Work that a server has claimed, with what another needs to take it over."""

    id: str
    workspace_id: str
    attempt: int


class Takers(msgspec.Struct, frozen=True):
    """What a server may take over: queued work of some pools, and synchronous runs."""

    pools: Sequence[str] = (DEFAULT_POOL,)
    takes_synchronous: bool = True


_ANY_TAKER: Final = Takers()


class Room(msgspec.Struct, frozen=True):
    """Workspaces in which work is parked though a slot is free.

    `depth` is how much work waits in all queues, and how much of it is parked; None where it is not counted.
    """

    workspace_ids: Sequence[str]
    depth: tuple[int, int] | None = None


class Backlog(msgspec.Struct, frozen=True):
    """The work of one kind that waits in all workspaces of a subscription, which is their class.

    `parked` is how much of it waits for a slot of its workspace; `oldest_at` (ms) is when the oldest of it was queued,
    None where nothing waits.
    """

    subscription: str
    waiting: int
    parked: int
    oldest_at: int | None


class Leases(msgspec.Struct, frozen=True):
    """Servers by their leases on work: how many are `alive`, and the age (ms) of their oldest lease.

    `silent` servers are not alive, and have work that is to be taken over.
    """

    alive: int
    silent: int
    oldest_ms: int


class PoolBacklog(msgspec.Struct, frozen=True):
    """The released work of one kind in a pool, which waits only for a server of the pool.

    `waiting` is how much that is, counted up to a bound. A pool `is_named` by operators: in rules, or as what a server
    works for; others come from deployments. Without `is_worked_for` no server that is alive executes it.
    """

    pool: str
    waiting: int
    is_named: bool
    is_worked_for: bool


class WorkOverview(msgspec.Struct, frozen=True):
    """What one transaction has read at the time `now` (ms) of the database; waiting work by its kind."""

    now: int
    backlogs: Mapping[str, Sequence[Backlog]]
    pools: Mapping[str, Sequence[PoolBacklog]]
    leases: Leases
    figures: DatabaseFigures


class FoundWork(msgspec.Struct, frozen=True):
    """What has to be done for work of one kind.

    `cancelled` are ids of work that the asking server executes, `late` ids and workspaces of work that has waited too
    long, the oldest first.
    """

    cancelled: Sequence[str]
    room: Room
    late: Sequence[tuple[str, str]]


def in_state(table: Table, states: Iterable[enum.StrEnum]) -> ColumnElement[bool]:
    """The condition that a row is in one of some states.

    The states are literals in the order in which the partial indexes name them: with parameters no planner would use
    those indexes.
    """
    return or_(*(table.c.state == literal_column(f"'{state.value}'") for state in sorted(states)))


_encode: Final = msgspec.json.encode
_decode_pools: Final = msgspec.json.Decoder(WorkedPools).decode
_USUAL_POOLS: Final = WorkedPools()
_COUNTED_MOST: Final = 10_000
"""How much released work of a pool is counted at most: counting more would cost more and tell nothing new."""
_OTHER_POOLS_MOST: Final = 100
"""How many pools are looked at that no operator has named."""
_DATABASE_TIME: Final = select(DATABASE_TIME)
AHEAD_MS: Final = 60_000
"""How far a stored time may lie ahead of the database's clock before it is distrusted (T-07)."""
# Statements that servers run every second or two are made once.
_SEEN: Final = update(servers).where(servers.c.id == bindparam("server")).values(seen_at=bindparam("now"))
_SET_BACK: Final = update(servers).where(servers.c.seen_at > bindparam("ahead")).values(seen_at=bindparam("now"))
_FORGET: Final = servers.delete().where(
    servers.c.seen_at < bindparam("before"),
    servers.c.id.not_in(select(runs.c.server_id).where(in_state(runs, WORKING))),
)
_ALIVE: Final = PreparedQuery(select(servers.c.id).where(servers.c.seen_at > bindparam("since")), ("since",))


def database_time(connection: Connection, machine_ms: int) -> int:
    """The time in ms since 1970 by the clock of the database: SQLite has the machine's, given as `machine_ms`."""
    return machine_ms if is_sqlite(connection) else int(connection.execute(_DATABASE_TIME).scalar_one())


def machine_time() -> int:
    """The time in ms since 1970 by the clock of this machine."""
    return time.time_ns() // 1_000_000


def silent_for_ms(connection: Connection, machine_ms: int) -> int | None:
    """How long ago any server was last seen; None where none is known."""
    seen = connection.execute(select(func.max(servers.c.seen_at))).scalar()
    return None if seen is None else database_time(connection, machine_ms) - int(seen)


def announce_server(
    connection: Connection, server_id: str, now: int, forget_before: int, pools: WorkedPools = _USUAL_POOLS
) -> None:
    """Renew the lease of a server on its work, and delete servers that were silent for long.

    A lease that lies ahead was renewed by a clock that has been set back since: it begins again.
    """
    if connection.execute(_SEEN, {"server": server_id, "now": now}).rowcount == 0:
        connection.execute(
            insert(servers).values(id=server_id, seen_at=now, pools=_encode(pools).decode(), revision=HEAD)
        )
    connection.execute(_SET_BACK, {"ahead": now + AHEAD_MS, "now": now})
    connection.execute(_FORGET, {"before": forget_before})


def read_leases(connection: Connection, tables: Iterable["WorkTable"], now: int, silent_ms: int) -> Leases:
    """The leases of all servers at a time (ms) of the database's clock, on the work of some tables."""
    seen = connection.execute(select(servers.c.id, servers.c.seen_at))
    alive = {id_: now - at for id_, at in seen if now - at < silent_ms}
    owners = {owner for table in tables for owner in table.owners(connection)}
    return Leases(len(alive), len(owners - alive.keys()), max(0, *alive.values()) if alive else 0)


def read_overview(
    connection: Connection, tables: Mapping[str, "WorkTable"], machine_ms: int, silent_ms: int, named: Collection[str]
) -> WorkOverview:
    """Read what waits in some tables, by their names, the servers, and the figures of the database.

    `named` are pools that rules name.
    """
    now = database_time(connection, machine_ms)
    return WorkOverview(
        now,
        {kind: table.backlog(connection) for kind, table in tables.items()},
        read_pools(connection, tables, now - silent_ms, named),
        read_leases(connection, tables.values(), now, silent_ms),
        read_figures(connection),
    )


def read_pools(
    connection: Connection, tables: Mapping[str, "WorkTable"], since: int, named: Collection[str]
) -> Mapping[str, Sequence[PoolBacklog]]:
    """What is released by pool, in tables by their names, for servers that were seen since a time (ms).

    `named` are pools that rules name: these, the default and those of servers are included even where nothing waits.
    """
    worked = _pools_worked_for(connection, since)
    known = {DEFAULT_POOL, *named}.union(*worked.values())
    return {kind: table.count_released(connection, known, worked.get(kind, ())) for kind, table in tables.items()}


def _pools_worked_for(connection: Connection, since: int) -> Mapping[str, Collection[str]]:
    """The pools of the servers that were seen since a time (ms), by kind; of old versions they have the default."""
    worked = defaultdict[str, set[str]](set)
    for announced in connection.execute(select(servers.c.pools).where(servers.c.seen_at > since)).scalars():
        found = _USUAL_POOLS if announced is None else _decode_pools(announced)
        for kind, pools in msgspec.structs.asdict(found).items():
            worked[kind].update(pools)
    return worked


def _is_takers(table: Table, number: Column[int]) -> ColumnElement[bool]:
    """The condition that a server may take work over: `Takers` as parameters."""
    is_queued = and_(number.is_not(None), table.c.pool.in_(bindparam("pools", expanding=True)))
    return or_(is_queued, and_(number.is_(None), bindparam("synchronous", type_=Boolean)))


class WorkTable:
    """Finds work of one kind in its `table`.

    The table has the columns `id`, `workspace_id`, `state`, `attempt`, `server_id`, `created_at` and `pool`, and an
    index `ix_<table>_released_pool` (`storage.work.released`).

    `number` is the column by which the work of a workspace is in order, and `begun_at` says when the server of a row
    took it. The conditions repeat the words of the table's partial indexes: `is_waiting`, `is_working`, `is_cancelled`
    (of work that is executed) and `is_queued`, which includes what waits. `parked` counts the parked work of a
    workspace, `has_room` says whether some of that may have a slot at the time `now`, and `backlog` counts all that
    waits in it; so does `waiting`, where that is known without looking at the work. Work that `goes_on` when it is
    taken over is taken over by a server of its pool; other work waits again for one, so any server may take it over.
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
        backlog: ColumnElement[int],
        waiting: Column[int] | None = None,
        goes_on: bool = False,
    ) -> None:
        owned = select(table.c.id, table.c.workspace_id, table.c.attempt).where(is_working)
        self._released: Final = ReleasedLookup(table, number)
        self._ahead: Final = (
            select(func.count())
            .select_from(table)
            .where(table.c.workspace_id == bindparam("workspace"), is_waiting, number < bindparam("before"))
        )
        self._late: Final = PreparedQuery(
            select(table.c.id, table.c.workspace_id)
            .where(is_queued, is_waiting, table.c.created_at < bindparam("before"))
            .order_by(table.c.created_at)
            .limit(bindparam("most"))
            .offset(literal_column("0")),  # or the dialect of SQLite adds a parameter of its own
            ("before", "most"),
        )
        self._cancelled: Final = PreparedQuery(
            select(table.c.id).where(table.c.server_id == bindparam("server"), is_cancelled), ("server",)
        )
        # Where some are held back by another cap, the same must not stand first every time.
        with_room = select(workspaces.c.id).where(parked > 0, has_room).order_by(func.random())
        self._with_room: Final = with_room.limit(bindparam("most"))
        self._depth: Final = (
            None if waiting is None else select(func.coalesce(func.sum(waiting), 0), func.coalesce(func.sum(parked), 0))
        )
        self._backlog: Final = _backlog(table, number, is_waiting, parked, backlog)
        # The owners of work are read apart from the work, because together SQLite would read every row.
        self._owners: Final = PreparedQuery(select(table.c.server_id).where(is_working).distinct(), ())
        of_owners = owned.where(table.c.server_id.in_(bindparam("owners", expanding=True)))
        of_owners = of_owners.where(_is_takers(table, number)) if goes_on else of_owners
        self._of_owners: Final = of_owners.order_by(table.c.id).limit(bindparam("most"))
        self._goes_on: Final = goes_on
        self._owned: Final = owned.where(table.c.server_id == bindparam("server"), begun_at < bindparam("before"))

    def find_released(self, connection: Connection, pool: str, behind: str, limit: int) -> Sequence[Released]:
        """Work that waits for a server of a pool, some of each workspace, as `ReleasedLookup.find` says."""
        return self._released.find(connection, pool, behind, limit)

    def find_released_in(
        self, connection: Connection, pools: Sequence[str], behind: Mapping[str, str], limit: int
    ) -> Sequence[Released]:
        """The same in several pools, in each of which those behind its workspace in `behind` come first."""
        found = (self.find_released(connection, pool, behind.get(pool, ""), limit) for pool in pools)
        return [one for of_pool in found for one in of_pool]

    def count_released(
        self, connection: Connection, named: Collection[str], worked: Collection[str]
    ) -> Sequence[PoolBacklog]:
        """What waits for a server of its pool: in `named` pools, and in some others that have any.

        `worked` are the pools of the servers that are alive.
        """
        found = self._released.pools(connection, len(named) + _OTHER_POOLS_MOST)
        return [
            PoolBacklog(pool, self._released.count(connection, pool, _COUNTED_MOST), pool in named, pool in worked)
            for pool in sorted({*named, *found})
        ]

    def count_ahead(self, connection: Connection, workspace_id: str, number: int) -> int:
        """How much waiting work of a workspace was queued before a number."""
        return int(connection.execute(self._ahead, {"workspace": workspace_id, "before": number}).scalar_one())

    def look(self, connection: Connection, server_id: str, machine_ms: int, timeout_ms: int, limit: int) -> FoundWork:
        """What has to be done, at most `limit` of each: one read, because servers ask every second."""
        now = database_time(connection, machine_ms)
        late, room = self.waiting_since(connection, now - timeout_ms, limit), self.room(connection, limit, now)
        return FoundWork(self.find_cancelled(connection, server_id), room, late)

    def waiting_since(self, connection: Connection, before: int, limit: int) -> Sequence[tuple[str, str]]:
        """Work that has waited since before a time (ms), the oldest first: its ids, and those of its workspaces."""
        return [(row[0], row[1]) for row in self._late.run(connection, (before, limit))]

    def find_cancelled(self, connection: Connection, server_id: str) -> Sequence[str]:
        """The cancelled work that a server executes."""
        return [row[0] for row in self._cancelled.run(connection, (server_id,))]

    def room(self, connection: Connection, limit: int, now: int) -> Room:
        """Workspaces in which work is parked though a slot is free: their limits were raised, or its time has come."""
        found = [row[0] for row in connection.execute(self._with_room, {"most": limit, "now": now})]
        if self._depth is None:
            return Room(found)
        waiting, parked = connection.execute(self._depth).one()
        return Room(found, (int(waiting), int(parked)))

    def orphans(
        self, connection: Connection, server_id: str, silent_since: int, limit: int, takers: Takers = _ANY_TAKER
    ) -> Sequence[OwnedWork]:
        """Work of servers that were not seen since a time (ms), for the asking server to take over."""
        alive = (row[0] for row in _ALIVE.run(connection, (silent_since,)))
        # Its own work is never an orphan, however old its lease looks: what it has lost is found as strays.
        silent = sorted(self.owners(connection) - {server_id, *alive})
        if not silent:
            return []
        values: dict[str, object] = {"owners": silent, "most": limit}
        if self._goes_on:
            values |= {"pools": list(takers.pools), "synchronous": takers.takes_synchronous}
        return [OwnedWork(*row) for row in connection.execute(self._of_owners, values)]

    def owners(self, connection: Connection) -> set[str]:
        """The servers that have claimed work which has not ended."""
        return {row[0] for row in self._owners.run(connection, ()) if row[0] is not None}

    def backlog(self, connection: Connection) -> Sequence[Backlog]:
        """Waiting work by the subscription of its workspace, for every subscription of a workspace."""
        return [
            Backlog(subscription, int(waiting), int(parked), oldest_at)
            for subscription, waiting, parked, oldest_at in connection.execute(self._backlog)
        ]

    def find_owned(self, connection: Connection, server_id: str, begun_before: int) -> Sequence[OwnedWork]:
        """The work a server has claimed, and took before a time (ms)."""
        return [
            OwnedWork(*row) for row in connection.execute(self._owned, {"server": server_id, "before": begun_before})
        ]


def _backlog(
    table: Table,
    number: Column[int],
    is_waiting: ColumnElement[bool],
    parked: Column[int],
    backlog: ColumnElement[int],
) -> Executable:
    """Add up the waiting work of each workspace; only the first of each is read, and workspaces without any are not."""
    of_workspace = table.c.workspace_id == workspaces.c.id
    oldest = select(table.c.created_at).where(of_workspace, is_waiting).order_by(number).limit(1).scalar_subquery()
    each = select(
        workspaces.c.subscription,
        backlog.label("waiting"),
        parked.label("parked"),
        case((backlog > 0, oldest)).label("oldest"),
    ).subquery()
    sums = func.coalesce(func.sum(each.c.waiting), 0), func.coalesce(func.sum(each.c.parked), 0)
    return select(each.c.subscription, *sums, func.min(each.c.oldest)).group_by(each.c.subscription)
