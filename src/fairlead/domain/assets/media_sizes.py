"""How large media files are, by their headers alone: seconds, frames and pixels. Nothing is decoded.

Where a header is cut off or makes no sense the functions raise one of UNREADABLE.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Final

UNREADABLE: Final = (struct.error, KeyError, IndexError, ValueError, ArithmeticError)
_HEAD: Final = struct.Struct(">I4s")
_BOXES_MAX: Final = 10_000
_JPEG_SIZES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers whose segments begin with a picture's size (ISO/IEC 10918-1, B.1.1.3)."""


def boxes(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The boxes inside another: their kind and content."""
    offset = 0
    for _ in range(_BOXES_MAX):
        if offset + _HEAD.size > len(body):
            return
        size, kind = _HEAD.unpack_from(body, offset)
        size = size or len(body) - offset
        if size < _HEAD.size:
            return
        yield kind, body[offset + _HEAD.size : offset + size]
        offset += size


def properties_of_index(index: bytes) -> dict[str, str]:
    """The properties of a clip or a sound by the content of its `moov` box (ISO/IEC 14496-12).

    The length is that of the movie's header, frames and pixels are those of the first track of pictures.
    """
    header = dict(boxes(index))[b"mvhd"]
    scale, duration = struct.unpack_from(">IQ", header, 20) if header[0] == 1 else struct.unpack_from(">II", header, 12)
    found = {"seconds": str(round(Decimal(duration) / Decimal(scale), 6))}
    for kind, body in boxes(index):
        track = dict(boxes(body)) if kind == b"trak" else {}
        media = dict(boxes(track.get(b"mdia", b"")))
        if media.get(b"hdlr", b"")[8:12] == b"vide":
            table = dict(boxes(dict(boxes(media[b"minf"]))[b"stbl"]))
            width, height = struct.unpack(">II", track[b"tkhd"][-8:])  # fixed point, 16 bits of each a fraction
            found["frames"] = str(struct.unpack_from(">I", table[b"stsz"], 8)[0])
            found["pixels"] = str((width >> 16) * (height >> 16))
            break
    return found


def _png_size(head: bytes) -> tuple[int, int]:
    return _two(">II", head, 16)


def _gif_size(head: bytes) -> tuple[int, int]:
    return _two("<HH", head, 6)


def _webp_size(head: bytes) -> tuple[int, int]:
    """By the first chunk: with loss, without, or extended (RFC 9649)."""
    match head[12:16]:
        case b"VP8 ":
            width, height = _two("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case _:
            raise ValueError("This is no WebP picture.")


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """By the segment that begins a frame; those before it are passed over."""
    offset = 2
    while offset + 4 <= len(head):
        marker, length = _two(">HH", head, offset)
        if marker & 0xFF in _JPEG_SIZES:
            height, width = _two(">HH", head, offset + 5)
            return width, height
        offset += 2 + max(length, 2)
    raise ValueError("The picture says no size.")


def wav_seconds(head: bytes, size: int) -> Decimal:
    """By the bytes a second takes; what says no length has the rest of the file (it was written as a stream)."""
    rate, offset = 0, 12
    while offset + 8 <= len(head):
        kind, length = struct.unpack_from("<4sI", head, offset)
        if kind == b"fmt ":
            (rate,) = struct.unpack_from("<I", head, offset + 16)
        elif kind == b"data":
            return round(Decimal(min(length, size - offset - 8)) / Decimal(rate), 6)
        offset += 8 + length + length % 2
    raise ValueError("The sound says no length.")


def _two(form: str, head: bytes, offset: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, head, offset)
    return int(first), int(second)


PICTURE_SIZES: Final[Mapping[str, Callable[[bytes], tuple[int, int]]]] = {
    "image/png": _png_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
    "image/jpeg": _jpeg_size,
}
"""The width and height of a picture by its first bytes, by media type."""
