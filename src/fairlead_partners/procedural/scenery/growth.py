"""How trees are drawn: a spruce of ragged boughs, and a trunk that branches under a crown of leaves."""

from typing import Final

import cv2
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field

from .layers import Mask, empty_mask, fill
from .light import colour

_LEAVES: Final = {
    "spring": ("e9a9c0", "f4cdd8", "f0bccd", "8fb556"),
    "summer": ("2f6a34", "4c8a3c", "6d9c46"),
    "autumn": ("b5471f", "d98a2b", "e3b23f", "a8382a"),
}
_STAMP_SIDE: Final = 224
_STAMPS: Final = 5


class Drawing:
    """The masks that a row of trees is drawn into: wood, crowns with the colours of their leaves, and snow."""

    def __init__(self, canvas: Canvas) -> None:
        """Begin with nothing drawn."""
        self.canvas = canvas
        self.wood, self.crown, self.snow = empty_mask(canvas), empty_mask(canvas), empty_mask(canvas)
        self.leaves: Mask = np.zeros((*self.wood.shape, 3), dtype=np.uint8)

    def first_row(self) -> int:
        """Return the highest row with anything in it."""
        drawn = np.flatnonzero(self.wood.any(axis=1) | self.crown.any(axis=1))
        return int(drawn[0]) if len(drawn) else self.wood.shape[0] - 1

    def rows(self, strip: slice) -> "Drawing":
        """Return what is drawn in a strip of rows."""
        part = Drawing.__new__(Drawing)
        part.canvas = self.canvas
        part.wood, part.crown, part.snow = self.wood[strip], self.crown[strip], self.snow[strip]
        part.leaves = self.leaves[strip]
        return part


def conifer(drawing: Drawing, at: tuple[float, float], tall: float, rng: np.random.Generator) -> None:
    """Draw a spruce that stands at a point: a spine with ragged boughs that hang."""
    canvas, (x, foot) = drawing.canvas, at
    lean = float(rng.normal(0, 0.01)) * tall
    tiers = int(rng.integers(20, 30))
    wide = tall * float(rng.uniform(0.13, 0.20))
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for tier in range(1, tiers + 1):
        share = tier / tiers
        y = foot - tall * (1 - share * 0.93)
        spine = x + lean * (1 - share)
        for points, side in zip(sides, (-1, 1), strict=True):
            reach = side * wide * share**0.9 * float(rng.uniform(0.55, 1.08))
            tip = [spine + reach, y + tall * float(rng.uniform(0.008, 0.03))]
            points += [[spine + reach * 0.55, y - tall * 0.012], tip]
            if rng.random() < 0.7:
                heap = [tip, [spine + reach * 0.3, y - tall * 0.03], [spine + reach * 0.25, y - tall * 0.005]]
                fill(canvas, drawing.snow, np.array(heap))
    fill(canvas, drawing.wood, np.array([[x + lean, foot - tall], *sides[1], *sides[0][::-1]]))
    top, thin, thick = foot - tall * 0.2, tall * 0.012, tall * 0.017
    fill(canvas, drawing.wood, np.array([[x - thin, top], [x + thin, top], [x + thick, foot], [x - thick, foot]]))


