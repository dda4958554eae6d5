"""Woods: rows of trees with fog between them, conifers or broad crowns as season and place have it."""

from typing import Final

import msgspec
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, blend

from .growth import Drawing, broad, conifer, crowns
from .layers import Layer, as_cover
from .light import Light, colour

_WOOD: Final = (0.23, 0.37, 0.55, 0.76, 1.0)
_EDGE: Final = (0.35, 0.5)
_SNOW: Final = "e8eef5"
_GRASS: Final = {"winter": _SNOW, "autumn": "8a5a28", "spring": "5c8a3c", "summer": "33502c"}
_DAY: Final = {"noon": 0.95, "dawn": 0.62, "dusk": 0.52, "night": 0.20}


class _Row(msgspec.Struct, frozen=True):
    """One row: how near it is (1 nearest), the row of the picture that it stands on, and what is left free."""

    near: float
    base: float
    scale: float
    clearing: float | None
    is_broad: bool
    has_floor: bool


def wood(canvas: Canvas, light: Light, season: str | None, horizon: float, *, pines: bool) -> Layer:
    """Return a whole wood, from far trees in the haze to near ones beside a clearing."""
    rng = canvas.rng("trees")
    is_broad, clearing = _is_broad(season, rng) and not pines, float(rng.uniform(0.35, 0.65)) * canvas.aspect
    rows = [
        _Row(near, horizon + 0.03 + 0.42 * near**1.4, 1.35, clearing if near > 0.55 else None, is_broad, has_floor=True)
        for near in _WOOD
    ]
    return _lay(canvas, light, season, rows, rng)


def edge(canvas: Canvas, light: Light, season: str | None, foot: float, *, pines: bool, floor: bool) -> Layer:
    """Return the edge of a wood that stands on the row `foot`, with a floor of its own or on the land behind it."""
    rng = canvas.rng("trees")
    is_broad = _is_broad(season, rng) and not pines
    rows = [_Row(near, foot + 0.015 * number, 0.5, None, is_broad, floor) for number, near in enumerate(_EDGE)]
    return _lay(canvas, light, season, rows, rng)


def _is_broad(season: str | None, rng: np.random.Generator) -> bool:
    drawn = bool(rng.random() < 0.35)
    return season in ("spring", "autumn") or (season != "winter" and drawn)


def _lay(canvas: Canvas, light: Light, season: str | None, rows: list[_Row], rng: np.random.Generator) -> Layer:
    """Draw the rows one before the other; of each only the strip that the next one leaves to be seen is coloured."""
    shape = canvas.y.shape[0], canvas.x.shape[1]
    tone, cover = np.zeros((*shape, 3), dtype=np.float32), np.zeros(shape, dtype=np.float32)
    stamps = crowns(rng) if rows[0].is_broad else []
    for number, row in enumerate(rows):
        drawing = Drawing(canvas)
        along = np.array([[rng.random()]], dtype=np.float32)
        ground = np.asarray(row.base + 0.035 * row.near * canvas.smooth.sample(canvas.x * 0.4, along), np.float32)
        _plant(canvas, drawing, row, ground, season, stamps, rng)
        first = max(0, drawing.first_row())
        after = rows[number + 1].base + 0.09 if number + 1 < len(rows) else 1.0
        strip = slice(first, max(first + 1, min(shape[0], round(after / canvas.pixel))))
        layer = _colour(canvas.rows(strip.start, strip.stop), light, season, row, drawing.rows(strip), ground)
        total = layer.cover + cover[strip] * (1 - layer.cover)
        share = layer.cover / np.maximum(total, np.float32(1e-5))
        tone[strip], cover[strip] = blend(tone[strip], layer.tone, share), total
    return Layer(tone, cover)


def _plant(
    canvas: Canvas, drawing: Drawing, row: _Row, ground: Field, season: str | None, stamps: list[Field],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Draw the trees of a row along its ground."""
    x = float(rng.uniform(-0.1, 0.05))
    while x < canvas.aspect + 0.1:
        tall = row.near * float(rng.uniform(0.32, 0.62)) * row.scale
        column = int(np.clip(x / canvas.pixel, 0, ground.shape[1] - 1))
        foot = float(ground[0, column]) + 0.01
        is_free = row.clearing is not None and abs(x - row.clearing) < 0.16 + 0.30 * (row.near - 0.5)
        if not is_free and row.is_broad:
            broad(drawing, (x, foot), tall, season, stamps, rng)
        elif not is_free:
            conifer(drawing, (x, foot), tall, rng)
        x += tall * float(rng.uniform(0.07, 0.26)) * (1.8 if row.is_broad else 1)


def _colour(canvas: Canvas, light: Light, season: str | None, row: _Row, drawing: Drawing, ground: Field) -> Layer:
    """Return a drawn row as a layer: dark near, pale in the haze far away, palest at its foot."""
    day = _DAY[light.time]
    own = colour("2c2620" if row.is_broad else "22402a") * day + 0.05 * light.ambient
    tone = np.asarray(own + np.zeros((*drawing.wood.shape, 3), np.float32), dtype=np.float32)
    shine = light.ambient * 0.60 + light.sun * np.float32(0.5 * light.glow)
    if row.is_broad:
        leaves = drawing.leaves.astype(np.float32) * np.float32((0.5 + 0.65 * day) / 255) * shine
        tone = blend(tone, leaves, as_cover(drawing.crown))
    elif season == "winter":
        snow = colour(_SNOW) * (0.25 + 0.75 * day) * (0.4 + 0.6 * light.ambient)
        tone = blend(tone, snow, as_cover(drawing.snow) * as_cover(drawing.wood))
    floor = colour(_GRASS[season or "summer"]) * shine * np.float32(0.4 + 0.6 * day)
    fleck = 1 + 0.10 * canvas.rough.sample(canvas.x * 0.9, (canvas.y - row.base) * 3.0)
    earth = np.clip((canvas.y - ground) / canvas.pixel + 0.5, 0, 1) * np.float32(row.has_floor)
    tone = blend(tone, floor * fleck[..., None], earth)
    cover = np.maximum(np.maximum(as_cover(drawing.wood), as_cover(drawing.crown)), earth)
    low = np.clip(1 - np.abs(canvas.y - row.base) / 0.28, 0, 1)
    faded = (1 - row.near) * (0.85 + 2.2 * light.haze) + (0.04 + 1.7 * light.haze) * low * (1.15 - row.near)
    share = np.asarray(np.clip(faded, 0, 0.97) + 0 * canvas.x, dtype=np.float32)
    return Layer(blend(tone, light.air, share), np.asarray(cover, dtype=np.float32))
