"""ISO base media files (MP4, MOV, and sequences in AVIF): the tracks in them, and the packets of a track."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from fairlead.domain.assets.media_sizes import boxes

_HEAD: Final = struct.Struct(">I4s")
_TOP_BOXES_MAX: Final = 4_096
_INDEX_BYTES_MAX: Final = 64 * 2**20
"""The boxes that describe tracks: for an hour they are about a megabyte."""
_PACKETS_MAX: Final = 2**21
_KINDS: Final = {b"vide": "video", b"pict": "video", b"soun": "sound"}
_UTF8: Final = b"\0\0\0\1"
_VISUAL_ENTRY_BYTES, _SOUND_ENTRY_BYTES = 78, 28
"""The length of a sample entry before its boxes."""


class Track(msgspec.Struct, frozen=True):
    """A track of a file: what it holds and where its packets are."""

    kind: str
    codec: str
    """The four letters that name the format, such as avc1, vp09, mp4a or Opus."""
    settings: Mapping[str, bytes]
    """The boxes of the sample entry: what decoders must be told."""
    places: Sequence[tuple[int, int]]
    """Where in the file each packet begins, and how long it is."""
    seconds: float
    skipped: int
    """The time in the track at which its first edit begins."""

    def packets(self, path: Path) -> list[bytes]:
        """The packets, in the order of decoding. ValueError for those that are not in the file."""
        found = []
        with path.open("rb") as file:
            for offset, size in self.places:
                file.seek(offset)
                packet = file.read(size)
                if len(packet) < size:
                    raise ValueError("The video is cut off.")
                found.append(packet)
        return found


def tracks(path: Path) -> list[Track]:
    """The tracks of pictures and of sound in a file. ValueError for a broken one, or one without an index."""
    try:
        index = read_index(path)
        size = path.stat().st_size
        movie = dict(boxes(index))
        scale, _ = _times(movie[b"mvhd"])
        return _all_tracks(index, scale, size)
    except (struct.error, KeyError, IndexError, ZeroDivisionError) as error:
        raise ValueError("The video is broken: its index cannot be read.") from error


def read_index(path: Path) -> bytes:
    """The content of the `moov` box. ValueError where there is none."""
    with path.open("rb") as file:
        for kind, start, end in top_boxes(file):
            if kind == b"moov":
                if end - start > _INDEX_BYTES_MAX:
                    raise ValueError("The index of the video is too large.")
                file.seek(start)
                return file.read(end - start)
    raise ValueError("The video has no index: it is cut off.")


def texts(index: bytes) -> dict[str, str]:
    """The texts of an index by their names."""
    described = dict(boxes(dict(boxes(index)).get(b"udta", b""))).get(b"meta", b"")
    found = dict(boxes(described[4:]))
    names = [name.decode("utf-8", "replace") for _, name in boxes(found.get(b"keys", b"")[8:])]
    values = {}
    for key, item in boxes(found.get(b"ilst", b"")):
        number = int.from_bytes(key)
        value = dict(boxes(item)).get(b"data", b"")
        if 1 <= number <= len(names) and value[:4] == _UTF8:
            values[names[number - 1]] = value[8:].decode("utf-8", "replace")
    return values


def top_boxes(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """The boxes of a file: their kind, and where their content begins and ends."""
    end_of_file = file.seek(0, 2)
    offset = 0
    for _ in range(_TOP_BOXES_MAX):
        file.seek(offset)
        head = file.read(16)
        if len(head) < _HEAD.size:
            return
        size, kind = _HEAD.unpack_from(head)
        start = _HEAD.size
        if size == 1 and len(head) == 16:  # noqa: PLR2004 -- the long form
            size, start = int.from_bytes(head[8:]), 16
        end = end_of_file if size == 0 else min(offset + size, end_of_file)
        if end < offset + start:
            return
        yield kind, offset + start, end
        offset = end


def _all_tracks(index: bytes, scale: int, file_bytes: int) -> list[Track]:
    """The tracks of an index.

    Together they have at most as many packets as the file has bytes: a few hundred bytes are enough to say that a track
    has millions, so that a bound for each track alone would let the work grow with the square of the file.
    """
    found, left = [], min(file_bytes, _PACKETS_MAX)
    for kind, body in boxes(index):
        track = _track(dict(boxes(body)), scale, file_bytes, left) if kind == b"trak" else None
        if track is not None:
            found.append(track)
            left -= len(track.places)
    return found


def _track(body: Mapping[bytes, bytes], movie_scale: int, file_bytes: int, packets_max: int) -> Track | None:
    media = dict(boxes(body[b"mdia"]))
    kind = _KINDS.get(media[b"hdlr"][8:12])
    if kind is None:
        return None
    table = dict(boxes(dict(boxes(media[b"minf"]))[b"stbl"]))
    entry = next(boxes(table[b"stsd"][8:]), None)
    if entry is None:
        return None
    codec, content = entry
    settings = boxes(content[_VISUAL_ENTRY_BYTES if kind == "video" else _SOUND_ENTRY_BYTES :])
    scale, duration = _times(media[b"mdhd"])
    seconds, skipped = duration / scale, 0
    edits = dict(boxes(body.get(b"edts", b""))).get(b"elst", b"")
    if edits:
        edited, skipped = _first_edit(edits)
        seconds = edited / movie_scale or seconds
    named = {name.decode("latin-1"): value for name, value in settings}
    places = _places(table, file_bytes, packets_max)
    return Track(kind, codec.decode("latin-1"), named, places, seconds, max(skipped, 0))


def _times(box: bytes) -> tuple[int, int]:
    """The scale and the duration of a header."""
    scale, duration = struct.unpack_from(">IQ", box, 20) if box[0] == 1 else struct.unpack_from(">II", box, 12)
    return int(scale), int(duration)


def _first_edit(box: bytes) -> tuple[int, int]:
    """How long the first edit that shows something is, and where it begins."""
    form = struct.Struct(">Qqi" if box[0] == 1 else ">Iii")
    edits = list(form.iter_unpack(box[8 : 8 + (len(box) - 8) // form.size * form.size]))
    duration, start, _ = next((edit for edit in edits if edit[1] >= 0), (0, 0, 0))
    return int(duration), int(start)


def _places(table: Mapping[bytes, bytes], file_bytes: int, packets_max: int) -> list[tuple[int, int]]:
    """Where the packets are: chunks by their offsets, filled as the table of runs says.

    Runs name their first chunks in ascending order (ISO/IEC 14496-12, 8.7.4), so that each chunk belongs to one run.
    """
    sizes = _sizes(table[b"stsz"], file_bytes, packets_max)
    offsets = _numbers(table[b"co64"][4:], 8) if b"co64" in table else _numbers(table[b"stco"][4:], 4)
    runs = list(struct.iter_unpack(">III", table[b"stsc"][8 : 8 + (len(table[b"stsc"]) - 8) // 12 * 12]))
    if sum(sizes) > file_bytes:
        raise ValueError("The video has more packets than fit into it.")
    if any(after <= first for (first, _, _), (after, _, _) in pairwise([(0, 0, 0), *runs])):
        raise ValueError("The video is broken: its runs of chunks are not in order.")
    found: list[tuple[int, int]] = []
    for (first, count, _), (after, _, _) in pairwise([*runs, (len(offsets) + 1, 0, 0)]):
        for offset in offsets[first - 1 : after - 1]:
            at = offset
            for size in sizes[len(found) : len(found) + count]:
                found.append((at, size))
                at += size
            if at > file_bytes:
                raise ValueError("The video is cut off.")
    return found


def _sizes(box: bytes, file_bytes: int, packets_max: int) -> Sequence[int]:
    each, count = struct.unpack_from(">II", box, 4)
    if count > packets_max or each * count > file_bytes:
        raise ValueError("The video has more packets than fit into it.")
    return [each] * count if each else _numbers(box[8:], 4)


def _numbers(box: bytes, width: int) -> Sequence[int]:
    (count,) = struct.unpack_from(">I", box)
    if count > _PACKETS_MAX or count * width > len(box):
        raise ValueError("The video has more packets than fit into it.")
    return struct.unpack_from(f">{count}{'Q' if width == 8 else 'I'}", box, 4)  # noqa: PLR2004 -- bytes of Q
