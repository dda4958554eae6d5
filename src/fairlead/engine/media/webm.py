"""WebM files of frames in VP9 or AV1, with texts as tags; and the sound of files that others have written."""

import mmap
import struct
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Final

from fairlead.engine.media.streams import PictureStream

SIGNATURE: Final = b"\x1a\x45\xdf\xa3"
_CLUSTER_MS_MAX: Final = 5_000
_CODECS: Final = {"vp09": b"V_VP9", "av01": b"V_AV1"}
_ELEMENTS_MAX: Final = 2**22
_SEGMENT, _CLUSTER, _TRACKS, _ENTRY = 0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE
_BLOCK_GROUP, _BLOCK, _SIMPLE_BLOCK = 0xA0, 0xA1, 0xA3
_PARENTS: Final = frozenset({_SEGMENT, _CLUSTER, _BLOCK_GROUP})
_TRACKS_BYTES_MAX: Final = 2**20


def write(path: Path, pictures: PictureStream, texts: Mapping[str, str]) -> None:
    """Write a file with a table of its key frames before them, so that players can seek."""
    clusters = list(_clusters(pictures))
    head = _information(pictures) + _tracks(pictures) + _tags(texts)
    offset = len(head) + len(_cues([(time, 0) for time, _ in clusters]))
    cues = []
    for time, cluster in clusters:
        cues.append((time, offset))
        offset += len(cluster)
    with path.open("wb") as file:
        kind = (0x4286, 1), (0x42F7, 1), (0x42F2, 4), (0x42F3, 8), (0x4287, 4), (0x4285, 2)
        document = _element(0x4282, b"webm") + b"".join(_number(name, value) for name, value in kind)
        file.write(_element(0x1A45DFA3, document))
        file.write(_name(_SEGMENT) + _size(offset) + head + _cues(cues))
        file.writelines(cluster for _, cluster in clusters)


def _information(pictures: PictureStream) -> bytes:
    milliseconds = float(1_000 * len(pictures.packets) / pictures.rate)
    return _element(
        0x1549A966,
        _number(0x2AD7B1, 1_000_000), _element(0x4489, struct.pack(">d", milliseconds)),
        _element(0x4D80, b"fairlead"), _element(0x5741, b"fairlead"),
    )  # fmt: skip


def _tracks(pictures: PictureStream) -> bytes:
    # The matrix of BT.601 in its narrow range, primaries and transfer of BT.709.
    colours = _element(0x55B0, _number(0x55B1, 6), _number(0x55B9, 1), _number(0x55BA, 1), _number(0x55BB, 1))
    entry = [
        _number(0xD7, 1), _number(0x73C5, 1), _number(0x83, 1), _number(0x9C, 0),
        _element(0x86, _CODECS[pictures.codec]), _number(0x23E383, int(1_000_000_000 / pictures.rate)),
        _element(0xE0, _number(0xB0, pictures.width), _number(0xBA, pictures.height), colours),
    ]  # fmt: skip
    if pictures.settings:
        entry.append(_element(0x63A2, pictures.settings))
    return _element(_TRACKS, _element(_ENTRY, *entry))


def _tags(texts: Mapping[str, str]) -> bytes:
    """Texts of the whole file; the names of tags are in capitals."""
    if not texts:
        return b""
    tags = [
        _element(0x67C8, _element(0x45A3, name.upper().encode("ascii")), _element(0x4487, value.encode()))
        for name, value in texts.items()
    ]
    return _element(0x1254C367, _element(0x7373, _element(0x63C0), *tags))


