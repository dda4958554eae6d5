"""Whether this server's store for files is the one that all servers of the installation share.

The database records a marker, and the store has an object of that name. The first server of an installation marks its
store and records it; every other one finds the marker in its own, or knows that it looks at another store. Then it
writes and removes nothing, as while a store is away: a blob that only this server could find would be lost for callers
of all others, and files of another installation must not be swept.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from fairlead.clock import Clock, new_id
from fairlead.domain.faults import InternalError, ServiceUnavailable
from fairlead.observing.blobs import BlobStoreProven, BlobStoreUnproven
from fairlead.observing.observations import Observer
from fairlead.storage.blobs.errors import BlobsUnavailableError, StoreUnprovenError
from fairlead.storage.blobs.gate import StoreGate, StoreState
from fairlead.storage.blobs.markers import Markers, StoreMarkers
from fairlead.storage.blobs.references import record_marker, recorded_marker, replace_marker
from fairlead.storage.db.database import Database, DatabaseUnavailableError

_PROVEN_SECONDS: Final = 30.0
"""How long a proven store counts as the right one: a folder may be unmounted under a running server."""
_SHOWN: Final = 400
_ELSEWHERE: Final = (
    "This server cannot find the stored bytes: its store for files is not known to be the one that all servers share. "
    "Its operator is told; ask again, as another server may have them."
)
REASONS: Final[Mapping[StoreState, str]] = {
    StoreState.UNKNOWN: "the store for files could not be reached yet",
    StoreState.OURS: "",
    StoreState.UNMARKED: "the store for files is not the one that this installation has recorded: it has no marker",
    StoreState.FOREIGN: "the store for files has the marker of another installation, or of another database",
}


class MarkedBlobs(Protocol):
    """Blobs whose store can be marked."""

    @property
    def gate(self) -> StoreGate:
        """The state of the store, as far as it is known."""
        ...

    @property
    def markers(self) -> StoreMarkers:
        """The markers in the store."""
        ...


class ForeignStoreError(Exception):
    """The store has the marker of another installation."""


class SharedStore:
    """Proves the store of this server, and reports the result to its gate and to the operator.

    `is_private` says that no other server can have this database or this store: it is then marked again where its
    marker is lost, because no other store is possible.
    """

    def __init__(
        self, database: Database, blobs: MarkedBlobs, clock: Clock, observe: Observer, *, is_private: bool
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._observe = observe
        self._is_private = is_private
        self._good_until = 0.0
        self._observed: StoreState | None = None

    async def prove(self) -> None:
        """Look at the store, unless it was proven less than half a minute ago. Raises nothing but cancellation."""
        now = asyncio.get_running_loop().time()
        if now < self._good_until:
            return
        gate = self._blobs.gate
        was_marked = False
        try:
            state, was_marked = await self._state()
            gate.learn(state, REASONS[state])
        except BlobsUnavailableError as error:  # one that was proven stays so: what it cannot do, it says itself
            if gate.state is not StoreState.OURS:
                gate.learn(StoreState.UNKNOWN, f"{REASONS[StoreState.UNKNOWN]}: {_show(error)}")
        except DatabaseUnavailableError as error:
            if gate.state is not StoreState.OURS:
                gate.learn(StoreState.UNKNOWN, f"the database cannot say which store is the right one: {error}")
        if gate.state is StoreState.OURS:
            self._good_until = now + _PROVEN_SECONDS
        self._tell(gate, was_marked=was_marked)

    def _tell(self, gate: StoreGate, *, was_marked: bool) -> None:
        if gate.state is self._observed:
            return
        self._observed = gate.state
        is_proven = gate.state is StoreState.OURS
        self._observe(BlobStoreProven(was_marked) if is_proven else BlobStoreUnproven(gate.state.value, gate.reason))

    async def _state(self) -> tuple[StoreState, bool]:
        """The state of the store, and whether it was marked just now."""
        markers = self._blobs.markers
        found = await markers.read()  # first: a marker of ours that it has is recorded by then
        recorded = await self._database.read(recorded_marker)
        if recorded is None:
            if found.established and not self._is_private:
                return StoreState.FOREIGN, False
            recorded, found = await self._record(found)
        elif compare(recorded, found) is not StoreState.OURS:  # another server may have marked it since
            found = await markers.read()
        state = compare(recorded, found)
        if state is StoreState.OURS and recorded in found.established:
            return state, False
        if state is not StoreState.OURS and not self._is_private:
            return state, False
        await markers.establish(recorded)
        return StoreState.OURS, True

    async def _record(self, found: Markers) -> tuple[str, Markers]:
        """Record this store where none is: the marker that the database has then, and those that the store has."""
        known = min(found.established | found.proposed, default=None)
        marker = known or new_id()
        if known is None:
            await self._blobs.markers.propose(marker)
        now = self._clock.now_ms()
        recorded = await self._database.write(lambda c: record_marker(c, marker, now))
        return recorded, await self._blobs.markers.read()


def _show(error: Exception) -> str:
    """An error of a store on one line: some of them come with the whole answer."""
    return " ".join(str(error).split())[:_SHOWN]


def compare(recorded: str, found: Markers) -> StoreState:
    """The state of a store with these markers, where the database has recorded one."""
    if recorded in found.established or recorded in found.proposed:
        return StoreState.OURS
    return StoreState.FOREIGN if found.established else StoreState.UNMARKED


async def look_at_store(database: Database, blobs: MarkedBlobs) -> StoreState | None:
    """The state of a store, without changing anything; None where no store is recorded and this one is free.

    BlobsUnavailableError, DatabaseUnavailableError.
    """
    recorded = await database.read(recorded_marker)
    found = await blobs.markers.read()
    if recorded is None:
        return StoreState.FOREIGN if found.established else None
    return compare(recorded, found)


async def adopt_store(database: Database, blobs: MarkedBlobs, clock: Clock, *, from_another: bool = False) -> None:
    """Record a store as the installation's, replacing the one before.

    ForeignStoreError where it has the marker of another installation, unless it is to be taken `from_another`, whose
    servers then find their marker missing. BlobsUnavailableError, DatabaseUnavailableError.
    """
    others = (await blobs.markers.read()).established - {await database.read(recorded_marker)}
    if others and not from_another:
        raise ForeignStoreError
    marker = new_id()
    await blobs.markers.establish(marker)
    await database.write(lambda c: replace_marker(c, marker, clock.now_ms()))
    for other in others:
        await blobs.markers.remove(other)


def unreadable_fault(error: BlobsUnavailableError, otherwise: str) -> ServiceUnavailable:
    """The message for stored bytes that cannot be read now; `otherwise` unless this server has another store."""
    return ServiceUnavailable(_ELSEWHERE if isinstance(error, StoreUnprovenError) else otherwise)


def lost_fault() -> InternalError:
    """The message for stored bytes that are gone though a row still names them: not found would hide the loss."""
    return InternalError("The stored bytes are lost. The server's operator is told.")


def damaged_fault() -> InternalError:
    """The message for stored bytes that differ from those that were stored."""
    return InternalError("The stored bytes are damaged, and are not sent. The server's operator is told.")
