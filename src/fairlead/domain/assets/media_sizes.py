"""How large media files are, by their headers alone: seconds, frames and pixels. Nothing is decoded.

Where a header is cut off or makes no sense the functions raise one of UNREADABLE.

`longest` is how many seconds a file has by whatever says most: a file that a caller gives may contradict itself, and
what others make of it may be longer than what its first header says.
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

    The length is that of the movie's header, frames and pixels are those of the first track of pictures. A file in
    fragments has only its first ones here, so it has neither `longest` nor frames.
    """
    parts = list(boxes(index))
    is_whole = all(kind != b"mvex" for kind, _ in parts)
    movie = dict(parts)[b"mvhd"]
    lengths = [_seconds(movie)]
    found = {"seconds": str(round(lengths[0], 6))} if lengths[0] else {}
    for kind, body in parts:
        if kind != b"trak":
            continue
        track = dict(boxes(body))
        media = dict(boxes(track.get(b"mdia", b"")))
        table = dict(boxes(dict(boxes(media.get(b"minf", b""))).get(b"stbl", b"")))
        lengths.append(_edited_seconds(movie, dict(boxes(track.get(b"edts", b""))).get(b"elst", b"")))
        if b"mdhd" in media:
            lengths.append(max(_seconds(media[b"mdhd"]), _sampled_seconds(media[b"mdhd"], table.get(b"stts", b""))))
        if media.get(b"hdlr", b"")[8:12] == b"vide" and "pixels" not in found:
            width, height = struct.unpack(">II", track[b"tkhd"][-8:])  # fixed point, 16 bits of each a fraction
            found["pixels"] = str((width >> 16) * (height >> 16))
            if is_whole:
                found["frames"] = str(struct.unpack_from(">I", table[b"stsz"], 8)[0])
    if is_whole and max(lengths):
        found["longest"] = str(round(max(lengths), 6))
    return found


def _seconds(header: bytes) -> Decimal:
    """The length by the header of a movie, or of a track's media: they begin alike."""
    scale, duration = struct.unpack_from(">IQ", header, 20) if header[0] == 1 else struct.unpack_from(">II", header, 12)
    return Decimal(duration) / Decimal(scale)


def _sampled_seconds(header: bytes, table: bytes) -> Decimal:
    """The length of a track by how long each of its samples is shown (`stts`)."""
    if not table:
        return Decimal(0)
    (entries,) = struct.unpack_from(">I", table, 4)
    runs = struct.iter_unpack(">II", table[8 : 8 + 8 * entries])
    return Decimal(sum(count * shown for count, shown in runs)) / _scale(header)


def _edited_seconds(movie: bytes, edits: bytes) -> Decimal:
    """The length of a track by its edit list, which may show a part of it several times."""
    if not edits:
        return Decimal(0)
    (entries,) = struct.unpack_from(">I", edits, 4)
    form = ">Qq4x" if edits[0] == 1 else ">Ii4x"
    parts = struct.iter_unpack(form, edits[8 : 8 + struct.calcsize(form) * entries])
    return Decimal(sum(length for length, _ in parts)) / _scale(movie)


def _scale(header: bytes) -> Decimal:
    """How many units of a header's lengths a second has."""
    return Decimal(struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)[0])


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


def wav_seconds(head: bytes, size: int) -> tuple[Decimal, Decimal]:
    """By the bytes a second takes, and the longest; what says no length has the rest of the file (a stream's)."""
    rate, slowest, offset = 0, 0, 12
    while offset + 8 <= len(head):
        kind, length = struct.unpack_from("<4sI", head, offset)
        if kind == b"fmt ":
            samples, rate, block = struct.unpack_from("<IIH", head, offset + 12)
            slowest = min(rate, samples * block) or rate
        elif kind == b"data":
            rest = size - offset - 8
            return round(Decimal(min(length, rest)) / Decimal(rate), 6), round(Decimal(rest) / Decimal(slowest), 6)
        offset += 8 + length + length % 2
    raise ValueError("The sound says no length.")


_MPEG_KILOBITS: Final = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Kilobits a second of layer III, by the index in a frame's header, for MPEG-1 and for its later halves."""
_MPEG_RATES: Final = (44_100, 48_000, 32_000)
_MPEG_1, _MPEG_2, _MPEG_2_5 = 3, 2, 0
_LAYER_3: Final = 1
_SYNC: Final = 0x7FF
_TAGS: Final = (b"TAG", b"APETAGEX", b"LYRICSBEGIN")


def mpeg_seconds(content: bytes) -> Decimal:
    """The length of a whole sound of MPEG layer III (ISO/IEC 11172-3, 13818-3), frame by frame.

    ValueError where anything but tags is between or around its frames.
    """
    offset, seconds = 0, Decimal(0)
    if content[:3] == b"ID3":
        size = content[6:10]
        offset = 10 + (size[0] << 21 | size[1] << 14 | size[2] << 7 | size[3]) + (10 if content[5] & 0x10 else 0)
    counted: dict[int, int] = {}
    while offset + 4 <= len(content) and not content.startswith(_TAGS, offset):
        length, samples, rate = _mpeg_frame(int.from_bytes(content[offset : offset + 4]))
        counted[rate] = counted.get(rate, 0) + samples
        offset += length
    for rate, samples in counted.items():
        seconds += Decimal(samples) / Decimal(rate)
    if not seconds:
        raise ValueError("The sound has no frame.")
    return round(seconds, 6)


def _mpeg_frame(header: int) -> tuple[int, int, int]:
    """How many bytes a frame has, how many samples, and how many samples a second."""
    version, layer = header >> 19 & 3, header >> 17 & 3
    if header >> 21 != _SYNC or version not in (_MPEG_1, _MPEG_2, _MPEG_2_5) or layer != _LAYER_3:
        raise ValueError("This is no frame of layer III.")
    is_first = version == _MPEG_1
    kilobits = _MPEG_KILOBITS[is_first][header >> 12 & 15]
    rate = _MPEG_RATES[header >> 10 & 3] >> (0 if is_first else 1 if version == _MPEG_2 else 2)
    if not kilobits:
        raise ValueError("A frame does not say how long it is.")
    samples = 1152 if is_first else 576
    return samples // 8 * kilobits * 1000 // rate + (header >> 9 & 1), samples, rate


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
