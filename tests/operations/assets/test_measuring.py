"""Properties of stored results, read in their headers alone."""

import asyncio
import io
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
from fairlead_partners.simulator.media import clip

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
    assert measured(content, content_type) == {"bytes": str(len(content)), "pixels": str(37 * 21)}


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
