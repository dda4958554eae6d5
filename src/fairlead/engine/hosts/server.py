"""A host's connection to its server: a socket over which any thread calls it, and the services of it that nodes use.

Sending blocks while the server does not read, so a job that sends too much is slowed down and nothing piles up here.
Answers resolve the callers' futures. New files are written in one folder.
"""

import asyncio
import itertools
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

import msgspec

from fairlead.domain.jobs.events import Place, Preview, ProgressText
from fairlead.engine.hosts.service import (
    FRAME_BYTES_MAX,
    JOB_CALLS,
    TOLD_BYTES_MAX,
    JobCalls,
    JobQuestions,
    NewKind,
)
from fairlead.engine.nodes.context import (
    InterruptedByCallerError,
    ModelReply,
    NamedFaultError,
    NoSuchFileError,
    SavedFile,
)
from fairlead.engine.nodes.files import extension_of, fill_prefix
from fairlead.engine.nodes.node_context import Stop
from fairlead.processes.rpc import Answer, Call, Declined, Method, Record, encode_frame, read_frame

P = ParamSpec("P")
T = TypeVar("T")
Asked: TypeAlias = "Future[Any]"
_NO_FILE: Final = "FileNotFoundError"
_UNSENT_BYTES_MAX: Final = 64 * 1024
_NAME_LENGTH_MAX: Final = 4_096
_MODELS_AT_ONCE: Final = 256
_ROOM_FOR_THE_REST: Final = 10_000
_NEW_KINDS: Final = frozenset({"output", "temp"})
_SENT_BYTES_MAX: Final = 256 * 1024
"""A file of up to so many bytes is sent: writing, copying and removing it would cost more."""
_HELD_BYTES_MAX: Final = 16 * 2**20
"""How many bytes of such files a job holds until the nodes that have made them succeed."""


class ServerConnection:
    """The socket to the server. One thread reads; any thread sends."""

    def __init__(self, end: socket.socket) -> None:
        self._socket: Final = end
        self._reader: Final = end.makefile("rb", buffering=1 << 16)
        self._sending: Final = threading.Lock()
        self._unsent = bytearray()
        self._numbers: Final = itertools.count(1)
        self._asked: Final[dict[int, tuple[Asked, Method]]] = {}

    def read(self) -> Record | None:
        """The next record; None when the server has ended."""
        return read_frame(self._reader.read, FRAME_BYTES_MAX)

    def send(self, record: object, bytes_max: int = FRAME_BYTES_MAX, *, is_followed: bool = False) -> None:
        """Send a record; one that `is_followed` by another at once goes out with that, so the server is woken once.

        FrameTooLargeError, or what the encoder raises; without a server there is nothing to go on.
        """
        frame = encode_frame(record, bytes_max)
        with self._sending:
            self._unsent += frame
            if is_followed and len(self._unsent) <= _UNSENT_BYTES_MAX:
                return
            frame, self._unsent = self._unsent, bytearray()
            try:
                self._socket.sendall(frame)
            except OSError:
                os._exit(0)

    def ask(self, about: int, method: Method, arguments: msgspec.Struct) -> Asked:
        """Ask a question about a call of the server; another thread sets the answer on the future."""
        number, answer = next(self._numbers), Future[Any]()
        self._asked[number] = answer, method
        answer.add_done_callback(lambda _: self._asked.pop(number, None))
        try:
            self.send(Call(number, about, method.name, arguments), TOLD_BYTES_MAX)
        except Exception:
            answer.cancel()
            raise
        return answer

    def hear(self, answer: Answer[msgspec.Raw] | Declined) -> None:
        """Hand an answer to the caller that waits for it, if it still does."""
        asked, method = self._asked.get(answer.number, (None, None))
        if asked is not None and method is not None:
            _settle(asked, _error(answer) if isinstance(answer, Declined) else method.read_result(answer.value))


