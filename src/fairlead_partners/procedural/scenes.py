"""The families of pictures, places and abstract ones: each paints one moment of an endless loop on a canvas."""

from collections.abc import Callable

import cv2
import numpy as np

from .noise import Canvas, Field, blend, step
from .scenery.place import Place
from .scenery.sky import stars
from .scenery.subject import read
from .seeds import words

Scene = Callable[[Canvas], Field]


def choose(prompt: str, seed: int, rng: np.random.Generator) -> Scene:
    """Return what the words ask for: a place, or one of the abstract families; by chance where they name neither."""
    drawn, is_place = int(rng.integers(len(_FAMILIES))), bool(rng.random() < 0.5)
    subject = read(prompt)
    asked = next((_ASKED[word] for word in words(prompt) if word in _ASKED), None)
    if subject.places or subject.figures or (asked is None and (subject.is_place or is_place)):
        return Place(prompt, seed, subject)
    return asked or _FAMILIES[drawn]


def nebula(canvas: Canvas) -> Field:
    """Paint clouds of lit gas, lanes of dust before them, and stars."""
    rng = canvas.rng("nebula")
    scale, ox, oy = float(rng.uniform(0.5, 0.8)), float(rng.random()), float(rng.random())
    x, y = canvas.x * scale + ox, canvas.y * scale + oy
    ax, ay = canvas.orbit(0.03)
    wx, wy = canvas.smooth.sample(x + ax, y + ay), canvas.smooth.sample(x + 0.37, y + 0.71 - ax)
    gas = canvas.rough.sample(x + 0.11 * wx, y + 0.11 * wy)
    dust = canvas.rough.sample(x * 1.7 + 0.08 * wy + ay, y * 1.7 - 0.08 * wx)
    glow = step(-1.3, 3.3, 0.75 * gas + 0.6 * wx + 0.25)
    lanes = step(0.1, 1.6, dust - 0.3 * gas)
    light = 0.92 * glow**1.8 * (1 - 0.75 * lanes)
    picture = canvas.palette.at(0.03 + 0.95 * light)
    tint = np.clip(0.55 * step(0.0, 2.0, wy) * glow, 0, 1)
    picture = blend(picture, canvas.palette.accent * (0.25 + light)[..., None], tint)
    return picture * (0.35 + 0.75 * light)[..., None] + stars(canvas, rng, 420, 1.0)[..., None]


def marble(canvas: Canvas) -> Field:
    """Paint poured ink: noise whose coordinates are bent by noise, twice, with fine bright veins."""
    rng = canvas.rng("marble")
    scale, ox, oy = float(rng.uniform(0.35, 0.55)), float(rng.random()), float(rng.random())
    x, y = canvas.x * scale + ox, canvas.y * scale + oy
    ax, ay = canvas.orbit(0.025)
    qx, qy = canvas.smooth.sample(x + ax, y + ay), canvas.smooth.sample(x + 0.52, y + 0.13 - ay)
    rx = canvas.smooth.sample(x + 0.10 * qx + 0.17, y + 0.10 * qy + 0.92)
    field = canvas.smooth.sample(x + 0.09 * rx + ay, y + 0.09 * qx) + 0.12 * canvas.rough.sample(
        x * 2 + 0.1 * rx, y * 2
    )
    tone = 0.5 + 0.5 * np.sin(2.1 * field + 0.9 * rx)
    picture = canvas.palette.at(0.06 + 0.88 * tone)
    veins = np.exp(-np.abs(np.sin(3.0 * field + 1.3 * qy)) * 14) * step(-0.4, 1.4, rx)
    picture = blend(picture, canvas.palette.accent, 0.75 * veins)
    return picture * _shade(field, canvas.pixel, 0.035)[..., None]


