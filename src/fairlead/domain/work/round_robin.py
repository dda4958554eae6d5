"""Work that waits, taken in turn over its owners: one of each, then the next of each."""

from typing import Final


class RoundRobin:
    """Items that wait, each of one owner; those of an owner are taken in the order in which they came.

    A new owner, or one that had nothing left, comes after all others, so each other owner is served at most once before
    it. At most `most` items wait: when one more comes, the last item of the owner with the most is dropped.
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

    def pop(self) -> tuple[str, str]:
        """Take the next item, with its owner. At least one must wait."""
        owner_id = next(iter(self._owners))
        items = self._owners.pop(owner_id)
        item = next(iter(items))
        del items[item]
        self._length -= 1
        if items:
            self._owners[owner_id] = items
        return item, owner_id

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
