"""The families of pictures: each paints one moment of an endless loop on a canvas."""

from collections.abc import Callable

import cv2
import numpy as np

from .noise import Canvas, Field, blend, step
from .seeds import words

Scene = Callable[[Canvas], Field]


def choose(prompt: str, rng: np.random.Generator) -> Scene:
    """Return the family the words ask for, or one by chance."""
    drawn = int(rng.integers(len(_FAMILIES)))
    for word in words(prompt):
        if word in _ASKED:
            return _ASKED[word]
    return _FAMILIES[drawn]


def landscape(canvas: Canvas) -> Field:
    """Paint ridges one behind the other under a low sun, each paler the farther it is."""
    rng = canvas.rng("landscape")
    horizon = float(rng.uniform(0.42, 0.56))
    picture = _sky(canvas, horizon, rng)
    return _ridges(canvas, picture, horizon, rng, count=6, height=float(rng.uniform(0.13, 0.22)))


def shore(canvas: Canvas) -> Field:
    """Paint far hills and a sky that a rippled lake gives back."""
    rng = canvas.rng("shore")
    horizon = float(rng.uniform(0.55, 0.64))
    above = canvas.rows(0, round(horizon / canvas.pixel))
    picture = _sky(above, horizon, rng)
    picture = _ridges(above, picture, horizon - 0.12, rng, count=3, height=float(rng.uniform(0.12, 0.26)))
    return _water(canvas, picture, horizon)


def aurora(canvas: Canvas) -> Field:
    """Paint curtains of light over dark hills and their reflection."""
    rng = canvas.rng("aurora")
    horizon = float(rng.uniform(0.66, 0.74))
    above = canvas.rows(0, round(horizon / canvas.pixel))
    picture = canvas.palette.at(0.02 + 0.2 * np.clip(above.y / horizon, 0, 1.2) ** 2 + 0 * canvas.x)
    picture = picture + _stars(above, rng, 220, 0.7)[..., None]
    for number in range(3):
        picture = _curtain(above, picture, number, horizon, rng)
    picture = _silhouette(above, picture, horizon - 0.06, rng)
    return _water(canvas, picture, horizon)


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
    return picture * (0.35 + 0.75 * light)[..., None] + _stars(canvas, rng, 420, 1.0)[..., None]


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


def _sky(canvas: Canvas, horizon: float, rng: np.random.Generator) -> Field:
    down = np.clip(canvas.y / horizon, 0, 1.1)
    dark = float(canvas.palette.stops[2].mean()) < 0.36
    lowest, rise = (0.08, 0.62) if dark else (0.32, 0.62)
    sway, lift = canvas.orbit(0.02)
    clouds = canvas.rough.sample(canvas.x * 0.35 + 0.3 + sway, canvas.y * 1.3 + 0.1 + lift * 0.3)
    cover = step(0.0, 2.0, clouds) * (1 - down) * 0.5 + step(0.2, 1.8, clouds) * 0.2
    picture = canvas.palette.at(lowest + rise * down**1.5 + 0 * canvas.x)
    if dark:
        picture = picture + _stars(canvas, rng, 200, 0.8)[..., None] * (1 - down)[..., None]
    picture = blend(picture, canvas.palette.stops[4], 0.5 * cover)
    sun_x = float(rng.uniform(0.25, 0.75)) * canvas.aspect
    sun_y, radius = horizon * float(rng.uniform(0.45, 0.85)), float(rng.uniform(0.05, 0.10))
    distance = np.hypot(canvas.x - sun_x, canvas.y - sun_y)
    picture = blend(picture, canvas.palette.stops[4], 0.55 * np.exp(-np.maximum(distance - radius, 0) * 6))
    picture = blend(picture, canvas.palette.accent, 0.35 * np.exp(-distance * 4.5))
    disc = 1 - step(radius - canvas.pixel, 2 * canvas.pixel, distance)
    return blend(picture, 0.4 * canvas.palette.stops[4] + 0.6, 0.95 * disc)


def _ridges(
    canvas: Canvas, picture: Field, top: float, rng: np.random.Generator, *, count: int, height: float
) -> Field:
    sharp = float(rng.random())
    for number in range(count):
        near = (number + 1) / count
        base = top + (1.04 - top) * (number / count) ** 1.25
        offset, row = float(rng.random()), float(rng.random())
        sway, lift = canvas.orbit(0.012 * near, lag=number)
        along = canvas.x * (0.16 + 0.22 * near) + offset + sway
        line = np.array([[row + lift * 0.4]], dtype=np.float32)
        form = canvas.smooth.sample(along, line)
        jag = canvas.rough.sample(along * 1.5, line + 0.5)
        peaks = (1 - sharp) * form + sharp * (1 - np.abs(form) * 1.6 + 0.35 * jag)
        edge = base - height * (0.45 + 0.55 * near) * (0.6 * peaks + 0.1)
        _ridge(canvas, picture, edge, jag, near)
    return picture


def _ridge(canvas: Canvas, picture: Field, edge: Field, jag: Field, near: float) -> None:
    """Lay one ridge over the picture, in place: haze at its foot, light on the slopes that face the sun."""
    first = max(0, int(edge.min() / canvas.pixel) - 1)
    window = canvas.rows(first, canvas.y.shape[0])
    depth = window.y - edge
    cover = np.clip(depth / canvas.pixel + 0.5, 0, 1)
    slope = np.gradient(edge, axis=1) / canvas.pixel
    light = np.clip(slope * 0.5 + 0.12 * jag, -1, 1) * np.exp(-np.abs(depth) * 9)
    tone = 0.52 * (1 - near) + 0.16 + 0.13 * light - 0.10 * near * np.clip(depth * 3, 0, 1)
    foot = (1 - np.exp(-np.clip(depth, 0, 1) * 4)) * (0.65 * (1 - near))
    mass = blend(canvas.palette.at(tone), canvas.palette.stops[3], 0.45 * (1 - near) + foot * 0.8)
    picture[first:] = blend(picture[first:], mass, cover)


