"""Skies: a gradient, the sun or the moon with its glow, stars, clouds, aurora, rainbow and lightning."""

import cv2
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, Tile, blend, step

from .layers import Mask
from .light import Light
from .subject import Subject

_CLOUD_HEIGHT = 0.16


def paint(canvas: Canvas, light: Light, subject: Subject, horizon: float) -> Field:
    """Return the whole picture filled with sky; below the horizon it has the colour of the haze there."""
    rows = canvas.rows(0, max(2, int(horizon / canvas.pixel) + 2))
    up = np.clip((horizon - canvas.y) / horizon, 0, 1)
    places = (0.0, 0.16, 0.42, 1.0)
    colours = (light.horizon, 0.5 * (light.horizon + light.middle), light.middle, light.zenith)
    column = [np.interp(up[:, 0], places, [float(colour[channel]) for colour in colours]) for channel in range(3)]
    picture = np.repeat(np.stack(column, axis=-1).astype(np.float32)[:, None], canvas.x.shape[1], axis=1)
    above = picture[: rows.y.shape[0]]
    rng = canvas.rng("sky")
    if light.is_night and light.cover < 0.8:
        above += _starlight(rows, horizon)
    if "aurora" in subject.skies:
        for number in range(3):
            above += _curtain(rows, number, horizon, rng)
    _orb(rows, above, light, subject, horizon)
    if light.cover > 0:
        above[:] = _lay_clouds(rows, above, light, horizon)
    if "rainbow" in subject.skies:
        above += _rainbow(rows, light, horizon)
    if "lightning" in subject.skies or "storm" in subject.conditions:
        above += _lightning(rows, horizon)
    return picture


def drifting(canvas: Canvas, tile: Tile, x: Field, y: Field, distance: float) -> Field:
    """Return noise that moves sideways by `distance` in a loop and fades into its own beginning."""
    share = canvas.turn / (2 * np.pi)
    moved = tile.sample(x + np.float32(distance * share), y)
    if share == 0:
        return moved
    again = tile.sample(x + np.float32(distance * (share - 1)), y)
    # The sum of two independent fields is flatter than either; the root keeps the deviation at 1.
    return (moved * (1 - share) + again * share) * np.float32(1 / np.hypot(1 - share, share))


def orb_place(canvas: Canvas, light: Light, horizon: float) -> tuple[float, float]:
    """Return where the sun or the moon stands."""
    return light.across * canvas.aspect, max(0.09, horizon - light.elevation)


def stars(canvas: Canvas, rng: np.random.Generator, count: int, strength: float) -> Field:
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


def _starlight(canvas: Canvas, horizon: float) -> Field:
    """Return the light of stars and of a milky band across them."""
    rng = canvas.rng("stars")
    up = np.clip((horizon - canvas.y) / horizon, 0, 1) ** 0.5
    tilt, middle = float(rng.uniform(-0.7, 0.7)), float(rng.uniform(0.2, 0.5))
    along = canvas.y - middle + tilt * (canvas.x - canvas.aspect / 2)
    dust = canvas.rough.sample(canvas.x * 0.6, canvas.y * 0.6 + 0.4)
    band = np.exp(-((along * 4.5) ** 2)) * np.clip(0.55 + 0.35 * dust, 0, 1.4)
    milk = np.array([0.11, 0.12, 0.19], dtype=np.float32)
    light = stars(canvas, rng, int(650 * canvas.aspect), 0.95) * (0.35 + 0.65 * up)
    return np.asarray(light[..., None] + (band * up)[..., None] * milk, dtype=np.float32)


def _orb(canvas: Canvas, picture: Field, light: Light, subject: Subject, horizon: float) -> None:
    """Add the disc of the sun or the moon and the light around it, in place."""
    is_moon = light.is_night
    across, down = orb_place(canvas, light, horizon)
    distance = np.hypot(canvas.x - across, canvas.y - down)
    wide = np.hypot((canvas.x - across) * 0.55, (canvas.y - down) * 1.15)
    strength = light.glow * (0.30 if is_moon else 0.9)
    picture += (0.34 * strength * np.exp(-wide * 3.2))[..., None] * light.sun
    picture += (0.42 * strength * np.exp(-distance * 11))[..., None] * light.sun
    if "moon" in subject.refused or "sun" in subject.refused or light.glow < 0.3:
        return
    asked = {"moon", "sun"} & set(subject.skies)
    radius = (0.052 if asked else 0.036) if is_moon else (0.05 if light.time in ("dawn", "dusk") else 0.034)
    disc = 1 - step(radius - canvas.pixel, 2 * canvas.pixel, distance)
    if is_moon:
        patches = canvas.rough.sample(canvas.x * 2.2, canvas.y * 2.2)
        face = 0.94 - 0.10 * np.clip(patches, -0.4, 1.4)
        tone = face[..., None] * np.array([1.0, 0.985, 0.94], dtype=np.float32)
    else:
        tone = np.asarray(0.35 * light.sun + 0.68, dtype=np.float32)
    picture[:] = blend(picture, tone, disc * np.float32(min(1.0, light.glow * 1.2)))


