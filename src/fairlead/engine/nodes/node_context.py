"""What the executor gives to a node: its files, its hidden inputs, progress, and interruption."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Protocol

from fairlead.domain.jobs.events import Place, Progress
from fairlead.engine.nodes.context import InterruptedByCallerError, ModelReply, NamedFaultError, SavedFile

_PROGRESS_SECONDS: Final = 0.05
_FILES_MAX: Final = 200_000
_PREVIEW_BYTES_MAX: Final = 16 * 2**20
_PREVIEW_TYPES: Final = frozenset({"image/jpeg", "image/png"})
_SAID_LENGTH_MAX: Final = 10_000
_NO_MODEL: Final = "a partner's model can only be run by a server, which has the keys: submit the workflow to one"


class Files(Protocol):
    """The files of a job. Every method may be called from any thread."""

    def input_file(self, name: str) -> Path:
        """The file that a caller named; NoSuchFileError for a missing one."""
        ...

    def new_file(self, prefix: str, extension: str, kind: str, sizes: Mapping[str, int]) -> tuple[Path, SavedFile]:
        """The path to write a new file to, and its name once it is kept."""
        ...

    def input_files(self, folder: str) -> Sequence[str]:
        """The names of the files in a folder of the inputs and its subfolders; NoSuchFileError for a missing folder."""
        ...

    def named_file(self, name: str, kind: str) -> tuple[Path, SavedFile]:
        """The path to write a file to that gets exactly this name once it is kept."""
        ...

    def write(self, path: Path, content: bytes) -> None:
        """Write the bytes of a new file, which is named by its path."""
        ...

    def keep(self, path: Path) -> None:
        """Keep a new file, which is named by its path."""
        ...

    def discard(self, path: Path) -> None:
        """Discard a new file, which may be written in part."""
        ...


class Outside(Protocol):
    """What a node can reach apart from its files. Every method may be called from any thread."""

    def preview(self, place: Place, image_type: str, image: bytes) -> None:
        """Show a preview of a node's work to everyone watching now."""
        ...

    def say(self, place: Place, text: str) -> None:
        """Send a line of text about a node's progress to everyone watching now."""
        ...

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelReply:
        """Run a partner's model for a node, whose calls are numbered from 0; NamedFaultError when that fails."""
        ...


class Alone:
    """The Outside without a server: nobody watches, and no model can be run."""

    def preview(self, place: Place, image_type: str, image: bytes) -> None:
        """Nobody watches."""

    def say(self, place: Place, text: str) -> None:
        """Nobody watches."""

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelReply:  # noqa: ARG002 -- the protocol's
        """Say that it needs a server."""
        raise NamedFaultError("ValidationError", _NO_MODEL)


ALONE: Final = Alone()


class Stop:
    """A request that an execution ends. Any thread may make it, and it cannot be undone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        self.is_wanted = False
        """Whether the execution is to end."""

    def set(self) -> None:
        """Request the end."""
        with self._lock:
            self.is_wanted = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def tell(self, listener: Callable[[], object]) -> None:
        """Call a function when the end is requested, at once if it was."""
        with self._lock:
            if not self.is_wanted:
                self._listeners.append(listener)
                return
        listener()

    def forget(self, listener: Callable[[], object]) -> None:
        """Call a function no more."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


