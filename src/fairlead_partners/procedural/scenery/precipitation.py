"""What falls or hangs between the eye and the place: fog, rain and snow."""

import cv2
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, blend, step

from .layers import as_cover, empty_mask
from .light import Light
from .sky import drifting
from .subject import Subject


def veil(canvas: Canvas, picture: Field, subject: Subject, light: Light, horizon: float) -> Field:
    """Lay banks of fog over what is far; in the morning a thin one even where none is asked for."""
    strength = 0.75 if "fog" in subject.conditions else 0.0
    if not strength and light.time == "dawn" and "fog" not in subject.refused:
        strength = 0.28
    if not strength:
        return picture
    band = slice(max(0, int((horizon - 0.3) / canvas.pixel)), max(1, int((horizon + 0.34) / canvas.pixel)))
    window = canvas.rows(band.start, band.stop)
    level = np.exp(-(((window.y - horizon - 0.02) / 0.13) ** 2))
    banks = drifting(window, canvas.smooth, canvas.x * 0.35, window.y * 1.7, 0.10)
    share = np.clip(level * (0.62 + 0.30 * banks) * strength, 0, 0.95)
    picture[band] = blend(picture[band], light.air * 1.03, np.asarray(share, dtype=np.float32))
    return picture


def fall(canvas: Canvas, picture: Field, subject: Subject, light: Light) -> Field:
    """Add rain or snow; each drop falls a whole number of picture heights in a loop."""
    if "snow" in subject.conditions:
        return _snow(canvas, picture, light)
    if "rain" in subject.conditions or "storm" in subject.conditions:
        return _rain(canvas, picture, light)
    return picture


def _snow(canvas: Canvas, picture: Field, light: Light) -> Field:
    rng = canvas.rng("snow")
    lines, columns = picture.shape[:2]
    bright = np.full(3, 0.75 if light.is_night else 1.0, dtype=np.float32)
    for near, count in ((0.25, 700), (0.5, 260), (1.0, 70)):
        x, y, lag = rng.random((3, int(count * canvas.aspect)))
        turns = 1 if near < 0.6 else 2
        across = (x + 0.02 * np.sin(canvas.turn + lag * 6.28)) % 1 * columns
        down = (y + turns * canvas.turn / (2 * np.pi)) % 1 * lines
        points = np.zeros((lines, columns), dtype=np.float32)
        points[np.minimum(down.astype(np.intp), lines - 1), np.minimum(across.astype(np.intp), columns - 1)] = 1
        wanted = near * near * 0.0042 / canvas.pixel
        size = max(0.5, wanted)
        seen = min(1.0, 0.2 + wanted / size)
        flakes = cv2.GaussianBlur(points, (0, 0), size) * (2 * np.pi * size * size)
        picture = blend(picture, bright, np.clip(flakes * np.float32((1.3 - 0.7 * near) * seen), 0, 1))
    return picture


def _rain(canvas: Canvas, picture: Field, light: Light) -> Field:
    rng = canvas.rng("rain")
    lines, columns = picture.shape[:2]
    mask = empty_mask(canvas)
    slant = float(rng.uniform(-0.25, 0.25))
    for near, count in ((0.35, 420), (1.0, 110)):
        total = int(count * canvas.aspect)
        x, y, tall = rng.random((3, total))
        down = (y + 3 * canvas.turn / (2 * np.pi)) % 1 * 1.1 * lines
        long = (0.03 + 0.05 * tall) * near * lines
        across = x * columns * 1.2 - 0.1 * columns + slant * down
        for ax, ay, length in zip(across, down, long, strict=True):
            ends = (int(ax), int(ay)), (int(ax - slant * length), int(ay - length))
            cv2.line(mask, ends[0], ends[1], 60 + int(110 * near), max(1, round(lines / 900 * near)), cv2.LINE_AA)
    cover = cv2.GaussianBlur(as_cover(mask), (0, 0), max(0.4, lines / 1800))
    tone = 0.55 * light.horizon + 0.35 * float(light.middle.mean()) + 0.12
    mist = step(0.2, 1.0, canvas.y) * 0.10 + 0 * canvas.x
    picture = blend(picture, light.air, np.asarray(mist, dtype=np.float32))
    return blend(picture, tone, np.asarray(cover * 0.5, dtype=np.float32))
