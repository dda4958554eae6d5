"""Properties of files that prices are made of: seconds and frames of clips and sounds, pixels, bytes.

Mostly headers are read, at most a few hundred kilobytes of a file, and nothing is decoded: what a partner made is as
foreign as what a caller sends.
"""

import asyncio
from typing import Final, Protocol

import msgspec

from fairlead.domain.assets.media_sizes import (
    PICTURE_SIZES,
    UNREADABLE,
    mpeg_seconds,
    properties_of_index,
    wav_seconds,
)
from fairlead.storage.assets.results import Asset
from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, Blobs, BlobsUnavailableError

HEAD_MAX: Final = 256 * 1024
"""A JPEG may have this much of descriptions before its size."""
_INDEX_MAX: Final = 16 * 2**20
"""The index of an MP4 file: for an hour it is about a megabyte. Also a sound that has none."""
_STILL: Final = ("image/png", "image/jpeg")
"""Pictures that take no time; the others may move."""
_TOP_BOXES_MAX: Final = 32
"""Each is a read; a usual file has a handful of them before its index."""
_BOX_HEAD: Final = 16


class FileParts(Protocol):
    """A file whose parts can be read; what is behind its end is left out."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    async def read(self, start: int, length: int) -> bytes:
        """A part of it."""
        ...


async def measure_file(blobs: Blobs, asset: Asset) -> dict[str, str]:
    """The properties of a stored file, by name; what cannot be read in it is left out."""
    try:
        return await measure(StoredFile(blobs, asset.blob, asset.size), asset.content_type)
    except (BlobMissingError, BlobDamagedError, BlobsUnavailableError):
        return {"bytes": str(asset.size)}  # it is charged as it was held


async def measure(file: FileParts, content_type: str) -> dict[str, str]:
    """The properties of a file of a media type, by name; what cannot be read in it is left out."""
    found = {"bytes": str(file.size)}
    try:
        if content_type in ("video/mp4", "video/quicktime", "audio/mp4"):
            found |= await asyncio.to_thread(properties_of_index, await _index(file))  # it may list millions of samples
        elif (read := PICTURE_SIZES.get(content_type)) is not None:
            width, height = read(await file.read(0, HEAD_MAX))
            found["pixels"] = str(width * height)
            if content_type in _STILL:
                found["longest"] = "0"
        elif content_type == "audio/wav":
            seconds, longest = wav_seconds(await file.read(0, HEAD_MAX), file.size)
            found |= {"seconds": str(seconds), "longest": str(longest)}
        elif content_type == "audio/mpeg" and file.size <= _INDEX_MAX:
            length = str(await asyncio.to_thread(mpeg_seconds, await file.read(0, file.size)))
            found |= {"seconds": length, "longest": length}
    except UNREADABLE:
        pass  # a broken file has no such property
    return found


class StoredFile(msgspec.Struct, frozen=True):
    """A file of the store, by the name of its blob."""

    blobs: Blobs
    name: str
    size: int

    async def read(self, start: int, length: int) -> bytes:
        """A part of it; the errors of the store."""
        end = min(start + length, self.size)
        return b"".join([piece async for piece in await self.blobs.read(self.name, start, end)]) if start < end else b""


async def _index(file: FileParts) -> bytes:
    """The content of the `moov` box of an ISO base media file. ValueError where there is none of usual size."""
    offset = 0
    for _ in range(_TOP_BOXES_MAX):
        head = await file.read(offset, _BOX_HEAD)
        size, kind = int.from_bytes(head[:4]), head[4:8]
        start = 8
        if size == 1:
            size, start = int.from_bytes(head[8:]), _BOX_HEAD
        size = size or file.size - offset
        if kind == b"moov" and start <= size <= _INDEX_MAX:
            return await file.read(offset + start, size - start)
        if size < start:
            break
        offset += size
    raise ValueError("The file has no index.")
