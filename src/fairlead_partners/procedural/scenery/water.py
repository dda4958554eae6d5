"""Water: it mirrors what stands behind it, rippled more the nearer it is, and glitters below the sun."""

import cv2
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, blend, step

from .light import Light
from .sky import drifting, orb_place
from .subject import Subject


def flow(
    canvas: Canvas, picture: Field, share: Field, mirror: float, horizon: float, light: Light, subject: Subject
) -> None:
    """Turn `share` of each pixel below `horizon` into water that mirrors what is above the row `mirror`, in place."""
    first = max(0, int(horizon / canvas.pixel))
    lake = canvas.rows(first, canvas.y.shape[0])
    if lake.y.shape[0] == 0:
        return
    rough = _roughness(subject)
    below = np.maximum(lake.y - horizon, 0.0)
    far = 0.10 / (below + 0.025)
    x = (canvas.x - canvas.aspect / 2) * far
    swell = drifting(canvas, canvas.smooth, x * 0.55, far * 1.6 + canvas.orbit(0.02)[1] + 0 * x, 0.05)
    ripple = drifting(canvas, canvas.rough, x * 1.0 + 0.4, far * 3.0 + canvas.orbit(0.05)[0] + 0 * x, 0.11)
    chop = drifting(canvas, canvas.rough, x * 2.6 + 0.1, far * 7.5 + canvas.orbit(0.06, lag=1.0)[0] + 0 * x, 0.2)
    slope = (0.35 * swell + 0.5 * ripple + 0.55 * chop * np.minimum(1, below * 14)) * np.float32(rough)
    mirrored = _mirror(canvas, picture, lake, slope, below, (mirror, horizon))
    facing = np.clip(0.16 + 0.62 * below**0.7 + 0.17 * slope, 0.04, 0.9)
    deep = _deep(light, subject)
    tone = blend(mirrored * np.float32(0.94), deep, np.asarray(facing, dtype=np.float32))
    tone += (0.05 * np.clip(slope, -1.2, 2.5) * np.minimum(1, 8 * below))[..., None] * light.middle
    tone += _glitter(canvas, slope, below, light, horizon)[..., None] * light.sun
    if rough > 1.4:
        foam = step(1.25, 0.7, 0.75 * swell + 0.75 * ripple) * np.minimum(1, below * 9)
        tone = blend(tone, 0.35 * light.middle + 0.55 * float(light.horizon.mean()), 0.75 * foam)
    picture[first:] = blend(picture[first:], tone, share[first:])


def _roughness(subject: Subject) -> float:
    """Return how high the waves are: 1 on a breezy day, less on a lake, more in a storm."""
    if "storm" in subject.conditions:
        return 1.9
    is_calm = "sea" not in subject.places and "beach" not in subject.places
    return (0.5 if is_calm else 1.25) * (0.6 if "fog" in subject.conditions else 1.0)


def _deep(light: Light, subject: Subject) -> Field:
    """Return the colour of the water itself."""
    blue = np.array([0.03, 0.20, 0.30], dtype=np.float32)
    if subject.season == "summer" or "island" in subject.places:
        blue = np.array([0.03, 0.36, 0.42], dtype=np.float32)
    level = float(light.middle.mean()) * 1.25 + 0.06
    return np.asarray((0.55 * blue / 0.2 * 0.45 + 0.45 * light.zenith) * level, dtype=np.float32)


def _mirror(canvas: Canvas, picture: Field, lake: Canvas, slope: Field, below: Field, at: tuple[float, float]) -> Field:
    """Look up what each pixel of water mirrors."""
    lines, columns = picture.shape[:2]
    mirror, horizon = at
    # Water beyond the shore would mirror the shore's water: it mirrors the sky behind the horizon instead.
    line = np.where(lake.y < mirror, horizon, mirror)
    down = np.minimum(2 * line - lake.y + slope * (0.004 + 0.10 * below), line - canvas.pixel)
    row = np.clip(down / canvas.pixel - 0.5, 0, lines - 1)
    column = np.clip((canvas.x + slope * 0.03 * below) / canvas.pixel - 0.5, 0, columns - 1)
    found = cv2.remap(
        np.ascontiguousarray(picture, dtype=np.float32),
        np.ascontiguousarray(column, dtype=np.float32),
        np.ascontiguousarray(row, dtype=np.float32),
        cv2.INTER_LINEAR,
    )
    return np.asarray(found, dtype=np.float32)


def _glitter(canvas: Canvas, slope: Field, below: Field, light: Light, horizon: float) -> Field:
    """Return the broken path of light below the sun or the moon."""
    across, _ = orb_place(canvas, light, horizon)
    spread = 0.045 + 0.30 * below
    path = np.exp(-(((canvas.x - across) / spread) ** 2))
    sparks = step(0.25, 1.2, slope + 0.9 * path - 0.25)
    return np.asarray(
        path * (0.10 + 0.9 * sparks) * (0.8 * min(0.75, light.glow) / (1 + 1.2 * below)), dtype=np.float32
    )
