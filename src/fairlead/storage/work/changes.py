"""Changes of queued work in its row: released, claimed, taken over, cancelled; made for each table of work.

A row changes under the lock of its workspace. The caller handles all other effects: for runs slots and money, for jobs
slots and events.
"""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Table,
    bindparam,
    func,
    literal_column,
    select,
    update,
)

from fairlead.domain.work.entries import Claim, TakeOver
from fairlead.storage.db.statements import Prepared, PreparedLookup, PreparedQuery, Rows, run_together

State = TypeVar("State", bound=enum.StrEnum)
_Row: TypeAlias = tuple[object, ...]
_PARKED: Final = "parked"
_RELEASED: Final = "released"
_ANY_SIZE: Final = 2**62


class LockedWork(msgspec.Struct):
    """The state of work in its row: as it is found, then as each entry leaves it; locked until all is written.

    `begun_at` (ms) is when its server claimed it.
    """

    id: str
    workspace_id: str
    state: str
    attempt: int
    server_id: str | None
    begun_at: int | None

    @property
    def found(self) -> tuple[str, int, str]:
        """The values that an update (`WorkRows.update`) expects in the row; they come last."""
        return self.id, self.attempt, self.state


class RowChanges(msgspec.Struct):
    """The changes of a batch to rows, by statement: first the first change of every row, then the second ones."""

    rounds: list[dict[Prepared, list[_Row]]] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, id_: str, statement: Prepared, *values: object) -> None:
        """Add a statement for a row, to be executed after those added for it before."""
        # A statement for many rows changes each of them once, so a second change of a row needs another round.
        number = self.counts.get(id_, 0)
        self.counts[id_] = number + 1
        if number == len(self.rounds):
            self.rounds.append(defaultdict(list))
        self.rounds[number][statement].append(values)

    def write(self, connection: Connection) -> None:
        """Execute them."""
        for statements in self.rounds:
            run_together(connection, *statements.items())


class WorkRows:
    """The rows of a `table` of work, which has the columns that `storage.work.table.WorkTable` names.

    `more` columns are read of a row that is locked. `claimed` is the state of claimed work; `taken_over` is its state
    after a takeover, for every state in which a server has it. The condition `parked` is that of the index in which
    parked work is in the order of `number`; `size` is compared with the free room, and `not_before` (ms) with the time.
    A table with `updated_at` says when
    its rows have changed.
    """

    def __init__(
        self,
        table: Table,
        *,
        number: Column[int],
        begun_at: Column[int],
        parked: ColumnElement[bool],
        claimed: enum.StrEnum,
        taken_over: Mapping[State, enum.StrEnum],
        more: Sequence[Column[object]] = (),
        size: ColumnElement[int] = literal_column("0"),  # noqa: B008 -- it is never changed
        not_before: ColumnElement[int] = literal_column("0"),  # noqa: B008 -- same
        updated_at: Column[int] | None = None,
    ) -> None:
        read = table.c.id, table.c.workspace_id, table.c.state, table.c.attempt, table.c.server_id, begun_at, *more
        dated = () if updated_at is None else (updated_at.name,)
        self._table: Final = table
        self._is_dated: Final = bool(dated)
        self._claimed: Final = claimed.value
        self._taken_over: Final = {state.value: after.value for state, after in taken_over.items()}
        self._lock: Final = PreparedLookup(
            lambda one_of: select(*read).where(one_of(table.c.id)).order_by(table.c.id).with_for_update()
        )
        self._parked: Final = PreparedQuery(
            select(table.c.id, size, table.c.pool)
            .where(
                table.c.workspace_id == bindparam("workspace"),
                size < bindparam("below", type_=BigInteger),
                not_before <= bindparam("now", type_=BigInteger),
                parked,
                table.c.state == literal_column(f"'{_PARKED}'"),
            )
            .order_by(number)
            .limit(bindparam("most"))
            .offset(literal_column("0")),  # otherwise the dialect of SQLite adds a parameter
            ("workspace", "below", "now", "most"),
        )
        self._release: Final = Prepared(
            update(table)
            .where(table.c.id == bindparam("work"), table.c.state == literal_column(f"'{_PARKED}'"))
            .values(state=literal_column(f"'{_RELEASED}'")),
            ("work",),
        )
        self._claim: Final = self.update("state", "attempt", "server_id", *dated, begun_at.name)
        self._take_over: Final = self.update("state", "attempt", "server_id", *dated)
        self._note_cancel: Final = self.update("state", "cancel_requested_at", *dated)

    def update(self, *names: str) -> Prepared:
        """An UPDATE of columns, named in the order of the table, of a row that is still as it was `found`.

        A cancellation that was requested before stays the one that counts.
        """
        table = self._table
        values: dict[str, ColumnElement[object]] = {name: bindparam(name, type_=table.c[name].type) for name in names}
        if (requested := values.get("cancel_requested_at")) is not None:
            values["cancel_requested_at"] = func.coalesce(table.c.cancel_requested_at, requested)
        statement = update(table).values(values)
        for name, column in {"work": "id", "of_attempt": "attempt", "of_state": "state"}.items():
            statement = statement.where(table.c[column] == bindparam(name))
        return Prepared(statement, [*names, "work", "of_attempt", "of_state"], primary_key="work")

    def lock(self, connection: Connection, ids: Sequence[str]) -> Rows:
        """Lock rows, in the order of their ids; the fields of a `LockedWork`, then what is read in addition."""
        return self._lock.run(connection, ids)

    def claim(self, changes: RowChanges, entry: Claim, row: LockedWork) -> bool | None:
        """Gather a claim of released work; False where this entry was written before, None where it is too late."""
        if row.state != _RELEASED:
            is_repeated = (row.server_id, row.begun_at) == (entry.server_id, entry.at)
            return False if is_repeated and row.state in self._taken_over else None
        dated = (entry.at,) if self._is_dated else ()
        new = self._claimed, row.attempt + 1, entry.server_id
        changes.add(row.id, self._claim, *new, *dated, entry.at, *row.found)
        row.state, row.attempt, row.server_id = new
        row.begun_at = entry.at
        return True

    def take_over(self, changes: RowChanges, entry: TakeOver, row: LockedWork) -> bool:
        """Gather a takeover: the other server goes on with a new attempt, or the work has no server then; or False."""
        state = self._taken_over.get(row.state)
        if state is None or row.attempt != entry.attempt:
            return False
        # The states from which work can be taken over are those in which a server has it.
        goes_on = state in self._taken_over
        new = state, row.attempt + goes_on, entry.server_id if goes_on else None
        changes.add(row.id, self._take_over, *new, *((entry.at,) if self._is_dated else ()), *row.found)
        row.state, row.attempt, row.server_id = new
        return True

    def note_cancel(self, changes: RowChanges, row: LockedWork, state: str, at: int) -> None:
        """Gather the cancellation of work that a server has."""
        changes.add(row.id, self._note_cancel, state, at, *((at,) if self._is_dated else ()), *row.found)
        row.state = state

    def oldest_parked(
        self, connection: Connection, workspace_id: str, most: int, below: int = _ANY_SIZE, now: int = _ANY_SIZE
    ) -> Rows:
        """The parked work of a workspace that was queued first, of sizes below a bound: ids, sizes and pools.

        Work that must wait until after the time `now` (ms) is left out.
        """
        return self._parked.run(connection, (workspace_id, below, now, most))

    def release(self, connection: Connection, ids: Sequence[str]) -> None:
        """Give slots to parked work."""
        self._release.run(connection, [(id_,) for id_ in ids])
