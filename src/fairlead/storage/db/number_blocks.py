"""Sets of numbers as they are stored: in blocks of 7,168 consecutive numbers.

A set in a block is bytes: its places if they are few, two bytes each and the lowest first, otherwise a bit for each
place of the block. So what a million jobs have in common is found among some hundred rows.
"""

import functools
import operator
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

BLOCK: Final = 7_168
"""How many numbers a block has: nearly as many as SQLite stores in one piece with the id of a row (1,002 bytes). Rows
are identified by it, so it cannot be changed without rewriting all of them."""
_DENSE_BYTES: Final = BLOCK // 8
_FEW: Final = 32
"""How many places are stored one by one: examining each in Python takes as long as all the bits of a block."""


def with_places(block: bytes, places: Iterable[int]) -> bytes:
    """A block with some more places. A block without any is `b""`."""
    if len(block) == _DENSE_BYTES:
        return (_bits(block) | _bits_at(places)).to_bytes(_DENSE_BYTES, "little")
    return _pack({*_few(block), *places})


def without_places(block: bytes, places: Collection[int]) -> bytes:
    """A block without some places; `b""` if none is left."""
    if len(block) == _DENSE_BYTES:
        bits = _bits(block) & ~_bits_at(places)
        return bits.to_bytes(_DENSE_BYTES, "little") if bits.bit_count() > _FEW else _pack(set(_from_highest(bits)))
    return _pack(set(_few(block)).difference(places))


def places_in_all(blocks: Sequence[bytes]) -> Iterator[int]:
    """The places that all of some blocks have, the highest first; there must be at least one block."""
    first = min(blocks, key=len)
    if len(first) == _DENSE_BYTES:
        return _from_highest(functools.reduce(operator.and_, map(_bits, blocks)))
    few: Sequence[int] = _few(first)
    for block in blocks:
        if len(block) == _DENSE_BYTES:
            few = [place for place in few if block[place >> 3] >> (place & 7) & 1]
        elif block is not first:
            there = _few(block)
            few = [place for place in few if place in there]
    return reversed(few)


def _pack(places: Collection[int]) -> bytes:
    if len(places) > _FEW:
        return _bits_at(places).to_bytes(_DENSE_BYTES, "little")
    return struct.pack(f"<{len(places)}H", *sorted(places))


def _few(block: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(block) // 2}H", block)


def _bits(block: bytes) -> int:
    return int.from_bytes(block, "little")


def _bits_at(places: Iterable[int]) -> int:
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits


def _from_highest(bits: int) -> Iterator[int]:
    while bits:
        place = bits.bit_length() - 1
        bits ^= 1 << place
        yield place
