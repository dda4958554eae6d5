"""OpenEXR files, written in their plainest form: 32-bit floating point, ZIP-compressed blocks of scan lines.

The library we read pictures with was built without this format, which takes a hundred lines to write.
"""

import itertools
import struct
import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np

from fairlead.engine.media.arrays import Array

_MAGIC: Final = b"\x76\x2f\x31\x01"
_VERSION: Final = struct.pack("<I", 2)  # single part, scan lines
_FLOAT: Final = 2
_ZIP: Final = 3
_BLOCK_LINES: Final = 16
"""Scan lines in a block, as ZIP has it."""
_NAMES: Final = {1: "Y", 3: "RGB", 4: "RGBA"}

PRIMARIES_709: Final = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290)
"""Red, green, blue and white of Rec. 709, which sRGB has too, as x and y."""
PRIMARIES_2020: Final = (0.708, 0.292, 0.170, 0.797, 0.131, 0.046, 0.3127, 0.3290)
"""Those of Rec. 2020."""


_NAME_MAX: Final = 31
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
    """A file of scene-linear values [H,W,C], of one, three or four channels; nothing is clipped."""
    height, width, channels = image.shape
    names = _NAMES.get(channels)
    if names is None:
        raise ValueError(f"An image of {channels} channels cannot be saved as OpenEXR.")
    order = sorted(range(channels), key=lambda channel: names[channel])
    planes = np.ascontiguousarray(image[..., order].transpose(0, 2, 1), "<f4")  # a line is a run of each channel
    header = _header(width, height, [names[channel] for channel in order], primaries, texts)
    blocks = [_block(planes, first) for first in range(0, height, _BLOCK_LINES)]
    places = itertools.accumulate(map(len, blocks[:-1]), initial=len(header) + 8 * len(blocks))
    return b"".join([header, *(struct.pack("<Q", place) for place in places), *blocks])


def _header(width: int, height: int, names: list[str], primaries: tuple[float, ...], texts: Mapping[str, str]) -> bytes:
    channels = b"".join(name.encode() + b"\0" + struct.pack("<i4xii", _FLOAT, 1, 1) for name in names) + b"\0"
    window = struct.pack("<4i", 0, 0, width - 1, height - 1)
    attributes = [
        _attribute("channels", "chlist", channels),
        _attribute("chromaticities", "chromaticities", struct.pack("<8f", *primaries)),
        _attribute("compression", "compression", bytes([_ZIP])),
        _attribute("dataWindow", "box2i", window),
        _attribute("displayWindow", "box2i", window),
        _attribute("lineOrder", "lineOrder", b"\0"),
        _attribute("pixelAspectRatio", "float", struct.pack("<f", 1)),
        _attribute("screenWindowCenter", "v2f", struct.pack("<2f", 0, 0)),
        _attribute("screenWindowWidth", "float", struct.pack("<f", 1)),
    ]
    taken = {attribute.partition(b"\0")[0].decode() for attribute in attributes}
    attributes += [
        _attribute(name, "string", value.encode())
        for name, value in texts.items()
        if len(name) <= _NAME_MAX and name not in taken
    ]
    return _MAGIC + _VERSION + b"".join(attributes) + b"\0"


def _attribute(name: str, kind: str, value: bytes) -> bytes:
    return name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<I", len(value)) + value


def _block(planes: Array, first: int) -> bytes:
    lines = planes[first : first + _BLOCK_LINES].tobytes()
    packed = zlib.compress(_predicted(lines))
    data = packed if len(packed) < len(lines) else lines  # what does not shrink is kept as it is
    return struct.pack("<iI", first, len(data)) + data


def _predicted(data: bytes) -> bytes:
    """Bytes as ZIP wants them: those at even places, then those at odd ones, each as the step from the one before."""
    pixels = np.frombuffer(data, np.uint8)
    halves = np.concatenate([pixels[0::2], pixels[1::2]])
    differences = halves.copy()
    differences[1:] = halves[1:] - halves[:-1] + np.uint8(128)
    return differences.tobytes()
