"""Pictures from words, and the finish every picture and frame gets."""

import cv2
import numpy as np
from numpy.typing import NDArray

from . import palettes, scenes
from .noise import Canvas, Field, canvas
from .scenery.place import Place
from .seeds import generator

Pixels = NDArray[np.uint8]

# Larger pictures are painted at this size and enlarged: that bounds memory and time, and noise loses nothing.
PAINTED_PIXELS_MAX = 1_500_000
PLACE_PIXELS_MAX = 720_000
"""As many for pictures of places, which have more layers."""

GRAIN = 0.008


def paint(prompt: str, seed: int, width: int, height: int) -> bytes:
    """Return a picture of `width` by `height` pixels as PNG bytes."""
    scene, ground = stage(prompt, seed, width, height, PAINTED_PIXELS_MAX)
    picture = fit(scene(ground), width, height)
    return encode_png(finish(picture, generator(prompt, seed, "grain")))


def stage(prompt: str, seed: int, width: int, height: int, pixels_max: int) -> tuple[scenes.Scene, Canvas]:
    """Choose colours and composition, and prepare a canvas of at most `pixels_max` in the same shape."""
    rng = generator(prompt, seed, "choice")
    palette = palettes.choose(prompt, rng)
    scene = scenes.choose(prompt, seed, rng)
    if isinstance(scene, Place):
        pixels_max = min(pixels_max, PLACE_PIXELS_MAX)
    scale = min(1.0, (pixels_max / (width * height)) ** 0.5)
    ground = canvas(prompt, seed, palette, max(1, round(width * scale)), max(1, round(height * scale)))
    return scene, ground


def fit(picture: Field, width: int, height: int) -> Field:
    """Enlarge a picture when it was painted smaller than asked."""
    if picture.shape[:2] == (height, width):
        return np.asarray(picture, dtype=np.float32)
    enlarged = cv2.resize(picture, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(enlarged, dtype=np.float32)


def finish(picture: Field, rng: np.random.Generator, grain_strength: float = GRAIN) -> Pixels:
    """Give a picture bloom, a gentle curve, a vignette and grain, and round it to eight bits.

    `grain_strength` is the deviation of the grain, where 1 is the distance from black to white.
    """
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (max(1, width // 4), max(1, height // 4)), interpolation=cv2.INTER_AREA)
    bright = cv2.GaussianBlur(np.clip(small - 0.7, 0, 1), (0, 0), max(0.8, height / 120))
    bloom = cv2.resize(bright, (width, height), interpolation=cv2.INTER_LINEAR)
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    vignette = 1 - 0.17 * (x * x + y * y) ** 1.2
    light = picture + np.float32(0.6) * bloom
    light *= vignette[..., None]
    np.clip(light, 0, 1, out=light)
    curve = np.float32(-0.28) * light
    curve += np.float32(0.42)
    curve *= light
    curve += np.float32(0.86)
    light *= curve
    light += (rng.standard_normal((height, width), dtype=np.float32) * np.float32(grain_strength))[..., None]
    return to_pixels(light)


def to_pixels(picture: Field) -> Pixels:
    """Round colours from 0..1 to eight bits."""
    scaled = picture * np.float32(255)
    scaled += np.float32(0.5)
    return np.clip(scaled, 0, 255, out=scaled).astype(np.uint8)


def encode_png(pixels: Pixels) -> bytes:
    """Return RGB pixels as PNG bytes; nothing but the pixels goes in, so equal pixels are equal bytes."""
    done, encoded = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not done:
        raise RuntimeError("the PNG encoder refused the picture")
    return encoded.tobytes()
