"""Keeping a partner program available: a separate program on a socket that this process opened for it.

The program is started when the socket gets its first connection, so a server that never runs a local model never pays
for it. The socket outlives the program: callers during its start or restart wait instead of being refused. The
program's standard input is a pipe from this process: when this process ends in any way, so does the program.
"""

import asyncio
import secrets
import socket
from typing import Final

from fairlead.observing.observations import Observer, PartnerStarted, PartnerStopped
from fairlead.processes.child import Child, Program
from fairlead.processes.exits import Exit, Restarts

PROCEDURAL: Final = "fairlead_partners.procedural"
SIMULATOR: Final = "fairlead_partners.simulator"
_BACKLOG: Final = 1024
_STOP_SECONDS: Final = 5.0
_RESTART_FIRST: Final = 0.4
_STEADY_SECONDS: Final = 30.0


class PartnerProgram:
    """A program of ours as a child process: the built-in partner, or the partner simulator.

    `module` is run with `--fd` and `--exit-with-stdin`. `token` is a shared secret, new with every start.
    """

    def __init__(self, module: str, observe: Observer) -> None:
        self._module = module
        self._observe = observe
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.token = secrets.token_urlsafe(32)
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def supervise(self) -> None:
        """Start the program whenever a connection waits and it does not run, until cancelled; then stop it."""
        restarts, loop = Restarts(_RESTART_FIRST, steady=_STEADY_SECONDS), asyncio.get_running_loop()
        try:
            while True:
                await self._wait_for_connection()
                started = loop.time()
                try:
                    ended = await self._run_once()
                except OSError as error:  # the machine has no process or no memory left at the moment
                    ended = Exit(None, None, f"it could not be started: {error.strerror}")
                self._observe(PartnerStopped(ended.code, ended.reason or ended.words))
                await asyncio.sleep(restarts.pause_after(loop.time() - started))
        finally:
            self._socket.close()

    async def _wait_for_connection(self) -> None:
        """Return when a connection waits to be accepted."""
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        loop.add_reader(self._socket.fileno(), called.set)
        try:
            await called.wait()
        finally:
            loop.remove_reader(self._socket.fileno())

    async def _run_once(self) -> Exit:
        descriptor = self._socket.fileno()
        child = await Child.start(
            Program(
                self._module,
                ("--fd", str(descriptor), "--exit-with-stdin"),
                {"PROCEDURAL_TOKEN": self.token},
                ("TMPDIR",),
                (descriptor,),
                is_tied=True,
                shares_errors=True,
            )
        )
        self._observe(PartnerStarted(child.pid))
        try:
            return await asyncio.shield(child.exited)
        finally:
            if not child.exited.done():
                await child.end("the server ends", _STOP_SECONDS, by_signal=True)
