"""Smooth random fields, and the canvas they are drawn on."""

from functools import cache
from typing import Any

import cv2
import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from .palettes import Palette
from .seeds import generator

# Always float32 when it runs; the checker cannot follow that through scalars, so any float is a field.
Field = NDArray[np.floating[Any]]

TILE_SIDE = 192
FREQUENCY_MAX = 64
_PAD = 4

# Two generations run at once already; threads inside each would only make them fight.
cv2.setNumThreads(1)


class Tile:
    """A square of noise, mean 0 and deviation 1, that repeats without a seam; its side is one unit."""

    def __init__(self, rng: np.random.Generator, slope: float) -> None:
        """`slope` says how quickly detail fades: 1.6 is rough rock, 2.6 is silk."""
        waves = rng.standard_normal((TILE_SIDE, TILE_SIDE // 2 + 1, 2), dtype=np.float32)
        spectrum = waves.view(np.complex64)[..., 0] * _amplitudes(slope)
        field = np.fft.irfft2(spectrum, s=(TILE_SIDE, TILE_SIDE)).astype(np.float32)
        self._padded: Field = np.pad(field / field.std(), _PAD, mode="wrap")

    def sample(self, x: Field, y: Field) -> Field:
        """Return the noise at each point; the two arrays are broadcast against each other."""
        across = (x - np.floor(x)) * np.float32(TILE_SIDE) + np.float32(_PAD)
        down = (y - np.floor(y)) * np.float32(TILE_SIDE) + np.float32(_PAD)
        across, down = np.broadcast_arrays(across, down)
        found = cv2.remap(self._padded, np.ascontiguousarray(across), np.ascontiguousarray(down), cv2.INTER_CUBIC)
        return np.asarray(found, dtype=np.float32)


@cache
def _distances() -> Field:
    down = np.fft.fftfreq(TILE_SIDE, 1 / TILE_SIDE)[:, None]
    across = np.fft.rfftfreq(TILE_SIDE, 1 / TILE_SIDE)[None, :]
    return np.asarray(np.hypot(down, across), dtype=np.float32)


def _amplitudes(slope: float) -> Field:
    distance = _distances()
    heard = (distance >= 1) & (distance <= FREQUENCY_MAX)
    return np.where(heard, np.maximum(distance, 1) ** np.float32(-slope), 0).astype(np.float32)


class Canvas(msgspec.Struct):
    """What a composition paints on: coordinates, colours, noise, and the moment of the loop.

    x grows to the right from 0 to `aspect`, y downwards from 0 to 1, so one unit is the picture's height;
    `pixel` is the size of a pixel in that unit.
    """

    prompt: str
    seed: int
    palette: Palette
    x: Field
    y: Field
    smooth: Tile
    rough: Tile
    aspect: float
    pixel: float
    turn: float = 0.0

    def rows(self, first: int, last: int) -> "Canvas":
        """Return the same canvas seen through a window of rows, for what does not fill the picture."""
        return replace(self, y=self.y[max(first, 0) : last])

    def rng(self, purpose: str) -> np.random.Generator:
        """Return fresh randomness that is the same in every frame."""
        return generator(self.prompt, self.seed, purpose)

    def orbit(self, radius: float, lag: float = 0.0) -> tuple[float, float]:
        """Return an offset that walks a circle once per loop, so that motion ends where it began."""
        angle = self.turn + lag
        return radius * float(np.cos(angle)), radius * float(np.sin(angle))


def canvas(prompt: str, seed: int, palette: Palette, width: int, height: int) -> Canvas:
    """Prepare a canvas of `width` by `height` pixels."""
    x = ((np.arange(width, dtype=np.float32) + 0.5) / height)[None, :]
    y = ((np.arange(height, dtype=np.float32) + 0.5) / height)[:, None]
    smooth = Tile(generator(prompt, seed, "smooth"), 2.8)
    rough = Tile(generator(prompt, seed, "rough"), 1.75)
    return Canvas(prompt, seed, palette, x, y, smooth, rough, width / height, 1.0 / height)


def step(edge: float | Field, width: float, value: Field) -> Field:
    """Return 0 below `edge`, 1 above `edge + width`, and a smooth rise between."""
    t = np.clip((value - edge) * np.float32(1.0 / width), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), dtype=np.float32)


def blend(base: Field, top: Field, share: Field | float) -> Field:
    """Return `base` with `share` (0 to 1) of `top`, colours or one colour, laid over it; share has no colour axis."""
    over = top - base
    over *= np.float32(share) if isinstance(share, float) else share[..., None]
    over += base
    return over