def broad(
    drawing: Drawing, at: tuple[float, float], tall: float, season: str | None, stamps: list[Field],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Draw a tree that stands at a point, with boughs and, but for winter, a crown of leaves."""
    length = tall * (0.30 if season == "winter" else 0.22)
    _bough(
        drawing,
        np.array(at),
        -np.pi / 2 + float(rng.normal(0, 0.05)),
        length,
        tall * 0.018,
        5 if season == "winter" else 3,
        rng,
    )
    if season == "winter":
        return
    leaf = colour(str(rng.choice(_LEAVES[season or "summer"])))
    stamp = stamps[int(rng.integers(len(stamps)))]
    pixel = drawing.canvas.pixel
    size = max(3, round(tall * float(rng.uniform(0.60, 0.80)) / pixel)), max(3, round(tall * 0.72 / pixel))
    crown = np.asarray(cv2.resize(stamp, size, interpolation=cv2.INTER_AREA), dtype=np.float32)
    left, top = round(at[0] / pixel - size[0] / 2), round((at[1] - tall) / pixel)
    _press(drawing, crown[:, :: -1 if rng.random() < 0.5 else 1], left, top, leaf)


def _press(drawing: Drawing, crown: Field, left: int, top: int, leaf: Field) -> None:
    """Print a crown into the drawing, cut at its borders."""
    lines, columns = drawing.crown.shape
    seen = crown[max(0, -top) : max(0, lines - top), max(0, -left) : max(0, columns - left)]
    if 0 in seen.shape:
        return
    rows = slice(max(0, top), max(0, top) + seen.shape[0])
    across = slice(max(0, left), max(0, left) + seen.shape[1])
    cover = seen[..., 1:2]
    tone = np.clip(leaf * seen[..., 0:1] * 255, 0, 255)
    before = drawing.leaves[rows, across]
    drawing.leaves[rows, across] = (before + (tone - before) * cover).astype(np.uint8)
    drawing.crown[rows, across] = np.maximum(drawing.crown[rows, across], (cover[..., 0] * 255).astype(np.uint8))


def crowns(rng: np.random.Generator) -> list[Field]:
    """Return crowns to print: square pictures of light (about 0.3 to 1.2) and cover (0 to 1)."""
    return [_crown(rng) for _ in range(_STAMPS)]


def _crown(rng: np.random.Generator) -> Field:
    side = _STAMP_SIDE
    light, cover = np.zeros((side, side), dtype=np.uint8), np.zeros((side, side), dtype=np.uint8)
    count, clumps = 520, 9
    # Leaves hang in clumps round a few boughs, so that a crown has no even edge.
    middle = rng.uniform(-0.55, 0.55, (clumps, 2))
    clump, angle, reach = rng.integers(0, clumps, count), rng.uniform(0, 6.283, count), np.sqrt(rng.random(count))
    across = np.cos(angle) * reach * 0.40 + middle[clump, 0]
    down = np.sin(angle) * reach * 0.34 + middle[clump, 1]
    lit = 0.60 - 0.30 * down - 0.32 * (np.sin(angle) * reach) + rng.normal(0, 0.09, count)
    for place in np.argsort(lit):
        centre = (int((across[place] * 0.5 + 0.5) * side), int((down[place] * 0.5 + 0.5) * side))
        size = int(rng.integers(2, 8))
        cv2.circle(light, centre, size, int(np.clip(lit[place], 0.22, 1.2) * 200), -1, cv2.LINE_AA)
        cv2.circle(cover, centre, size, 255, -1, cv2.LINE_AA)
    return _fray(np.dstack([light.astype(np.float32) / 200, cover.astype(np.float32) / 255]), rng)


def _fray(crown: Field, rng: np.random.Generator) -> Field:
    """Return a crown with its edges frayed, as leaves do."""
    side = crown.shape[0]
    noise = rng.standard_normal((2, side, side), dtype=np.float32)
    x, y = (cv2.GaussianBlur(part, (0, 0), 1.1) * np.float32(11) for part in noise)
    line = np.arange(side, dtype=np.float32)
    moved = cv2.remap(np.asarray(crown, dtype=np.float32), x + line[None, :], y + line[:, None], cv2.INTER_LINEAR)
    return np.asarray(moved, dtype=np.float32)


def _bough(
    drawing: Drawing, start: Field, angle: float, length: float, width: float, depth: int, rng: np.random.Generator
) -> None:
    canvas = drawing.canvas
    end = start + length * np.array([np.cos(angle), np.sin(angle)])
    normal = np.array([-np.sin(angle), np.cos(angle)]) * max(width, canvas.pixel * 0.5)
    fill(canvas, drawing.wood, np.array([start - normal, start + normal, end + normal * 0.65, end - normal * 0.65]))
    if depth == 0:
        return
    for _ in range(2 if depth > 2 else 3):
        turned = angle + float(rng.normal(0, 0.42))
        _bough(drawing, end, turned, length * float(rng.uniform(0.62, 0.85)), width * 0.62, depth - 1, rng)
