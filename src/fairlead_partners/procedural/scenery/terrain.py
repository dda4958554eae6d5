"""Land in perspective: a height field, lit and shaded, and seen from a little above the ground.

Slices of the field lie one behind the other. A pixel shows the first slice, from the front, whose ground covers it; as
the highest ground so far only ever rises from slice to slice, that is a count, and no ray is marched.
"""

from collections.abc import Callable
from typing import Final

import cv2
import msgspec
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, blend, step

from .layers import Layer
from .light import Light, colour

_EYE: Final = 0.16
"""How high the eye is above the water, where a mountain is about two."""

Heights = Callable[[Canvas, Field, Field, np.random.Generator], Field]


class Land(msgspec.Struct, frozen=True):
    """A painted land: its layer, the share of water in each pixel, and the row that its shore mirrors at."""

    layer: Layer
    water: Field
    shore: float


def paint(canvas: Canvas, light: Light, kind: str, horizon: float, *, season: str | None, is_wet: bool) -> Land:
    """Return land of a kind; `is_wet` puts water before it."""
    rng = canvas.rng(f"terrain {kind}")
    depth = _depths()
    across = (canvas.x - canvas.aspect / 2) * depth
    height: Field = _HEIGHTS[kind](canvas, across, depth + 0 * across, rng)
    shore = 5.2
    if is_wet:
        wave = 0.5 * canvas.smooth.sample(across * 0.12, depth * 0.12)
        basin = step(shore - 1.2, 2.2, depth + wave)
        height = height * basin + (basin - 0.42) * 0.13
    flood = 1 - step(-0.004, 0.008, height) if is_wet else np.zeros_like(height)
    height = np.maximum(height, 0) if is_wet else height
    lit = _lit(canvas, height, depth, light)
    tone: Field = _materials(canvas, kind, height, across, depth, season) * _shine(lit, light)
    far = 1 - np.exp(-np.maximum(depth - 1.5, 0) * light.haze * np.exp(-np.maximum(height, 0) * 0.35))
    tone = blend(tone, light.air, np.asarray(far, dtype=np.float32))
    rows = horizon - (height - _EYE) / depth
    return _look(canvas, rows, np.dstack([tone, flood]), horizon + _EYE / shore)


def _depths() -> Field:
    """Return the distances of the slices as a column: dense where mountains stand."""
    parts = (
        np.geomspace(0.32, 4, 110, endpoint=False),
        np.linspace(4, 15, 330, endpoint=False),
        np.geomspace(15, 60, 50),
    )
    return np.concatenate(parts).astype(np.float32)[:, None]


def _look(canvas: Canvas, rows: Field, cells: Field, shore: float) -> Land:
    """Look at the cells of a height field whose grounds project to `rows`."""
    lines, columns = canvas.y.shape[0], canvas.x.shape[1]
    top = np.minimum.accumulate(rows, axis=0)
    first = np.clip(np.ceil(top / canvas.pixel - 0.5), 0, lines).astype(np.int64)
    counts = np.bincount((first * columns + np.arange(columns)).ravel(), minlength=(lines + 1) * columns)
    hidden = counts.reshape(lines + 1, columns)[::-1].cumsum(axis=0)[::-1][1:]
    slices = rows.shape[0]
    skyline = top[-1:]
    covered = np.clip((canvas.y - skyline) / canvas.pixel + 0.5, 0, 1)
    index = np.minimum(hidden, slices - 1)
    before = np.maximum(index - 1, 0)
    here, there = np.take_along_axis(rows, index, axis=0), np.take_along_axis(rows, before, axis=0)
    part = np.clip((there - canvas.y) / np.maximum(there - here, 1e-6), 0, 1)
    place = np.asarray(before + part, dtype=np.float32)
    column = np.broadcast_to(np.arange(columns, dtype=np.float32), place.shape)
    found = cv2.remap(
        np.ascontiguousarray(cells, dtype=np.float32), np.ascontiguousarray(column), place, cv2.INTER_LINEAR
    )
    seen = np.asarray(found, dtype=np.float32)
    seen[..., :3] *= _near_detail(canvas, shore)[..., None]
    return Land(Layer(seen[..., :3], np.asarray(covered, np.float32)), seen[..., 3] * covered, shore)


def _near_detail(canvas: Canvas, shore: float) -> Field:
    """Return tufts and pebbles: what a slice of the field is too coarse for."""
    below = np.maximum(canvas.y - shore, 0)
    far = 0.16 / (below + 0.03)
    fleck = canvas.rough.sample((canvas.x - canvas.aspect / 2) * far * 5.5, far * 6.5 + 0 * canvas.x)
    return np.asarray(1 + 0.13 * fleck * np.minimum(1, below * 12), dtype=np.float32)


