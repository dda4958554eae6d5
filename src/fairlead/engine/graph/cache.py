"""Results that were made, by signature: the least recently used go first when they hold too many bytes."""

import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from fairlead.engine.graph.signatures import Signature

_ENTRY_BYTES: Final = 1_000
"""The bytes of an entry without its values."""
_COUNTED_ITEMS_MAX: Final = 100_000


class Entry(msgspec.Struct, frozen=True):
    """The result of a node: a list of values for each output, and its output for display."""

    outputs: Sequence[Sequence[object]]
    ui: Mapping[str, object]


class ResultCache:
    """A bounded store of results. It belongs to one event loop, and must not be shared between workspaces."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[Signature, tuple[Entry, int]] = OrderedDict()
        self.bytes = 0
        """The size of all entries; a value that several entries share is counted for each."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, signature: Signature | None) -> Entry | None:
        """The result with a signature, which is now the most recently used."""
        if signature is None or signature not in self._entries:
            return None
        self._entries.move_to_end(signature)
        return self._entries[signature][0]

    def put(self, signature: Signature | None, entry: Entry) -> None:
        """Store a result, unless it has no signature or is too large by itself."""
        if signature is None:
            return
        size = _ENTRY_BYTES + size_of([entry.outputs, entry.ui])
        if size > self._bytes_max:
            return
        _, before = self._entries.pop(signature, (None, 0))
        self._entries[signature] = entry, size
        self.bytes += size - before
        while self.bytes > self._bytes_max:
            _, (_, freed) = self._entries.popitem(last=False)
            self.bytes -= freed

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.bytes = 0


def size_of(value: object) -> int:
    """The estimated bytes of a value; one with very many parts counts as infinite."""
    total, seen, waiting = 0, set[int](), [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if len(seen) > _COUNTED_ITEMS_MAX:
            return sys.maxsize
        total += _own_bytes(item)
        waiting.extend(_parts(item))
    return total


def _own_bytes(value: object) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    many = getattr(value, "nbytes", None)  # a tensor, or anything else with a size
    return many if isinstance(many, int) else sys.getsizeof(value, 0)


def _parts(value: object) -> Sequence[object]:
    match value:
        case list() | tuple() | set() | frozenset():
            return list(value)
        case dict():
            return [*value.keys(), *value.values()]
        case _ if hasattr(value, "__dict__"):
            return list(vars(value).values())
        case _:
            return [getattr(value, name, None) for name in _slots(value)]


def _slots(value: object) -> Sequence[str]:
    slots = getattr(type(value), "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
