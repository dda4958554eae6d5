"""Places for work that is executed at this server."""

from collections.abc import Callable


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
    """At most `most` pieces of work are executed here at a time; none is begun while `is_open` returns False."""

    def __init__(self, most: int, is_open: Callable[[], bool] = lambda: True) -> None:
        self.most = most
        self._is_open = is_open
        self._taken = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def has_room(self) -> bool:
        """Whether a place can be reserved now."""
        return self._taken < self.most and self._is_open()

    def reserve(self) -> Reservation | None:
        """A place for work that is about to be claimed; None where there is none."""
        if not self.has_room:
            return None
        self._taken += 1
        return Reservation(self._take_back)

    def call_when_free(self, listener: Callable[[], None]) -> None:
        """Call a function whenever a place is free again."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Reserve no further places; reserved ones stay reserved."""
        self.most = 0

    def _take_back(self) -> None:
        self._taken -= 1
        for listener in self._listeners:
            listener()
