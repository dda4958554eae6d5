"""MP4 files: frames in VP9 or AV1, a sound in Opus, and texts by name (`mdta`), where editors look for them."""

import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from fairlead.domain.assets.media_sizes import boxes
from fairlead.engine.media.mp4 import read_index, top_boxes
from fairlead.engine.media.mp4 import texts as old_texts
from fairlead.engine.media.streams import OpusStream, PictureStream

_SCALE: Final = 48_000
"""The time of the movie and of its sound, in parts of a second: one sample of Opus."""
_PICTURE_SCALE_MIN: Final = 10_000
_MATRIX: Final = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_COLOURS: Final = struct.pack(">4sHHHB", b"nclx", 1, 1, 6, 0)
"""Primaries and transfer of BT.709, the matrix of BT.601 and its narrow range, in which frames are encoded."""
_LONG_BYTES: Final = 2**32 - 8
_VP9_LEVELS: Final = (
    (829_440, 10), (2_764_800, 11), (4_608_000, 20), (9_216_000, 21), (20_736_000, 30), (36_864_000, 31),
    (83_558_400, 40), (160_432_128, 41), (311_951_360, 50), (588_251_136, 51), (1_176_502_272, 52),
)  # fmt: skip
"""The most pixels a second of each level."""


class _Laid(msgspec.Struct, frozen=True):
    """The layout of a track: its packets in chunks of about a second."""

    packets: Sequence[bytes]
    durations: Sequence[int]
    scale: int

    def chunks(self) -> Iterator[tuple[int, list[bytes]]]:
        """The packets of each second."""
        starts, time = [], 0
        for duration in self.durations:
            starts.append(time // self.scale)
            time += duration
        for second, group in groupby(zip(starts, self.packets, strict=True), key=lambda pair: pair[0]):
            yield second, [packet for _, packet in group]


def write(path: Path, pictures: PictureStream, sound: OpusStream | None, texts: Mapping[str, str]) -> None:
    """Write a file whose index comes first, so that it plays while it is still being fetched."""
    laid = [_laid_pictures(pictures), *([] if sound is None else [_laid_sound(sound)])]
    chunks = sorted(
        ((second, track, packets) for track, of in enumerate(laid) for second, packets in of.chunks()),
        key=lambda chunk: chunk[:2],
    )
    start = _box(b"ftyp", b"isom\0\0\2\0isomiso6mp41")
    size = sum(len(packet) for of in laid for packet in of.packets)
    # Editors do not reliably read past the long form of a box.
    data = struct.pack(">I4s", size + 8, b"mdat") if size < _LONG_BYTES else struct.pack(">I4sQ", 1, b"mdat", size + 16)
    before = len(start) + len(_index(pictures, sound, laid, texts, [[] for _ in laid], chunks)) + len(data)
    offsets: list[list[int]] = [[] for _ in laid]
    at = before
    for _, track, packets in chunks:
        offsets[track].append(at)
        at += sum(map(len, packets))
    with path.open("wb") as file:
        file.write(start)
        file.write(_index(pictures, sound, laid, texts, offsets, chunks))
        file.write(data)
        for _, _, packets in chunks:
            file.writelines(packets)


def copy_with_texts(source: Path, path: Path, texts: Mapping[str, str]) -> None:
    """Copy a file and add texts to its own: a new index at its end takes the place of the old, which is left empty.

    A file that comes in fragments, or has unusual boxes, is copied as it is.
    """
    shutil.copyfile(source, path)
    with path.open("r+b") as file:
        found = list(top_boxes(file))
        places = [(start, end) for kind, start, end in found if kind == b"moov"]
        if not texts or len(places) != 1 or any(kind == b"moof" for kind, _, _ in found):
            return
        start, end = places[0]
        file.seek(start - 4)
        if file.read(4) != b"moov":
            return  # a box in its long form, whose size stands behind its name
        old = read_index(source)
        merged = {**old_texts(old), **texts}
        size = file.seek(0, 2)
        file.write(_box(b"moov", b"".join(_box(*of) for of in boxes(old) if of[0] != b"udta"), _texts(merged)))
        if list(top_boxes(file))[: len(found)] != found:
            file.truncate(size)
            return
        file.seek(start - 8)
        file.write(struct.pack(">I4s", end - start + 8, b"free") + bytes(end - start))


def _laid_pictures(pictures: PictureStream) -> _Laid:
    times = max(1, -(-_PICTURE_SCALE_MIN // pictures.rate.numerator))
    duration = pictures.rate.denominator * times
    return _Laid(pictures.packets, [duration] * len(pictures.packets), pictures.rate.numerator * times)


def _laid_sound(sound: OpusStream) -> _Laid:
    return _Laid(sound.packets, sound.durations, _SCALE)


def _index(
    pictures: PictureStream, sound: OpusStream | None, laid: Sequence[_Laid], texts: Mapping[str, str],
    offsets: Sequence[Sequence[int]], chunks: Sequence[tuple[int, int, list[bytes]]],
) -> bytes:  # fmt: skip
    """The `moov` box; it is as long without the offsets as with them."""
    counts = [[len(packets) for _, track, packets in chunks if track == index] for index in range(len(laid))]
    known = [list(of) or [0] * len(counts[index]) for index, of in enumerate(offsets)]
    shown = int(len(pictures.packets) / pictures.rate * _SCALE)
    made = [_picture_track(pictures, laid[0], shown, _chunk_tables(counts[0], known[0]))]
    if sound is not None:
        made.append(_sound_track(sound, laid[1], _chunk_tables(counts[1], known[1])))
        shown = max(shown, sound.length)
    head = struct.pack(">IIIIIIH10x", 0, 0, 0, _SCALE, shown, 0x10000, 0x100) + _MATRIX + bytes(24)
    return _box(b"moov", _box(b"mvhd", head, struct.pack(">I", len(laid) + 1)), *made, _texts(texts))


def _picture_track(pictures: PictureStream, laid: _Laid, shown: int, chunks: bytes) -> bytes:
    width, height = pictures.width, pictures.height
    entry = _box(
        pictures.codec.encode(),
        bytes(6), struct.pack(">H16xHHII4xH32xHh", 1, width, height, 72 << 16, 72 << 16, 1, 24, -1),
        _picture_settings(pictures), _box(b"colr", _COLOURS),
    )  # fmt: skip
    keys = [index + 1 for index, is_key in enumerate(pictures.is_key) if is_key]
    tables = _full(b"stss", struct.pack(f">I{len(keys)}I", len(keys), *keys)) + chunks
    head = _track_head(1, shown, 0, width, height)
    return _track(head, b"", laid, (b"vide", _box(b"vmhd", struct.pack(">I8x", 1))), entry, tables)


def _picture_settings(pictures: PictureStream) -> bytes:
    if pictures.codec == "av01":
        return _box(b"av1C", pictures.settings)
    speed = pictures.width * pictures.height * pictures.rate
    level = next((name for most, name in _VP9_LEVELS if speed <= most), 60)
    # 8 bits, 4:2:0, narrow range
    return _full(b"vpcC", struct.pack(">BBBBBBH", 0, level, 8 << 4 | 1 << 1, 1, 1, 6, 0), version=1)


def _sound_track(sound: OpusStream, laid: _Laid, chunks: bytes) -> bytes:
    settings = struct.pack(">BBHIhB", 0, sound.channels, sound.skipped, _SCALE, 0, 0)
    entry = _box(
        b"Opus", bytes(6), struct.pack(">H8xHHIHH", 1, sound.channels, 16, 0, _SCALE, 0), _box(b"dOps", settings)
    )
    edits = _box(b"edts", _full(b"elst", struct.pack(">IIiI", 1, sound.length, sound.skipped, 0x10000)))
    head = _track_head(2, sound.length, 0x100, 0, 0)
    return _track(head, edits, laid, (b"soun", _full(b"smhd", bytes(4))), entry, chunks)


def _track_head(number: int, shown: int, volume: int, width: int, height: int) -> bytes:
    head = struct.pack(">IIII4xI8xHHHH", 3, 0, 0, number, shown, 0, 0, volume, 0)
    return _box(b"tkhd", head, _MATRIX, struct.pack(">II", width << 16, height << 16))


def _track(head: bytes, edits: bytes, laid: _Laid, media: tuple[bytes, bytes], entry: bytes, chunks: bytes) -> bytes:
    runs = [(len(list(group)), duration) for duration, group in groupby(laid.durations)]
    times = struct.pack(f">I{2 * len(runs)}I", len(runs), *(number for run in runs for number in run))
    sizes = struct.pack(f">II{len(laid.packets)}I", 0, len(laid.packets), *map(len, laid.packets))
    table = _box(
        b"stbl", _full(b"stsd", struct.pack(">I", 1), entry), _full(b"stts", times), _full(b"stsz", sizes), chunks
    )
    here = _box(b"dinf", _full(b"dref", struct.pack(">I", 1), _box(b"url ", struct.pack(">I", 1))))
    length = sum(laid.durations)
    return _box(
        b"trak", head, edits,
        _box(
            b"mdia", _full(b"mdhd", struct.pack(">IIIIHH", 0, 0, laid.scale, length, 0x55C4, 0)),
            _full(b"hdlr", bytes(4), media[0], bytes(13)), _box(b"minf", media[1], here, table),
        ),
    )  # fmt: skip


def _chunk_tables(counts: Sequence[int], offsets: Sequence[int]) -> bytes:
    runs = [entry for index, count in enumerate(counts) for entry in (index + 1, count, 1)]
    chunks = _full(b"stsc", struct.pack(f">I{len(runs)}I", len(counts), *runs))
    return chunks + _full(b"co64", struct.pack(f">I{len(offsets)}Q", len(offsets), *offsets))


def _texts(texts: Mapping[str, str]) -> bytes:
    if not texts:
        return b""
    names = b"".join(struct.pack(">I4s", 8 + len(name.encode()), b"mdta") + name.encode() for name in texts)
    values = b"".join(
        _box(struct.pack(">I", index), _box(b"data", struct.pack(">II", 1, 0), value.encode()))
        for index, value in enumerate(texts.values(), 1)
    )
    handler = _full(b"hdlr", bytes(4), b"mdta", bytes(13))
    keys = _full(b"keys", struct.pack(">I", len(texts)), names)
    return _box(b"udta", _full(b"meta", handler, keys, _box(b"ilst", values)))


def _full(kind: bytes, *parts: bytes, version: int = 0) -> bytes:
    return _box(kind, bytes([version, 0, 0, 0]), *parts)


def _box(kind: bytes, *parts: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)