def silk(canvas: Canvas) -> Field:
    """Paint folds of cloth, lit from one side."""
    rng = canvas.rng("silk")
    scale, angle = float(rng.uniform(0.45, 0.65)), float(rng.uniform(0, np.pi))
    across = canvas.x * np.float32(np.cos(angle)) + canvas.y * np.float32(np.sin(angle))
    ax, ay = canvas.orbit(0.03)
    x, y = canvas.x * scale, canvas.y * scale
    bend = canvas.smooth.sample(x + ax, y + ay)
    second = canvas.smooth.sample(x + 0.4 + 0.06 * bend, y + 0.8 + ay)
    folds = float(rng.uniform(5, 8)) * across + 2.6 * bend + 1.2 * second + canvas.turn
    height = np.sin(folds) * 0.5 + 0.22 * np.sin(2 * folds + bend) + 0.3 * second
    picture = canvas.palette.at(0.42 + 0.2 * height + 0.16 * bend)
    # The sampler rounds coordinates to 1/32 of a cell; unblurred, that shows as a grid in the light.
    soft = cv2.GaussianBlur(height, (0, 0), max(0.6, 0.008 / canvas.pixel))
    light = _shade(np.asarray(soft, dtype=np.float32), canvas.pixel, 0.10)
    picture = picture * (0.35 + 0.65 * light)[..., None]
    return blend(picture, canvas.palette.stops[4], 0.55 * np.clip(light - 1.05, 0, 1))


def tiles(canvas: Canvas) -> Field:
    """Paint square tiles of quarter circles whose bands join into wandering ribbons."""
    rng = canvas.rng("tiles")
    count = int(rng.integers(4, 8))
    columns = int(np.ceil(canvas.aspect * count)) + 2
    flips = rng.random((count + 2, columns)) < 0.5
    tones = rng.random((count + 2, columns)).astype(np.float32)
    x, y = canvas.x * count, canvas.y * count
    column, row = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    u, v = x - column, y - row
    u = np.where(flips[row, column], 1 - u, u + 0 * v).astype(np.float32)
    near = np.minimum(np.hypot(u, v), np.hypot(1 - u, 1 - v))
    bands = int(rng.integers(2, 4))
    wave = np.cos(2 * np.pi * bands * (near - 0.5) * 2)
    soft = 2 * np.pi * 2 * bands * count * canvas.pixel
    ribbon = step(-soft * 0.5, soft, wave)
    drift = 0.5 + 0.3 * canvas.smooth.sample(canvas.x * 0.3 + canvas.orbit(0.05)[0], canvas.y * 0.3)
    ground = canvas.palette.at(np.clip(0.10 + 0.3 * drift + 0.12 * tones[row, column], 0, 1))
    picture = blend(ground, canvas.palette.at(0.35 + 0.62 * drift), ribbon)
    dots = _dots(canvas, x, y, tones, count)
    shadow = 1 - 0.35 * step(0.0, 0.9, 1 - np.abs(wave)) * (1 - ribbon)
    return blend(picture * shadow[..., None], canvas.palette.accent, dots)


def _dots(canvas: Canvas, x: Field, y: Field, tones: Field, count: int) -> Field:
    """Return the share of accent: a dot where some tiles meet, breathing with the loop."""
    column, row = np.rint(x).astype(np.intp), np.rint(y).astype(np.intp)
    tone = tones[row, column]
    radius = 0.15 + 0.05 * np.sin(canvas.turn + tone * 12)
    inside = 1 - step(0.0, 1.5 * count * canvas.pixel, np.hypot(x - column, y - row) - radius)
    return np.asarray(inside * (tone > 0.6), dtype=np.float32)


def _shade(height: Field, pixel: float, strength: float) -> Field:
    """Return light on a surface, about 1 where it is flat, from above on the left."""
    slope = np.gradient(height)
    return np.asarray(1 - np.tanh((slope[0] + slope[1]) / np.float32(pixel) * strength) * 0.6, dtype=np.float32)


_FAMILIES: tuple[Scene, ...] = (nebula, marble, silk, tiles)

_ASKED: dict[str, Scene] = {
    word: scene
    for scene, asked in (
        (nebula, "space galaxy nebula cosmic cosmos planet universe"),
        (marble, "marble ink liquid fluid smoke paint abstract lava fire"),
        (silk, "silk cloth fabric satin velvet dream flower flowers rose"),
        (tiles, "tile tiles pattern geometric mosaic neon architecture wallpaper"),
    )
    for word in asked.split()
}
