"""Moderators as their server holds them: started when needed, asked in turn, replaced when they do not answer."""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fairlead.moderation.protocol import LINE_BYTES_MAX, Failure, Question, Ready, Said, Verdict, line_of

_START_SECONDS: Final = 60.0
_LINE_MAX: Final = 50
"""How many files of one workspace may want a verdict at a time: each lies on the disk until it has one."""
_KEPT_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "HOME")
_SAID: Final = msgspec.json.Decoder(Said)


class ModeratorNotStartedError(Exception):
    """A moderator did not come to be asked; the words say why."""


class NoVerdictError(Exception):
    """Nobody has said whether some bytes are blocked; the words say why."""


@dataclass(frozen=True, slots=True)
class ModerationSettings:
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
            said = await self._asked(question)
        if isinstance(said, Verdict):
            return said
        raise NoVerdictError(said.why if isinstance(said, Failure) else "it has said what it may not")

    @asynccontextmanager
    async def _turn(self, workspace_id: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(workspace_id, _Line(self._settings.processes))
        if line.length >= _LINE_MAX:
            raise NoVerdictError(f"{_LINE_MAX} files of the workspace already wait for a verdict")
        line.length += 1
        try:
            async with AsyncExitStack() as stack:
                await self._waited(line, stack)
                yield
        finally:
            line.length -= 1
            if line.length == 0:
                del self._lines[workspace_id]

    async def _waited(self, line: "_Line", stack: AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(self._settings.seconds):
                await stack.enter_async_context(line.turns)
                await stack.enter_async_context(self._turns)
        except TimeoutError as error:
            raise NoVerdictError(f"nobody was free to judge it within {self._settings.seconds:g} s") from error

    async def _asked(self, question: Question) -> Said:
        """What a moderator says, which is ended unless it has said something that it may."""
        moderator = await self._free_one()
        try:
            said = await moderator.ask(question, self._settings.seconds)
        except BaseException:
            await self._end(moderator)
            raise
        self._idle.append(moderator)
        return said

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
            moderator = await _Moderator.launch(self._settings)
        except OSError as error:
            raise ModeratorNotStartedError(str(error)) from error
        self._all.add(moderator)
        try:
            await moderator.come()
        except BaseException:
            await self._end(moderator)
            raise
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
    """One process, the socket to it, and a folder of its own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        folder: Path,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._folder = folder
        self._watching = asyncio.ensure_future(self._watch())

    @classmethod
    async def launch(cls, settings: ModerationSettings) -> "_Moderator":
        """Start a process; it has yet to come. OSError."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=settings.folder))
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await _spawn(settings, folder, theirs.fileno())
            return cls(process, *await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES_MAX), folder)
        except BaseException:
            ours.close()
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise

    @property
    def is_gone(self) -> bool:
        """Whether it has ended while nobody asked."""
        return self._reader.at_eof() or self._process.returncode is not None

    async def come(self) -> None:
        """Return when it has loaded the callable; ModeratorNotStartedError with what has kept it from that."""
        try:
            said = await self._heard(_START_SECONDS)
        except NoVerdictError as error:
            raise ModeratorNotStartedError(str(error)) from error
        if not isinstance(said, Ready):
            raise ModeratorNotStartedError(said.why if isinstance(said, Failure) else "it has said what it may not")

    async def ask(self, question: Question, seconds: float) -> Said:
        """Ask, and wait for the answer. NoVerdictError."""
        self._writer.write(line_of(question))
        return await self._heard(seconds)

    async def end(self) -> None:
        """End the process with all it has started, and clear up after it; ending it again does nothing."""
        if self._process.returncode is None:
            self._kill()
        self._writer.close()
        await asyncio.shield(self._watching)
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _watch(self) -> None:
        """End what the process has started, at once when it has ended: later its number may be somebody else's."""
        await self._process.wait()
        self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _heard(self, seconds: float) -> Said:
        try:
            async with asyncio.timeout(seconds):
                line = await self._reader.readline()
                if not line.endswith(b"\n"):
                    raise NoVerdictError(f"its process ended {_how(await self._process.wait())}")
        except TimeoutError as error:
            raise NoVerdictError(f"it has said nothing for {seconds:g} s") from error
        except OSError as error:
            raise NoVerdictError("its process has gone away") from error
        except ValueError as error:
            raise NoVerdictError("it has said too much") from error
        try:
            said: Said = _SAID.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NoVerdictError("it has said what it may not") from error
        return said


async def _spawn(settings: ModerationSettings, folder: Path, descriptor: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing is imported from the folder it is in
        "-m",
        "fairlead.moderation",
        "--fd",
        str(descriptor),
        "--memory",
        str(settings.memory),
        settings.source,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,  # Ctrl-C is meant for us; and what it starts can be ended with it
        cwd=folder,
        env=_environment(folder),
    )


def _environment(folder: Path) -> dict[str, str]:
    """Only what a Python program needs: no secret of ours. What it leaves in the temporary folder goes with it."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    paths = os.environ.get("PYTHONPATH", "")
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in paths.split(os.pathsep) if path)
    return {**kept, "TMPDIR": str(folder)}


def _how(code: int) -> str:
    if code >= 0:
        return f"with the code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _empty(folder: Path) -> None:
    """Make the folder of moderators, without what a server has left there that was killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
