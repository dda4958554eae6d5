"""What nodes use of the server: its files, names for new ones, and models. New files are written in one folder."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, cast

from fairlead.domain.jobs.events import Place
from fairlead.engine.hosts.callbacks import JobQuestions, NewKind
from fairlead.engine.hosts.protocol import TOLD_BYTES_MAX, Previewed, Said
from fairlead.engine.hosts.rpc_connection import JobConnection
from fairlead.engine.nodes.context import ModelReply, NoSuchFileError, SavedFile
from fairlead.engine.nodes.files import extension_of, filled

_NAME_LENGTH_MAX: Final = 4_096
_MODELS_AT_ONCE: Final = 256
_ROOM_FOR_THE_REST: Final = 10_000
_NEW_KINDS: Final = frozenset({"output", "temp"})
_SENT_BYTES_MAX: Final = 256 * 1024
"""A file of so many bytes is sent: to write, to copy and to remove it would cost more than its bytes do."""
_HELD_BYTES_MAX: Final = 16 * 2**20
"""How many bytes of such files a job holds until the nodes that have made them end well."""


class Scratch:
    """The folder of one host: places in it are given once, whatever the job."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._numbers: Final = itertools.count()

    def place(self, extension: str) -> Path:
        """A path nobody else has; libraries choose what they write by its extension."""
        return self._folder / f"{next(self._numbers)}.{extension}"


class FilesClient:
    """The Files of a job, which asks the server for them. Each method blocks its thread until the answer is there."""

    def __init__(self, connection: JobConnection, scratch: Scratch) -> None:
        self._connection = connection
        self._scratch = scratch
        self._new: dict[Path, SavedFile] = {}
        self._held: dict[Path, bytes] = {}
        self._held_bytes = 0

    def input_file(self, name: str) -> Path:
        """The file a caller named."""
        return self._connection.call(JobQuestions.find_file, _bounded(name)).result()

    def input_files(self, folder: str) -> Sequence[str]:
        """The names of the files in a folder of the inputs."""
        return self._connection.call(JobQuestions.list_files, _bounded(folder)).result()

    def new_file(self, prefix: str, extension: str, kind: str, sizes: Mapping[str, int]) -> tuple[Path, SavedFile]:
        """A place in the scratch folder, and the name that the server gives. ValueError for a prefix of no use."""
        suffix = extension_of(extension)
        return self._named(filled(prefix, sizes), suffix, kind, is_exact=False)

    def named_file(self, name: str, kind: str) -> tuple[Path, SavedFile]:
        """A place in the scratch folder for a file of exactly this name."""
        try:
            suffix = extension_of(PurePosixPath(_bounded(name)).suffix)
        except ValueError:
            suffix = "bin"
        return self._named(name, suffix, kind, is_exact=True)

    def write(self, path: Path, content: bytes) -> None:
        """Hold the bytes of a small file until it is kept, and write those of a large one."""
        if len(content) <= _SENT_BYTES_MAX and self._held_bytes < _HELD_BYTES_MAX:
            self._held[path] = content
            self._held_bytes += len(content)
        else:
            path.write_bytes(content)

    def keep(self, path: Path) -> None:
        """Hand a new file over; one that was never written leaves nothing."""
        saved, content = self._new[path], self._held.get(path)
        kind = cast("NewKind", saved.type)
        if content is not None:
            self._connection.call(JobQuestions.keep_bytes, content, saved.filename, kind).result()
        elif path.exists():
            self._connection.call(JobQuestions.keep_file, path, saved.filename, kind).result()
        self._new.pop(path)
        self._held_bytes -= len(self._held.pop(path, b""))

    def discard(self, path: Path) -> None:
        """Remove a new file."""
        self._new.pop(path, None)
        self._held_bytes -= len(self._held.pop(path, b""))
        path.unlink(missing_ok=True)

    def _named(self, name: str, suffix: str, kind: str, *, is_exact: bool) -> tuple[Path, SavedFile]:
        if kind not in _NEW_KINDS:
            raise ValueError(f"there is no folder for new files of the kind {kind[:20]!r}")
        new_kind = cast("NewKind", kind)
        filename = self._connection.call(JobQuestions.name_file, name, suffix, new_kind, exact=is_exact).result()
        path, saved = self._scratch.place(suffix), SavedFile(filename, "", kind)
        self._new[path] = saved
        return path, saved


class OutsideClient:
    """The watchers of a job and partners' models, reached through the server."""

    def __init__(self, connection: JobConnection) -> None:
        self._connection = connection
        self._models = asyncio.Semaphore(_MODELS_AT_ONCE)

    def preview(self, place: Place, image_type: str, image: bytes) -> None:
        """Show what a node has made so far."""
        self._connection.tell(Previewed(self._connection.job, place, image_type, image))

    def say(self, place: Place, text: str) -> None:
        """Say a word about a node's progress."""
        self._connection.tell(Said(self._connection.job, place, text.encode("utf-8", "replace").decode()))

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelReply:
        """Run a partner's model; ValueError for a body that is more than can be sent."""
        if len(body) + len(model) > TOLD_BYTES_MAX - _ROOM_FOR_THE_REST:
            raise ValueError(f"a call of {len(body)} bytes is more than a model can be sent")
        async with self._models:
            asked = self._connection.call(JobQuestions.run_model, node, turn, model, body)
            ran = await asyncio.wrap_future(asked)
        return ModelReply(ran.body, ran.files, ran.content_types)


def _bounded(name: str) -> str:
    """A name that can be asked for; links may be long."""
    if len(name) > _NAME_LENGTH_MAX:
        raise NoSuchFileError(f"there is no file with a name of {len(name)} characters")
    return name
