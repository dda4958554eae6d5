"""The queue of one kind of work as a server works on it: claims, room, cancellations, expiries, takeovers."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import FaultError
from fairlead.domain.work.entries import Claim, Release, Released, Superseded
from fairlead.observing.observations import DatabaseTrouble, Observer, QueueDepth, UnexpectedError
from fairlead.operations.work.places import Reservation
from fairlead.operations.work.presence import ServerPresence
from fairlead.operations.work.store import WorkStore
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.work.table import FoundWork, OwnedWork, Takers, WorkTable

FOUND_AT_ONCE: Final = 500
TAKEN_AT_ONCE: Final = 100
STRAY_AFTER_MS: Final = 60_000
"""Far longer than it takes from the commit of a claim, or of an admission, to the execution."""
_FROM_THE_FIRST: Final[Mapping[str, str]] = MappingProxyType({})

Entry = TypeVar("Entry")
Begun_co = TypeVar("Begun_co", covariant=True)
T = TypeVar("T")


class WorkKind(Protocol[Entry, Begun_co]):
    """What differs between kinds of work: what is executed, and what is settled. `noun` names it, such as "runs"."""

    @property
    def noun(self) -> str:
        """The name of this work in observations: "runs" or "jobs"."""
        ...

    @property
    def table(self) -> WorkTable:
        """The storage of its queue."""
        ...

    def ids_here(self) -> Collection[str]:
        """The work that is executed here."""
        ...

    async def begin(self, claim: Claim, verdict: Any, reservation: Reservation | None) -> Begun_co | None:
        """Have claimed work executed; None where that is not possible.

        The reserved place may be given back before the work has ended, so that the next claim is written together with
        its end.
        """
        ...

    def cancel(self, ids: Collection[str]) -> None:
        """Stop those of some cancelled pieces of work that are executed here."""
        ...

    def expiry(self, id_: str, workspace_id: str, now: int) -> Entry:
        """The entry that ends work which has waited too long."""
        ...

    def note_expiry(self, entry: Entry, verdict: Any) -> bool:
        """Report work that has waited too long, if the verdict says that the entry ended it; returns whether it did."""
        ...

    def can_take_over(self) -> bool:
        """Whether there is room for work of other servers."""
        ...

    def takeover(self, orphan: OwnedWork, now: int) -> Entry:
        """The entry that takes work over."""
        ...

    async def go_on(self, taken: Sequence[tuple[Any, Any]]) -> None:
        """Go on with work that was taken over, or report it: entries and their verdicts."""
        ...

    async def end_strays(self, strays: Sequence[OwnedWork]) -> Sequence[OwnedWork]:
        """End or release work that this server has lost; the rest is taken over like the work of others."""
        ...


class WorkQueue(msgspec.Struct, Generic[Entry, Begun_co], frozen=True):
    """Takes work of one kind for the server of `presence`. Work waits for at most `timeout_ms`."""

    kind: WorkKind[Entry, Begun_co]
    database: Database
    store: WorkStore[Any, Any]
    clock: Clock
    observe: Observer
    presence: ServerPresence
    timeout_ms: int
    claiming: set[str] = msgspec.field(default_factory=set)
    """Work that is being claimed: it is this server's, and its row may be old by the time it begins."""

    async def claim(self, id_: str, workspace_id: str, reservation: Reservation | None = None) -> Begun_co | None:
        """Claim released work and have it executed; None when another server has it, or it cannot be executed.

        A claim whose outcome is unknown is written again until it is known, because a forgotten claim would hold up its
        work. So there is only one claim of a piece of work at a time: two of this server within a millisecond would
        look like a repeated one.
        """
        if id_ in self.claiming or id_ in self.kind.ids_here():
            return None
        self.claiming.add(id_)
        try:
            entry = Claim(id_, workspace_id, self.presence.server_id, self.clock.now_ms())
            verdict = await self.store.write_at_last(entry)
            return None if isinstance(verdict, Superseded) else await self.kind.begin(entry, verdict, reservation)
        finally:
            self.claiming.discard(id_)

    async def find_released(self, behind: Mapping[str, str] = _FROM_THE_FIRST) -> Sequence[Released]:
        """Work of the server's pools that waits, some of each workspace; this finds work whose wake-up was lost.

        In each pool the workspaces after the one in `behind` come first.
        """
        table, pools = self.kind.table, self.presence.pools
        found = await self._find("find released", lambda c: table.find_released_in(c, pools, behind, FOUND_AT_ONCE))
        return found or []

    async def look(self) -> FoundWork | None:
        """Find what has to be done for work, to be passed to the three methods below; None without the database."""
        asked = self.presence.server_id, self.clock.now_ms(), self.timeout_ms, FOUND_AT_ONCE
        return await self._find("look after", lambda c: self.kind.table.look(c, *asked))

    def pass_on_cancels(self, found: FoundWork) -> None:
        """Stop the work executed here that was cancelled at any server."""
        if found.cancelled:
            self.kind.cancel(frozenset(found.cancelled))

    async def use_room(self, found: FoundWork) -> None:
        """Give slots to parked work of workspaces that have free ones: limits were raised, or its time has come."""
        if found.room.depth is not None:
            self.observe(QueueDepth(*found.room.depth))
        await self._write_each([Release(workspace_id) for workspace_id in found.room.workspace_ids])

    async def time_out(self, found: FoundWork) -> int:
        """End the work that has waited too long, and return how much it was."""
        now = self.clock.now_ms()
        written = await self._write_each([self.kind.expiry(id_, workspace_id, now) for id_, workspace_id in found.late])
        return sum(self.kind.note_expiry(entry, verdict) for entry, verdict in written)

    async def take_over(self) -> int:
        """Take over a batch of work whose server fell silent; how much that was, 0 also where there is no room."""
        presence, table = self.presence, self.kind.table
        if not (presence.may_take_over and self.kind.can_take_over()):
            return 0
        found = await self._find(
            "take over",
            lambda c: table.orphans(
                c,
                presence.server_id,
                presence.silent_since(c),
                TAKEN_AT_ONCE,
                Takers(presence.pools, presence.takes_synchronous),
            ),
        )
        return await self._take(found or ())

    async def end_strays(self) -> int:
        """Handle work of this server that it knows nothing of, and return how much there was.

        A database that goes away while it commits may have stored a claim or a takeover whose result this server never
        got.
        """
        known = self.claiming.union(self.kind.ids_here())
        server_id, before = self.presence.server_id, self.clock.now_ms() - STRAY_AFTER_MS
        owned = await self._find("find stray", lambda c: self.kind.table.find_owned(c, server_id, before))
        strays = [found for found in owned or () if found.id not in known]
        await self._take(await self.kind.end_strays(strays))
        return len(strays)

    async def _take(self, found: Sequence[OwnedWork]) -> int:
        now = self.clock.now_ms()
        written = await self._write_each([self.kind.takeover(one, now) for one in found])
        taken = [(entry, verdict) for entry, verdict in written if not isinstance(verdict, Superseded)]
        await self.kind.go_on(taken)
        return len(taken)

    async def _find(self, doing: str, work: Work[T]) -> T | None:
        """The result of a search that is repeated soon: None while the database is away."""
        try:
            return await self.database.read(work)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble(f"{doing} {self.kind.noun}", str(error)))
            return None

    async def _write_each(self, entries: Sequence[T]) -> Sequence[tuple[T, object]]:
        """Write entries about work that is found again if they cannot be written; those written, with verdicts."""
        if not entries:
            return ()
        said = await asyncio.gather(*(self.store.write(entry) for entry in entries), return_exceptions=True)
        for one in said:
            if isinstance(one, Exception) and not isinstance(one, FaultError):
                self.observe(UnexpectedError(f"write about {self.kind.noun}", one))
        return [(entry, one) for entry, one in zip(entries, said, strict=True) if not isinstance(one, BaseException)]
