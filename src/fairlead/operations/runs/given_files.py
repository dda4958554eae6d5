"""Measures the files that a body names, so that a run is held for what they are, and not for the largest ones taken.

A body has the bytes themselves, a link to a result of ours, or a link to elsewhere. What is elsewhere may be another
file when the partner fetches it; its length bounds a hold only where the operator has agreed to that (`fetch`). A file
that cannot be measured is none that is known: the price of the run is held for the largest.
"""

import asyncio
import base64
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fairlead.domain.assets.media_types import HEAD_BYTES, media_type
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError
from fairlead.domain.pointers import Pointer, find_all
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.http_client.transport import TransportError
from fairlead.identity.links import ASSET_PATH
from fairlead.operations.assets.measuring import HEAD_MAX, FileParts, StoredFile, measure
from fairlead.operations.assets.results import AssetReader, Fetch
from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, Blobs, BlobsUnavailableError

FILES_MAX: Final = 16
"""Files of one body that are measured; with more of them none is."""
_SECONDS: Final = 5.0
"""For all files of a body: a run waits for them."""
_PLACES: Final = 8
_WAITING_MAX: Final = 64
_SHARE_MAX: Final = 4
_LINK_READS: Final = 8
_LINK_BYTES_MAX: Final = 4 * 2**20
_WHOLE: Final = 200
_PART: Final = 206
_RANGE: Final = re.compile(r"bytes 0-[0-9]{1,18}/([0-9]{1,18})", re.ASCII)
_DATA: Final = re.compile(r"(?:data:([A-Za-z0-9/+.-]{0,64})(?:;[^,;]{0,64}){0,4};base64,)?(?![A-Za-z0-9+.-]{1,32}:)")
"""What is before the bytes in base64; some vendors take them without."""
_LINK_PARTS: Final = ("expires", "disposition", "name", "signature")


class GivenFiles:
    """Measures files of bodies. `base_url` is that of our own links, None where callers may reach us by any name.

    Without `fetch` nothing elsewhere is looked at. It must go to no address but a public one.
    """

    def __init__(self, reader: AssetReader, blobs: Blobs, base_url: str | None, fetch: Fetch | None = None) -> None:
        self._reader = reader
        self._blobs = blobs
        self._own = None if base_url is None else base_url + ASSET_PATH
        self._fetch = fetch
        self._places = FairShares(_PLACES, _WAITING_MAX, _SHARE_MAX)

    async def measure(self, workspace_id: str, model: Model, body: object) -> Mapping[Pointer, Mapping[str, str]]:
        """The properties of the files that a body names where the prices of its model depend on them, by place."""
        found = {place: text for pointer in model.measured_files for place, text in find_all(body, pointer)}
        texts = {text for text in found.values() if isinstance(text, str)}
        if not texts or len(texts) > FILES_MAX:
            return {}
        known: dict[str, Mapping[str, str]] = {}
        try:
            async with asyncio.timeout(_SECONDS), self._places.place(workspace_id), asyncio.TaskGroup() as group:
                for text in texts:
                    group.create_task(self._note(text, known))
        except (TimeoutError, NoRoomError):
            pass  # what is not known by now is held for the largest
        return {place: known[text] for place, text in found.items() if text in known}

    async def _note(self, text: str, known: dict[str, Mapping[str, str]]) -> None:
        try:
            opened = await self._open(text)
            if opened is not None:
                known[text] = await measure(*opened)
        except (FaultError, TransportError, ValueError):
            pass  # it is not there, not ours, or no file
        except (BlobMissingError, BlobDamagedError, BlobsUnavailableError):
            pass  # the store has trouble, which is told where the file is needed

    async def _open(self, text: str) -> tuple[FileParts, str] | None:
        """A file and its media type; None where it is not looked at."""
        if (data := _DATA.match(text)) is not None:
            content = await asyncio.to_thread(base64.b64decode, text[data.end() :], validate=True)
            return _Bytes(content), media_type(data[1], content[:HEAD_BYTES])
        if self._own is not None and text.startswith(self._own):
            return await self._stored(text)
        if self._fetch is None or not text.startswith(("https://", "http://")):
            return None
        return await _opened_link(self._fetch, text)

    async def _stored(self, link: str) -> tuple[FileParts, str]:
        parts = urlsplit(link)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if query.keys() != set(_LINK_PARTS):
            raise ValueError("This is no link of ours.")
        asset = await self._reader.find(parts.path.rpartition("/")[2], *(query[name] for name in _LINK_PARTS))
        return StoredFile(self._blobs, asset.blob, asset.size), asset.content_type


class _Bytes(msgspec.Struct, frozen=True):
    """A file that is in the body."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    async def read(self, start: int, length: int) -> bytes:
        return self.content[start : start + length]


class _Linked(msgspec.Struct):
    """A file elsewhere: its beginning, and the rest by requests for parts of it, of which there are `left` more."""

    fetch: Fetch
    url: str
    size: int
    head: bytes
    left: int = _LINK_READS

    async def read(self, start: int, length: int) -> bytes:
        end = min(start + length, self.size)
        if end <= len(self.head):
            return self.head[start:end]
        if self.left == 0 or end - start > _LINK_BYTES_MAX:
            raise ValueError("Too much of the file would have to be read.")
        self.left -= 1
        status, _, content = await _part_of(self.fetch, self.url, start, end)
        if status != _PART or len(content) != end - start:
            raise ValueError("The server sent something else than the part asked for.")
        return content


async def _opened_link(fetch: Fetch, url: str) -> tuple[FileParts, str]:
    status, headers, head = await _part_of(fetch, url, 0, HEAD_MAX)
    size = len(head)
    if status == _PART:
        told = _RANGE.fullmatch(headers.get("content-range", ""))
        if told is None:
            raise ValueError("The server does not say how long the file is.")
        size = int(told[1])
    elif status != _WHOLE:
        raise ValueError("The server does not have the file.")
    return _Linked(fetch, url, size, head), media_type(headers.get("content-type"), head[:HEAD_BYTES])


async def _part_of(fetch: Fetch, url: str, start: int, end: int) -> tuple[int, Mapping[str, str], bytes]:
    pieces: list[bytes] = []

    async def keep(piece: bytes) -> None:
        pieces.append(bytes(piece))

    answered = await fetch(url, {"Range": f"bytes={start}-{end - 1}"}, seconds=_SECONDS, limit=end - start, sink=keep)
    return answered.status, answered.headers, b"".join(pieces)
