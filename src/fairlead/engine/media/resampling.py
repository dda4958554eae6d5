"""Scaling images: the kernels of all nodes that change a size.

Pixels are areas: the centre of pixel i lies at i + 1/2, and beyond the edge the last pixel goes on. No kernel widens
when an image shrinks, but for `area`, which averages, and `lanczos`, which works in 8 bits as picture editors do.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairlead.engine.media.arrays import Array, check_size
from fairlead.engine.media.pictures import Bytes, from_bytes, to_bytes

Places: TypeAlias = NDArray[np.int64]

METHODS: Final = ("nearest-exact", "bilinear", "area", "bicubic", "lanczos")
_PICTURE_CHANNELS: Final = 4
"""Pictures have up to four channels: grey, grey and alpha, colours, colours and alpha."""


def resize(images: Array, width: int, height: int, method: str) -> Array:
    """Scale images to a size, without keeping their proportions; ValueError for an impossible size."""
    count, rows, columns, channels = images.shape
    if width < 1 or height < 1:
        raise ValueError(f"An image cannot be scaled to {width} x {height}.")
    kernel = _KERNELS.get(method)
    if kernel is None:
        raise ValueError(f"There is no way of scaling called {method!r}.")
    if (columns, rows) == (width, height) and method != "lanczos":
        return images  # every kernel but this leaves a pixel unchanged that it hits in the centre
    check_size(count, height, width)
    result = np.empty((count, height, width, channels), np.float32)
    for index, image in enumerate(images):
        result[index] = kernel(np.ascontiguousarray(image), width, height)
    return result


def scale(images: Array, width: int, height: int, method: str, crop: str) -> Array:
    """Scale images to a size; with crop `center` they are first cropped evenly to its proportions."""
    return resize(in_proportion(images, width, height) if crop == "center" else images, width, height, method)


def in_proportion(images: Array, width: int, height: int) -> Array:
    """The largest part in the middle of the images that has the proportions of a size, to the nearest pixel."""
    rows, columns = images.shape[1:3]
    have, wanted = columns / rows, width / max(height, 1)
    x = y = 0
    if have > wanted:
        x = min(round((columns - columns * (wanted / have)) / 2), (columns - 1) // 2)
    elif have < wanted:
        y = min(round((rows - rows * (have / wanted)) / 2), (rows - 1) // 2)
    return images[:, y : rows - y, x : columns - x]


def proportional(images: Array, width: int, height: int) -> tuple[int, int]:
    """A size of which the side that is 0 follows from the other; with both 0 it is the size of the images."""
    rows, columns = images.shape[1:3]
    if width == 0 and height == 0:
        return columns, rows
    return (
        width or max(1, round(columns * height / rows)),
        height or max(1, round(rows * width / columns)),
    )


def _nearest_exact(image: Array, width: int, height: int) -> Array:
    return image[_nearest(image.shape[0], height)][:, _nearest(image.shape[1], width)]


def _nearest(length: int, size: int) -> Places:
    # ComfyUI calculates in single precision, which matters where a centre falls on an edge.
    step = np.float32(length) / np.float32(size)
    centres = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * step
    found: Places = np.minimum(np.floor(centres).astype(np.int64), length - 1)
    return found


def _bilinear(image: Array, width: int, height: int) -> Array:
    return _by_opencv(image, width, height, cv2.INTER_LINEAR)


def _bicubic(image: Array, width: int, height: int) -> Array:
    # OpenCV's cubic has a = -0.75, as ComfyUI's has; both keep overshoot.
    return _by_opencv(image, width, height, cv2.INTER_CUBIC)


def _by_opencv(image: Array, width: int, height: int, kernel: int) -> Array:
    scaled = cv2.resize(image, (width, height), interpolation=kernel)
    return np.asarray(scaled, np.float32).reshape(height, width, image.shape[2])


def _area(image: Array, width: int, height: int) -> Array:
    down = _averages(image, height)
    return _averages(down.swapaxes(0, 1), width).swapaxes(0, 1)


def _averages(lines: Array, size: int) -> Array:
    """Averages of the whole lines each of `size` equal parts touches, every line it touches counted alike."""
    length = lines.shape[0]
    parts = np.arange(size, dtype=np.int64)
    starts, ends = parts * length // size, -((parts + 1) * -length // size)
    total = np.zeros((size, *lines.shape[1:]), np.float32)
    for offset in range(int((ends - starts).max())):
        touched = starts + offset < ends
        if touched.all():
            total += lines[starts + offset]
        else:
            total[touched] += lines[starts[touched] + offset]
    counts = (ends - starts).astype(np.float32)
    total /= counts[:, None, None]
    return total


def _lanczos(image: Array, width: int, height: int) -> Array:
    pixels = to_bytes(image)
    if image.shape[2] > _PICTURE_CHANNELS:
        planes = [_lanczos_picture(pixels[..., plane], width, height) for plane in range(image.shape[2])]
        return np.stack(planes, axis=-1)
    picture = pixels[..., 0] if image.shape[2] == 1 else pixels
    return _lanczos_picture(picture, width, height).reshape(height, width, image.shape[2])


def _lanczos_picture(pixels: Bytes, width: int, height: int) -> Array:
    picture = Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS)
    return from_bytes(np.asarray(picture))


_KERNELS: Final[Mapping[str, Callable[[Array, int, int], Array]]] = MappingProxyType(
    {"nearest-exact": _nearest_exact, "bilinear": _bilinear, "area": _area, "bicubic": _bicubic, "lanczos": _lanczos}
)
