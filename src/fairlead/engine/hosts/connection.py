"""The server's end of the socket to one engine process: open calls, and the notices and questions about them."""

import asyncio
import itertools
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

import msgspec

from fairlead.engine.hosts.notes import AnswerFailed, TakeNote
from fairlead.engine.hosts.service import (
    FRAME_BYTES_MAX,
    HOST_SERVICE,
    PROCESS_NOTICES,
    TEMPLATE_SERVICE,
    TOLD_BYTES_MAX,
    DeclinedError,
    ProcessNotices,
)
from fairlead.processes.exits import Exit
from fairlead.processes.rpc import (
    Answer,
    BadArgumentsError,
    BadFrameError,
    Call,
    Cancel,
    Declined,
    FrameReader,
    FrameTooLargeError,
    Method,
    encode_frame,
    read_record,
)

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
_METHODS: Final = {**TEMPLATE_SERVICE, **HOST_SERVICE}
_QUESTIONS_MAX: Final = 1_000
_TOLD_AHEAD_BYTES: Final = 2**20
_LONG_READ_BYTES: Final = 2**16
_CLOSE_SECONDS: Final = 10.0
_INTERNAL: Final = "InternalError"


class ProcessLostError(Exception):
    """The process has ended before it answered; `exit` says how."""

    def __init__(self, exit_: Exit) -> None:
        super().__init__(exit_.words)
        self.exit = exit_


class Listener:
    """Takes the notices about one call, in their order and often many together, in place of its callbacks."""

    def flush(self) -> None:
        """Called after notices that came together, and before the call is answered."""

    async def catch_up(self) -> None:
        """Return when there is room for more."""


class HostCall(Generic[T]):
    """One call of an engine process, which uses its `callbacks` until it answers.

    `result` is set when the process answers; ProcessLostError when it is lost before. Without a `listener` it may send
    no notices.
    """

    def __init__(self, number: int, method: Method, callbacks: object, connection: "HostConnection") -> None:
        self.result: Final[asyncio.Future[T]] = asyncio.get_running_loop().create_future()
        self.listener: Listener | None = None
        self._number = number
        self._method = method
        self._callbacks = callbacks
        self._connection = connection
        self._answering: set[asyncio.Task[None]] = set()

    def cancel(self) -> None:
        """Have the process answer soon."""
        self._connection.send(Cancel(self._number))

    def fail(self, exit_: Exit) -> None:
        """Note that no answer comes any more."""
        if not self.result.done():
            self.result.set_exception(ProcessLostError(exit_))
            self.result.exception()  # often nobody waits for it

    async def close(self) -> None:
        """Give the call up and decline every question. Returns when no answer is being made."""
        self._callbacks = self.listener = None
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_CLOSE_SECONDS)

    # Received frames; BadFrameError for what may not be sent.

    def hear_answer(self, answer: Answer[msgspec.Raw]) -> None:
        """Take the answer."""
        value = self._method.read_result(answer.value)
        if self.listener is not None:
            self.listener.flush()
        if not self.result.done():
            self.result.set_result(value)

    def hear_call(self, call: Call[msgspec.Raw]) -> None:
        """Begin to answer a question, or pass on a notice."""
        method = (self._method.callbacks or {}).get(call.method)
        # Only questions have a number, which their answers repeat.
        if method is None or method.is_answered != bool(call.number):
            raise BadFrameError(f"{call.method[:50]!r} about {self._method.name!r}")
        if not method.is_answered:
            if self.listener is not None:
                _notice(method, self.listener, call)
            return
        if self._callbacks is None:
            self._decline(call, _INTERNAL, "nobody answers questions any more")
            return
        if len(self._answering) >= _QUESTIONS_MAX:
            raise BadFrameError(f"more than {_QUESTIONS_MAX} questions at once")
        task = asyncio.ensure_future(self._answer(method, call))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, method: Method, call: Call[msgspec.Raw]) -> None:
        try:
            value = await method.call(self._callbacks, call.arguments, check_path=self._connection.own_file)
            self._connection.send(Answer(call.number, value))
        except DeclinedError as error:
            self._decline(call, error.exception_type, error.message)
        except (BadArgumentsError, FrameTooLargeError) as error:
            self._decline(call, "ValueError", str(error))
        except Exception as error:  # noqa: BLE001 -- the node learns nothing of it, the log everything
            self._connection.note(AnswerFailed(call.method, error))
            self._decline(call, _INTERNAL, "the server could not answer what the node asked")

    def _decline(self, call: Call[msgspec.Raw], exception_type: str, message: str) -> None:
        self._connection.send(Declined(call.number, exception_type, message))


