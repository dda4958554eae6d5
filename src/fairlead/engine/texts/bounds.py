"""How long a text may grow, and values written as text within that length.

A few nodes that double a text can fill any memory, so code that makes a text checks its length here first.
"""

import json
from collections.abc import Callable
from typing import Final

MOST_CHARACTERS: Final = 10_000_000
"""The most characters a node may make; a text of that length is some ten thousand pages."""


def check_length(characters: int) -> None:
    """ValueError for a text that would be too long; to be called before it is made."""
    if characters > MOST_CHARACTERS:
        raise ValueError(f"The text would have {characters:,} characters, and {MOST_CHARACTERS:,} is the most.")


def as_json(value: object, indent: int, *, otherwise: Callable[[object], object] | None = None) -> str:
    """A value as JSON, on one line when `indent` is 0.

    `otherwise` turns what JSON cannot hold into something it can; without it such a value is a TypeError. ValueError
    for what is too long, too deep, or contains itself.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, indent=indent or None, default=otherwise)
    pieces, length = [], 0
    try:
        for piece in encoder.iterencode(value):
            length += len(piece)
            check_length(length)
            pieces.append(piece)
    except RecursionError:
        raise ValueError("The value is nested too deeply to be written as JSON.") from None
    return "".join(pieces)
