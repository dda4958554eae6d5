"""One child process, from its start to its end, with everything it starts and everything it writes."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec.structs import replace

from fairlead.processes.exits import Exit, exit_of
from fairlead.processes.tree import ProcessTree

LAST_WORDS_BYTES: Final = 16_384
_END_SECONDS: Final = 2.0
_ALWAYS_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL")
_SPAWNER: Final = ThreadPoolExecutor(1, "spawn")
"""Never shut down: a child that dies with its parent (`die_with_parent`) dies when the thread that started it ends."""


class Program(msgspec.Struct, frozen=True):
    """A Python program to start: `python -m module arguments`.

    It gets `environment` and what every program needs, the variables named in `passed_on`, and the open `descriptors`
    by their numbers. It works in `folder`, which is made for it and removed after it; without one it works in our
    folder. With `is_tied` its standard input is a pipe that is closed when this process ends in any way. The end of its
    standard error is kept as its last words; where it `shares_errors`, it writes to ours.
    """

    module: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    passed_on: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    folder: Path | None = None
    is_tied: bool = False
    shares_errors: bool = False


class Child:
    """A process that was started. `exited` is set when it has ended and none of its descendants is left."""

    def __init__(
        self,
        tree: ProcessTree,
        status: Coroutine[object, object, int | None],
        errors: IO[bytes] | None,
        folder: Path | None,
    ) -> None:
        """Watch a process. `status` waits for its end; `errors` is where its standard error goes, and becomes ours."""
        self.tree: Final = tree
        self.exited: Final[asyncio.Future[Exit]] = asyncio.get_running_loop().create_future()
        self.folder: Final = folder
        self._errors = errors
        self._reason: str | None = None
        self._watching: Final = asyncio.ensure_future(self._watch(status))

    @classmethod
    async def start(cls, program: Program) -> "Child":
        """Start a program. OSError when that cannot be; nothing is left of it then."""
        if program.folder is not None:
            program.folder.mkdir(mode=0o700)
        with ExitStack() as undone:
            if program.folder is not None:
                undone.callback(shutil.rmtree, program.folder, ignore_errors=True)
            errors = None if program.shares_errors else undone.enter_context(unnamed_file(program.folder))
            process = await _spawn(program, errors)
            undone.pop_all()
        return cls(ProcessTree(process.pid), _status(process), errors, program.folder)

    @classmethod
    async def start_connected(cls, program: Program) -> "tuple[Child, socket.socket]":
        """Start a program with `--fd N`, its end of a pair of sockets; the other end is returned. OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                arguments = ("--fd", str(theirs.fileno()), *program.arguments)
                descriptors = (theirs.fileno(), *program.descriptors)
                child = await cls.start(replace(program, arguments=arguments, descriptors=descriptors))
        except BaseException:
            ours.close()
            raise
        return child, ours

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.tree.pid

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or is about to end because it was asked to."""
        return self._reason is not None or self.exited.done()

    def kill(self, reason: str) -> None:
        """End it with all it has started, at once. The first reason that was given counts."""
        self._reason = self._reason or reason
        if not self.exited.done():
            self.tree.kill()

    async def end(self, reason: str, seconds: float = _END_SECONDS, *, by_signal: bool = False) -> Exit:
        """Give it some seconds to end by itself, asked to `by_signal` or otherwise, then kill it."""
        self._reason = self._reason or reason
        if by_signal and not self.exited.done():
            self.tree.terminate()
        await asyncio.wait({self._watching}, timeout=seconds)
        self.kill(reason)
        await asyncio.shield(self._watching)
        return self.exited.result()

    async def _watch(self, status: Coroutine[object, object, int | None]) -> None:
        code = await status
        # Its control group knows, which is removed with the rest of the tree.
        ran_out = self.tree.has_run_out_of_memory
        await asyncio.to_thread(self.tree.clear)
        words = _take_last_words(self._errors)
        self.exited.set_result(exit_of(code, self._reason or self.tree.reason, words, has_run_out_of_memory=ran_out))
        if self.folder is not None:
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


def unnamed_file(folder: Path | None) -> IO[bytes]:
    """A file without a name: a child could replace a named one by something that this process must not read."""
    return tempfile.TemporaryFile(dir=folder)


async def readable(descriptor: int) -> None:
    """Return when there is something to read from a descriptor."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(descriptor)


async def _spawn(program: Program, errors: IO[bytes] | None) -> "subprocess.Popen[bytes]":
    """Start a program in a thread: uvloop would copy the page tables of a large server, for tens of milliseconds.

    A cancelled caller still waits for it, as it may use descriptors that are closed afterwards.
    """
    starting = asyncio.get_running_loop().run_in_executor(_SPAWNER, _popen, program, errors)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        if starting.exception() is None:
            starting.result().kill()
            await _status(starting.result())
        raise


def _popen(program: Program, errors: IO[bytes] | None) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 -- our own interpreter with our own module
        [
            sys.executable,
            "-P",  # nothing is imported from the folder it is in
            "-m",
            program.module,
            *program.arguments,
        ],
        stdin=subprocess.PIPE if program.is_tied else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=tuple(program.descriptors),
        start_new_session=True,  # Ctrl-C is meant for us; and what it starts can be ended with it
        cwd=program.folder,
        env=_environment(program.environment, passed_on=program.passed_on),
    )


async def _status(process: "subprocess.Popen[bytes]") -> int:
    """How a program has ended: its code, or a signal as a negative number."""
    try:
        if process.returncode is not None:  # it was reaped when it was killed, and the pid is free
            return process.returncode
        if not hasattr(os, "pidfd_open"):
            return await asyncio.to_thread(process.wait)
        watch = os.pidfd_open(process.pid)
        try:
            await readable(watch)
        finally:
            os.close(watch)
        return process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()


def _environment(more: Mapping[str, str], *, passed_on: Sequence[str] = ()) -> dict[str, str]:
    """The variables every program needs, those named in `passed_on` where we have them, and `more`.

    The folders of PYTHONPATH are made absolute: a child may work in another folder.
    """
    kept = {name: os.environ[name] for name in (*_ALWAYS_PASSED_ON, *passed_on) if name in os.environ}
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    return {**kept, **more}


def _take_last_words(errors: IO[bytes] | None) -> str:
    """The end of the process's output, which is the only hint why it died."""
    if errors is None:
        return ""
    with errors as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS_BYTES))
        return file.read(LAST_WORDS_BYTES).decode("utf-8", "replace")
