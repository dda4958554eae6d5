"""People, animals, houses, boats and birds, as silhouettes against the light."""

from itertools import pairwise
from typing import Final

import cv2
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, blend

from .layers import Layer, Mask, as_cover, empty_mask, fill
from .light import Light, colour
from .outlines import HULLS, OUTLINES, Outline
from .subject import Figure

_WARM: Final = np.array([1.0, 0.78, 0.42], dtype=np.float32)
_SHIFT: Final = 4


def draw(canvas: Canvas, mask: Mask, outline: Outline, x: float, y: float, height: float, *, flip: bool) -> None:
    """Draw a figure that stands at a point, `height` picture heights tall; `flip` makes it look to the left."""
    side = -height if flip else height
    for limb in outline.limbs:
        for one, other in pairwise(limb):
            _limb(canvas, mask, one * (side, -height, height) + (x, y, 0), other * (side, -height, height) + (x, y, 0))
    for polygon in outline.polygons:
        fill(canvas, mask, polygon * (side, -height) + (x, y))


def _limb(canvas: Canvas, mask: Mask, one: Field, other: Field) -> None:
    """Draw a limb between two joints (x, y, radius)."""
    along = other[:2] - one[:2]
    length = float(np.hypot(*along)) or 1e-6
    normal = np.array([-along[1], along[0]]) / length
    corners = [
        one[:2] + normal * one[2],
        other[:2] + normal * other[2],
        other[:2] - normal * other[2],
        one[:2] - normal * one[2],
    ]
    fill(canvas, mask, np.array(corners))
    for joint in (one, other):
        centre = np.round((joint[:2] / canvas.pixel - 0.5) * (1 << _SHIFT)).astype(int)
        radius = max(1, round(float(joint[2]) / canvas.pixel * (1 << _SHIFT)))
        cv2.circle(mask, (int(centre[0]), int(centre[1])), radius, 255, -1, cv2.LINE_AA, _SHIFT)


def silhouette(canvas: Canvas, mask: Mask, light: Light, tone: Field) -> Layer:
    """Return a drawn mask as a layer of a colour, with a rim of light on the side of the sun."""
    cover = as_cover(mask)
    reach = max(1, round(0.0022 / canvas.pixel))
    shift = reach if light.across < 0.5 else -reach
    rim = np.clip(cover - np.roll(cover, shift, axis=1), 0, 1) * np.float32(0.35 * light.glow)
    return Layer(np.asarray(tone + rim[..., None] * light.sun, dtype=np.float32), cover)


def dark(light: Light, code: str | None = None) -> Field:
    """Return the colour of things against the light: dark, or a darker form of their own colour."""
    day = {"noon": 0.62, "dawn": 0.32, "dusk": 0.26, "night": 0.16}[light.time]
    base = np.array([0.10, 0.105, 0.125], dtype=np.float32) if code is None else colour(code)
    share = 0.45 if code is None else day + 0.22
    return np.asarray(base * share + 0.05 * light.ambient * (0.4 + day), dtype=np.float32)


def stand(canvas: Canvas, figures: list[Figure], light: Light, ground: Field, scale: float) -> list[Layer]:
    """Return layers with the figures that stand on `ground` (the height of the ground's edge at each column)."""
    rng = canvas.rng("figures")
    layers: list[Layer] = []
    centre = float(rng.uniform(0.3, 0.7))
    # Small animals alone are looked at from nearer.
    scale *= max(1.0, 0.7 / max((OUTLINES[figure.kind].size for figure in figures), default=1.0))
    for number, figure in enumerate(figures):
        outline = OUTLINES[figure.kind]
        mask, lamps = empty_mask(canvas), empty_mask(canvas)
        spread = 0.0 if figure.count == 1 else 1.0
        flip = rng.random() < 0.5
        for one in range(figure.count):
            height = scale * outline.size * float(rng.uniform(0.9, 1.0) if spread else 1.0)
            gap = max(0.5 if outline.polygons or figure.kind in _UPRIGHT else 1.15, 0.3) * height
            middle = ((centre + 0.37 * number) % 0.8 + 0.1) * canvas.aspect
            reach = min(spread * (figure.count - 1) / 2 * gap + 0.4 * height, canvas.aspect / 2)
            middle = min(max(middle, reach), canvas.aspect - reach)
            x = middle + spread * (one - (figure.count - 1) / 2) * gap * float(rng.uniform(0.85, 1.05))
            column = int(np.clip(x / canvas.pixel, 0, ground.shape[1] - 1))
            y = float(ground[0, column]) + 0.012
            draw(canvas, mask, outline, x, y, height, flip=flip if rng.random() < 0.8 else not flip)
            _windows(canvas, lamps, outline, x, y, height, flip=flip)
        layers.append(silhouette(canvas, mask, light, dark(light, figure.colour or _stone(outline, light))))
        if light.time != "noon" and lamps.any():
            layers += _lamplight(canvas, lamps)
        elif lamps.any():
            layers.append(silhouette(canvas, lamps, light, dark(light) * np.float32(0.6)))
    return layers


