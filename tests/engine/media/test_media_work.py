"""Containers of media take work in proportion to the size of the file, whatever their tables say (S-02)."""

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.steps import CountedBytes, count_steps
from fairlead.engine.media import clip_sound, mp4, ogg, webm

pytestmark = pytest.mark.req("S-02")

_STEPS_PER_BYTE = 12
_STEPS_FIRST = 2_000


def _box(kind: bytes, *parts: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def _track(runs: Sequence[tuple[int, int]], offsets: Sequence[int], each: int, count: int, sizes: bytes = b"") -> bytes:
    """A track of sound with tables as they are given: runs of chunks, their offsets, and the sizes of packets."""
    chunks = b"".join(struct.pack(">III", first, packets, 1) for first, packets in runs)
    tables = [
        _box(b"stsd", bytes(8), _box(b"Opus", bytes(28))),
        _box(b"stsz", bytes(4), struct.pack(">II", each, count), sizes),
        _box(b"stsc", bytes(4), struct.pack(">I", len(runs)), chunks),
        _box(b"stco", bytes(4), struct.pack(f">I{len(offsets)}I", len(offsets), *offsets)),
    ]
    return _box(
        b"trak",
        _box(
            b"mdia",
            _box(b"hdlr", bytes(8), b"soun", bytes(13)),
            _box(b"mdhd", bytes(12), struct.pack(">II", 48_000, 48_000)),
            _box(b"minf", _box(b"stbl", *tables)),
        ),
    )


def _movie(*tracks: bytes, data: int = 0) -> bytes:
    head = _box(b"mvhd", bytes(12), struct.pack(">II", 48_000, 48_000))
    return _box(b"ftyp", b"isom") + _box(b"moov", head, *tracks) + _box(b"mdat", bytes(data))


def _steps(content: bytes) -> int:
    """The steps of reading a file's sound, bounded by its size."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        return count_steps(lambda: _read(path), _STEPS_PER_BYTE * len(content) + _STEPS_FIRST)


def _read(path: Path) -> None:
    if path.read_bytes()[4:8] == b"ftyp":
        for track in mp4.tracks(path):
            track.packets(path)
        mp4.texts(mp4.read_index(path))
    else:
        webm.sound_packets(path)


def test_runs_of_chunks_that_go_back_are_refused_at_once(tmp_path: Path) -> None:
    """Each pair of runs claims all chunks again: 5,000 runs of 16,000 chunks took 21 s."""
    runs = [(1, 0), (16_001, 0)] * 2_500
    content = _movie(_track(runs, [0] * 16_000, 0, 0))
    path = tmp_path / "back.mp4"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="chunks"):
        mp4.tracks(path)
    assert _steps(content) < len(content)


def test_tracks_that_share_all_bytes_are_no_more_work_than_the_file() -> None:
    """A track takes 300 bytes to say that it has as many packets as the file has bytes; 300 tracks would be 10^8."""
    content = _movie(*[_track([(1, 60_000)], [0], 1, 60_000)] * 300)
    assert _steps(content) < 6 * len(content)


def test_good_tracks_are_still_read(tmp_path: Path) -> None:
    """Two tracks with tables in order keep their packets."""
    path = tmp_path / "good.mp4"
    first, second = _track([(1, 2), (2, 1)], [0, 8], 4, 3), _track([(1, 5)], [0], 3, 5)
    path.write_bytes(_movie(first, second, data=64))
    places = [list(track.places) for track in mp4.tracks(path)]
    assert places == [[(0, 4), (4, 4), (8, 4)], [(0, 3), (3, 3), (6, 3), (9, 3), (12, 3)]]


_RUNS = st.lists(st.tuples(st.integers(0, 70), st.sampled_from([0, 1, 3, 2**32 - 1])), max_size=60)


@given(
    tracks=st.lists(
        st.builds(
            _track,
            _RUNS,
            st.lists(st.sampled_from([0, 8, 200, 2**32 - 1]), max_size=60),
            st.sampled_from([0, 1, 2, 2**31]),
            st.sampled_from([0, 1, 50, 900, 2**20, 2**32 - 1]),
            st.binary(max_size=200),
        ),
        max_size=6,
    ),
    cuts=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), max_size=8),
)
def test_no_mp4_takes_more_steps_than_its_size_allows(tracks: list[bytes], cuts: list[tuple[int, int]]) -> None:
    """Tables of any content, and bytes changed anywhere, end within the bound."""
    content = bytearray(_movie(*tracks, data=900))
    for place, value in cuts:
        if 8 <= place < len(content):
            content[place] = value
    _steps(bytes(content))


_NAMES = [b"\x18\x53\x80\x67", b"\x1f\x43\xb6\x75", b"\x16\x54\xae\x6b", b"\xae", b"\xa0", b"\xa1", b"\xa3", b"\x83"]
_SIZES = [b"\x80", b"\x81", b"\x85", b"\x40\x10", b"\xff", b"\x01\xff\xff\xff\xff\xff\xff\xff", b"\x08\0\0\0\x01"]


@given(parts=st.lists(st.one_of(st.sampled_from(_NAMES), st.sampled_from(_SIZES), st.binary(max_size=12)), max_size=80))
def test_no_webm_takes_more_steps_than_its_size_allows(parts: list[bytes]) -> None:
    """Elements inside one another, of any size, end within the bound."""
    _steps(webm.SIGNATURE + b"\x80" + b"".join(parts))


def _page(lacing: bytes, flags: int) -> bytes:
    return struct.pack("<4sBBqIIIB", b"OggS", 0, flags, 0, 1, 0, 0, len(lacing)) + lacing + bytes(sum(lacing))


def _copy(stream: bytes) -> int:
    CountedBytes.copied = 0
    ogg.packets(CountedBytes(stream))
    return CountedBytes.copied


def test_packet_of_many_pages_is_put_together_once() -> None:
    """Two thousand pages of one packet: joining it at each page would copy 260 MB."""
    stream = b"".join(_page(b"\xff", 1) for _ in range(2_000)) + _page(b"\x01", 1)
    assert _copy(stream) < 4 * len(stream)
    assert [len(packet) for packet in ogg.packets(stream)] == [255 * 2_000 + 1]


@given(
    pages=st.lists(
        st.tuples(st.lists(st.sampled_from([0, 1, 9, 255]), max_size=40), st.sampled_from([0, 1])), max_size=20
    )
)
def test_no_ogg_stream_is_copied_more_often_than_its_size_allows(pages: list[tuple[list[int], int]]) -> None:
    """Pages of any lacing, continued or not, end within a bound of steps and of bytes copied."""
    stream = b"".join(_page(bytes(lacing), flags) for lacing, flags in pages)
    count_steps(lambda: ogg.packets(stream), _STEPS_PER_BYTE * len(stream) + _STEPS_FIRST)
    assert _copy(stream) <= 4 * len(stream)


@given(
    content=st.binary(max_size=400), start=st.sampled_from([b"\0\0\0\x10ftyp", webm.SIGNATURE, b"OggS", b"RIFF", b""])
)
def test_file_of_any_bytes_is_a_sound_or_a_clear_refusal(content: bytes, start: bytes) -> None:
    """Whatever the bytes, the reader of sounds ends in a ValueError or in nothing."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(start + content)
        with suppress(ValueError):
            assert clip_sound.read(path) is None or content
