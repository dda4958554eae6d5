"""Keeping a partner program at hand: a separate program on a socket that this process opened for it.

The program is started when the socket gets its first connection, so a server that never runs a local model never pays
for it. The socket outlives the program: callers during its start or restart wait instead of being refused. The
program's standard input is a pipe of ours: when we die, however we die, it ends too.
"""

import asyncio
import os
import secrets
import socket
import sys
from contextlib import suppress
from typing import Final

from fairlead.observing.observations import Observer, PartnerStarted, PartnerStopped

PROCEDURAL: Final = "fairlead.partners.procedural"
SIMULATOR: Final = "fairlead.partners.simulator"
_BACKLOG: Final = 1024
_STOP_SECONDS: Final = 5.0
_RESTART_FIRST: Final = 0.2
_RESTART_MAX: Final = 10.0
_STEADY_SECONDS: Final = 30.0


class PartnerProgram:
    """A program of ours as a child process: the built-in partner, or the partner simulator.

    `module` is run with `--fd` and `--exit-with-stdin`. `token` is what it and we share, new with every start.
    """

    def __init__(self, module: str, observe: Observer) -> None:
        self._module = module
        self._observe = observe
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.token = secrets.token_urlsafe(32)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def supervise(self) -> None:
        """Start the program whenever somebody wants it and it does not run, until cancelled; then stop it."""
        pause = _RESTART_FIRST
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._wanted()
                started = loop.time()
                code = await self._run_once()
                self._observe(PartnerStopped(code))
                pause = _RESTART_FIRST if loop.time() - started > _STEADY_SECONDS else min(pause * 2, _RESTART_MAX)
                await asyncio.sleep(pause)
        finally:
            self._socket.close()

    async def _wanted(self) -> None:
        """Return when a connection waits to be accepted."""
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        loop.add_reader(self._socket.fileno(), called.set)
        try:
            await called.wait()
        finally:
            loop.remove_reader(self._socket.fileno())

    async def _run_once(self) -> int | None:
        descriptor = self._socket.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            "--fd",
            str(descriptor),
            "--exit-with-stdin",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C is meant for us; we stop it when our runs have ended
            env=_environment(self.token),
        )
        self._observe(PartnerStarted(process.pid))
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await _stop(process)


def _environment(token: str) -> dict[str, str]:
    """Only what a Python program needs, and the shared token: no other secret of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH") if name in os.environ}
    return {**kept, "PROCEDURAL_TOKEN": token}


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
