"""Links in place of files in workflows: downloaded within bounds, and kept for a while.

A job asks for the same file several times: when it is checked, when it is looked for in the cache, when it is loaded.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from fairlead.domain.assets.filenames import is_web_link
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.errors import IMAGE_DOWNLOAD
from fairlead.engine.hosts.service import DeclinedError
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.http_client.transport import BrokenOffError, TooSlowError, TransportError, UnreachableError
from fairlead.operations.assets.results import Fetch, shown_address
from fairlead.storage.blobs.store import BlobLostError, BlobsUnavailableError, BlobTooLargeError, FileBlobs

_OK: Final = 200
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 5
_KEPT_SECONDS: Final = 600.0
_KEPT_MOST: Final = 1_000
_AT_ONCE: Final = 16
_SHARE_MAX: Final = 12
"""The most downloads of one workspace at a time, so that hosts that never answer do not hold up other workspaces."""
_WAITING_MAX: Final = 1_000


class Downloads:
    """Files behind http and https links, each within `limit` bytes and `seconds`.

    `fetch` must refuse addresses that are not public, for those of redirections are asked for as well. A download is
    kept for ten minutes for the workspace that asked, and does not become a file of it.
    """

    def __init__(self, fetch: Fetch, blobs: FileBlobs, *, limit: int, seconds: float = 60.0) -> None:
        self._fetch = fetch
        self._blobs = blobs
        self._limit = limit
        self._seconds = seconds
        self._known: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()
        self._under_way: dict[tuple[str, str], asyncio.Task[str]] = {}
        self._places = FairShares(_AT_ONCE, _WAITING_MAX, _SHARE_MAX)

    async def path(self, workspace_id: str, url: str) -> Path:
        """The path of a linked file.

        DeclinedError with the kind ImageDownloadError when it cannot be downloaded (C-12).
        FaultError(ServiceUnavailable) while nothing can be stored.
        """
        key = (workspace_id, url)
        if (known := self._known.get(key)) and known[0] > asyncio.get_running_loop().time():
            try:
                return await self._blobs.local_path(known[1])
            except (BlobLostError, BlobsUnavailableError):
                del self._known[key]
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._download(key))
            task.add_done_callback(_retrieve)
        blob = await asyncio.shield(task)  # others wait for it as well
        try:
            return await self._blobs.local_path(blob)
        except BlobLostError as error:
            raise _decline(url, "it could not be kept") from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def _download(self, key: tuple[str, str]) -> str:
        workspace_id, url = key
        try:
            async with asyncio.timeout(self._seconds), self._places.place(workspace_id):
                blob = await self._fetch_blob(url)
        except NoRoomError as error:
            raise _decline(url, "too many files are being downloaded") from error
        except (TimeoutError, TooSlowError) as error:
            raise _decline(url, f"it did not come within {self._seconds:g} seconds") from error
        except UnreachableError as error:
            raise _decline(url, "its host cannot be reached, or has an address that is not public") from error
        except BlobTooLargeError as error:
            raise _decline(url, f"it has more than {self._limit} bytes") from error
        except BrokenOffError as error:
            raise _decline(url, f"the answer broke off, or has more than {self._limit} bytes") from error
        except TransportError as error:
            raise _decline(url, "it could not be read") from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error
        finally:
            del self._under_way[key]
        self._known[key] = (asyncio.get_running_loop().time() + _KEPT_SECONDS, blob)
        self._known.move_to_end(key)
        while len(self._known) > _KEPT_MOST:
            self._known.popitem(last=False)
        return blob

    async def _fetch_blob(self, url: str) -> str:
        """The blob of a link; each redirection is checked like the first address."""
        wanted = url
        for _ in range(_REDIRECTS_MAX + 1):
            writer = self._blobs.writer(self._limit)
            try:
                answered = await self._fetch(wanted, {}, seconds=self._seconds, limit=self._limit, sink=writer.write)
                if answered.status == _OK:
                    return await writer.commit()
            finally:
                await writer.abort()
            location = _location(answered.headers)
            if answered.status not in _REDIRECTS or location is None:
                raise _decline(url, f"its host answered {answered.status}")
            wanted = urljoin(wanted, location)
            if not is_web_link(wanted):
                break
        raise _decline(url, "it leads to other links without end, or to none of http or https")


def _retrieve(task: "asyncio.Task[str]") -> None:
    """Retrieve the exception, so that asyncio does not report one that nobody awaits any more."""
    if not task.cancelled():
        task.exception()


def _location(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == "location"), None)


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("Files cannot be kept or read right now.")


def _decline(url: str, why: str) -> DeclinedError:
    return DeclinedError(IMAGE_DOWNLOAD, f"The file at {shown_address(url)} could not be downloaded: {why}.")
