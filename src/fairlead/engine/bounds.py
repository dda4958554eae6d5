"""How much a node may make: checked before memory is asked for, because a number in a graph can ask for anything."""

from typing import Final

PIXELS_MAX: Final = 2**28
"""The pixels of all images of one value together: one of 16384 x 16384, or 129 of 1920 x 1080; 3 GB in colour."""
FRAME_PIXELS_MAX: Final = 64 * 2**20
"""The pixels of one image of a file; known from its header, before it is decoded."""
FRAMES_MAX: Final = 4096
"""The images of one file."""
ITEMS_MAX: Final = 2**16
"""The items a node may make a list of."""


def check_size(count: int, height: int, width: int) -> None:
    """Refuse images that would be more than one value may hold: ValueError."""
    if count * height * width > PIXELS_MAX:
        message = f"{count} x {width} x {height} pixels are more than the {PIXELS_MAX} that one value may have."
        raise ValueError(message)


def check_items(count: int, what: str) -> None:
    """Refuse a list that would be longer than a list may be: ValueError."""
    if count > ITEMS_MAX:
        raise ValueError(f"{count} {what} are more than the {ITEMS_MAX} that a list may have.")
