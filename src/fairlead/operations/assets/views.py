"""Views of workflow files: signed links, pictures rendered from them, and masks drawn over them.

Nothing is decoded here: an engine host renders pictures, within bounds (C-03, C-06).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.assets.filenames import KINDS, leads_elsewhere, read_reference, split_name
from fairlead.domain.assets.media_types import extension, is_shown
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.faults import BadFile, EngineUnavailable, FileNotFound, JobFaultError
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.service import Render, Rendered
from fairlead.operations.assets.files import FileLinks, Intake, SavedName, WorkflowFiles, check_new
from fairlead.operations.assets.results import ServedAsset
from fairlead.operations.assets.shared_store import damaged_fault, lost_fault, unreadable_fault
from fairlead.storage.assets.files import WorkflowFile
from fairlead.storage.blobs.store import (
    AdoptedBlob,
    BlobDamagedError,
    BlobLostError,
    BlobMissingError,
    BlobsUnavailableError,
    BlobTooLargeError,
    FileBlobs,
)

_CHANNELS: Final = frozenset({"rgb", "a"})
_REMEMBERED_MOST: Final = 4_096
_PICTURE_BYTES_MAX: Final = 512 * 2**20
"""The most bytes of a rendered picture: as many as a PNG of the largest one allowed can have."""
_SECONDS: Final = 60.0
_AWAY: Final = "Files cannot be read or written right now."


class Rendering(msgspec.Struct, frozen=True):
    """How to render a picture: one channel, another format at a quality, or scaled to a longest edge."""

    how: Literal["rgb", "a", "webp", "jpeg", "thumbnail"]
    quality: int = 90
    edge: int = 0


class Wanted(msgspec.Struct, frozen=True):
    """A request for a file; `is_whole` for its bytes instead of a link. `rendering` is None for the file as it is."""

    filename: str
    kind: str = "output"
    rendering: Rendering | None = None
    is_whole: bool = False


class Original(msgspec.Struct, frozen=True):
    """The picture that a mask is drawn over, as the caller names it."""

    filename: str
    kind: str = "output"


class ViewedFile(msgspec.Struct, frozen=True):
    """A file that is shown unchanged: the path and query of a signed link, and its target."""

    path: str
    asset: ServedAsset


class FileViews:
    """What callers see of their files. Bytes that are sent at once may be cached as long as a link is valid.

    `render` has an engine host of a workspace make a picture, or raises EngineUnavailableError. `scratch` is a folder
    for pictures that are being made, on the file system of the blobs, which is swept: the blobs' spool.
    """

    def __init__(
        self,
        files: WorkflowFiles,
        blobs: FileBlobs,
        links: FileLinks,
        render: Callable[[str, Render], Awaitable[Rendered]],
        clock: Clock,
        scratch: Path,
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._links = links
        self._render = render
        self._clock = clock
        self._scratch = scratch
        self._made: OrderedDict[tuple[str, Rendering], tuple[AdoptedBlob, str]] = OrderedDict()

    async def view(self, caller: Caller, wanted: Wanted) -> ViewedFile | ServedAsset:
        """A link to a file, or the bytes to send at once.

        JobFaultError for a bad name (BadFile), a missing file (FileNotFound), and a file that is not a picture where a
        channel was asked for.
        """
        file = await self._file(caller, wanted.filename, wanted.kind)
        if wanted.is_whole:
            await self._check(file)
            return self._serve(file, file.blob, file.size, file.content_type, file.name)
        if wanted.rendering is None or not (
            file.content_type.startswith("image/") or wanted.rendering.how in _CHANNELS
        ):
            shown = self._serve(file, file.blob, file.size, file.content_type, file.name)
            return ViewedFile(self._links.sign(file).path, shown)
        made, content_type = await self._make_picture(caller.workspace_id, file, wanted.rendering)
        name = split_name(file.name)[0] + extension(content_type)
        return self._serve(file, made.name, made.size, content_type, name)

    async def mask(
        self, caller: Caller, drawn: Intake, original: Original, name: str, kind: str, *, overwrite: bool = False
    ) -> SavedName:
        """Store the original with the alpha of the uploaded picture, under the upload's name (C-03).

        JobFaultError for a missing original (FileNotFound), and for pictures that cannot be used (BadFile).
        """
        check_new(name, kind)
        file = await self._file(caller, original.filename, original.kind)
        sent = await drawn.store()
        other = await self._local(sent.name)
        made, _ = await self._make(caller.workspace_id, file, Rendering("rgb"), mask=other)
        return await self._files.save(caller.workspace_id, made, name, kind, overwrite=overwrite)

    async def _file(self, caller: Caller, filename: str, kind: str) -> WorkflowFile:
        if kind not in KINDS:
            raise JobFaultError(BadFile(f"There is no type of file {kind[:20]!r}; types are {', '.join(KINDS)}."))
        reference = read_reference(filename)
        if reference is None or leads_elsewhere(filename):
            raise JobFaultError(BadFile("The file has no name that could be one."))
        file = await self._files.look_up(caller.workspace_id, reference, kind)
        if file is None:
            raise JobFaultError(FileNotFound(filename))
        return file

    def _serve(self, file: WorkflowFile, blob: str, size: int, content_type: str, name: str) -> ServedAsset:
        now = self._clock.now_ms() // 1000
        left = self._links.seconds if file.expires_at is None else max(0, file.expires_at // 1000 - now)
        disposition = "inline" if is_shown(content_type) else "attachment"
        return ServedAsset(blob, size, content_type, name, disposition, min(left, self._links.seconds))

    async def _check(self, file: WorkflowFile) -> None:
        """Refuse what cannot be sent whole, before the first byte is sent."""
        with _word_faults():
            await self._blobs.check(file.blob, file.size)

    async def _make_picture(
        self, workspace_id: str, file: WorkflowFile, rendering: Rendering
    ) -> tuple[AdoptedBlob, str]:
        """A picture rendered from a file. It is cached; unreferenced bytes stay for a day."""
        key = (file.blob, rendering)
        if (made := self._made.get(key)) is not None:
            self._made.move_to_end(key)
            if await self._is_there(made[0]):
                return made
        made = self._made[key] = await self._make(workspace_id, file, rendering)
        while len(self._made) > _REMEMBERED_MOST:
            self._made.popitem(last=False)
        return made

    async def _is_there(self, made: AdoptedBlob) -> bool:
        """Whether a rendered picture is still stored in full; otherwise it is rendered again."""
        try:
            if not await self._blobs.exists(made.name):
                return False
            await self._blobs.verify(made.name, made.size)
        except BlobLostError:
            return False
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error
        return True

    async def _make(
        self, workspace_id: str, file: WorkflowFile, rendering: Rendering, *, mask: Path | None = None
    ) -> tuple[AdoptedBlob, str]:
        original = await self._local(file.blob)
        target = self._scratch / new_id()
        order = Render(
            how=rendering.how if mask is None else "mask",
            original=str(original),
            target=str(target),
            other=None if mask is None else str(mask),
            quality=rendering.quality,
            edge=rendering.edge,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                rendered = await self._render(workspace_id, order)
            if rendered.error is not None:
                raise JobFaultError(BadFile(rendered.error))
            return await self._blobs.adopt(target, _PICTURE_BYTES_MAX), rendered.content_type
        except (EngineUnavailableError, TimeoutError) as error:
            raise JobFaultError(EngineUnavailable()) from error
        except (ValueError, BlobTooLargeError) as error:
            raise JobFaultError(BadFile("The picture could not be made.")) from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error
        finally:
            await asyncio.to_thread(target.unlink, missing_ok=True)

    async def _local(self, blob: str) -> Path:
        with _word_faults():
            return await self._blobs.local_path(blob)


@contextmanager
def _word_faults() -> Iterator[None]:
    try:
        yield
    except BlobMissingError as error:
        raise FaultError(lost_fault()) from error
    except BlobDamagedError as error:
        raise FaultError(damaged_fault()) from error
    except BlobsUnavailableError as error:
        raise FaultError(unreadable_fault(error, _AWAY)) from error


def _away() -> ServiceUnavailable:
    return ServiceUnavailable(_AWAY)
