"""Work that waits, and its owners in turn: whoever was served comes after all others."""

from collections.abc import Iterable
from typing import Final


class RoundRobin:
    """Items that wait, each of one owner; those of an owner are taken in the order in which they came.

    The first of the `owners` is next. A new owner, or one that had nothing left, comes after all others, so where the
    first is always taken each other owner is served at most once before it. At most `most` items wait: when one more
    comes, the last item of the owner with the most is dropped.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._owners: dict[str, dict[str, None]] = {}  # the first is next
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, item: str, owner_id: str) -> str | None:
        """Add an item that does not wait yet; return the one that was dropped for it, which may be the same."""
        self._owners.setdefault(owner_id, {})[item] = None
        self._length += 1
        if self._length <= self._most:
            return None
        # Of owners with equally many, the one whose item comes loses it.
        crowded = max(self._owners, key=lambda id_: (len(self._owners[id_]), id_ == owner_id))
        last = next(reversed(self._owners[crowded]))
        self.remove(last, crowded)
        return last

    @property
    def owners(self) -> Iterable[str]:
        """Those with items that wait, whose turn is next first."""
        return self._owners

    def pop(self, owner_id: str) -> str:
        """Take the next item of an owner with some, who then comes after all others."""
        items = self._owners.pop(owner_id)
        item = next(iter(items))
        del items[item]
        self._length -= 1
        if items:
            self._owners[owner_id] = items
        return item

    def remove(self, item: str, owner_id: str) -> bool:
        """Remove an item; return whether it was waiting."""
        items = self._owners.get(owner_id, {})
        if item not in items:
            return False
        del items[item]
        self._length -= 1
        if not items:
            del self._owners[owner_id]
        return True