class JobConnection:
    """The part of the connection that belongs to one call of the server. After its answer nothing more is sent."""

    def __init__(self, connection: ServerConnection, number: int) -> None:
        self.stop: Final = Stop()
        """Set when the server cancels the call."""
        self._connection = connection
        self._number = number
        self._lock = threading.Lock()
        self._is_ending = False
        self._is_over = False
        self._asked: set[Asked] = set()
        self.stop.tell(self._give_up)

    def tell(self, notice: Callable[Concatenate[JobCalls, P], None], *given: P.args, **named: P.kwargs) -> None:
        """Send a notice; after the answer it is dropped. FrameTooLargeError, or what the encoder raises."""
        method = JOB_CALLS[notice.__name__]
        record = Call(0, self._number, method.name, method.arguments(given, named))
        with self._lock:
            if not self._is_over:
                self._connection.send(record, TOLD_BYTES_MAX, is_followed=self._is_ending)

    def call(
        self, question: Callable[Concatenate[JobQuestions, P], Awaitable[T]], *given: P.args, **named: P.kwargs
    ) -> "Future[T]":
        """Ask a question; a request to stop answers it with InterruptedByCallerError."""
        method = JOB_CALLS[question.__name__]
        arguments = method.arguments(given, named)
        with self._lock:
            if self._is_over or self._is_stopped():
                raise InterruptedByCallerError("the execution was interrupted")
            asked = self._connection.ask(self._number, method, arguments)
            self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        if self._is_stopped():  # in the meantime, when it was not known yet
            self._give_up()
        return asked

    def begin_to_end(self) -> None:
        """Send all further notices together with the answer, which must follow."""
        self._is_ending = True

    def answer(self, value: object) -> None:
        """Answer the call."""
        self.stop.forget(self._give_up)
        with self._lock:
            self._connection.send(Answer(self._number, value))
            self._is_over = True

    def _is_stopped(self) -> bool:
        return self.stop.is_wanted

    def _give_up(self) -> None:
        for asked in list(self._asked):
            _settle(asked, InterruptedByCallerError("the execution was interrupted"))


def _settle(asked: Asked, answer: object) -> None:
    """The first answer counts; one that was cancelled gets none."""
    with suppress(InvalidStateError):
        if isinstance(answer, Exception):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)


def _error(declined: Declined) -> Exception:
    if declined.exception_type == _NO_FILE:
        return NoSuchFileError(declined.message)
    return NamedFaultError(declined.exception_type, declined.message)


class Scratch:
    """The folder of one host: a path in it is given once, whatever the job."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._numbers: Final = itertools.count()

    def place(self, extension: str) -> Path:
        """A unique path; libraries choose the format by its extension."""
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
        return self._connection.call(JobQuestions.find_file, _check_length(name)).result()

    def input_files(self, folder: str) -> Sequence[str]:
        """The names of the files in a folder of the inputs."""
        return self._connection.call(JobQuestions.list_files, _check_length(folder)).result()

    def new_file(self, prefix: str, extension: str, kind: str, sizes: Mapping[str, int]) -> tuple[Path, SavedFile]:
        """A place in the scratch folder, and the name that the server gives. ValueError for a prefix of no use."""
        suffix = extension_of(extension)
        return self._name_file(fill_prefix(prefix, sizes), suffix, kind, is_exact=False)

    def named_file(self, name: str, kind: str) -> tuple[Path, SavedFile]:
        """A place in the scratch folder for a file of exactly this name."""
        try:
            suffix = extension_of(PurePosixPath(_check_length(name)).suffix)
        except ValueError:
            suffix = "bin"
        return self._name_file(name, suffix, kind, is_exact=True)

    def write(self, path: Path, content: bytes) -> None:
        """Hold the bytes of a small file until it is kept, and write those of a large one."""
        if len(content) <= _SENT_BYTES_MAX and self._held_bytes < _HELD_BYTES_MAX:
            self._held[path] = content
            self._held_bytes += len(content)
        else:
            path.write_bytes(content)

    def keep(self, path: Path) -> None:
        """Pass a new file to the server; one that was never written leaves nothing."""
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

    def _name_file(self, name: str, suffix: str, kind: str, *, is_exact: bool) -> tuple[Path, SavedFile]:
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
        """Show a preview of what a node makes."""
        self._connection.tell(JobCalls.show, Preview(place, image_type, image))

    def say(self, place: Place, text: str) -> None:
        """Send a text about a node's progress."""
        said = text.encode("utf-8", "replace").decode()
        self._connection.tell(JobCalls.show, ProgressText(place, said))

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelReply:
        """Run a partner's model; ValueError for a body that is more than can be sent."""
        if len(body) + len(model) > TOLD_BYTES_MAX - _ROOM_FOR_THE_REST:
            raise ValueError(f"a call of {len(body)} bytes is more than a model can be sent")
        async with self._models:
            asked = self._connection.call(JobQuestions.run_model, node, turn, model, body)
            ran = await asyncio.wrap_future(asked)
        return ModelReply(ran.body, ran.files, ran.content_types)


def _check_length(name: str) -> str:
    """A name that can be asked for; links may be long."""
    if len(name) > _NAME_LENGTH_MAX:
        raise NoSuchFileError(f"there is no file with a name of {len(name)} characters")
    return name