class NodeContext:
    """The Context of one node; `report` is given its progress, in the node's own thread."""

    def __init__(
        self,
        place: Place,
        files: Files,
        hidden: Mapping[str, object],
        is_wanted: Callable[[], bool],
        report: Callable[[Progress], None],
        outside: Outside = ALONE,
    ) -> None:
        self.place: Final = place
        self.hidden: Final = hidden
        self._files = files
        self._is_wanted = is_wanted
        self._report = report
        self._outside = outside
        self._turns = itertools.count()
        self._new: list[Path] = []
        self._reported_at = -_PROGRESS_SECONDS
        self._is_complete = False

    def progress(self, value: float, most: float) -> None:
        """Report the node's progress. The first report, the last, and some in between are passed on."""
        self.check()
        value, most = _finite(value), _finite(most)
        now = time.monotonic()
        completes = value >= most and not self._is_complete
        if completes or now - self._reported_at >= _PROGRESS_SECONDS:
            self._reported_at, self._is_complete = now, self._is_complete or completes
            self._report(Progress(self.place, value, most))

    def check(self) -> None:
        """InterruptedByCallerError when the job was interrupted."""
        if not self._is_wanted():
            raise InterruptedByCallerError("the execution was interrupted")

    def input_file(self, name: str) -> Path:
        """The file a caller named."""
        return self._files.input_file(name)

    def input_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs and in the folders right below it."""
        return self._files.input_files(folder)

    def new_file(self, prefix: str, extension: str, kind: str = "output", **sizes: int) -> tuple[Path, SavedFile]:
        """A place for a new file."""
        return self._note(self._files.new_file(prefix, extension, kind, sizes))

    def save(self, content: bytes, prefix: str, extension: str, kind: str = "output", **sizes: int) -> SavedFile:
        """Save bytes as a new file."""
        path, saved = self.new_file(prefix, extension, kind, **sizes)
        self._files.write(path, content)
        return saved

    def named_file(self, name: str, kind: str = "output") -> tuple[Path, SavedFile]:
        """A place for a file of exactly this name."""
        return self._note(self._files.named_file(name, kind))

    def preview(self, image_type: str, image: bytes) -> None:
        """Show a preview."""
        self.check()
        if image_type not in _PREVIEW_TYPES:
            raise ValueError(f"a preview is an image/jpeg or an image/png, and not {image_type!r}")
        if len(image) > _PREVIEW_BYTES_MAX:
            raise ValueError(f"a preview has at most {_PREVIEW_BYTES_MAX} bytes, and this one {len(image)}")
        self._outside.preview(self.place, image_type, bytes(image))

    def say(self, text: str) -> None:
        """Send a text about the progress."""
        self.check()
        self._outside.say(self.place, str(text)[:_SAID_LENGTH_MAX])

    async def run_model(self, model: str, body: bytes) -> ModelReply:
        """Run a partner's model."""
        self.check()
        return await self._outside.run_model(self.place.node, next(self._turns), model, body)

    @property
    def has_files(self) -> bool:
        """Whether there are new files to keep or to discard."""
        return bool(self._new)

    def keep_files(self) -> None:
        """Keep the new files, because the node has succeeded."""
        self._new.reverse()
        while self._new:
            self._files.keep(self._new[-1])
            self._new.pop()

    def discard_files(self) -> None:
        """Remove the new files, because the node has failed."""
        while self._new:
            self._files.discard(self._new.pop())

    def _note(self, new: tuple[Path, SavedFile]) -> tuple[Path, SavedFile]:
        self._new.append(new[0])
        if len(self._new) > _FILES_MAX:
            raise ValueError(f"a node writes at most {_FILES_MAX} files")
        return new


def looking_context(files: Files) -> NodeContext:
    """A context for the checks of classes, which only look at files before anything is executed."""
    return NodeContext(Place("", ""), files, {}, lambda: True, lambda _: None)


_current: ContextVar[NodeContext | None] = ContextVar("current_context", default=None)


def current_context() -> NodeContext | None:
    """The context of the node whose code is being called, for code that does not get it as an argument: node packs.

    None outside of nodes, and in threads that a node starts.
    """
    return _current.get()


@contextmanager
def current(context: NodeContext | None) -> Iterator[None]:
    """Have a context be the current one meanwhile."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def _finite(value: float) -> float:
    """A finite number of Python's: nodes pass any numeric type, and divide by zero."""
    number = float(value)
    return number if math.isfinite(number) else 0.0
