"""Cities: rows of buildings, paler the farther they stand, with windows that are lit when it is dark."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead_partners.procedural.noise import Canvas, Field

from .layers import Layer, Mask, as_cover, empty_mask, fill
from .light import Light, colour

_WINDOWS = ("ffd58a", "ffe9bd", "ffc069", "cfe3ff")


class Box(NamedTuple):
    """The edges of a building, in the coordinates of the canvas."""

    left: float
    top: float
    right: float
    bottom: float


def skyline(canvas: Canvas, light: Light, foot: float, *, is_village: bool) -> list[Layer]:
    """Return the rows of a city whose buildings stand on the row `foot`, the farthest first."""
    rng = canvas.rng("city")
    rows = ((0.55, 0.16), (1.0, 0.24)) if is_village else ((0.35, 0.34), (0.65, 0.42), (1.0, 0.30))
    centre = float(rng.uniform(0.35, 0.65)) * canvas.aspect
    return [_row(canvas, light, foot, near, tall, centre, rng, is_village=is_village) for near, tall in rows]


def _row(
    canvas: Canvas, light: Light, foot: float, near: float, tall: float, centre: float,
    rng: np.random.Generator, *, is_village: bool,
) -> Layer:  # fmt: skip
    mask = empty_mask(canvas)
    picture = np.zeros((*mask.shape, 3), dtype=np.float32)
    far = (1 - near) * (0.75 + 1.2 * light.haze)
    x = -0.05
    while x < canvas.aspect + 0.05:
        wide = float(rng.uniform(0.035, 0.085)) * (0.55 + 0.45 * near) * (1.3 if is_village else 1)
        bulge = np.exp(-(((x - centre) / (0.55 * canvas.aspect)) ** 2) * 2)
        high = tall * float(0.25 + 0.75 * rng.beta(1.6, 2.6)) * float(0.35 + 0.8 * bulge) * (0.36 if is_village else 1)
        box = Box(x, foot - high, x + wide, foot)
        _building(canvas, mask, picture, box, light, near, rng, is_village=is_village)
        x += wide * float(rng.uniform(0.8, 1.1))
    height = np.clip((foot - canvas.y) / 0.35, 0, 1)
    faded = np.clip(far * (1.05 - 0.45 * height), 0, 1)[..., None]
    return Layer(picture + (light.air - picture) * np.asarray(faded, np.float32), as_cover(mask))


def _building(
    canvas: Canvas, mask: Mask, picture: Field, box: Box, light: Light, near: float,
    rng: np.random.Generator, *, is_village: bool,
) -> None:  # fmt: skip
    """Draw one building: a box with a lit and a shaded side, windows, and a roof of its own."""
    left, top, right, bottom = box
    fill(canvas, mask, np.array([[left, top], [right, top], [right, bottom], [left, bottom]]))
    crown = 0.0
    kind = rng.random()
    wide = right - left
    if is_village:
        crown = wide * 0.45
        fill(canvas, mask, np.array([[left - 0.004, top], [(left + right) / 2, top - crown], [right + 0.004, top]]))
    elif kind < 0.35:
        crown = float(rng.uniform(0.015, 0.05))
        inset = wide * float(rng.uniform(0.15, 0.3))
        fill(
            canvas,
            mask,
            np.array(
                [[left + inset, top - crown], [right - inset, top - crown], [right - inset, top], [left + inset, top]]
            ),
        )
        if kind < 0.16:
            middle, tip = (left + right) / 2, top - crown - float(rng.uniform(0.03, 0.09))
            fill(canvas, mask, np.array([[middle - 0.0025, top], [middle, tip], [middle + 0.0025, top]]))
    elif kind < 0.45:
        crown = wide * 0.5
        fill(canvas, mask, np.array([[left, top], [right, top - crown], [right, top]]))
    rows = slice(max(0, round((top - crown - 0.1) / canvas.pixel)), max(0, round(bottom / canvas.pixel)))
    columns = slice(max(0, round((left - 0.004) / canvas.pixel)), max(0, round((right + 0.004) / canvas.pixel)))
    part = picture[rows, columns]
    if part.size == 0:
        return
    part[:] = _facade(part.shape[:2], light, near, rng, is_village=is_village)
    _window_grid(canvas, picture, box, light, near, rng, is_village=is_village)


def _facade(shape: tuple[int, ...], light: Light, near: float, rng: np.random.Generator, *, is_village: bool) -> Field:
    """Return the colours of a front: the side towards the sun is lit."""
    warm = colour("b5825e") if is_village else colour("8b8a8c")
    own = warm * float(rng.uniform(0.55, 1.0)) + (colour("5e7f9c") - warm) * float(rng.uniform(0, 0.5)) * (
        not is_village
    )
    share = float(rng.uniform(0.35, 0.6))
    lit = np.linspace(0, 1, shape[1], dtype=np.float32)[None, :] < share
    lit = lit if light.across < 0.5 else ~lit
    sun = {"noon": 0.75, "dawn": 0.42, "dusk": 0.38, "night": 0.03}[light.time] * light.glow
    shine = light.ambient * 0.60 + lit[..., None] * light.sun * np.float32(sun)
    drop = np.linspace(1.08, 0.85, shape[0], dtype=np.float32)[:, None, None]
    return np.asarray(own * shine * drop * np.float32(1.15 - 0.25 * near), dtype=np.float32)


def _window_grid(
    canvas: Canvas, picture: Field, box: Box, light: Light, near: float, rng: np.random.Generator, *, is_village: bool
) -> None:
    """Set windows into a front, in place; where pixels are too few for them, their light is only a shimmer."""
    left, top, right, bottom = box
    cell_x, cell_y = (0.020, 0.026) if is_village else (0.0095 * (0.5 + 0.5 * near), 0.0125 * (0.5 + 0.5 * near))
    count_x, count_y = max(1, int((right - left) / cell_x) - 1), max(1, int((bottom - top) / cell_y) - 1)
    dark = light.time in ("night", "dusk") or light.glow < 0.4
    share = float(rng.uniform(0.25, 0.6)) if light.is_night else float(rng.uniform(0.12, 0.4)) if dark else 0.05
    lit = rng.random((count_y, count_x)) < share
    tones = np.stack([colour(code) for code in _WINDOWS])[rng.integers(0, len(_WINDOWS), (count_y, count_x))]
    glow = tones * rng.uniform(0.45, 1.1, (count_y, count_x, 1))
    glass = light.ambient * 0.42 + 0.10 * light.middle
    y = np.arange(max(0, round(top / canvas.pixel)), min(picture.shape[0], round(bottom / canvas.pixel)))
    x = np.arange(max(0, round(left / canvas.pixel)), min(picture.shape[1], round(right / canvas.pixel)))
    if not len(x) or not len(y):
        return
    v, u = ((y + 0.5) * canvas.pixel - top) / (bottom - top), ((x + 0.5) * canvas.pixel - left) / (right - left)
    across, down = u * (count_x + 1) - 0.5, v * (count_y + 1) - 0.5
    inside_x = (np.abs(across - np.floor(across) - 0.5) < 0.30) & (across >= 0) & (across < count_x)
    inside_y = (np.abs(down - np.floor(down) - 0.5) < 0.32) & (down >= 0) & (down < count_y)
    rows, columns = _indices(down, count_y), _indices(across, count_x)
    seen = np.outer(inside_y, inside_x)[..., None]
    is_lit = lit[np.ix_(rows, columns)][..., None]
    part = picture[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
    window = np.where(is_lit, glow[np.ix_(rows, columns)] if dark else glass * 1.5, 0.55 * part + 0.45 * glass)
    part[:] = np.where(seen, window, part)


def _indices(places: Field, count: int) -> NDArray[np.intp]:
    return np.asarray(np.clip(np.floor(places), 0, count - 1), dtype=np.intp)
