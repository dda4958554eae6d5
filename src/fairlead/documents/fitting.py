"""Documents that we write about received ones, within a bound: an error may repeat a part of a body, not all of it."""

from typing import Final, NamedTuple

import msgspec

ERROR_BYTES: Final = 64 * 1024
"""The largest answer that says what is wrong with a request."""
_NUMBER_MAX: Final = 2**64
_encode: Final = msgspec.json.Encoder().encode


class _Bounds(NamedTuple):
    """The most characters of a text, members of a container, and containers within each other."""

    characters: int
    members: int
    depth: int


_STEPS: Final = (
    _Bounds(2000, 100, 16),
    _Bounds(500, 50, 8),
    _Bounds(200, 16, 6),
    _Bounds(100, 8, 4),
    _Bounds(40, 2, 4),
)


def fit(document: object, most: int = ERROR_BYTES) -> bytes:
    """A document as JSON of at most `most` bytes, which are not a fewer than 12 KiB.

    Where it is longer, its texts are cut, then its lists and objects: each keeps its kind and what comes first.
    """
    content = _encode(document)
    for bounds in _STEPS:
        if len(content) <= most:
            break
        content = _encode(_cut_value(msgspec.to_builtins(document), bounds, bounds.depth))
    return content


def _cut_value(value: object, bounds: _Bounds, depth: int) -> object:
    match value:
        case str():
            return value if len(value) <= bounds.characters else f"{value[: bounds.characters]}…"
        case dict():
            members = zip(value.items(), range(bounds.members if depth else 0), strict=False)
            return {_cut_value(name, bounds, 0): _cut_value(inner, bounds, depth - 1) for (name, inner), _ in members}
        case list() | tuple():
            return [_cut_value(inner, bounds, depth - 1) for inner in value[: bounds.members if depth else 0]]
        case int() if abs(value) >= _NUMBER_MAX:
            return float("inf") if value.bit_length() > 1000 else float(value)  # noqa: PLR2004 -- the most a float holds
        case _:
            return value
