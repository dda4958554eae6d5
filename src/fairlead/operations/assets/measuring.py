"""Properties of stored results that prices are made of: seconds and frames of clips and sounds, pixels, bytes.

Only headers are read, at most a few hundred kilobytes of a file, and nothing is decoded: what a partner made is as
foreign as what a caller sends.
"""

from typing import Final

from fairlead.domain.assets.media_sizes import PICTURE_SIZES, UNREADABLE, properties_of_index, wav_seconds
from fairlead.storage.assets.results import Asset
from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, Blobs, BlobsUnavailableError

_HEAD_MAX: Final = 256 * 1024
"""A JPEG may have this much of descriptions before its size."""
_INDEX_MAX: Final = 16 * 2**20
"""The index of an MP4 file: for an hour it is about a megabyte."""
_TOP_BOXES_MAX: Final = 32
"""Each is a read of the store; a usual file has a handful of them before its index."""
_BOX_HEAD: Final = 16


async def measure_file(blobs: Blobs, asset: Asset) -> dict[str, str]:
    """The properties of a stored file, by name; what cannot be read in it is left out."""
    found = {"bytes": str(asset.size)}
    try:
        if asset.content_type in ("video/mp4", "video/quicktime", "audio/mp4"):
            found |= properties_of_index(await _index(blobs, asset))
        elif (read := PICTURE_SIZES.get(asset.content_type)) is not None:
            width, height = read(await _part(blobs, asset, 0, _HEAD_MAX))
            found["pixels"] = str(width * height)
        elif asset.content_type == "audio/wav":
            found["seconds"] = str(wav_seconds(await _part(blobs, asset, 0, _HEAD_MAX), asset.size))
    except (BlobMissingError, BlobDamagedError, BlobsUnavailableError):
        pass  # it is charged as it was held
    except UNREADABLE:
        pass  # a broken file has no such property
    return found


async def _part(blobs: Blobs, asset: Asset, start: int, length: int) -> bytes:
    end = min(start + length, asset.size)
    return b"".join([piece async for piece in await blobs.read(asset.blob, start, end)]) if start < end else b""


async def _index(blobs: Blobs, asset: Asset) -> bytes:
    """The content of the `moov` box of an ISO base media file. ValueError where there is none of usual size."""
    offset = 0
    for _ in range(_TOP_BOXES_MAX):
        head = await _part(blobs, asset, offset, _BOX_HEAD)
        size, kind = int.from_bytes(head[:4]), head[4:8]
        start = 8
        if size == 1:
            size, start = int.from_bytes(head[8:]), _BOX_HEAD
        size = size or asset.size - offset
        if kind == b"moov" and start <= size <= _INDEX_MAX:
            return await _part(blobs, asset, offset + start, size - start)
        if size < start:
            break
        offset += size
    raise ValueError("The file has no index.")
