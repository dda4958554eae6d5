"""The light of a picture: colours of sky, sun, haze and ground by time of day, weather, season and named colours."""

from typing import Final

import msgspec
import numpy as np

from fairlead_partners.procedural.noise import Field

from .subject import Subject

Colour = Field


class Light(msgspec.Struct, frozen=True):
    """Colours are three channels from 0 to 1; heights and densities are in picture heights."""

    time: str
    zenith: Colour
    middle: Colour
    horizon: Colour
    sun: Colour
    """The colour of the disc's glow and of slopes that face it."""
    ambient: Colour
    """What slopes in the shade get of the sky."""
    cloud: Colour
    shade: Colour
    """The underside of clouds."""
    haze: float
    cover: float
    """Clouds, from 0 (none) to 1 (closed)."""
    elevation: float
    """How high the sun or moon stands above the horizon."""
    across: float
    """Where it stands, from 0 (left) to 1 (right)."""
    glow: float

    @property
    def is_night(self) -> bool:
        """Whether lamps are lit and stars can be seen."""
        return self.time == "night"

    @property
    def air(self) -> Colour:
        """The colour that far things fade into."""
        return np.asarray(0.72 * self.horizon + 0.28 * self.middle, dtype=np.float32)


_TIMES: Final = {
    # zenith, middle, horizon, sun, ambient, lit cloud, shaded cloud
    "dawn": "3d5c92 c99aae ffcf9a ffb877 6e7796 ffd9c0 8d86a6",
    "noon": "2a6fc4 74b6ea dceff7 fff6e2 a9c0d8 ffffff b7c6d6",
    "dusk": "1d2150 8f3f6a ff9448 ff8a3d 4a4468 f7996a 4c3558",
    "night": "040816 0b1a3a 1f3a5e b9cbe8 1b2740 31425f 0c1526",
}
_OVERCAST: Final = {"dawn": "a49fa8", "noon": "b6c0c7", "dusk": "77707e", "night": "141c29"}
_STORM: Final = {"dawn": "4d5563", "noon": "4f5d69", "dusk": "3b3a48", "night": "0a0f19"}


def colour(code: str) -> Colour:
    """Return a hexadecimal sRGB colour as three channels."""
    return np.array([int(code[place : place + 2], 16) / 255 for place in (0, 2, 4)], dtype=np.float32)


def choose(subject: Subject, rng: np.random.Generator) -> Light:
    """Return the light that the subject asks for; what it leaves open is chosen by chance."""
    time = subject.time or str(rng.choice(["dawn", "noon", "dusk", "dusk"]))
    across, height, cloudiness = float(rng.uniform(0.2, 0.8)), float(rng.uniform(0, 1)), float(rng.uniform(0.25, 0.6))
    parts = [colour(code) for code in _TIMES[time].split()]
    grey, cover, haze = 0.0, cloudiness, 0.028
    if "clear" in subject.conditions or "cloudy" in subject.refused:
        cover = 0.0
    if "cloudy" in subject.conditions:
        grey, cover = 0.35, 0.85
    if "snow" in subject.conditions or "rain" in subject.conditions:
        grey, cover, haze = 0.72, 0.9, 0.06
    if "fog" in subject.conditions:
        grey, cover, haze = max(grey, 0.45), 0.3, 0.17
    if {"aurora", "stars", "moon", "sun"} & set(subject.skies):
        grey, cover = min(grey, 0.3), min(cover, 0.35)
    veil = colour(_OVERCAST[time])
    if "storm" in subject.conditions:
        grey, cover, haze, veil = 0.82, 0.95, 0.05, colour(_STORM[time])
    zenith, middle, horizon, sun, ambient, cloud, shade = parts
    low = 0.5 * grey
    sky = [_mix(zenith, veil * 0.8, grey), _mix(middle, veil, grey), _mix(horizon, veil * 1.12, low)]
    elevation = {"dawn": 0.05 + 0.09 * height, "noon": 0.40, "dusk": 0.02 + 0.08 * height, "night": 0.24 + 0.1 * height}
    light = Light(
        time, sky[0], sky[1], sky[2], sun * (1 - 0.45 * grey), _mix(ambient, veil * 0.8, grey),
        _mix(cloud, veil * 1.15, grey), _mix(shade, veil * 0.62, grey),
        haze, cover, elevation[time], across, (0.75 if time == "noon" else 1.0) * (1 - 0.9 * grey),
    )  # fmt: skip
    return _tint(light, subject)


def _mix(base: Colour, other: Colour, share: float) -> Colour:
    return np.asarray(base + (other - base) * np.float32(share), dtype=np.float32)


def _tint(light: Light, subject: Subject) -> Light:
    """Let the first named colour stain the sky near the horizon and the light, and a second one the sky above."""
    if not subject.colours:
        return light
    tints = [colour(code) for code in subject.colours]
    low, high = tints[0], tints[-1]
    # At night a colour glows; by day it may fill the sky.
    strength = 0.45 if light.is_night else 0.62
    bright = float(light.horizon.max()) / max(float(low.max()), 0.3)
    return msgspec.structs.replace(
        light,
        zenith=_mix(light.zenith, high * max(float(light.zenith.max()), 0.2), 0.6),
        middle=_mix(light.middle, high * max(float(light.middle.max()), 0.25), 0.6),
        horizon=_mix(light.horizon, low * min(bright, 1.2), strength),
        sun=_mix(light.sun, low, 0.4),
        ambient=_mix(light.ambient, high * float(light.ambient.max()), 0.4),
        cloud=_mix(light.cloud, low, 0.3),
        shade=_mix(light.shade, high * 0.6, 0.35),
    )