class HostConnection(asyncio.Protocol):
    """The socket to an engine process. `process` gets what it reports about itself, and may raise BadFrameError.

    `kill` ends the process for a reason. `closed` is set when nothing more comes.
    """

    def __init__(self, folder: Path, note: TakeNote, process: ProcessNotices, kill: Callable[[str], None]) -> None:
        self.closed: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self.folder = folder
        """The folder in which the process may write files to be stored."""
        self.note: Final = note
        self._process = process
        self._kill = kill
        self._reader: Final = FrameReader(2 * TOLD_BYTES_MAX)
        self._numbers: Final = itertools.count(1)
        self._calls: Final[dict[int, HostCall[Any]]] = {}
        self._lost: Exit | None = None
        self._is_deaf = False
        self._told_bytes = 0
        self._holds = 0
        """How many reasons there are to pause reading."""
        self._transport: asyncio.Transport | None = None
        self._pausing: asyncio.Task[None] | None = None

    async def connect(self, end: socket.socket) -> None:
        """Use a socket, which is closed with the connection."""
        self._transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    @property
    def is_held(self) -> bool:
        """Whether reading is paused, because a receiver here has to catch up first."""
        return self._holds > 0

    @property
    def is_silent(self) -> bool:
        """Whether nothing more is read, or nothing more comes."""
        return self._is_deaf or self.closed.done()

    def abort(self) -> None:
        """Close the socket, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    async def lose(self, exit_: Exit) -> None:
        """Have every open and every later call fail; returns when no question is being answered."""
        self._lost = exit_
        for call in self._calls.values():
            call.fail(exit_)
        if self._calls:
            await asyncio.gather(*(call.close() for call in self._calls.values()))

    def call(self, method: Callable[Concatenate[S, P], Awaitable[T]], *given: P.args, **named: P.kwargs) -> HostCall[T]:
        """Call a method of HostService or TemplateService. FrameTooLargeError."""
        declared, number = _METHODS[method.__name__], next(self._numbers)
        callbacks = given[-1] if declared.callbacks else None
        call: HostCall[T] = HostCall(number, declared, callbacks, self)
        if self._lost is not None:
            call.fail(self._lost)
        else:
            self.send(Call(number, 0, declared.name, declared.arguments(given, named)))
            self._calls[number] = call
        return call

    def tell(self, method: Callable[Concatenate[S, P], None], *given: P.args, **named: P.kwargs) -> None:
        """Call a method that returns nothing."""
        declared = _METHODS[method.__name__]
        self.send(Call(0, 0, declared.name, declared.arguments(given, named)))

    async def ask(self, method: Callable[Concatenate[S, P], Awaitable[T]], *given: P.args, **named: P.kwargs) -> T:
        """Call a method and return its result. ProcessLostError, FrameTooLargeError."""
        call = self.call(method, *given, **named)
        try:
            return await call.result
        finally:
            await call.close()

    def send(self, record: object) -> None:
        """Send a record, which is dropped if the process has ended. FrameTooLargeError."""
        frame = encode_frame(record, FRAME_BYTES_MAX)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def own_file(self, path: Path) -> Path:
        """The path of a file that the process has written: directly in its folder, and no link. DeclinedError."""
        try:
            # Not `stat`, which follows links: one could lead to a file of the server.
            is_file = path.parent == self.folder and stat.S_ISREG(path.lstat().st_mode)
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise DeclinedError("ValueError", "only a file that was written for the job can be kept")
        return path

    # What arrives.

    def data_received(self, data: bytes) -> None:
        """Read what the process sends; one that breaks the protocol is ended."""
        if self._is_deaf:
            return
        told: dict[Listener, None] = {}
        try:
            for content in self._reader.feed(data):
                self._hear(content, told)
        except BadFrameError as error:
            self._is_deaf = True
            self._kill(f"it said what it may not: {error}")
        for listener in told:
            listener.flush()
        if len(data) >= _LONG_READ_BYTES:
            self._let_others_run()
        if self._told_bytes > _TOLD_AHEAD_BYTES and self._pausing is None and told:
            self._pausing = asyncio.ensure_future(self._pause(list(told)))

    def _hear(self, content: bytes, told: dict[Listener, None]) -> None:
        match read_record(content):
            case Answer(number=number) as answer if number in self._calls:
                self._calls[number].hear_answer(answer)
                del self._calls[number]
            case Call(about=0, number=0, method=name) as call if name in PROCESS_NOTICES:
                _notice(PROCESS_NOTICES[name], self._process, call)
            case Call(about=about) as call if about in self._calls:
                host_call = self._calls[about]
                host_call.hear_call(call)
                if not call.number and host_call.listener is not None:
                    told[host_call.listener] = None
                    self._told_bytes += len(content)
            case _:
                raise BadFrameError("something about a call it does not have")

    async def _pause(self, listeners: list[Listener]) -> None:
        """Pause reading until all receivers have caught up; meanwhile the process waits."""
        self._hold()
        try:
            for listener in listeners:
                await listener.catch_up()
        finally:
            self._told_bytes, self._pausing = 0, None
            self._release()

    def _let_others_run(self) -> None:
        """Read on in the next turn of the event loop, instead of reading megabytes of one process at a time."""
        self._hold()
        asyncio.get_running_loop().call_soon(self._release)

    def pause_writing(self) -> None:
        """The process does not read its answers: read no more questions until it does."""
        self._hold()

    def resume_writing(self) -> None:
        """The process has read on."""
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
        """The socket is closed."""
        if not self.closed.done():
            self.closed.set_result(None)


def _notice(method: Method, implementation: object, call: Call[msgspec.Raw]) -> None:
    try:
        method.call(implementation, call.arguments)
    except BadArgumentsError as error:
        raise BadFrameError(str(error)) from error
