"""The engine host: a process that belongs to one workspace, executes its nodes for a server, and ends with it.

`python -m fairlead.engine.hosts.program --fd N --forks N` is the first of them; a server has the other ends of the two
sockets. The main thread reads what the server sends, so that an answer, a request to stop or a ping is noticed whatever
nodes do. Workflows are executed in one thread with an event loop of its own, checked in a few others, and pictures are
rendered in one.
"""

import argparse
import asyncio
import faulthandler
import os
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec

from fairlead.engine.hosts.host import Host
from fairlead.engine.hosts.loading import Loaded
from fairlead.engine.hosts.server import JobConnection, ServerConnection
from fairlead.engine.hosts.service import HOST_SERVICE, HostService
from fairlead.engine.hosts.template import Template
from fairlead.processes.confinement.limits import die_with_parent
from fairlead.processes.confinement.policy import ConfinementError
from fairlead.processes.rpc import Call, Cancel, Method, finish

Work: TypeAlias = Coroutine[object, object, None]
_CHECKS_AT_ONCE: Final = 4
_BROKEN: Final = 3
UNCONFINED: Final = 4
"""The exit code of a host that could not be confined as required, and has loaded nothing."""


def main(server: int, forks: int) -> None:
    """Serve as an engine process for the server at the other end of two sockets, until it ends. Does not return."""
    die_with_parent()
    try:
        Template(server, forks, _become_host).run()
    except ConfinementError as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        os._exit(UNCONFINED)
    except ValueError:
        os._exit(1)
    finally:
        # At once: what packs have registered for the end of the process must not delay it.
        os._exit(0)


def _become_host(folder: str, cache: int, loaded: Loaded, server: socket.socket) -> "_Threads":
    _be_quiet()
    return _Threads(Host(folder, cache, loaded), ServerConnection(server))


def _be_quiet() -> None:
    """Discard what nodes print. A fatal error is still written to the previous standard error."""
    last_words = os.fdopen(os.dup(2), "wb", buffering=0)
    faulthandler.enable(last_words)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Threads:
    """The threads of a host, and which of them does what."""

    def __init__(self, host: Host, connection: ServerConnection) -> None:
        self._host = host
        self._connection = connection
        self._loop = asyncio.new_event_loop()
        self._open: dict[int, JobConnection] = {}
        self._executions: set[asyncio.Task[None]] = set()
        self._checks = ThreadPoolExecutor(_CHECKS_AT_ONCE, "check")
        self._renders = ThreadPoolExecutor(1, "render")
        self._own = threading.local()
        self._where: Mapping[str, Callable[[Work], object]] = {
            HostService.execute.__name__: lambda work: self._loop.call_soon_threadsafe(self._begin, work),
            HostService.check.__name__: lambda work: self._checks.submit(self._run, work),
            HostService.survey.__name__: lambda work: self._checks.submit(finish, work),
            HostService.render.__name__: lambda work: self._renders.submit(finish, work),
            # A ping is answered by the reading thread, whatever the others are doing.
            HostService.ping.__name__: finish,
        }
        threading.Thread(target=self._execute_forever, name="jobs", daemon=True).start()

    def serve(self) -> None:
        """Do what the server asks, until it has ended."""
        while (record := self._connection.read()) is not None:
            match record:
                case Call(method=name) if name in HOST_SERVICE:
                    self._where[name](self._answer(record, HOST_SERVICE[name]))
                case Cancel(number=number) if number in self._open:
                    self._open[number].stop.set()
                case Call() | Cancel():
                    pass  # it has finished with all that
                case _:
                    self._connection.hear(record)

    def _answer(self, call: Call[msgspec.Raw], method: Method) -> Work:
        connection = JobConnection(self._connection, call.number)
        if method.callbacks is None:
            work = method.call(self._host, call.arguments)
        else:
            self._open[call.number] = connection
            work = method.call(self._host, call.arguments, connection)

        async def answer() -> None:
            with _last_resort():
                connection.answer(await work)
            self._open.pop(call.number, None)

        return answer()

    def _execute_forever(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            os._exit(_BROKEN)

    def _begin(self, work: Work) -> None:
        task = self._loop.create_task(work)
        self._executions.add(task)
        task.add_done_callback(self._executions.discard)

    def _run(self, work: Work) -> None:
        """Process a queue, in one event loop for each thread: making a loop takes longer than most checks."""
        if not hasattr(self._own, "runner"):
            self._own.runner = asyncio.Runner()
        self._own.runner.run(work)


@contextmanager
def _last_resort() -> Iterator[None]:
    """A bug ends the process: the server notices that, and does not wait forever."""
    try:
        yield
    except BaseException:  # noqa: BLE001 -- nothing else would report it
        os._exit(_BROKEN)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairlead.engine.hosts.program", description="Executes nodes.")
    parser.add_argument("--fd", type=int, required=True, help="the open socket to the server")
    parser.add_argument("--forks", type=int, required=True, help="the open socket on which requests to fork arrive")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.fd, given.forks)
