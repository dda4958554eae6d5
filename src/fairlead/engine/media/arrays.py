"""Images and masks as arrays, and bounds on what a node may make.

Sizes are checked before memory is allocated, because a number in a graph can be anything.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]
"""Images are [batch, height, width, channels] and masks [batch, height, width], float32 between 0 and 1."""
PIXELS_MAX: Final = 2**30
"""The pixels of all images of one value together: four of 16384 x 16384, or 17 s of 1920 x 1080 at 30 frames a second.

13 GB in colour: a machine with less memory refuses the allocation, or the limit of the process does.
"""
FRAME_PIXELS_MAX: Final = 64 * 2**20
"""The pixels of one image of a file; known from its header, before it is decoded."""
FRAMES_MAX: Final = 4096
"""The images of one file."""
CLIP_FRAMES_MAX: Final = 2**18
"""The frames of one video: two hours and a half at 30 a second; pixels are counted separately."""
SAMPLES_MAX: Final = 2**28
"""The samples of one sound, in all its channels: 50 minutes in stereo at 44.1 kHz; 1 GB."""
ITEMS_MAX: Final = 2**16
"""The items a node may make a list of."""


def check_size(count: int, height: int, width: int) -> None:
    """Refuse images that would be more than one value may hold: ValueError."""
    if count * height * width > PIXELS_MAX:
        message = f"{count} x {width} x {height} pixels are more than the {PIXELS_MAX} that one value may have."
        raise ValueError(message)


def check_samples(batch: int, channels: int, count: int) -> None:
    """Refuse a sound that would be longer than sounds may be: ValueError."""
    if batch * channels * count > SAMPLES_MAX:
        message = f"{count} samples in {batch * channels} channels are more than the {SAMPLES_MAX} of one sound."
        raise ValueError(message)


def check_items(count: int, what: str) -> None:
    """Refuse a list that would be longer than a list may be: ValueError."""
    if count > ITEMS_MAX:
        raise ValueError(f"{count} {what} are more than the {ITEMS_MAX} that a list may have.")