def _stone(outline: Outline, light: Light) -> str | None:
    """Return the colour of walls, which by day are not silhouettes."""
    return "453f3b" if outline.polygons and light.time == "noon" else None


def _windows(canvas: Canvas, lamps: Mask, outline: Outline, x: float, y: float, height: float, *, flip: bool) -> None:
    side = -height if flip else height
    for left, bottom, right, top in outline.windows:
        corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
        fill(canvas, lamps, corners * (side, -height) + (x, y))


def _lamplight(canvas: Canvas, lamps: Mask) -> list[Layer]:
    """Return lit windows and the light around them."""
    cover = as_cover(lamps)
    halo = np.asarray(cv2.GaussianBlur(cover, (0, 0), max(1.0, 0.018 / canvas.pixel)), dtype=np.float32)
    return [
        Layer(np.ones_like(halo)[..., None] * _WARM, np.clip(halo * 0.9, 0, 0.55)),
        Layer(cover[..., None] * 0 + _WARM * 1.15, cover),
    ]


_AFLOAT_SIZE: Final = {"sailboat": 0.20, "boat": 0.075, "ship": 0.11, "whale": 0.13, "dolphin": 0.085}
_UPRIGHT: Final = frozenset({"person", "child", "owl", "palm", "tree"})
AFLOAT: Final = frozenset(HULLS)
AIRBORNE: Final = frozenset({"bird", "balloon"})


def sail(canvas: Canvas, picture: Field, figures: list[Figure], light: Light, horizon: float) -> Field:
    """Put boats and whales on the water, each with its reflection; in a clip they rise and fall with it."""
    rng = canvas.rng("afloat")
    for figure in figures:
        for number in range(figure.count):
            near = float(rng.uniform(0.35, 0.6)) if number == 0 else float(rng.uniform(0.05, 0.7))
            y = horizon + 0.03 + 0.28 * near
            height = _AFLOAT_SIZE[figure.kind] * (0.45 + 1.1 * near)
            x = canvas.aspect * float(rng.uniform(0.15, 0.85))
            bob = 0.004 * float(np.sin(canvas.turn + 2.0 * number)) * (0.5 + near)
            side = -1.0 if rng.random() < 0.5 else 1.0
            mask, below = empty_mask(canvas), empty_mask(canvas)
            for points in HULLS[figure.kind]:
                fill(canvas, mask, points * (side * height, -height) + (x, y + bob))
                fill(canvas, below, points * (side * height, height * 0.9) + (x, y + bob))
            tone = dark(light, figure.colour)
            if figure.kind == "sailboat" and figure.colour is None:
                tone = np.asarray(0.25 * tone + 0.55 * light.ambient + 0.25 * light.sun * light.glow * 0.6, np.float32)
            picture = blend(picture, 0.6 * tone + 0.25 * light.middle, _ripple(canvas, below) * 0.55)
            picture = silhouette(canvas, mask, light, tone).over(picture)
    return picture


