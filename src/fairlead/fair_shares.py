"""Fair shares of a scarce resource: callers that wait get a place in turn by owner, rather than by age."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec


class NoRoomError(Exception):
    """No place became free in time, or too many wait for one already."""


class _Owner(msgspec.Struct, eq=False):
    """What one owner holds and waits for. `turn` is when it last got a place or, with none since, when it came."""

    turn: int
    held: int = 0
    waiting: OrderedDict[asyncio.Future[None], None] = msgspec.field(default_factory=OrderedDict)


class FairShares:
    """A number of places for all owners together, of one event loop. An owner is a workspace's id, for example.

    A free place goes to the waiting owner that holds the fewest; of several, to the one whose last place is the longest
    ago. So an owner may use all places while nobody else waits, and at most its share while others do. An owner without
    a place gets one before any other owner gets a second one. `share_max` is the most places that one owner may hold,
    even where nobody else waits, so that the next owner finds a free one at once; this matters where places are held
    for long. By default it is all of them. At most `waiting_max` callers wait. When one more comes, the last caller of
    the owner with the most of them is refused, so that one owner's crowd does not keep others from waiting.
    """

    def __init__(self, places: int, waiting_max: int, share_max: int | None = None) -> None:
        if places < 1 or waiting_max < 0 or (share_max is not None and share_max < 1):
            message = "there must be a place, and a share of one"
            raise ValueError(message)
        self._places = places
        self._waiting_max: Final = waiting_max
        self._share_max: Final = places if share_max is None else min(share_max, places)
        self._owners: dict[str, _Owner] = {}
        self._turns = 0
        self._in_use = 0
        self._waiting = 0

    @property
    def in_use(self) -> int:
        """How many places are held."""
        return self._in_use

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return self._waiting

    @property
    def owners(self) -> int:
        """How many owners hold a place or wait for one."""
        return len(self._owners)

    def count_held(self, owner_id: str) -> int:
        """How many places an owner holds."""
        owner = self._owners.get(owner_id)
        return 0 if owner is None else owner.held

    def count_held_and_awaited(self, owner_id: str) -> int:
        """How many places an owner holds or waits for."""
        owner = self._owners.get(owner_id)
        return 0 if owner is None else owner.held + len(owner.waiting)

    @asynccontextmanager
    async def place(self, owner_id: str, seconds: float | None = None) -> AsyncIterator[None]:
        """Hold a place while inside. Raise NoRoomError where none is free within `seconds`, or too many wait."""
        await self.take(owner_id, seconds)
        try:
            yield
        finally:
            self.give_back(owner_id)

    def try_take(self, owner_id: str) -> bool:
        """Take a place if one is free for this owner now; the caller gives it back."""
        owner = self._owners.get(owner_id)
        if self._in_use >= self._places or (owner is not None and owner.held >= self._share_max):
            return False  # where a place is free, no waiting owner may have it
        self._turns += 1
        if owner is None:
            owner = self._owners[owner_id] = _Owner(self._turns)
        owner.turn = self._turns
        owner.held += 1
        self._in_use += 1
        return True

    async def take(self, owner_id: str, seconds: float | None = None) -> None:
        """Wait for a place as `place` does; the caller gives it back. When this is cancelled, none was taken."""
        if self.try_take(owner_id):
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._enqueue(owner_id, waiter)
        timer = None if seconds is None else loop.call_later(seconds, self._refuse, owner_id, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # It got a place in the same turn of the event loop in which it was cancelled.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back(owner_id)
            else:
                self._leave(owner_id, waiter)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def give_back(self, owner_id: str) -> None:
        """Give a place back, which then goes to the next owner."""
        owner = self._owners.get(owner_id)
        if owner is None or not owner.held:
            message = f"no place is held by {owner_id}"
            raise RuntimeError(message)
        owner.held -= 1
        self._in_use -= 1
        if not owner.held and not owner.waiting:
            del self._owners[owner_id]
        if self._waiting:
            self._serve()

    def resize(self, places: int) -> None:
        """Change the number of places; those that are held stay held."""
        self._places = places
        self._serve()

    def _forget(self, owner_id: str) -> None:
        owner = self._owners.get(owner_id)
        if owner is not None and not owner.held and not owner.waiting:
            del self._owners[owner_id]

    def _serve(self) -> None:
        """Give free places to those that wait."""
        while self._in_use < self._places:
            waiting = [one for one in self._owners.items() if one[1].waiting and one[1].held < self._share_max]
            if not waiting:
                return
            owner_id, owner = min(waiting, key=lambda one: (one[1].held, one[1].turn))
            waiter, _ = owner.waiting.popitem(last=False)
            self._waiting -= 1
            if waiter.done():  # cancelled, but its caller has not run yet
                self._forget(owner_id)
                continue
            self._turns += 1
            owner.turn = self._turns
            owner.held += 1
            self._in_use += 1
            waiter.set_result(None)

    def _enqueue(self, owner_id: str, waiter: asyncio.Future[None]) -> None:
        owner = self._owners.get(owner_id)
        if owner is None:  # a new owner comes after those that have waited since
            self._turns += 1
            owner = self._owners[owner_id] = _Owner(self._turns)
        owner.waiting[waiter] = None
        self._waiting += 1
        if self._waiting > self._waiting_max:
            most = max(len(owner.waiting) for owner in self._owners.values())
            # Of several owners with the most, the one that has just come gives way.
            crowded = owner_id if len(owner.waiting) == most else self._owner_with(most)
            self._refuse(crowded, next(reversed(self._owners[crowded].waiting)))

    def _owner_with(self, waiting: int) -> str:
        return next(owner_id for owner_id, owner in self._owners.items() if len(owner.waiting) == waiting)

    def _refuse(self, owner_id: str, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(NoRoomError())
            self._leave(owner_id, waiter)

    def _leave(self, owner_id: str, waiter: asyncio.Future[None]) -> None:
        """Stop waiting."""
        owner = self._owners.get(owner_id)
        if owner is not None and waiter in owner.waiting:
            del owner.waiting[waiter]
            self._waiting -= 1
            self._forget(owner_id)