def _clusters(pictures: PictureStream) -> Iterator[tuple[int, bytes]]:
    """The frames in groups: when each begins, in milliseconds, and its element. A key frame begins a new one."""
    begins, blocks = 0, bytearray()
    for index, (packet, is_key) in enumerate(zip(pictures.packets, pictures.is_key, strict=True)):
        time = round(Fraction(1_000 * index) / pictures.rate)
        if blocks and (is_key or time - begins > _CLUSTER_MS_MAX):
            yield begins, _element(_CLUSTER, _number(0xE7, begins), bytes(blocks))
            blocks.clear()
        begins = begins if blocks else time
        block = b"\x81" + struct.pack(">hB", time - begins, 0x80 if is_key else 0) + packet
        blocks += _element(_SIMPLE_BLOCK, block)
    if blocks:
        yield begins, _element(_CLUSTER, _number(0xE7, begins), bytes(blocks))


def _cues(places: list[tuple[int, int]]) -> bytes:
    """Where each cluster is, counted from the beginning of the segment; as long whatever the places are."""
    points = [
        _element(0xBB, _number(0xB3, time), _element(0xB7, _number(0xF7, 1), _element(0xF1, struct.pack(">Q", place))))
        for time, place in places
    ]
    return _element(0x1C53BB6B, *points)


def _number(name: int, value: int) -> bytes:
    return _element(name, value.to_bytes(max(1, (value.bit_length() + 7) // 8)))


def _element(name: int, *parts: bytes) -> bytes:
    return _name(name) + _size(sum(map(len, parts))) + b"".join(parts)


def _name(name: int) -> bytes:
    return name.to_bytes((name.bit_length() + 7) // 8)


def _size(size: int) -> bytes:
    return (size | 1 << 56).to_bytes(8)


def sound_packets(path: Path) -> tuple[str, bytes, list[bytes]] | None:
    """The codec of the last sound in a file, what its decoder must be told, and its packets; None without a sound.

    ValueError for a broken file.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _last_sound(content)


def _last_sound(content: mmap.mmap) -> tuple[str, bytes, list[bytes]] | None:
    sounds: dict[int, tuple[str, bytes]] = {}
    packets: dict[int, list[bytes]] = {}
    for name, start, end in _elements(content):
        if name == _TRACKS and end - start <= _TRACKS_BYTES_MAX:
            sounds |= _sounds(content[start:end])
        elif name in {_SIMPLE_BLOCK, _BLOCK} and end - start > 4:  # noqa: PLR2004 -- a number, a time and flags
            track, at = _variable(content, start, keeps_marker=False)
            if track not in sounds:
                continue
            if content[at + 2] & 0x06:
                raise ValueError("The sound of the video is laced, which is not read.")
            packets.setdefault(track, []).append(content[at + 3 : end])
    if not sounds:
        return None
    track = max(sounds)
    return (*sounds[track], packets.get(track, []))


def _sounds(body: bytes) -> dict[int, tuple[str, bytes]]:
    found = {}
    for name, start, end in _elements(body):
        if name != _ENTRY:
            continue
        fields = {field: body[at:to] for field, at, to in _elements(body[start:end], start)}
        if fields.get(0x83) == b"\x02":
            codec = fields.get(0x86, b"").decode("latin-1")
            found[int.from_bytes(fields.get(0xD7, b""))] = codec, fields.get(0x63A2, b"")
    return found


def _elements(content: bytes | mmap.mmap, base: int = 0) -> Iterator[tuple[int, int, int]]:
    """The elements of a file one after the other, those inside segments, clusters and groups included."""
    offset = 0
    for _ in range(_ELEMENTS_MAX):
        if offset >= len(content):
            return
        name, start = _variable(content, offset, keeps_marker=True)
        size, start = _variable(content, start, keeps_marker=False)
        if name in _PARENTS:
            offset = start
            continue
        end = min(start + size, len(content))
        yield name, base + start, base + end
        offset = end


def _variable(content: bytes | mmap.mmap, offset: int, *, keeps_marker: bool) -> tuple[int, int]:
    """A number of variable length, and where it ends; its first set bit says how long it is."""
    if offset >= len(content) or not content[offset]:
        raise ValueError("The video is broken or cut off.")
    length = 9 - content[offset].bit_length()
    value = int.from_bytes(content[offset : offset + length])
    return (value if keeps_marker else value & (1 << 7 * length) - 1), offset + length