def _ripple(canvas: Canvas, mask: Mask) -> Field:
    """Return a mask broken into waves, the more the lower it is."""
    lines, columns = mask.shape
    sway = canvas.rough.sample(0.3 + 0 * canvas.y + canvas.orbit(0.03)[0], canvas.y * 2.3 + canvas.orbit(0.03)[1])
    column = np.arange(columns, dtype=np.float32)[None, :] + sway * np.float32(0.006 / canvas.pixel)
    row = np.broadcast_to(np.arange(lines, dtype=np.float32)[:, None], (lines, columns))
    moved = cv2.remap(mask, np.ascontiguousarray(column, np.float32), np.ascontiguousarray(row), cv2.INTER_LINEAR)
    return as_cover(np.asarray(moved, dtype=np.uint8))


def fly(canvas: Canvas, picture: Field, figures: list[Figure], light: Light, horizon: float) -> Field:
    """Put birds and balloons into the sky; in a clip birds beat their wings, and balloons rise and sink."""
    rng = canvas.rng("airborne")
    for figure in figures:
        mask = empty_mask(canvas)
        tone = dark(light, figure.colour)
        if figure.kind == "balloon":
            picture = _balloons(canvas, picture, figure, light, rng, horizon)
            continue
        centre = np.array([rng.uniform(0.3, 0.7) * canvas.aspect, rng.uniform(0.25, 0.5) * horizon])
        for number in range(max(figure.count, 5 if figure.count > 1 else 1)):
            size = float(rng.uniform(0.016, 0.032)) * (1.8 if figure.count == 1 else 1)
            place = centre + rng.normal(0, 1, 2) * (0.12, 0.05) * (number > 0)
            _bird(canvas, mask, place, size, canvas.turn * 3 + float(rng.uniform(0, 6.28)))
        picture = silhouette(canvas, mask, light, tone).over(picture)
    return picture


def _bird(canvas: Canvas, mask: Mask, place: Field, size: float, beat: float) -> None:
    """Draw a bird seen from the side of its flight, its wings raised as its beat says."""
    lift = 0.35 + 0.45 * float(np.sin(beat))
    for side in (-1.0, 1.0):
        wing = np.array(
            [[0, 0.0], [0.5 * side, -lift], [1.1 * side, -lift * 0.55], [0.55 * side, -lift + 0.16], [0, 0.20]]
        )
        fill(canvas, mask, wing * size + place)
    fill(canvas, mask, np.array([[-0.16, 0.0], [0.0, -0.07], [0.16, 0.02], [0.10, 0.22], [-0.10, 0.22]]) * size + place)


def _balloons(
    canvas: Canvas, picture: Field, figure: Figure, light: Light, rng: np.random.Generator, horizon: float
) -> Field:
    codes = ["c8352e", "ee8a2a", "2f62c8", "f0c63c", "2f9c9a", "7d4bb8"]
    for number in range(max(figure.count, 1)):
        size = float(rng.uniform(0.06, 0.10)) * (1.25 if number == 0 else 0.8)
        x, y = float(rng.uniform(0.15, 0.85)) * canvas.aspect, float(rng.uniform(0.2, 0.7)) * horizon
        y += 0.008 * float(np.sin(canvas.turn + number * 1.7))
        code = figure.colour or codes[int(rng.integers(len(codes)))]
        for share in (1.0, 0.62, 0.24):
            mask = empty_mask(canvas)
            angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
            drop = np.stack([np.cos(angles) * share, np.sin(angles) * (1 + 0.22 * (np.sin(angles) > 0))], axis=1)
            fill(canvas, mask, drop * size + (x, y))
            tone = dark(light, code) * np.float32(1.35 if share == 0.62 else 1.0)
            picture = silhouette(canvas, mask, light, tone).over(picture)
        mask = empty_mask(canvas)
        fill(canvas, mask, np.array([[-0.15, 1.5], [0.15, 1.5], [0.12, 1.72], [-0.12, 1.72]]) * size + (x, y))
        for side in (-1.0, 1.0):
            fill(
                canvas,
                mask,
                np.array([[0.45 * side, 1.05], [0.47 * side, 1.06], [0.14 * side, 1.52], [0.12 * side, 1.5]]) * size
                + (x, y),
            )
        picture = silhouette(canvas, mask, light, dark(light)).over(picture)
    return picture
