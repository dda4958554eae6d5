"""OpenEXR files in their simplest form: 32-bit floating point, ZIP-compressed blocks of scan lines."""

import io
from collections.abc import Mapping
from typing import Final

import numpy as np

from fairlead.engine.media.arrays import Array

_NAMES: Final = {1: "Y", 3: "RGB", 4: "RGBA"}

PRIMARIES_709: Final = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290)
"""Red, green, blue and white of Rec. 709, which sRGB has too, as x and y."""
PRIMARIES_2020: Final = (0.708, 0.292, 0.170, 0.797, 0.131, 0.046, 0.3127, 0.3290)
"""Those of Rec. 2020."""


_NAME_MAX: Final = 31
_RESERVED: Final = frozenset(
    {
        "channels", "chromaticities", "chunkCount", "compression", "dataWindow", "displayWindow", "lineOrder",
        "pixelAspectRatio", "screenWindowCenter", "screenWindowWidth", "tiles", "type", "version",
    }
)  # fmt: skip
"""Names of attributes that say how the file is read."""

_COLOUR_CHANNELS: Final = 3

_HLG: Final = (0.17883277, 0.28466892, 0.55991073)
"""a, b and c of ITU-R BT.2100."""


def scene_linear(image: Array, space: str) -> Array:
    """Values [H,W,C] as scene-linear ones; alpha is linear already.

    The space is `sRGB` (IEC 61966-2-1), `HDR` (hybrid log-gamma, BT.2100) or `linear`.
    """
    curve = {"sRGB": _from_srgb, "HDR": _from_hlg}.get(space)
    if curve is None:
        return image
    return np.concatenate([curve(image[..., :_COLOUR_CHANNELS]), image[..., _COLOUR_CHANNELS:]], axis=-1)


def _from_srgb(values: Array) -> Array:
    power = ((np.maximum(values, 0) + np.float32(0.055)) / np.float32(1.055)) ** np.float32(2.4)
    return np.where(values <= np.float32(0.04045), values / np.float32(12.92), power)


def _from_hlg(values: Array) -> Array:
    a, b, c = (np.float32(constant) for constant in _HLG)
    values = np.maximum(values, 0)
    return np.where(values <= np.float32(0.5), values**2 / 3, (np.exp((values - c) / a) + b) / 12)


def encode(image: Array, primaries: tuple[float, ...], texts: Mapping[str, str]) -> bytes:
    """A file of scene-linear values [H,W,C], of one, three or four channels; nothing is clipped.

    ValueError for any other number of channels. A text whose name the format reserves is left out.
    """
    # Few workflows save this format, and loading the library takes 20 ms.
    import OpenEXR  # type: ignore[import-not-found]  # noqa: PLC0415 -- it says nowhere which types it has

    names = _NAMES.get(image.shape[-1])
    if names is None:
        raise ValueError(f"An image of {image.shape[-1]} channels cannot be saved as OpenEXR.")
    header = {
        **{name: text for name, text in texts.items() if 0 < len(name) <= _NAME_MAX and name not in _RESERVED},
        "chromaticities": primaries,
        "compression": OpenEXR.ZIP_COMPRESSION,
        "type": OpenEXR.scanlineimage,
    }
    planes = {name: np.ascontiguousarray(image[..., index], np.float32) for index, name in enumerate(names)}
    with io.BytesIO() as file:
        OpenEXR.File(header, planes).write(file)
        return file.getvalue()