def _lit(canvas: Canvas, height: Field, depth: Field, light: Light) -> Field:
    """Return how much of the sun each cell gets, from 0 to 1: slopes that face it, but for what other ground shades."""
    step_across = canvas.pixel * depth
    slope_x = np.gradient(height, axis=1) / step_across
    slope_z = np.gradient(height, axis=0) / np.gradient(depth[:, 0])[:, None]
    side = -1.0 if light.across < 0.5 else 1.0
    low = light.time in ("dawn", "dusk")
    facing = side * -0.85 * slope_x + 0.40 * slope_z + (0.30 if low else 0.65)
    facing = np.clip(facing / np.sqrt(1 + slope_x**2 + slope_z**2), 0, 1)
    fall = 0.38 if low else 0.9
    x = np.asarray(canvas.x * depth * np.float32(fall * side), dtype=np.float32)
    # The ground that is highest, seen along the light, shades what lies behind it.
    toward = slice(None) if side < 0 else slice(None, None, -1)
    along, fallen = height[:, toward], x[:, toward]
    # Beyond the picture's border the land goes on: its mirror image stands in for what shades from there.
    margin = along.shape[1] // 3
    outside = along[:, margin:0:-1] + 2 * fallen[:, :1] - fallen[:, margin:0:-1]
    highest = np.maximum.accumulate(np.concatenate([outside, along + fallen], axis=1), axis=1)[:, margin:]
    lifted = (highest - fallen)[:, toward]
    shade = 1 - step(0.0, 0.06, lifted - height)
    return np.asarray(facing * (0.15 + 0.85 * shade), dtype=np.float32)


def _shine(lit: Field, light: Light) -> Field:
    """Return the light on each cell: of the sun where it reaches, and of the sky everywhere."""
    sun = light.sun * (0.35 if light.is_night else 1.15)
    return np.asarray(lit[..., None] * sun * (0.35 + 0.65 * light.glow) + light.ambient * 0.85, dtype=np.float32)


def _materials(canvas: Canvas, kind: str, height: Field, across: Field, depth: Field, season: str | None) -> Field:
    """Return the colour of the ground: low plants, woods, rock and snow by height and steepness, or sand."""
    fleck = canvas.rough.sample(across * 0.9, depth * 0.9)
    low, high = (colour(code) for code in _GROUND[(kind if kind in _BARE else season or "summer")].split())
    share = np.clip(0.5 + 0.16 * fleck, 0, 1)
    ground = low + share[..., None] * (high - low)
    if kind in _BARE:
        bands = 0.5 + 0.5 * np.sin(height * 34 + fleck * 1.2)
        shade = 1 - (0.25 if kind == "canyon" else 0.0) * bands
        return np.asarray(ground * shade[..., None], dtype=np.float32)
    rock = colour("5b5650") + (0.10 * fleck)[..., None] * np.ones(3, np.float32)
    steep = np.hypot(np.gradient(height, axis=1) / (canvas.pixel * depth), 0)
    ground = blend(ground, rock, step(0.55, 0.7, height + 0.12 * fleck + 0.10 * np.minimum(steep, 3)))
    line = {"winter": 0.05, "summer": 1.9, "autumn": 1.7}.get(season or "", 1.55)
    ragged = height + 0.16 * fleck - 0.10 * np.minimum(steep, 4)
    return blend(ground, colour("eef3fa"), step(line, 0.45, ragged))


