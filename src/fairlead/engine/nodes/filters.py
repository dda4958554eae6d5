"""Nodes that filter images: blend, blur, sharpen, noise, fewer colours, morphology."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

import cv2
import numpy as np
from PIL import Image

from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.media.noise import normal
from fairlead.engine.media.pictures import Bytes, from_bytes, to_bytes
from fairlead.engine.media.resampling import scale
from fairlead.engine.nodes.colour import rgb_of
from fairlead.engine.nodes.compositing import as_many_channels
from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.node import Output, combo, integer, node, number, socket

_SEED_MAX: Final = 2**64 - 1
_SHARPENING: Final = 10
"""How many times its alpha the difference to the blurred image is added to a sharpened one."""
_BAYER: Final = np.array([[-1.5, 0.5], [1.5, -0.5]], np.float32)


@node("ImageBlend", "Blend Images", "image/filters", outputs=(Output("IMAGE"),))
def image_blend(
    image1: Annotated[Array, socket("IMAGE")],
    image2: Annotated[Array, socket("IMAGE")],
    blend_factor: Annotated[float, number(0.5, 0.0, 1.0, step=0.01)],
    blend_mode: Annotated[
        str, combo("normal", "multiply", "screen", "overlay", "soft_light", "difference", multiselect=False)
    ],
) -> Array:
    """The first image, mixed with the result of the blend mode; the second takes the first's size."""
    height, width, channels = image1.shape[1:]
    if len(image1) != len(image2) and 1 not in (len(image1), len(image2)):
        raise ValueError(f"{len(image1)} images cannot be blended with {len(image2)}: have as many, or one.")
    check_size(max(len(image1), len(image2)), height, width)
    over = scale(as_many_channels(image2, channels), width, height, "bicubic", "center")
    blended = _BLENDS[blend_mode](image1, over)
    return np.clip(image1 * np.float32(1 - blend_factor) + blended * np.float32(blend_factor), 0.0, 1.0)


@node("ImageBlur", "Blur Image", "image/filters", outputs=(Output("IMAGE"),))
def image_blur(
    context: Context,
    image: Annotated[Array, socket("IMAGE")],
    blur_radius: Annotated[int, integer(1, 1, 31, step=1)],
    sigma: Annotated[float, number(1.0, 0.1, 10.0, step=0.1)],
) -> Array:
    """The image through a Gaussian; its sigma is in units of the radius."""
    return np.stack([_gaussian(frame, blur_radius, sigma) for frame in _frames(image, context)])


@node("ImageSharpen", "Sharpen Image", "image/filters", outputs=(Output("IMAGE"),))
def image_sharpen(
    context: Context,
    image: Annotated[Array, socket("IMAGE")],
    sharpen_radius: Annotated[int, integer(1, 1, 31, step=1, advanced=True)],
    sigma: Annotated[float, number(1.0, 0.1, 10.0, step=0.01, advanced=True)],
    alpha: Annotated[float, number(1.0, 0.0, 5.0, step=0.01, advanced=True)],
) -> Array:
    """The image and ten times alpha of what a Gaussian blur would take from it."""
    amount = np.float32(_SHARPENING * alpha)
    sharpened = [
        np.clip(frame + amount * (frame - _gaussian(frame, sharpen_radius, sigma)), 0.0, 1.0)
        for frame in _frames(image, context)
    ]
    return np.stack(sharpened)


@node("ImageAddNoise", "Add Noise to Image", "image/filters", outputs=(Output("IMAGE"),))
def image_add_noise(
    image: Annotated[Array, socket("IMAGE")],
    seed: Annotated[int, integer(0, 0, _SEED_MAX, control_after_generate=True)],
    strength: Annotated[float, number(0.5, 0.0, 1.0, step=0.01)],
) -> Array:
    """The image with normal noise of this deviation, the same for the same seed and shape."""
    return np.clip(image + np.float32(strength) * normal(image.shape, seed), 0.0, 1.0)


@node("ImageQuantize", "Quantize Image", "image/filters", outputs=(Output("IMAGE"),))
def image_quantize(
    context: Context,
    image: Annotated[Array, socket("IMAGE")],
    colors: Annotated[int, integer(256, 1, 256, step=1)],
    dither: Annotated[
        str, combo("none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16", multiselect=False)
    ],
) -> Array:
    """The image in at most so many colours, chosen for it, and the levels between them dithered."""
    return np.stack([_quantize(to_bytes(frame), colors, dither) for frame in _frames(rgb_of(image), context)])


@node("Morphology", "Apply Morphology", "image/filters", outputs=(Output("IMAGE"),))
def morphology(
    context: Context,
    image: Annotated[Array, socket("IMAGE")],
    operation: Annotated[
        str, combo("erode", "dilate", "open", "close", "gradient", "bottom_hat", "top_hat", multiselect=False)
    ],
    kernel_size: Annotated[int, integer(3, 3, 999, step=1)],
) -> Array:
    """Operations on the least and greatest values around each pixel; pixels beyond the border do not count."""
    return np.stack([_MORPHOLOGY[operation](frame, kernel_size) for frame in _frames(image, context)])


def _frames(images: Array, context: Context) -> Iterator[Array]:
    """The images one by one, until the job is interrupted."""
    for image in images:
        context.check()
        yield np.ascontiguousarray(image)


