"""A host's end of the socket: any thread sends records and questions, and answers resolve the askers' futures.

Sending blocks while the server does not read, so a job that sends too much is slowed down and nothing piles up here.
"""

import itertools
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import msgspec

from fairlead.engine.hosts.callbacks import JOB_QUESTIONS, JobQuestions
from fairlead.engine.hosts.frames import HEAD_BYTES, framed, length_of, read_to_host
from fairlead.engine.hosts.protocol import (
    FRAME_BYTES_MAX,
    TOLD_BYTES_MAX,
    Answer,
    Declined,
    FromHost,
    Question,
    ToHost,
)
from fairlead.engine.hosts.rpc import Method
from fairlead.engine.nodes.context import InterruptedByCallerError, NamedFaultError, NoSuchFileError
from fairlead.engine.nodes.node_context import Stop

P = ParamSpec("P")
T = TypeVar("T")
Asked: TypeAlias = "Future[Any]"
_NO_FILE: Final = "FileNotFoundError"
_UNSENT_BYTES_MAX: Final = 64 * 1024


class RpcConnection:
    """The socket to the server. One thread reads; any thread sends."""

    def __init__(self, end: socket.socket) -> None:
        self._socket: Final = end
        self._reader: Final = end.makefile("rb", buffering=1 << 16)
        self._sending: Final = threading.Lock()
        self._unsent = bytearray()
        self._numbers: Final = itertools.count()
        self._asked: Final[dict[int, tuple[Asked, Method]]] = {}

    def read(self) -> ToHost | None:
        """The next record; None when the server has gone."""
        head = self._reader.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES:
            return None
        length = length_of(head, FRAME_BYTES_MAX)
        content = self._reader.read(length)
        return read_to_host(content) if len(content) == length else None

    def send(
        self, record: FromHost | Question[object], bytes_max: int = FRAME_BYTES_MAX, *, is_followed: bool = False
    ) -> None:
        """Send a record; one that `is_followed` by another at once goes out with that, so the server is woken once.

        FrameTooLargeError, or what the encoder raises; without a server there is nothing to go on.
        """
        frame = framed(record, bytes_max)
        with self._sending:
            self._unsent += frame
            if is_followed and len(self._unsent) <= _UNSENT_BYTES_MAX:
                return
            frame, self._unsent = self._unsent, bytearray()
            try:
                self._socket.sendall(frame)
            except OSError:
                os._exit(0)

    def ask(self, job: str, method: Method, arguments: object) -> Asked:
        """Ask a question for a job; the answer comes to the future, from another thread."""
        number, answer = next(self._numbers), Future[Any]()
        self._asked[number] = answer, method
        answer.add_done_callback(lambda _: self._asked.pop(number, None))
        try:
            self.send(Question(number, job, method.name, arguments), TOLD_BYTES_MAX)
        except Exception:
            answer.cancel()
            raise
        return answer

    def answer(self, answer: Answer[msgspec.Raw] | Declined) -> None:
        """Hand an answer to the caller that waits for it, if it still does."""
        asked, method = self._asked.get(answer.question, (None, None))
        if asked is not None and method is not None:
            _settle(asked, _error(answer) if isinstance(answer, Declined) else method.read_result(answer.value))


class JobConnection:
    """The part of the connection that belongs to one job. After the job's end nothing of it is sent any more."""

    def __init__(self, connection: RpcConnection, job: str, stop: Stop) -> None:
        self.job: Final = job
        self._connection = connection
        self._stop = stop
        self._lock = threading.Lock()
        self._is_over = False
        self._asked: set[Asked] = set()
        stop.tell(self._give_up)

    def tell(self, record: FromHost, *, is_followed: bool = False) -> None:
        """Tell something; after the end it is dropped. FrameTooLargeError, or what the encoder raises."""
        with self._lock:
            if not self._is_over:
                self._connection.send(record, TOLD_BYTES_MAX, is_followed=is_followed)

    def call(
        self, question: Callable[Concatenate[JobQuestions, P], Awaitable[T]], *arguments: P.args, **named: P.kwargs
    ) -> "Future[T]":
        """Ask a question of `callbacks.JobQuestions`; a request to stop answers it with InterruptedByCallerError."""
        method = JOB_QUESTIONS[question.__name__]
        given = method.arguments(*arguments, **named)
        with self._lock:
            if self._is_over or self._is_stopped():
                raise InterruptedByCallerError("the execution was interrupted")
            asked = self._connection.ask(self.job, method, given)
            self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        if self._is_stopped():  # in the meantime, when it was not known yet
            self._give_up()
        return asked

    def end(self, record: FromHost) -> None:
        """Tell the end."""
        self._stop.forget(self._give_up)
        with self._lock:
            self._connection.send(record)
            self._is_over = True

    def _is_stopped(self) -> bool:
        return self._stop.is_wanted

    def _give_up(self) -> None:
        for asked in list(self._asked):
            _settle(asked, InterruptedByCallerError("the execution was interrupted"))


def _settle(asked: Asked, answer: object) -> None:
    """The first who answers counts; an asker that was cancelled hears nothing."""
    with suppress(InvalidStateError):
        if isinstance(answer, Exception):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)


def _error(declined: Declined) -> Exception:
    if declined.exception_type == _NO_FILE:
        return NoSuchFileError(declined.message)
    return NamedFaultError(declined.exception_type, declined.message)
