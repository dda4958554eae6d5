"""One engine host as its server holds it: a process, a socket to it, and a folder of its own."""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from fairlead.domain.deployments import PackSet
from fairlead.engine.hosts.conversation import Conversation
from fairlead.engine.hosts.desk import Desk
from fairlead.engine.hosts.frames import BadFrameError, FrameReader, framed, read_from_host
from fairlead.engine.hosts.notes import HostEnded, HostNotStarted, HostStarted, TakeNote
from fairlead.engine.hosts.protocol import (
    FRAME_BYTES_MAX,
    TOLD_BYTES_MAX,
    FromHost,
    Loading,
    Order,
    Previewed,
    Ready,
    Said,
    ToHost,
    Told,
)
from fairlead.engine.packs.finding import absence, absent

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0
_LAST_WORDS_BYTES: Final = 16_384
_TOLD_AHEAD_BYTES: Final = 2**20
_KEPT_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL")
_NOT_STARTED: Final = "an engine host could not be started"
_NEVER_BEGAN: Final = "it did not take work in time"
_PACK_NAME_LENGTH_MAX: Final = 255


class HostNotStartedError(Exception):
    """A host did not come to take work; the words say why.

    `loading` is the node pack that it was loading when it ended, `missing` are packs it should have and there are not.
    """

    def __init__(self, words: str, *, loading: str | None = None, missing: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.loading = loading
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Loss:
    """How a process has ended: by which signal or with which code; why, if we ended it; and its last words."""

    signal: str | None
    code: int
    reason: str | None
    last_words: str

    @property
    def words(self) -> str:
        """How it has ended, as the rest of a sentence."""
        return f"was ended by {self.signal}" if self.signal else f"ended by itself with the code {self.code}"


class Host(asyncio.Protocol):
    """A running host. `open` begins a conversation about an order; `lost` is set once the process is gone."""

    def __init__(self, folder: Path, note: TakeNote, *, is_desk: bool) -> None:
        loop = asyncio.get_running_loop()
        self.folder: Final = folder
        self.lost: Final[asyncio.Future[Loss]] = loop.create_future()
        """Set when all the host has said was heard."""
        self.ready = Ready(0)
        """What it has loaded."""
        self.is_deaf = False
        """Whether nothing it says is heard any more."""
        self._note = note
        self._loading: str | None = None
        """The node pack that it loads right now."""
        self._came: Final[asyncio.Future[Ready]] = loop.create_future()
        self._closed: Final[asyncio.Future[None]] = loop.create_future()
        self._reader: Final = FrameReader(FRAME_BYTES_MAX if is_desk else 2 * TOLD_BYTES_MAX)
        self._conversations: Final[dict[str, Conversation]] = {}
        self._told_bytes = 0
        self._holds = 0
        """How many reasons there are to read nothing of it for now."""
        self._reason: str | None = None
        self._last_words: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.Transport | None = None
        self._watching: asyncio.Task[None] | None = None
        self._pausing: asyncio.Task[None] | None = None

    # Its life.

    @classmethod
    async def start(cls, order: Order, note: TakeNote, *, is_desk: bool, threads: int = 1) -> "Host":
        """Start a host in the folder that the order names, which is made now and removed with it.

        HostNotStartedError when it does not come to take work, with every pack that is selected; nothing of it is left
        then.
        """
        began = asyncio.get_running_loop().time()
        host = cls(Path(order.scratch), note, is_desk=is_desk)
        try:
            await host._launch(order, threads)
            host.ready = await host._ready(order.selection)
        except BaseException:
            await host.end("its start was given up")
            raise
        note(HostStarted(host.pid, asyncio.get_running_loop().time() - began, is_desk, host.ready.packs))
        return host

    @property
    def pid(self) -> int:
        """The id of the process."""
        return 0 if self._process is None else self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self.is_deaf or self._reason is not None or self._closed.done() or self.lost.done()

    async def settled(self, seconds: float) -> None:
        """Return when no order is open, or after some seconds."""
        if self._conversations:
            await asyncio.wait([open_.result for open_ in self._conversations.values()], timeout=seconds)

    async def end(self, reason: str) -> None:
        """End the process, in peace if it hears of it, and remove its folder."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()
        if self._watching is None:
            self.kill(reason)
            self._take_last_words()
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
            return
        done, _ = await asyncio.wait({self._watching}, timeout=_END_SECONDS)
        if not done:
            self.kill(reason)
        await asyncio.shield(self._watching)

    def kill(self, reason: str) -> None:
        """End the process and those it has started, at once."""
        self._reason = self._reason or reason
        if self._process is not None and self._process.returncode is None:
            _kill_group(self._process.pid)

    async def _launch(self, order: Order, threads: int) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await self._spawn(theirs.fileno(), threads)
            transport, _ = await loop.create_unix_connection(lambda: self, sock=ours)
        except OSError as error:
            ours.close()
            raise HostNotStartedError(f"no engine host could be started: {error.strerror}") from error
        except BaseException:
            ours.close()
            raise
        self._transport = transport
        self._watching = asyncio.ensure_future(self._watch(self._process))
        self.send(order)

    async def _spawn(self, descriptor: int, threads: int) -> asyncio.subprocess.Process:
        self.folder.mkdir(mode=0o700)
        self._last_words = _unnamed_file(self.folder)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # nothing is imported from the folder it is in
            "-m",
            "fairlead.engine.hosts",
            "--fd",
            str(descriptor),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=self._last_words,
            pass_fds=(descriptor,),
            start_new_session=True,
            cwd=self.folder,
            env=_environment(self.folder, threads),
        )

    async def _ready(self, selection: PackSet) -> Ready:
        waits: set[asyncio.Future[Any]] = {self._came, self.lost}
        await asyncio.wait(waits, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not self._came.done() or self.lost.done():
            raise self._not_started()
        ready = self._came.result()
        missing = absent(selection, [report.name for report in ready.packs])
        if missing:
            self._note(HostNotStarted(absence(missing), ""))
            raise HostNotStartedError(f"{_NOT_STARTED}: {absence(missing)}", missing=missing)
        return ready

    def _not_started(self) -> HostNotStartedError:
        loss = self.lost.result() if self.lost.done() else None
        why = _NEVER_BEGAN if loss is None else f"it {loss.words}"
        if self._loading is not None:
            why += f" while it loaded the node pack {self._loading!r}"
        self._note(HostNotStarted(why, "" if loss is None else loss.last_words))
        return HostNotStartedError(f"{_NOT_STARTED}: {why}", loading=self._loading)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """See the process to its end, hear what it has said until then, and clear up after it."""
        code = await process.wait()
        await asyncio.wait({self._closed}, timeout=_DRAIN_SECONDS)  # a process it has started may hold the socket
        if self._transport is not None:
            self._transport.abort()
        _kill_group(process.pid)
        loss = Loss(_signal_name(code), code, self._reason, self._take_last_words())
        self.lost.set_result(loss)
        self._note(HostEnded(process.pid, loss.reason, loss.words))
        if self._conversations:
            await asyncio.gather(*(conversation.close() for conversation in self._conversations.values()))
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _take_last_words(self) -> str:
        """The end of what the process has written, which is all there is to say why it died."""
        if self._last_words is None:
            return ""
        with self._last_words as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
            return file.read(_LAST_WORDS_BYTES).decode("utf-8", "replace")

    # What is said.

    def open(self, job: str, expected: tuple[type, ...], desk: Desk | None) -> Conversation:
        """Begin a conversation about an order, which is to be sent next."""
        self._conversations[job] = conversation = Conversation(expected, desk, self.folder, self._note)
        return conversation

    def send(self, record: ToHost) -> None:
        """Say something to the host; one that is gone hears nothing. FrameTooLargeError for too much."""
        frame = framed(record)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        """Hear what the host says; one that says what it may not is ended."""
        if self.is_deaf:
            return
        told: dict[str, Conversation] = {}
        try:
            for content in self._reader.feed(data):
                self._hear(read_from_host(content), len(content), told)
        except BadFrameError as error:
            self.is_deaf = True
            self.kill(f"it said what it may not: {error}")
        for conversation in told.values():
            conversation.flush()
        if self._told_bytes > _TOLD_AHEAD_BYTES and self._pausing is None and told:
            self._pausing = asyncio.ensure_future(self._pause(list(told.values())))

    def _hear(self, record: FromHost, length: int, told: dict[str, Conversation]) -> None:
        if isinstance(record, Loading | Ready):
            self._hear_of_start(record)
            return
        conversation = self._conversations.get(record.job)
        if conversation is None:
            raise BadFrameError("something about an order it does not have")
        conversation.hear(record, self.send)
        if isinstance(record, Told | Previewed | Said):
            told[record.job] = conversation
            self._told_bytes += length
        if conversation.result.done():
            del self._conversations[record.job]

    def _hear_of_start(self, record: Loading | Ready) -> None:
        if self._came.done():
            raise BadFrameError("that it is ready, once more")
        if isinstance(record, Loading):
            self._loading = record.pack[:_PACK_NAME_LENGTH_MAX]
        else:
            self._loading = None
            self._came.set_result(record)

    async def _pause(self, conversations: list[Conversation]) -> None:
        """Read nothing more of the host until everybody has caught up: it is the host that then waits."""
        self._hold()
        try:
            for conversation in conversations:
                await conversation.caught_up()
        finally:
            self._told_bytes, self._pausing = 0, None
            self._release()

    def pause_writing(self) -> None:
        """The host does not read what it is answered: hear no more questions until it does."""
        self._hold()

    def resume_writing(self) -> None:
        """The host has read on."""
        self._release()

    def _hold(self) -> None:
        self._holds += 1
        if self._holds == 1 and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        """The socket is closed; a process that goes on without one is ended."""
        if not self._closed.done():
            self._closed.set_result(None)
        asyncio.get_running_loop().call_later(_END_SECONDS, self.kill, "it has closed its socket")


def _kill_group(pid: int) -> None:
    """Kill a process and what it has started, as far as that has stayed in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _signal_name(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _unnamed_file(folder: Path) -> IO[bytes]:
    """A file nobody else finds: what a node may put in the place of one with a name is not for us to read."""
    return tempfile.TemporaryFile(dir=folder)


def _environment(folder: Path, threads: int) -> dict[str, str]:
    """Only what a Python program needs: no secret of ours. What it leaves in the temporary folder goes with it."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    paths = os.environ.get("PYTHONPATH", "")
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in paths.split(os.pathsep) if path)
    return {
        **kept,
        "TMPDIR": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENCV_FOR_THREADS_NUM": str(threads),
        "MALLOC_ARENA_MAX": "2",
    }