def _lay_clouds(canvas: Canvas, picture: Field, light: Light, horizon: float) -> Field:
    """Lay clouds over the sky: a plane of them seen from below, smaller and denser towards the horizon."""
    rng = canvas.rng("clouds")
    far = _CLOUD_HEIGHT / (np.clip(horizon - canvas.y, 0, 1) + 0.07)
    x = (canvas.x - canvas.aspect / 2) * far * 0.8 + float(rng.random())
    y = far * 1.15 + float(rng.random()) + 0 * x
    large = drifting(canvas, canvas.smooth, x * 0.9, y * 0.9, 0.10)
    small = drifting(canvas, canvas.rough, x * 1.1, y * 1.1 + 0.3, 0.14)
    density = 0.62 * large + 0.5 * small
    edge = 1.35 - 2.6 * light.cover
    body = step(edge, 1.25, density) * step(0.0, 0.10, horizon - canvas.y)
    across, down = orb_place(canvas, light, horizon)
    thick = np.clip((density - edge) * 0.42 + 0.10 * small, 0, 1)
    toward = np.exp(-np.hypot(canvas.x - across, canvas.y - down) * 1.6)
    lit = np.clip(1.05 - thick * 1.05 + 0.35 * toward * light.glow, 0, 1)
    colour = light.shade + lit[..., None] * (light.cloud - light.shade)
    rim = (np.clip(1 - np.abs(density - edge - 0.55) * 1.6, 0, 1) * toward * light.glow)[..., None] * light.sun
    return blend(picture, colour + 0.55 * rim, body * np.float32(0.55 + 0.4 * light.cover))


def _curtain(canvas: Canvas, number: int, horizon: float, rng: np.random.Generator) -> Field:
    """Return the light of one curtain of the aurora, green at its foot and violet above."""
    row = np.array([[rng.random()]], dtype=np.float32)
    sway, lift = canvas.orbit(0.03, lag=2.1 * number)
    bend = canvas.smooth.sample(canvas.x * 0.35 + sway, row + lift)
    foot = horizon * (0.50 + 0.16 * number) - 0.10 * bend
    rays = canvas.rough.sample(canvas.x * 0.9 + 0.05 * bend + sway, row + 0.3 + 2 * lift)
    above = foot - canvas.y
    tall = np.maximum(0.17 + 0.05 * rays, 0.05)
    light = np.exp(-np.clip(above, 0, 1) / tall) * step(-0.035, 0.06, above)
    light = light * np.clip(0.55 + 0.28 * rays + 0.2 * bend, 0.05, 1.2)
    share = np.clip(above / 0.30, 0, 1)[..., None]
    low, high = np.array([0.25, 0.95, 0.55], np.float32), np.array([0.55, 0.25, 0.85], np.float32)
    return np.asarray((low + (high - low) * share) * (0.75 * light)[..., None], dtype=np.float32)


def _rainbow(canvas: Canvas, light: Light, horizon: float) -> Field:
    """Return the light of a bow opposite the sun, and of a fainter one outside it."""
    centre = (1 - light.across) * canvas.aspect
    radius = np.hypot(canvas.x - centre, canvas.y - horizon - 0.12)
    picture = np.zeros((canvas.y.shape[0], canvas.x.shape[1], 3), dtype=np.float32)
    for inner, strength, turned in ((0.52, 0.30, 1), (0.66, 0.10, -1)):
        for channel, offset in enumerate((0.028, 0.014, 0.0)):
            picture[..., channel] += strength * np.exp(-(((radius - inner - turned * offset) / 0.013) ** 2))
    return picture * step(0.0, 0.25, horizon - canvas.y)[..., None]


def _lightning(canvas: Canvas, horizon: float) -> Field:
    """Return the light of a forked bolt and of the clouds around it; in a clip it flickers twice."""
    rng = canvas.rng("lightning")
    rows, columns = canvas.y.shape[0], canvas.x.shape[1]
    mask = np.zeros((rows, columns), dtype=np.uint8)
    start = np.array([rng.uniform(0.2, 0.8) * columns, 0.0])
    _fork(mask, start, horizon / canvas.pixel, max(1, round(rows / 260)), rng)
    core = np.asarray(mask, dtype=np.float32) / np.float32(255)
    small = cv2.resize(core, (max(1, columns // 4), max(1, rows // 4)), interpolation=cv2.INTER_AREA)
    halo = cv2.GaussianBlur(small, (0, 0), max(1.0, rows / 90)) * 2.2 + cv2.GaussianBlur(small, (0, 0), rows / 22) * 5
    light = cv2.resize(halo, (columns, rows), interpolation=cv2.INTER_LINEAR)
    flash = (
        1.0 if canvas.turn == 0 else float(max(0.0, np.sin(canvas.turn * 0.5) ** 40 + np.cos(canvas.turn / 2) ** 60))
    )
    tone = np.array([0.80, 0.82, 1.0], dtype=np.float32)
    return np.asarray((core + light)[..., None] * tone * np.float32(flash), dtype=np.float32)


def _fork(mask: Mask, start: Field, foot: float, width: int, rng: np.random.Generator) -> None:
    """Draw a bolt from `start` down to `foot`, with branches that die out."""
    point = start
    while point[1] < foot:
        length = foot * rng.uniform(0.02, 0.06)
        after = point + np.array([rng.normal(0, 0.75) * length, length])
        ends = [tuple(int(v) for v in end) for end in (point, after)]
        cv2.line(mask, ends[0], ends[1], 255, width, cv2.LINE_AA)
        if (width > 1 and rng.random() < 0.4) or rng.random() < 0.08:
            _fork(mask, after, after[1] + (foot - after[1]) * rng.uniform(0.15, 0.5), max(1, width - 1), rng)
        point = after
