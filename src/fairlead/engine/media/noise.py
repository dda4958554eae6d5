"""Normal noise, number by number as PyTorch's processor generator makes it, so that a seed means the same here.

The source is the Mersenne Twister of 32 bits; Box and Muller's transform makes normal numbers of its uniform ones, in
groups of sixteen: eight radii, then eight angles. Fewer than sixteen numbers are made one pair at a time, from doubles.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array

_WORDS: Final = 624
_WORD_MASK: Final = 0xFFFFFFFF
_GROUP: Final = 16
_GROUPS_AT_ONCE: Final = 2**16
_FLOAT_BITS: Final = 24
_DOUBLE_BITS: Final = 53


def normal(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers of mean 0 and deviation 1; of the seed only the lower 32 bits count."""
    size, source = math.prod(shape), _twister(seed)
    return (_many(size, source) if size >= _GROUP else _few(size, source)).reshape(shape)


def _many(size: int, source: np.random.MT19937) -> Array:
    result = np.empty(size, np.float32)
    whole = size - size % _GROUP
    for start in range(0, whole, _GROUP * _GROUPS_AT_ONCE):
        stop = min(start + _GROUP * _GROUPS_AT_ONCE, whole)
        result[start:stop] = _groups(stop - start, source)
    if whole < size:
        # A last group that is not full is drawn and dropped; a new one then covers the last sixteen numbers.
        source.random_raw(size - whole)
        result[-_GROUP:] = _groups(_GROUP, source)
    return result


def _groups(size: int, source: np.random.MT19937) -> Array:
    draws = source.random_raw(size).reshape(-1, 2, _GROUP // 2) & ((1 << _FLOAT_BITS) - 1)
    uniform = draws.astype(np.float32) / np.float32(1 << _FLOAT_BITS)
    radius = np.sqrt(-2 * np.log(1 - uniform[:, 0]))
    angle = np.float32(2 * math.pi) * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


def _few(size: int, source: np.random.MT19937) -> Array:
    numbers: list[float] = []
    while len(numbers) < size:
        angle, radius = 2 * math.pi * _double(source), math.sqrt(-2 * math.log1p(-_double(source)))
        numbers += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(numbers[:size], np.float32)


def _double(source: np.random.MT19937) -> float:
    high, low = (int(word) for word in source.random_raw(2))
    bits: int = (high << 32 | low) & ((1 << _DOUBLE_BITS) - 1)
    return bits / (1 << _DOUBLE_BITS)


def _twister(seed: int) -> np.random.MT19937:
    """The generator as its authors seed it; numpy's own way with seeds is another."""
    words = [seed & _WORD_MASK]
    for index in range(1, _WORDS):
        words.append(1812433253 * (words[-1] ^ words[-1] >> 30) + index & _WORD_MASK)
    key: NDArray[np.uint32] = np.array(words, np.uint32)
    source = np.random.MT19937()
    source.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _WORDS}}
    return source