# --- Blending ---------------------------------------------------------------------------------------------------------


def _overlay(under: Array, over: Array) -> Array:
    return np.where(under <= 0.5, 2 * under * over, 1 - 2 * (1 - under) * (1 - over))  # noqa: PLR2004 -- middle grey


def _soft_light(under: Array, over: Array) -> Array:
    """As W3C's compositing and blending has it."""
    root = np.where(under <= 0.25, ((16 * under - 12) * under + 4) * under, np.sqrt(np.maximum(under, 0)))  # noqa: PLR2004 -- its constant
    darker = under - (1 - 2 * over) * under * (1 - under)
    return np.where(over <= 0.5, darker, under + (2 * over - 1) * (root - under))  # noqa: PLR2004 -- middle grey


_BLENDS: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "normal": lambda _, over: over,
    "multiply": lambda under, over: under * over,
    "screen": lambda under, over: 1 - (1 - under) * (1 - over),
    "overlay": _overlay,
    "soft_light": _soft_light,
    # Not the absolute difference, as in other editors: where the second image is brighter, the result is black.
    "difference": lambda under, over: under - over,
}

# --- Blurring ---------------------------------------------------------------------------------------------------------


def _gaussian(image: Array, radius: int, sigma: float) -> Array:
    """The image blurred; its pixels are mirrored at the border, which is not repeated.

    The kernel reaches from -1 to 1 whatever its radius, and sigma is measured on that scale. A Gaussian of two
    dimensions is the product of two of one.
    """
    places = np.linspace(-1.0, 1.0, 2 * radius + 1)
    weights = np.exp(-(places**2) / (2.0 * sigma**2))
    weights = weights / weights.sum()
    blurred = cv2.sepFilter2D(image, -1, weights, weights, borderType=cv2.BORDER_REFLECT_101)
    return np.asarray(blurred, np.float32).reshape(image.shape)


# --- Fewer colours ----------------------------------------------------------------------------------------------------


def _quantize(pixels: Bytes, colors: int, dither: str) -> Array:
    picture = Image.fromarray(pixels)
    # Pillow dithers only towards a palette it is given, so the palette is chosen first.
    palette = picture.quantize(colors=colors)
    if dither.startswith("bayer-"):
        picture = Image.fromarray(_bayer_dithered(pixels, int(dither.removeprefix("bayer-")), _size(palette)))
    method = Image.Dither.FLOYDSTEINBERG if dither == "floyd-steinberg" else Image.Dither.NONE
    return from_bytes(np.asarray(picture.quantize(palette=palette, dither=method).convert("RGB")))


def _size(picture: Image.Image) -> int:
    return len(picture.getpalette() or ()) // 3


def _bayer_dithered(pixels: Bytes, order: int, colors: int) -> Bytes:
    """The pixels with an ordered pattern of thresholds added, as wide as colours lie apart on average."""
    rows, columns = pixels.shape[:2]
    spread = np.float32(2 * 256 / colors)
    threshold = spread * _bayer(order)[np.arange(rows)[:, None] % order, np.arange(columns) % order] + 0.5
    return np.clip(pixels + threshold[..., None], 0, 255).astype(np.uint8)


def _bayer(order: int) -> Array:
    """Bayer's thresholds from -0.5 to 0.5: the lower a bit of a place, the more it decides."""
    places, thresholds = np.arange(order), np.zeros((order, order), np.float32)
    for bit in range(order.bit_length() - 1):
        bits = places >> bit & 1
        thresholds += _BAYER[bits[:, None], bits] / 4 ** (bit + 1)
    return thresholds


# --- Morphology -------------------------------------------------------------------------------------------------------


def _erode(image: Array, size: int) -> Array:
    return _extreme(image, size // 2, (size - 1) // 2, np.minimum)


def _dilate(image: Array, size: int) -> Array:
    # The mirror image of the erosion's window, so that opening and closing do not move an image by even windows.
    return _extreme(image, (size - 1) // 2, size // 2, np.maximum)


def _open(image: Array, size: int) -> Array:
    return _dilate(_erode(image, size), size)


def _close(image: Array, size: int) -> Array:
    return _erode(_dilate(image, size), size)


def _extreme(image: Array, before: int, after: int, extreme: Callable[[Array, Array], Array]) -> Array:
    """The extreme of the square window from `before` pixels up and left to `after` down and right.

    A window is two that overlap, half as wide, so its width costs log2 passes.
    """
    for axis in (0, 1):
        places = np.arange(image.shape[axis])
        for direction, reach in ((-1, before), (1, after)):
            reached = 0
            while reached < min(reach, len(places)):
                step = min(reached + 1, reach - reached)
                beyond = np.clip(places + direction * step, 0, len(places) - 1)
                image, reached = extreme(image, image.take(beyond, axis)), reached + step
    return image


_MORPHOLOGY: Final[Mapping[str, Callable[[Array, int], Array]]] = {
    "erode": _erode,
    "dilate": _dilate,
    "open": _open,
    "close": _close,
    "gradient": lambda image, size: _dilate(image, size) - _erode(image, size),
    "bottom_hat": lambda image, size: _close(image, size) - image,
    "top_hat": lambda image, size: image - _open(image, size),
}

NODES: Final = (
    image_blend,
    image_blur,
    image_sharpen,
    image_add_noise,
    image_quantize,
    morphology,
)
