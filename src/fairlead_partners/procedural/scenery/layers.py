"""Layers that lie over each other: colours with the share in which they cover what is behind them."""

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from fairlead_partners.procedural.noise import Canvas, Field, blend

Mask = NDArray[np.uint8]
Points = Field

_SHIFT = 4
"""Bits below a pixel to which drawn corners are placed."""


class Layer(msgspec.Struct, frozen=True):
    """Colours and how much they cover, from 0 to 1."""

    tone: Field
    cover: Field

    def over(self, picture: Field) -> Field:
        """Return the picture with this layer before it."""
        return blend(picture, self.tone, self.cover)


def stack(layers: list[Layer]) -> Layer | None:
    """Return the layers as one, the first farthest away; None when there are none."""
    if not layers:
        return None
    tone, cover = layers[0].tone, layers[0].cover
    for layer in layers[1:]:
        total = layer.cover + cover * (1 - layer.cover)
        share = np.divide(layer.cover, np.maximum(total, 1e-5))
        tone, cover = blend(tone, layer.tone, np.asarray(share, np.float32)), total
    return Layer(tone, cover)


def empty_mask(canvas: Canvas) -> Mask:
    """Return a mask of the canvas's size that covers nothing."""
    return np.zeros((canvas.y.shape[0], canvas.x.shape[1]), dtype=np.uint8)


def fill(canvas: Canvas, mask: Mask, points: Points, value: int = 255) -> None:
    """Fill a polygon, whose corners are in picture heights, with soft edges."""
    corners = np.round((points / canvas.pixel - 0.5) * (1 << _SHIFT)).astype(np.int32)
    cv2.fillPoly(mask, [corners[:, None]], value, cv2.LINE_AA, _SHIFT)


def as_cover(mask: Mask) -> Field:
    """Return a mask as shares from 0 to 1."""
    return mask.astype(np.float32) * np.float32(1 / 255)


def smooth(points: Points, rounds: int = 2) -> Points:
    """Return a closed outline with its corners cut (Chaikin), so that few points make a soft shape."""
    for _ in range(rounds):
        after = np.roll(points, -1, axis=0)
        points = np.stack([0.75 * points + 0.25 * after, 0.25 * points + 0.75 * after], axis=1).reshape(-1, 2)
    return points
