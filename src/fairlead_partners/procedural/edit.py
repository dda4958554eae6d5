"""Edits: a given picture, changed as the words of the prompt ask and still recognisable."""

import base64
import binascii
import io
from collections.abc import Callable

import cv2
import numpy as np
from PIL import Image, ImageOps

from . import palettes
from .image import encode_png, to_pixels
from .noise import Field, blend
from .requests import IMAGE_SIDE_MAX, ImageRequest
from .seeds import generator, words
from .wire import Problem

INPUT_BYTES_MAX = 16 * 1024 * 1024
INPUT_SIDE_MAX = 4096

_FORMATS = {
    "data:image/png;base64": "PNG",
    "data:image/jpeg;base64": "JPEG",
    "data:image/webp;base64": "WEBP",
}


def edit(request: ImageRequest, uri: str, seed: int) -> tuple[bytes, int, int]:
    """Return the edited picture as PNG bytes with its width and height in pixels.

    Raises Problem 422 when the input is not a picture, or is too large to be decoded safely.
    """
    original = decode(uri)
    width, height = _size(request, original.shape[1], original.shape[0])
    way = cv2.INTER_AREA if width < original.shape[1] else cv2.INTER_CUBIC
    resized = (
        cv2.resize(original, (width, height), interpolation=way)
        if (original.shape[:2] != (height, width))
        else original
    )
    before: Field = np.asarray(resized, dtype=np.float32) / np.float32(255)
    after = before
    for change in _changes(request.prompt):
        after = change(after, request.prompt, seed)
    mixed = blend(before, after, float(request.strength))
    return encode_png(to_pixels(mixed)), width, height


def _refuse(message: str) -> Problem:
    return Problem(422, "invalid_value", f"image {message}.", "image")