def _mountain(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    ox, oz = float(rng.random()), float(rng.random())
    bend = 0.06 * canvas.smooth.sample(x * 0.05 + ox, z * 0.05 + oz)
    u, v = x * 0.055 + ox + bend, z * 0.055 + oz - bend
    form = canvas.smooth.sample(u, v)
    ridge = 1 - np.abs(canvas.smooth.sample(u * 1.9 + 0.3, v * 1.9)) * 0.9
    fine = 1 - np.abs(canvas.rough.sample(u * 2.6, v * 2.6 + 0.6)) * 0.8
    detail = canvas.rough.sample(u * 7, v * 7)
    range_ = step(4.6, 5.5, z) * (1 - 0.45 * step(13, 20, z))
    peak = np.exp(-(((x - float(rng.uniform(-2.5, 2.5))) / 3.4) ** 2) - ((z - 10) / 3.2) ** 2)
    tall = np.clip(0.55 + 0.30 * form + 1.15 * peak, 0.05, 2.4)
    bulk = range_ * tall * (0.50 + 0.42 * ridge + 0.22 * fine * ridge) * 1.55
    return np.asarray(
        bulk + (0.03 + 0.05 * range_) * detail * np.clip(bulk + 0.15, 0, 1) + 0.03 * form, dtype=np.float32
    )


def _hills(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    ox, oz = float(rng.random()), float(rng.random())
    form = canvas.smooth.sample(x * 0.07 + ox, z * 0.07 + oz)
    small = canvas.smooth.sample(x * 0.21 + oz, z * 0.21 + ox)
    rise = step(1.0, 8.0, z)
    return np.asarray(rise * (0.34 + 0.26 * form + 0.09 * small) + 0.015 * small, dtype=np.float32)


def _meadow(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    ox, oz = float(rng.random()), float(rng.random())
    form = canvas.smooth.sample(x * 0.08 + ox, z * 0.08 + oz)
    return np.asarray(0.035 * form + 0.22 * step(9, 16, z) * np.clip(0.6 + 0.5 * form, 0, 2), dtype=np.float32)


def _desert(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    ox, oz = float(rng.random()), float(rng.random())
    bend = canvas.smooth.sample(x * 0.05 + ox, z * 0.05 + oz)
    wave = canvas.smooth.sample(x * 0.075 + 0.06 * bend + oz, z * 0.11 + 0.03 * bend + ox)
    crest = (1 - np.abs(wave) * 1.25) ** 2 * np.sign(1 - np.abs(wave) * 1.25)
    small = 1 - np.abs(canvas.smooth.sample(x * 0.22 + 0.1 * bend, z * 0.4 + ox))
    return np.asarray(
        step(0.5, 3.5, z) * (0.16 + 0.52 * np.maximum(crest, -0.3) + 0.06 * bend + 0.10 * small), dtype=np.float32
    )


def _canyon(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    ox, oz = float(rng.random()), float(rng.random())
    form = canvas.smooth.sample(x * 0.075 + ox, z * 0.075 + oz) + 0.22 * canvas.rough.sample(x * 0.16, z * 0.16)
    wall = step(2.2, 4.2, np.abs(x + 1.1 * np.sin(z * 0.6)) + 0.5 * form) * 1.15 + 0.35 * form
    terraced = np.floor(wall * 4) / 4 + step(0.55, 0.40, wall * 4 - np.floor(wall * 4)) / 4
    return np.asarray(step(1.6, 3.5, z) * np.maximum(terraced, 0) * 1.1, dtype=np.float32)


def _volcano(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    middle, ox = float(rng.uniform(-1.5, 1.5)), float(rng.random())
    away = np.hypot(x - middle, z - 10)
    ribs = canvas.smooth.sample(np.arctan2(x - middle, z - 10) * 0.35 + ox, away * 0.02)
    cone = 2.5 * np.exp(-away / 2.1) * (1 + 0.10 * ribs)
    crater = np.minimum(cone, 1.75 + 0.05 * ribs)
    return np.asarray(crater + 0.06 * canvas.rough.sample(x * 0.2, z * 0.2) * step(2, 3, z), dtype=np.float32)


def _island(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    form = canvas.smooth.sample(x * 0.12 + float(rng.random()), z * 0.12 + float(rng.random()))
    middle = float(rng.uniform(-1.6, 1.6))
    bump = np.exp(-(((x - middle) / 1.9) ** 2) - ((z - 8) / 1.3) ** 2)
    return np.asarray(
        bump * (0.85 + 0.3 * form + 0.14 * canvas.rough.sample(x * 0.3, z * 0.3)) + 0.03 * form - 0.16, dtype=np.float32
    )


def _coast(canvas: Canvas, x: Field, z: Field, rng: np.random.Generator) -> Field:
    """Return far low hills at one side, and open water at the other."""
    form = canvas.smooth.sample(x * 0.05 + float(rng.random()), z * 0.05 + float(rng.random()))
    side = 1.0 if rng.random() < 0.5 else -1.0
    land = step(-2.0, 16.0, x * side) * step(9, 6, z)
    return np.asarray(land * (0.55 + 0.4 * form) - 0.12, dtype=np.float32)


_HEIGHTS: Final[dict[str, Heights]] = {
    "mountain": _mountain, "hills": _hills, "meadow": _meadow, "desert": _desert, "canyon": _canyon,
    "volcano": _volcano, "island": _island, "coast": _coast,
}  # fmt: skip
_BARE: Final = frozenset({"desert", "canyon"})
_GROUND: Final = {
    "spring": "4c7a34 8fb556",
    "summer": "3d6a30 7c9c48",
    "autumn": "7d5a26 b98d3c",
    "winter": "b9c6d4 e6edf5",
    "desert": "d99a5c f2c888",
    "canyon": "a2522c d08a55",
}
