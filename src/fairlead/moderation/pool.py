"""Moderators as their server holds them: started when needed, asked in turn, replaced when they do not answer."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec

from fairlead.moderation.protocol import FRAME_BYTES_MAX, MODERATOR, Failure, Moderator, Question, Verdict
from fairlead.processes.child import Child, Program
from fairlead.processes.rpc import Answer, BadFrameError, Call, Record, encode_frame, receive

_START_SECONDS: Final = 60.0
_LINE_MAX: Final = 50
"""How many files of one workspace may want a verdict at a time: each lies on the disk until it has one."""
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class ModeratorNotStartedError(Exception):
    """A moderator did not come to be asked; the words say why."""


class NoVerdictError(Exception):
    """Nobody has said whether some bytes are blocked; the words say why."""


class ModerationSettings(msgspec.Struct, frozen=True):
    """How moderators are run.

    `source` is `module:function` or `path.py:function`. A turn is waited for, and a verdict, for `seconds` each. There
    are at most `processes`, each with `memory` in bytes (0 no bound); what they leave behind lies in `folder`.
    """

    source: str
    folder: Path
    seconds: float
    processes: int
    memory: int


class Moderators:
    """The moderators of a server: as many as are asked at the same time, up to a bound.

    Of one workspace no more files wait beside those of others than can be judged at a time; the rest waits behind them.
    """

    def __init__(self, settings: ModerationSettings) -> None:
        self._settings = settings
        self._turns = asyncio.Semaphore(settings.processes)
        self._lines: dict[str, _Line] = {}
        self._idle: list[_Moderator] = []
        self._all: set[_Moderator] = set()
        self._numbers = itertools.count()

    async def begin(self) -> None:
        """Start the first, which shows that the callable can be loaded. ModeratorNotStartedError; OSError."""
        await asyncio.to_thread(_empty, self._settings.folder)
        self._idle.append(await self._start())

    async def close(self) -> None:
        """End them all; who still waits for a verdict has none."""
        await asyncio.gather(*(self._end(moderator) for moderator in list(self._all)))

    async def judge(self, workspace_id: str, question: Question) -> Verdict:
        """Ask for a verdict on some bytes of a workspace. NoVerdictError."""
        async with self._turn(workspace_id):
            found = await self._ask(question)
        if isinstance(found, Failure):
            raise NoVerdictError(found.why)
        return found

    @asynccontextmanager
    async def _turn(self, workspace_id: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(workspace_id, _Line(self._settings.processes))
        if line.length >= _LINE_MAX:
            raise NoVerdictError(f"{_LINE_MAX} files of the workspace already wait for a verdict")
        line.length += 1
        try:
            async with AsyncExitStack() as stack:
                await self._wait(line, stack)
                yield
        finally:
            line.length -= 1
            if line.length == 0:
                del self._lines[workspace_id]

    async def _wait(self, line: "_Line", stack: AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(self._settings.seconds):
                await stack.enter_async_context(line.turns)
                await stack.enter_async_context(self._turns)
        except TimeoutError as error:
            raise NoVerdictError(f"nobody was free to judge it within {self._settings.seconds:g} s") from error

    async def _ask(self, question: Question) -> Verdict | Failure:
        """What a moderator answers, which is ended unless it does as it may."""
        moderator = await self._free_one()
        try:
            found = await moderator.call(self._settings.seconds, Moderator.judge, question)
        except BaseException:
            await self._end(moderator)
            raise
        self._idle.append(moderator)
        return found

    async def _free_one(self) -> "_Moderator":
        while self._idle:
            moderator = self._idle.pop()
            if not moderator.is_gone:
                return moderator
            await self._end(moderator)
        try:
            return await self._start()
        except ModeratorNotStartedError as error:
            raise NoVerdictError(f"it could not be started: {error}") from error

    async def _start(self) -> "_Moderator":
        try:
            moderator = await _Moderator.launch(self._settings, next(self._numbers))
        except OSError as error:
            raise ModeratorNotStartedError(str(error)) from error
        self._all.add(moderator)
        try:
            failure = await moderator.call(_START_SECONDS, Moderator.load, self._settings.source)
        except NoVerdictError as error:
            failure = Failure(str(error))
        except BaseException:
            await self._end(moderator)
            raise
        if failure is not None:
            await self._end(moderator)
            raise ModeratorNotStartedError(failure.why)
        return moderator

    async def _end(self, moderator: "_Moderator") -> None:
        await moderator.end()
        self._all.discard(moderator)


class _Line:
    """The files of one workspace that want a verdict, and how many of them may keep others waiting."""

    def __init__(self, places: int) -> None:
        self.turns = asyncio.Semaphore(places)
        self.length = 0


class _Moderator:
    """One process, and the socket to it."""

    def __init__(self, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer

    @classmethod
    async def launch(cls, settings: ModerationSettings, number: int) -> "_Moderator":
        """Start a process; it has yet to come. OSError."""
        folder = settings.folder / str(number)
        program = Program(
            "fairlead.moderation.program",
            ("--memory", str(settings.memory)),
            {"TMPDIR": str(folder)},
            ("HOME",),
            folder=folder,
        )
        child, line = await Child.start_connected(program)
        try:
            return cls(child, *await asyncio.open_unix_connection(sock=line, limit=FRAME_BYTES_MAX))
        except BaseException:
            line.close()
            await child.end("its start was given up", 0)
            raise

    @property
    def is_gone(self) -> bool:
        """Whether it has ended while nobody asked."""
        return self._reader.at_eof() or self._child.is_ending

    async def call(
        self,
        seconds: float,
        method: Callable[Concatenate[S, P], Awaitable[T]],
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call a method of `protocol.Moderator`. NoVerdictError where nothing comes of it."""
        declared = MODERATOR[method.__name__]
        self._writer.write(encode_frame(Call(1, 0, declared.name, declared.arguments(given, named)), FRAME_BYTES_MAX))
        try:
            async with asyncio.timeout(seconds):
                record = await self._receive()
            found: T = declared.read_result(record.value if isinstance(record, Answer) else b"")
        except TimeoutError as error:
            raise NoVerdictError(f"it has said nothing for {seconds:g} s") from error
        except OSError as error:
            raise NoVerdictError("its process has gone away") from error
        except BadFrameError as error:
            raise NoVerdictError("it has said what it may not") from error
        return found

    async def end(self) -> None:
        """End the process with all it has started; ending it again does nothing."""
        await self._child.end("nobody asks it any more", 0)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _receive(self) -> Record:
        try:
            return await receive(self._reader, FRAME_BYTES_MAX)
        except asyncio.IncompleteReadError as error:
            raise NoVerdictError(f"its process {(await asyncio.shield(self._child.exited)).words}") from error


def _empty(folder: Path) -> None:
    """Make the folder of moderators, without what a server has left there that was killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
