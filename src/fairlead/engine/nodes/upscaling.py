"""Nodes that scale images to a size, by a factor, or to a number of pixels."""

import math
from typing import Annotated, Final

from fairlead.engine.media.arrays import Array
from fairlead.engine.media.resampling import METHODS, proportional, resize, scale
from fairlead.engine.nodes.node import Output, bare_socket, combo, integer, node, number, old_combo, socket

_EDGE: Final = 16384
_MEGAPIXEL: Final = 1024 * 1024


def for_pixels(images: Array, megapixels: float) -> float:
    """The factor that gives the images a number of pixels, in units of 1024 x 1024."""
    return math.sqrt(megapixels * _MEGAPIXEL / (images.shape[1] * images.shape[2]))


@node("ImageScale", "Upscale Image", "image/upscaling", outputs=(Output("IMAGE"),))
def image_scale(
    image: Annotated[Array, bare_socket("IMAGE")],
    upscale_method: Annotated[str, old_combo(*METHODS)],
    width: Annotated[int, integer(512, 0, _EDGE, step=1)],
    height: Annotated[int, integer(512, 0, _EDGE, step=1)],
    crop: Annotated[str, old_combo("disabled", "center")],
) -> Array:
    """Scale to a size; a side of 0 follows from the other."""
    if width == 0 and height == 0:
        return image
    return scale(image, *proportional(image, width, height), upscale_method, crop)


@node("ImageScaleBy", "Upscale Image By", "image/upscaling", outputs=(Output("IMAGE"),))
def image_scale_by(
    image: Annotated[Array, bare_socket("IMAGE")],
    upscale_method: Annotated[str, old_combo(*METHODS)],
    scale_by: Annotated[float, number(1.0, 0.01, 8.0, step=0.01)],
) -> Array:
    """Scale by a factor; a side has at least one pixel."""
    return resize(image, *multiply_size(image, scale_by), upscale_method)


def multiply_size(images: Array, factor: float) -> tuple[int, int]:
    """The size of images times a factor, at least one pixel each way."""
    return max(1, round(images.shape[2] * factor)), max(1, round(images.shape[1] * factor))


@node("ImageScaleToMaxDimension", "Scale Image to Max Dimension", "image/upscaling", outputs=(Output("IMAGE"),))
def image_scale_to_max_dimension(
    image: Annotated[Array, socket("IMAGE")],
    upscale_method: Annotated[
        str, combo("area", "lanczos", "bilinear", "nearest-exact", "bilinear", "bicubic", multiselect=False)
    ],
    largest_size: Annotated[int, integer(512, 0, _EDGE, step=1)],
) -> Array:
    """Scale so that the longer side has a length; 0 is refused."""
    return resize(image, *with_longer(image, largest_size), upscale_method)


def with_longer(images: Array, length: int) -> tuple[int, int]:
    """The size in proportion whose longer side has a length."""
    rows, columns = images.shape[1:3]
    if rows > columns:
        return _follows(columns / rows, length), length
    return length, _follows(rows / columns, length)


def with_shorter(images: Array, length: int) -> tuple[int, int]:
    """The size in proportion whose shorter side has a length."""
    rows, columns = images.shape[1:3]
    if rows < columns:
        return _follows(columns / rows, length), length
    return length, _follows(rows / columns, length)


def _follows(ratio: float, length: int) -> int:
    return max(1, round(ratio * length))


@node("ImageScaleToTotalPixels", "Scale Image to Total Pixels", "image/upscaling", outputs=(Output("IMAGE"),))
def image_scale_to_total_pixels(
    image: Annotated[Array, socket("IMAGE")],
    upscale_method: Annotated[str, combo(*METHODS, multiselect=False)],
    megapixels: Annotated[float, number(1.0, 0.01, 16.0, step=0.01)],
    resolution_steps: Annotated[int, integer(1, 1, 256, advanced=True)],
) -> Array:
    """Scale to about a number of pixels, each side a multiple of the steps."""
    factor = for_pixels(image, megapixels)
    width, height = (
        max(1, round(side * factor / resolution_steps)) * resolution_steps for side in (image.shape[2], image.shape[1])
    )
    return resize(image, width, height, upscale_method)


NODES: Final = (image_scale, image_scale_by, image_scale_to_max_dimension, image_scale_to_total_pixels)
