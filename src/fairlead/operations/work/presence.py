"""A server's lease on its work, renewed by a sign of life; its times are those of the database's clock (M-01)."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from fairlead.clock import Clock
from fairlead.domain.work.pools import DEFAULT_POOL, WorkedPools
from fairlead.observing.observations import ClockCompared, DatabaseTrouble, Observer
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction
from fairlead.storage.work.table import announce_server, database_time

_FORGET_AFTER_MS: Final = 86_400_000
_NEVER: Final = 0
_USUAL_POOLS: Final = WorkedPools()


class ServerPresence:
    """Renews the lease of the server `server_id`, and knows which other leases have run out.

    `alone`: no other server can share the database (an exclusive data directory). Otherwise a server counts as dead
    that was silent for `silent_ms`. After an outage of the database all look dead: a server takes no work from others
    until it has renewed its own lease for that long without a gap, in which all living servers have renewed theirs. It
    works for `pools`: it claims what is queued in them, and goes on with it where another server fell silent. Where it
    `takes_synchronous` runs, it goes on with those, too. It announces the pools whose new work it `executes`, so that
    pools without a server are noticed: none for a kind of work that it has no places for.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        observe: Observer,
        server_id: str,
        *,
        alone: bool,
        silent_ms: int,
        pools: Sequence[str] = (DEFAULT_POOL,),
        takes_synchronous: bool = True,
        executes: WorkedPools = _USUAL_POOLS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server_id: Final = server_id
        self.silent_ms: Final = silent_ms
        self.pools: Final = tuple(dict.fromkeys(pools))
        self.takes_synchronous: Final = takes_synchronous
        self._executes = executes
        self._database = database
        self._clock = clock
        self._observe = observe
        self._alone = alone
        self._monotonic = monotonic
        self._renewed_at: float | None = None
        """By the monotonic clock; None before the first time, and after a failure."""
        self._renewed_at_ms = _NEVER
        """The same by the database's clock."""
        self._unbroken_since = 0.0

    async def announce(self) -> None:
        """Renew this server's lease, and delete servers that were silent for long."""
        try:
            now_ms, ahead = await self._database.write(self.announce_in)
        except DatabaseUnavailableError as error:
            self._renewed_at = None
            self._observe(DatabaseTrouble("announce", str(error)))
            return
        self._note_renewal(now_ms)
        self._observe(ClockCompared(ahead))

    def announce_in(self, connection: Transaction) -> tuple[int, float]:
        """The same, within a transaction; the time (ms) by the database's clock, and how far ours is ahead (s)."""
        now, ahead = compare_clocks(connection, self._clock)
        announce_server(connection, self.server_id, now, now - _FORGET_AFTER_MS, self._executes)
        return now, ahead

    @property
    def may_take_over(self) -> bool:
        """Whether this server can tell which others are alive."""
        if self._alone:
            return True
        if self._renewed_at is None:
            return False
        now = self._monotonic()
        is_current = (now - self._renewed_at) * 1000 < self.silent_ms
        return is_current and (now - self._unbroken_since) * 1000 >= self.silent_ms

    def silent_since(self, connection: Transaction) -> int:
        """The time (ms), by the database's clock, since which a server is dead that was not seen."""
        now = database_time(connection, self._clock.now_ms())
        if self._alone:
            return now
        # A clock that was set since this server renewed its lease proves nothing about the others.
        return now - self.silent_ms if abs(now - self._renewed_at_ms) < self.silent_ms else _NEVER

    def _note_renewal(self, now_ms: int) -> None:
        now = self._monotonic()
        is_next = (
            self._renewed_at is not None
            and max((now - self._renewed_at) * 1000, abs(now_ms - self._renewed_at_ms)) < self.silent_ms
        )
        if not is_next:
            self._unbroken_since = now
        self._renewed_at, self._renewed_at_ms = now, now_ms


async def clock_ahead(database: Database, clock: Clock) -> float:
    """How many seconds this machine's clock is ahead of the database's; DatabaseUnavailableError."""
    _, ahead = await database.read(lambda c: compare_clocks(c, clock))
    return ahead


def compare_clocks(connection: Transaction, clock: Clock) -> tuple[int, float]:
    """The time (ms) by the database's clock, and how many seconds this machine's is ahead of it."""
    return clock.compare(lambda: database_time(connection, clock.now_ms()))
