"""Properties of stored results, read in their headers alone."""

import asyncio
import io
import struct
import wave
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fairlead.operations.assets.measuring import measure_file
from fairlead.storage.assets.results import Asset
from fairlead.storage.blobs.store import BlobMissingError, Blobs
from fairlead_partners.simulator.media import clip, mp3

_NAME = "0" * 64
_TYPES = [
    "video/mp4",
    "video/quicktime",
    "audio/mp4",
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "audio/wav",
    "audio/mpeg",
]


def measured(content: bytes, content_type: str, *, is_missing: bool = False) -> dict[str, str]:
    """Return what is found in a file."""

    async def pieces(start: int, end: int) -> AsyncIterator[bytes]:
        yield content[start:end]

    async def read(name: str, start: int, end: int) -> AsyncIterator[bytes]:
        if is_missing:
            raise BlobMissingError(name)
        return pieces(start, end)

    asset = SimpleNamespace(blob=_NAME, size=len(content), content_type=content_type)
    blobs = cast("Blobs", SimpleNamespace(read=read))
    return asyncio.run(measure_file(blobs, cast("Asset", asset)))


def picture(form: str, **options: Any) -> bytes:
    """Return a picture of 37 by 21 pixels."""
    file = io.BytesIO()
    Image.new("RGB", (37, 21)).save(file, form, **options)
    return file.getvalue()


@pytest.mark.req("R-28")
@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (picture("PNG"), "image/png"),
        (picture("GIF"), "image/gif"),
        (picture("JPEG", exif=b"Exif\0\0" + bytes(60_000)), "image/jpeg"),
        (picture("JPEG", progressive=True), "image/jpeg"),
        (picture("WEBP"), "image/webp"),
        (picture("WEBP", lossless=True), "image/webp"),
        (picture("WEBP", exif=b"Exif\0\0x"), "image/webp"),
    ],
    ids=["png", "gif", "jpeg, described", "jpeg, progressive", "webp", "webp, lossless", "webp, extended"],
)
def test_pixels_of_a_picture_are_read(content: bytes, content_type: str) -> None:
    """Each kind of picture says its size at the beginning."""
    found = measured(content, content_type)
    still = {"longest": "0"} if content_type in ("image/png", "image/jpeg") else {}
    assert found == {"bytes": str(len(content)), "pixels": str(37 * 21), **still}


@pytest.mark.req("R-28")
def test_length_of_a_clip_and_of_a_sound_is_read() -> None:
    """A clip says its seconds, frames and size in its index, a sound its seconds before its samples."""
    made = clip()
    found = measured(made.content, made.content_type)
    assert {"seconds", "frames", "pixels"} <= found.keys()
    assert 0 < float(found["seconds"]) < 60
    assert int(found["frames"]) > 0
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((2, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(4 * 12_000))
    assert measured(file.getvalue(), "audio/wav")["seconds"] == "1.500000"


@pytest.mark.req("R-28")
@given(st.binary(max_size=64), st.sampled_from(_TYPES))
def test_broken_file_has_no_such_property(content: bytes, content_type: str) -> None:
    """Whatever its bytes, a file is measured or not: it is never an error."""
    assert measured(content, content_type)["bytes"] == str(len(content))


@pytest.mark.req("R-28")
def test_file_that_is_gone_has_its_size_alone() -> None:
    """A blob that cannot be read leaves the charge at its hold."""
    assert measured(picture("PNG"), "image/png", is_missing=True).keys() == {"bytes"}


def box(kind: bytes, content: bytes) -> bytes:
    """Return a box of an ISO media file."""
    return (len(content) + 8).to_bytes(4) + kind + content


def header(kind: bytes, scale: int, duration: int) -> bytes:
    """Return the header of a movie or of a track's media."""
    return box(kind, bytes(12) + scale.to_bytes(4) + duration.to_bytes(4) + bytes(80))


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    ("movie", "media", "samples", "longest"),
    [(2, 2, 2, "2.000000"), (1, 9, 1, "9.000000"), (1, 1, 30, "30.000000"), (0, 0, 0, None)],
)
def test_longest_is_by_whatever_says_most(movie: int, media: int, samples: int, longest: str | None) -> None:
    """A file that contradicts itself is no shorter than any of what it says."""
    table = box(b"stts", bytes(4) + (1).to_bytes(4) + (samples).to_bytes(4) + (1).to_bytes(4))
    track = box(
        b"trak",
        box(b"mdia", header(b"mdhd", 1, media) + box(b"minf", box(b"stbl", table))),
    )
    found = measured(box(b"moov", header(b"mvhd", 1, movie) + track), "audio/mp4")
    assert found.get("longest") == longest
    assert found.get("seconds") == (f"{movie}.000000" if movie else None)
    fragmented = box(b"moov", header(b"mvhd", 1, movie) + track + box(b"mvex", b""))
    assert "longest" not in measured(fragmented, "audio/mp4")


@pytest.mark.req("X-02")
@pytest.mark.parametrize(("version", "form"), [(0, ">Iii"), (1, ">Qqi")])
def test_part_that_is_shown_several_times_counts_each_time(version: int, form: str) -> None:
    """An edit list may make a track longer than its samples."""
    edits = b"".join(struct.pack(form, 4, 0, 0x10000) for _ in range(3))
    listed = box(b"elst", bytes([version, 0, 0, 0]) + (3).to_bytes(4) + edits)
    track = box(b"trak", box(b"edts", listed) + box(b"mdia", header(b"mdhd", 1, 1)))
    found = measured(box(b"moov", header(b"mvhd", 2, 2) + track), "audio/mp4")
    assert (found["seconds"], found["longest"]) == ("1.000000", "6.000000")


@pytest.mark.req("X-02")
def test_sound_that_says_too_little_is_as_long_as_its_bytes() -> None:
    """The longest is by all that follows the header, at the slowest rate that it says."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(16_000 * 3))
    content = bytearray(file.getvalue())
    content[28:32] = (16_000 * 100).to_bytes(4, "little")  # bytes a second
    content[40:44] = (16_000).to_bytes(4, "little")  # bytes of samples
    found = measured(bytes(content), "audio/wav")
    assert float(found["seconds"]) < 1
    assert found["longest"] == "3.000000"


@pytest.mark.req("X-02")
def test_frames_of_an_mpeg_sound_are_counted() -> None:
    """Tags are passed over; anything else between or after the frames makes the length unknown."""
    content = mp3(2.0).content
    plain = float(measured(content, "audio/mpeg")["longest"])
    assert plain == pytest.approx(2, abs=0.1)
    tagged = b"ID3\x04\0\0\0\0\0\x05" + bytes(5) + content + b"TAG" + bytes(125)
    assert float(measured(tagged, "audio/mpeg")["longest"]) == plain
    assert "longest" not in measured(content + b"more of it", "audio/mpeg")
    assert "longest" not in measured(b"", "audio/mpeg")