def decode(uri: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Decode a data URI into RGB pixels, looking at its declared size before any pixel is decoded."""
    kind, _, encoded = uri.partition(",")
    format_ = _FORMATS.get(kind)
    if format_ is None:
        raise _refuse("must be a data URI: data:image/png, image/jpeg or image/webp, in base64")
    if len(encoded) > INPUT_BYTES_MAX * 4 // 3 + 4:
        raise _refuse(f"must be at most {INPUT_BYTES_MAX // 2**20} MiB")
    try:
        data = base64.b64decode(encoded, validate=True)
        with Image.open(io.BytesIO(data), formats=(format_,)) as picture:
            if max(picture.size) > INPUT_SIDE_MAX:
                raise _refuse(f"must be at most {INPUT_SIDE_MAX} pixels on each side")
            upright = ImageOps.exif_transpose(picture)
            return np.asarray(_flatten(upright), dtype=np.uint8)
    except binascii.Error:
        raise _refuse("is not valid base64") from None
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        raise _refuse("could not be decoded") from None


def _flatten(picture: Image.Image) -> Image.Image:
    """Lay a transparent picture on white, because the answer has no transparency."""
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB")
    layer = picture.convert("RGBA")
    ground = Image.new("RGBA", layer.size, "white")
    ground.alpha_composite(layer)
    return ground.convert("RGB")


def _size(request: ImageRequest, width: int, height: int) -> tuple[int, int]:
    """Return the asked size; a missing side follows the input's shape, within the largest answer."""
    if request.width is not None and request.height is not None:
        return request.width, request.height
    if request.width is not None:
        scale = request.width / width
    elif request.height is not None:
        scale = request.height / height
    else:
        scale = 1.0
    scale = min(scale, IMAGE_SIDE_MAX / width, IMAGE_SIDE_MAX / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


Change = Callable[[Field, str, int], Field]


def _changes(prompt: str) -> list[Change]:
    """Return what the words ask for, in order and each once; a mood from their hash when nothing is named."""
    found: list[Change] = []
    for word in words(prompt):
        change = _ASKED.get(word)
        if change is not None and change not in found:
            found.append(change)
    if "black and white" in prompt.lower() and _mono not in found:
        found.append(_mono)
    if palettes.find_palette(prompt) is not None and _mono not in found:
        found.insert(0, _grade)
    return found or [_mood]


def _luminance(picture: Field) -> Field:
    return np.asarray(picture @ np.array([0.299, 0.587, 0.114], dtype=np.float32), dtype=np.float32)


def _grade(picture: Field, prompt: str, seed: int) -> Field:
    """Move the colours towards a palette while light and dark stay where they were."""
    palette = palettes.choose(prompt, generator(prompt, seed, "grade"))
    light = _luminance(picture)
    graded = blend(picture, palette.at(light), 0.75)
    kept = 0.55 + 0.45 * (light / np.maximum(_luminance(graded), 0.02))
    return np.asarray(graded * kept.clip(0, 2)[..., None], dtype=np.float32)


def _mono(picture: Field, _prompt: str, _seed: int) -> Field:
    light = _luminance(picture)
    curved = light * light * (3 - 2 * light)
    return np.repeat(curved[..., None], 3, axis=2)


def _sketch(picture: Field, _prompt: str, seed: int) -> Field:
    """Draw edges in pencil: light divided by its own blur, on toned paper."""
    light = _luminance(picture)
    size = max(0.8, max(light.shape) / 160)
    soft = np.asarray(cv2.GaussianBlur(light, (0, 0), size), dtype=np.float32)
    lines = np.clip((light + 0.02) / (soft + 0.02), 0, 1) ** 3
    rng = generator("paper", seed, "sketch")
    paper = 1 - 0.04 * rng.random(light.shape, dtype=np.float32)
    drawn = lines * (0.72 + 0.28 * light) * paper
    return np.asarray(drawn[..., None] * np.array([1.0, 0.985, 0.95], dtype=np.float32), dtype=np.float32)


def _glow(picture: Field, _prompt: str, _seed: int) -> Field:
    """Soften as a mist filter does: a blurred copy screened over a half-blurred one."""
    size = max(1.0, max(picture.shape) / 70)
    soft = np.asarray(cv2.GaussianBlur(picture, (0, 0), size), dtype=np.float32)
    near = np.asarray(cv2.GaussianBlur(picture, (0, 0), max(0.6, size / 5)), dtype=np.float32)
    return 1 - (1 - 0.85 * near) * (1 - 0.45 * soft)


def _mosaic(picture: Field, _prompt: str, _seed: int) -> Field:
    height, width = picture.shape[:2]
    cells = max(1, max(width, height) // 48)
    small = cv2.resize(picture, (max(1, width // cells), max(1, height // cells)), interpolation=cv2.INTER_AREA)
    large = cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(large, dtype=np.float32)


def _mood(picture: Field, prompt: str, seed: int) -> Field:
    """Turn hue and contrast a little, by an amount that only the prompt and the seed decide."""
    rng = generator(prompt, seed, "mood")
    angle, contrast = float(rng.uniform(-0.9, 0.9)), float(rng.uniform(0.85, 1.35))
    cos, sin, third = np.cos(angle), np.sin(angle) / 3**0.5, (1 - np.cos(angle)) / 3
    matrix = np.full((3, 3), third) + np.eye(3) * cos
    matrix += sin * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    turned = picture @ matrix.astype(np.float32).T
    return np.asarray((turned - 0.5) * np.float32(contrast) + 0.5, dtype=np.float32)


_ASKED: dict[str, Change] = {
    word: change
    for change, asked in (
        (_sketch, "sketch pencil drawing drawn ink lineart engraving"),
        (_glow, "blur blurred dream dreamy soft glow hazy"),
        (_mono, "mono monochrome noir grayscale greyscale"),
        (_mosaic, "pixel pixels pixelated pixelate mosaic blocks 8bit"),
    )
    for word in asked.split()
}
