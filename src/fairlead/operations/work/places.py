"""Places for work that is executed at this server."""

import time
from collections.abc import Callable, Iterable
from functools import partial

from fairlead.domain.work.place_shares import PlaceShares


class Reservation:
    """A place that was reserved for one piece of work. Giving it back a second time changes nothing."""

    __slots__ = ("_on_return",)

    def __init__(self, on_return: Callable[[], None]) -> None:
        self._on_return: Callable[[], None] | None = on_return

    def give_back(self) -> None:
        """Give the place back."""
        on_return, self._on_return = self._on_return, None
        if on_return is not None:
            on_return()


class Places:
    """At most `most` pieces of work are executed here at a time; none is begun while `is_open` returns False.

    `extra` ones more are executed for workspaces that have none of them while all places are held, so that long work of
    others does not keep them waiting (T-05). `monotonic` gives seconds of a clock that does not go back.
    """

    def __init__(
        self,
        most: int,
        is_open: Callable[[], bool] = lambda: True,
        *,
        extra: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shares = PlaceShares(most, extra if most else 0)
        self._is_open = is_open
        self._monotonic = monotonic
        self._listeners: list[Callable[[], None]] = []

    @property
    def most(self) -> int:
        """How many places any workspace may hold; 0 where nothing is executed here."""
        return self._shares.most

    def choose(self, workspaces: Iterable[str]) -> str | None:
        """The workspace, of some that have work waiting, for which a place is to be reserved now; None where none is.

        Of several with the same share it is the first of them.
        """
        return self._shares.choose(workspaces, self._monotonic()) if self._is_open() else None

    def reserve(self, workspace_id: str) -> Reservation | None:
        """A place for a workspace's work that is about to be claimed; None where there is none for it."""
        if not (self._is_open() and self._shares.has_place(workspace_id)):
            return None
        self._shares.take(workspace_id, self._monotonic())
        return Reservation(partial(self._take_back, workspace_id))

    def call_when_free(self, listener: Callable[[], None]) -> None:
        """Call a function whenever a place is free again."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Reserve no further places; reserved ones stay reserved."""
        self._shares.most = self._shares.extra = 0

    def _take_back(self, workspace_id: str) -> None:
        self._shares.give_back(workspace_id, self._monotonic())
        for listener in self._listeners:
            listener()
