"""The worker of a queue: claims released work on a wake-up, and looks for work whose wake-up was lost."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead.domain.work.entries import Released
from fairlead.domain.work.round_robin import RoundRobin
from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.work.places import Places, Reservation
from fairlead.operations.work.queue import WorkQueue
from fairlead.workers.periodic import run_periodically

_WAITING_MAX: Final = 10_000
_LOOK_SECONDS: Final = 1.0
_CLAIMS_AT_ONCE: Final = 64
_CLAIMS_SECONDS: Final = 5.0


class ReleasedWork:
    """Released runs or jobs that this server may claim, of several workspaces in turn (S-03).

    What does not fit is found later. What the next search does not find is dropped: another server has claimed it.
    """

    def __init__(self, most: int = _WAITING_MAX) -> None:
        self._waiting = RoundRobin(most)
        self._known = set[str]()
        self._found: dict[str, str] = {}
        self.last_workspaces: dict[str, str] = {}
        """The workspace in each pool at which the last search for released work ended; the next begins after it."""

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, released: Iterable[Released]) -> None:
        """Add work that may be claimed."""
        for one in released:
            self._add(one.id, one.workspace_id)

    def refresh(self, found: Sequence[Released]) -> None:
        """Replace the unclaimed results of the last search by those of a new one."""
        now = {one.id: one.workspace_id for one in found}
        for id_, workspace_id in self._found.items():
            if id_ not in now and self._waiting.remove(id_, workspace_id):
                self._known.discard(id_)
        self._found = {id_: workspace_id for id_, workspace_id in now.items() if self._add(id_, workspace_id)}
        self.last_workspaces.update((one.pool, one.workspace_id) for one in found)

    @property
    def workspaces(self) -> Iterable[str]:
        """The workspaces with work that waits, whose turn is next first."""
        return self._waiting.owners

    def take(self, workspace_id: str) -> str:
        """Take the next work of a workspace with some. It is known, and so not added again, until `forget`."""
        return self._waiting.pop(workspace_id)

    def forget(self, id_: str) -> None:
        """Forget work that was taken, because it may be released again."""
        self._known.discard(id_)

    def _add(self, id_: str, workspace_id: str) -> bool:
        """Add work that is not known yet; returns whether it waits now."""
        if id_ in self._known:
            return id_ in self._found
        self._known.add(id_)
        dropped = self._waiting.push(id_, workspace_id)
        if dropped is not None:
            self._known.discard(dropped)
        return dropped != id_


class Chore(msgspec.Struct, frozen=True):
    """A further duty at every look, or at every `every`-th.

    `do` does a batch of it, and returns how much that was; it is called until there was nothing.
    """

    do: Callable[[], Awaitable[int | None]]
    every: int = 1


class Begun(Protocol):
    """Work that was begun: its task ends with it."""

    @property
    def task(self) -> asyncio.Task[object]:
        """The task."""
        ...


def _nothing_awaited() -> Sequence[Released]:
    return ()


class WorkLoop:
    """Has released work executed while there are `places` for it, until it is cancelled, whatever errors occur.

    Only work of the pools is claimed that the server works for. What was claimed goes on in tasks of its executor,
    which waits for them when the server stops. `awaited` names work that other work of this server waits for, which a
    stopping server still claims.
    """

    def __init__(
        self,
        queue: WorkQueue[Any, Begun],
        places: Places,
        observe: Observer,
        chores: Sequence[Chore] = (),
        awaited: Callable[[], Sequence[Released]] = _nothing_awaited,
    ) -> None:
        self._awaited = awaited
        self._queue = queue
        self._places = places
        self._observe = observe
        self._chores = chores
        self._released = ReleasedWork()
        self._pools = frozenset(queue.presence.pools)
        self._tasks = set[asyncio.Task[None]]()
        self._is_stopping = False
        places.call_when_free(self._take_next)

    def tell(self, released: Sequence[Released]) -> None:
        """Add work that may be claimed by some server. What does not fit is found later."""
        self._released.tell(one for one in released if one.pool in self._pools)
        self._take_next()

    def stop(self) -> None:
        """Claim only work that other work of this server waits for; what was claimed goes on."""
        self._is_stopping = True
        self.tell(self._awaited())

    async def work(self) -> None:
        """Work on the queue until cancelled; from then on nothing more is claimed."""
        turns = itertools.count()
        doing = f"look after queued {self._queue.kind.noun}"
        try:
            await run_periodically(lambda: self._look(next(turns)), _LOOK_SECONDS, doing, self._observe)
        finally:
            self._is_stopping = True
            self._places.close()
            if self._tasks:  # work whose claim is being written is begun, and awaited with the others
                await asyncio.wait(self._tasks, timeout=_CLAIMS_SECONDS)

    async def _look(self, turn: int) -> None:
        if self._is_stopping:
            self.tell(self._awaited())
        elif self._places.most:
            self._released.refresh(await self._queue.find_released(self._released.last_workspaces))
            self._take_next()
        if (found := await self._queue.look()) is not None:
            self._queue.pass_on_cancels(found)
            await self._queue.use_room(found)
        while found is not None and await self._queue.time_out(found):
            found = await self._queue.look()
        for chore in self._chores:
            while turn % chore.every == 0 and await chore.do():
                pass

    def _take_next(self) -> None:
        # Claims that begin together also call their partners together, so there are not too many at once.
        while self._released and len(self._tasks) < _CLAIMS_AT_ONCE:
            workspace_id = self._places.choose(self._released.workspaces)
            if workspace_id is None:
                return
            id_ = self._released.take(workspace_id)
            if self._is_stopping and all(one.id != id_ for one in self._awaited()):
                self._released.forget(id_)
            elif (reservation := self._places.reserve(workspace_id)) is not None:
                task = asyncio.get_running_loop().create_task(self._take(id_, workspace_id, reservation))
                self._tasks.add(task)
                task.add_done_callback(self._note_claim)

    async def _take(self, id_: str, workspace_id: str, reservation: Reservation) -> None:
        begun: Begun | None = None
        try:
            begun = await self._queue.claim(id_, workspace_id, reservation)
        except Exception as error:  # noqa: BLE001 -- a bug must not cost the worker a place forever
            self._observe(UnexpectedError(f"claim {id_}", error))
        finally:
            if begun is None:
                self._note_end(id_, reservation)
            else:
                begun.task.add_done_callback(lambda _: self._note_end(id_, reservation))

    def _note_claim(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._take_next()

    def _note_end(self, id_: str, reservation: Reservation) -> None:
        # It stays known until it has ended: a search from before its claim may return it, and a second claim of this
        # server in the same millisecond would look like the first.
        self._released.forget(id_)
        reservation.give_back()
