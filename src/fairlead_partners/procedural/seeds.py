"""From a prompt and a seed to everything random: the same two always lead to the same bytes."""

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_WORD = re.compile(r"\w+")


def digest(prompt: str, seed: int, purpose: str) -> int:
    """Return a large number that differs for every prompt, seed and purpose."""
    return int.from_bytes(hashlib.sha256(f"{purpose}\0{seed}\0{prompt}".encode()).digest()[:16])


def generator(prompt: str, seed: int, purpose: str) -> "np.random.Generator":
    """Return a source of random numbers that is the same for the same prompt, seed and purpose."""
    import numpy as np  # noqa: PLC0415 -- prose needs a digest, and not numpy

    return np.random.Generator(np.random.PCG64(digest(prompt, seed, purpose)))


def words(prompt: str) -> list[str]:
    """Return the words of a prompt in lower case, in order."""
    return _WORD.findall(prompt.lower())
