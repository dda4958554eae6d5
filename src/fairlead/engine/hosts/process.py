"""One engine process, as its server sees it: started or forked, loaded, then a host, and ended."""

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from fairlead.engine.hosts.connection import HostConnection, ProcessLostError
from fairlead.engine.hosts.document_files import INLINE_BYTES, Document, hand_over, take
from fairlead.engine.hosts.forking import hear_hello, sockets
from fairlead.engine.hosts.notes import HostEnded, HostNotStarted, TakeNote
from fairlead.engine.hosts.service import HostService, TemplateService
from fairlead.processes.child import Child, Program, readable, unnamed_file
from fairlead.processes.exits import Exit
from fairlead.processes.heartbeats import Pulse
from fairlead.processes.rpc import BadFrameError
from fairlead.processes.tree import ProcessTree

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
_HELLO_SECONDS: Final = 60.0
_END_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0
_STATUS_SECONDS: Final = 1.0
_NOT_STARTED: Final = "an engine host could not be started"
_PACK_NAME_LENGTH_MAX: Final = 255


class HostNotStartedError(Exception):
    """A process could not be made ready for work; the message says why.

    `loading` is the node pack that it was loading when it ended or was given up, `is_slow` in the latter case;
    `missing` are packs that it should have but that do not exist.
    """

    def __init__(
        self, words: str, *, loading: str | None = None, is_slow: bool = False, missing: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{_NOT_STARTED}: {words}")
        self.why = words
        self.loading = loading
        self.is_slow = is_slow
        self.missing = missing


class EngineProcess:
    """A running process. `lost` is set once it has ended, and everything it has sent was read."""

    def __init__(self, child: Child, forks: socket.socket, folder: Path, note: TakeNote) -> None:
        self.child: Final = child
        self.lost: Final[asyncio.Future[Exit]] = asyncio.get_running_loop().create_future()
        self.connection: Final = HostConnection(folder, note, self, self.kill)
        self.forked: Final[set[EngineProcess]] = set()
        """The processes that were forked from this one and live."""
        self.descriptors = 0
        """How many descriptors it had open when it began to serve."""
        self._forks = forks
        self._note = note
        self._pulse = Pulse()
        self._loading: str | None = None
        """The node pack that it is loading."""
        self._limit: asyncio.Timeout | None = None
        """The time limit of the order under way; each pack gets `_seconds` again."""
        self._seconds = 0.0
        self._statuses: Final[dict[int, asyncio.Future[int | None]]] = {}
        """How processes ended that were forked from this one, by their numbers."""
        self._watching: Final = asyncio.ensure_future(self._watch())

    # How it comes.

    @classmethod
    async def spawn(
        cls, environment: Mapping[str, str], folder: Path, note: TakeNote, begun: Callable[[], None]
    ) -> "EngineProcess":
        """Start a process, with a folder of its own, which is made now and removed with it. HostNotStartedError.

        `begun` is called when it has begun to load what it needs.
        """
        with ExitStack() as undone:
            ours, theirs, our_forks, their_forks = sockets(undone)
            numbers = (theirs.fileno(), their_forks.fileno())
            arguments = ("--fd", str(numbers[0]), "--forks", str(numbers[1]))
            program = Program(
                "fairlead.engine.hosts.program", arguments, environment, descriptors=numbers, folder=folder
            )
            try:
                child = await Child.start(program)
            except OSError as error:
                raise HostNotStartedError(error.strerror or str(error)) from error
            # The process has copies of its own; while ours are open, nobody would notice that it has closed them.
            theirs.close()
            their_forks.close()
            process = cls(child, our_forks, folder, note)
            undone.pop_all()
        begun()
        await process._greet(ours)
        return process

    async def fork(self, folder: Path) -> "EngineProcess":
        """Have another process forked from this one, with a folder of its own, as above. HostNotStartedError."""
        with self.child.tree.forking(), ExitStack() as undone:
            ours, theirs, our_forks, their_forks = sockets(undone)
            try:
                folder.mkdir(mode=0o700)  # noqa: ASYNC240 -- a moment
                undone.callback(shutil.rmtree, folder, ignore_errors=True)
                errors = undone.enter_context(unnamed_file(folder))
                passed = [theirs.fileno(), their_forks.fileno(), errors.fileno()]
                socket.send_fds(self._forks, [b"\x01"], passed)
                theirs.close()
                their_forks.close()
                async with asyncio.timeout(_HELLO_SECONDS):
                    pid = await hear_hello(ours)
                # A descriptor, because the number may be that of another process once this one has ended.
                watch = os.pidfd_open(pid)
            except (OSError, EOFError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    self.kill("it could not be forked any more")  # a fork of it that is not known ends with it
                raise HostNotStartedError("it could not be forked") from error
            status = self._statuses[pid] = asyncio.get_running_loop().create_future()
            child = Child(ProcessTree(pid, self.child.tree), _status(watch, status), errors, folder)
            process = EngineProcess(child, our_forks, folder, self._note)
            undone.pop_all()
        self._adopt(process)
        try:
            await process.connection.connect(ours)
        except BaseException:
            ours.close()
            process.kill("its start was given up")
            raise
        return process

    def _adopt(self, process: "EngineProcess") -> None:
        self.forked.add(process)

        def note_exit(_: object) -> None:
            self.forked.discard(process)
            self._statuses.pop(process.pid, None)
            self.connection.tell(TemplateService.reap, process.pid)

        process.child.exited.add_done_callback(note_exit)

    async def _greet(self, ours: socket.socket) -> None:
        """Wait for the first byte of a process that was started."""
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await hear_hello(ours)
            await self.connection.connect(ours)
        except (OSError, EOFError, TimeoutError) as error:
            ours.close()
            ended = await self.child.end("it did not come in time", 0.0)
            raise self._not_started(f"it {ended.words}") from error
        except BaseException:
            ours.close()
            self.kill("its start was given up")
            raise

    # Its life.

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.child.pid

    @property
    def is_gone(self) -> bool:
        """Whether it can no longer be used."""
        return self.connection.is_silent or self.child.is_ending

    async def order(
        self,
        seconds: float,
        method: Callable[Concatenate[S, P], Awaitable[T]],
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        """Prepare the process by an order; each pack, and the rest, may take so many seconds.

        HostNotStartedError, in which case the process is ended.
        """
        self._seconds = seconds
        try:
            async with asyncio.timeout(seconds) as self._limit:
                return await self.connection.ask(method, *given, **named)
        except TimeoutError:
            self.kill(f"it took more than {seconds:g} seconds")
            why = "it did not take work in time" if self._loading is None else f"it took more than {seconds:g} seconds"
            raise self._not_started(why, "to load", is_slow=self._loading is not None) from None
        except ProcessLostError as error:
            raise self._not_started(f"it {error.exit.words}") from None
        except BaseException:
            self.kill("its start was given up")
            raise
        finally:
            self._limit = self._loading = None

    async def hand_over(self, content: bytes) -> Document:
        """Make a document ready to be sent to the process. OSError."""
        if len(content) <= INLINE_BYTES:
            return content
        return await asyncio.to_thread(hand_over, content, self.connection.folder)

    async def take(self, document: Document) -> bytes:
        """The content of a document that the process has sent. OSError; ValueError if it is not a document."""
        if isinstance(document, bytes):
            return document
        return await asyncio.to_thread(take, document, self.connection.folder)

    def beat(self, *, counts: bool) -> None:
        """Ask for a sign of life; end the process when it has given none for too long."""
        if self.is_gone or self._limit is not None or self.connection.is_held:
            self._pulse.hear()  # its use has a time limit of its own, or its answer would not be read
        elif not self._pulse.is_awaited:
            self._pulse.ask()
            self.connection.call(HostService.ping).result.add_done_callback(lambda _: self._pulse.hear())
        elif counts and self._pulse.miss():
            self.kill("it did not answer any more")

    def kill(self, reason: str) -> None:
        """End the process and what it has started, at once."""
        self.child.kill(reason)

    async def end(self, reason: str) -> None:
        """End the process and those that were forked from it, without force if it reacts to a request."""
        self.connection.abort()
        await self.child.end(reason, _END_SECONDS)
        await asyncio.shield(self._watching)

    async def _watch(self) -> None:
        """Read what the process sends until its end, then report that."""
        ends: set[asyncio.Future[Any]] = {self.connection.closed, self.child.exited}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self._forks.close()
        await asyncio.wait({self.child.exited}, timeout=_END_SECONDS)
        self.kill("it has closed its socket")
        ended = await asyncio.shield(self.child.exited)
        await asyncio.wait({self.connection.closed}, timeout=_DRAIN_SECONDS)  # its children may hold the socket open
        self.connection.abort()
        # Nobody is left to say how its children ended.
        for status in self._statuses.values():
            if not status.done():
                status.set_result(None)
        for process in self.forked:
            process.kill(f"the process it was forked from {ended.words}")
        self.lost.set_result(ended)
        self._note(HostEnded(self.pid, ended.reason, ended.words))
        await self.connection.lose(ended)

    # What it says of itself.

    def loading(self, pack: str) -> None:
        """It begins to load a node pack."""
        if self._limit is None:
            raise BadFrameError("that it loads what nobody wants")
        self._loading = pack[:_PACK_NAME_LENGTH_MAX]
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def child_ended(self, pid: int, status: int) -> None:
        """A process that was forked from it has ended."""
        ended = self._statuses.get(pid)
        if ended is None:
            self.connection.tell(TemplateService.reap, pid)  # one that never became ready
        elif not ended.done():
            ended.set_result(status)

    def _not_started(self, why: str, verb: str = "while it loaded", *, is_slow: bool = False) -> HostNotStartedError:
        if self._loading is not None:
            why += f" {verb} the node pack {self._loading!r}"
        words = self.child.exited.result().last_words if self.child.exited.done() else ""
        self._note(HostNotStarted(why, words))
        return HostNotStartedError(why, loading=self._loading, is_slow=is_slow)


async def _status(watch: int, told: "asyncio.Future[int | None]") -> int | None:
    """How a process that has ended did so, as its parent reports; None when it does not."""
    try:
        await readable(watch)
    finally:
        os.close(watch)
    await asyncio.wait({told}, timeout=_STATUS_SECONDS)
    return told.result() if told.done() else None