def _silhouette(canvas: Canvas, picture: Field, base: float, rng: np.random.Generator) -> Field:
    row = np.array([[rng.random()]], dtype=np.float32)
    form = canvas.smooth.sample(canvas.x * 0.3, row) + 0.25 * canvas.rough.sample(canvas.x * 0.8, row)
    cover = np.clip((canvas.y - base + 0.06 * form) / canvas.pixel + 0.5, 0, 1)
    return blend(picture, canvas.palette.stops[0] * 0.6, cover)


def _water(canvas: Canvas, above: Field, horizon: float) -> Field:
    """Add water below what is painted: it mirrors it, rippled more the nearer the water is."""
    shown, columns = above.shape[:2]
    lake = canvas.rows(shown, canvas.y.shape[0])
    below = np.clip(lake.y - horizon, 0, 1)
    sway, lift = canvas.orbit(0.05)
    squeeze = 0.12 / (below + 0.04)
    ripple = canvas.rough.sample(canvas.x * 0.5 * squeeze**0.5 + sway, squeeze * 2.2 + lift)
    mirror_y = horizon - below * 0.95 + ripple * (0.012 + 0.06 * below)
    map_x = (canvas.x + ripple * 0.02 * below) / canvas.pixel - 0.5
    map_y = np.clip(mirror_y / canvas.pixel - 0.5, 0, shown - 1)
    mirrored = cv2.remap(
        np.ascontiguousarray(above, dtype=np.float32),
        np.ascontiguousarray(np.clip(map_x, 0, columns - 1), dtype=np.float32),
        np.ascontiguousarray(map_y, dtype=np.float32),
        cv2.INTER_LINEAR,
    )
    depth = 0.18 + 0.5 * below + 0 * canvas.x
    deep = blend(np.asarray(mirrored, dtype=np.float32), canvas.palette.stops[1], depth)
    glitter = (0.10 * np.clip(ripple - 0.9, 0, 2))[..., None] * canvas.palette.stops[4]
    return np.concatenate([above, deep + glitter])


def _curtain(canvas: Canvas, picture: Field, number: int, horizon: float, rng: np.random.Generator) -> Field:
    row = np.array([[rng.random()]], dtype=np.float32)
    sway, lift = canvas.orbit(0.03, lag=2.1 * number)
    bend = canvas.smooth.sample(canvas.x * 0.35 + sway, row + lift)
    foot = horizon * (0.52 + 0.16 * number) - 0.10 * bend
    rays = canvas.rough.sample(canvas.x * 0.9 + 0.05 * bend + sway, row + 0.3 + 2 * lift)
    above = foot - canvas.y
    tall = 0.16 + 0.05 * rays
    light = np.exp(-np.clip(above, 0, 1) / np.maximum(tall, 0.05)) * step(-0.035, 0.06, above)
    light = light * np.clip(0.55 + 0.28 * rays + 0.2 * bend, 0.05, 1.2)
    share = np.clip(above / 0.34, 0, 1)
    colour = blend(canvas.palette.stops[3] + 0 * picture, canvas.palette.accent, share + 0 * light)
    return np.asarray(picture + colour * (0.8 * light)[..., None], dtype=np.float32)


def _stars(canvas: Canvas, rng: np.random.Generator, count: int, strength: float) -> Field:
    """Return the light of stars, a few of them bright enough to have a halo; they twinkle once a loop."""
    rows, columns = canvas.y.shape[0], canvas.x.shape[1]
    down = (rng.random(count) * rows).astype(np.intp)
    across = (rng.random(count) * columns).astype(np.intp)
    bright = (rng.pareto(2.2, count) * 0.35 + 0.12).clip(0, 2.2)
    bright = bright * (0.8 + 0.2 * np.sin(canvas.turn + rng.random(count) * 6.28))
    points = np.zeros((rows, columns), dtype=np.float32)
    np.maximum.at(points, (down, across), bright.astype(np.float32))
    size = max(0.45, rows / 900)
    sharp = cv2.GaussianBlur(points, (0, 0), size) * (2 * np.pi * size * size) * 0.55
    wide = max(1.0, rows / 110)
    halo = cv2.GaussianBlur(np.clip(points - 0.7, 0, 2), (0, 0), wide) * (wide * wide) * 0.9
    return np.asarray(np.clip(sharp + halo, 0, 1) * strength, dtype=np.float32)


def _shade(height: Field, pixel: float, strength: float) -> Field:
    """Return light on a surface, about 1 where it is flat, from above on the left."""
    slope = np.gradient(height)
    return np.asarray(1 - np.tanh((slope[0] + slope[1]) / np.float32(pixel) * strength) * 0.6, dtype=np.float32)


_FAMILIES: tuple[Scene, ...] = (landscape, shore, aurora, nebula, marble, silk, tiles)

_ASKED: dict[str, Scene] = {
    word: scene
    for scene, asked in (
        (landscape, "mountain mountains hill hills dune dunes desert canyon valley landscape forest volcano"),
        (shore, "sea ocean lake river beach water harbour harbor island coast boat lighthouse bay fjord"),
        (aurora, "aurora northern polar arctic"),
        (nebula, "space galaxy nebula stars star cosmic cosmos planet universe astronaut"),
        (marble, "marble ink liquid fluid smoke paint abstract lava fire"),
        (silk, "silk cloth fabric satin velvet dream soft wave waves flower flowers rose"),
        (tiles, "tile tiles pattern geometric mosaic city neon architecture wallpaper"),
    )
    for word in asked.split()
}
