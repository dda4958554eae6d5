"""Starts servers without loading their modules each time: a process that has loaded them is forked for each server.

Two thirds of the processor time of a start are imports, and the tests start hundreds of servers. What a fork executes
from then on is the `fairlead` command with its words and its environment, in a process of its own, which may be
signalled and killed as any other. Python and its libraries read the environment while they are loaded. So a server
whose environment differs in more than the product's variables is started as a program instead (`is_forkable`).
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_MOST_BYTES: Final = 1 << 20
_FOLLOWED: Final = ("FAIRLEAD_", "PYTEST_")
"""Variables that nothing reads before a server starts."""

_STATUS_BYTES: Final = 4


class ForkedServer:
    """A process that was forked, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, stdout: int, status: int) -> None:
        """Take over the reading ends of its output, and of the pipe that will hold its exit status."""
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = open(stdout, "rb")  # noqa: SIM115 -- a pipe; who reads it closes it
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs; a signal's number is negative."""
        return self._collect(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one; subprocess.TimeoutExpired after `timeout` seconds."""
        status = self._collect(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _collect(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, _STATUS_BYTES)
            os.close(self._status)
            # Nothing is told where the template itself was killed, and its servers with it.
            self.returncode = int.from_bytes(told, signed=True) if told else -signal.SIGKILL
        return self.returncode


def is_forkable(environment: Mapping[str, str]) -> bool:
    """Return whether a server of this environment differs from the template in settings of the product alone."""
    return _read_early(environment) == (_running[0].environment if _running else _read_early(os.environ))


def fork_server(arguments: Sequence[str], environment: Mapping[str, str], stderr: int) -> ForkedServer:
    """Start the `fairlead` command in a fork; its standard output is a pipe, its errors go to a descriptor."""
    stdout, told = os.pipe()
    status, ended = os.pipe()
    request = {"arguments": list(arguments), "environment": dict(environment), "folder": str(Path.cwd())}
    try:
        with _ONE_AT_A_TIME:
            requests = _template().requests
            socket.send_fds(requests, [json.dumps(request).encode()], [told, stderr, ended])
            pid = int(requests.recv(_MOST_BYTES))
    finally:
        os.close(told)
        os.close(ended)
    return ForkedServer(pid, stdout, status)


@dataclass(frozen=True, slots=True)
class _Template:
    process: subprocess.Popen[bytes]
    requests: socket.socket
    environment: Mapping[str, str]

    def close(self) -> None:
        """Have the template end; its servers go on."""
        self.requests.close()
        self.process.wait()


_ONE_AT_A_TIME: Final = threading.Lock()
_running: Final[list[_Template]] = []
"""The template of this process, once a server was asked for. It ends with its socket, hence with this process."""


def _template() -> _Template:
    if not _running:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            process = subprocess.Popen(
                [sys.executable, __file__, str(number)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                pass_fds=[number], start_new_session=True,  # Ctrl-C is for the tests, which then stop their servers
            )  # fmt: skip
        _running.append(_Template(process, ours, _read_early(os.environ)))
        atexit.register(_running[0].close)
    return _running[0]


def _read_early(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_FOLLOWED)}


def main(number: int) -> None:
    """Fork servers until the tests end."""
    _load_modules()
    with socket.socket(fileno=number) as requests:
        request = _serve(requests)
    if request is not None:  # we are a server now
        _become(request)
        from fairlead.cli import main as command  # noqa: PLC0415 -- loaded long ago

        command()


def _load_modules() -> None:
    """Load what servers load, whatever their settings."""
    import fairlead.cli.serve  # noqa: PLC0415 -- only the template loads the product
    import fairlead.server  # noqa: PLC0415 -- same

    gc.disable()
    for name in ("sqlalchemy.ext.asyncio", "sqlalchemy.dialects.postgresql.asyncpg", "asyncpg"):
        importlib.import_module(name)
    for module in pkgutil.iter_modules(fairlead.server.__path__, "fairlead.server."):
        importlib.import_module(module.name)
    _load_shipped_files()
    gc.freeze()
    gc.enable()


def _load_shipped_files() -> None:
    """Load the catalog that ships, which is most of what is left of a start."""
    from catalog_samples import shipped_catalog  # noqa: PLC0415 -- only the template loads the product
    from fairlead.operations import catalog as catalogs  # noqa: PLC0415 -- same
    from fairlead.storage.catalog.reader import fingerprint  # noqa: PLC0415 -- same

    load, loaded = vars(catalogs)["load_catalog"], list[tuple[Any, Any]]()

    def load_catalog(folders: Sequence[Path], *rest: Any) -> Any:
        files = [fingerprint(folder) for folder in folders], list(folders), *rest
        for known, catalog in loaded:
            if known == files:
                return catalog
        loaded.append((files, load(folders, *rest)))
        return loaded[-1][1]

    vars(catalogs)["load_catalog"] = load_catalog
    shipped_catalog()


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request, and tell how each ended; the request in a fork, None at the end of the tests."""
    children, ended = os.pipe()
    for end in (children, ended):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ended)
    statuses: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([requests.fileno(), children], [], [])
        if children in readable:
            os.read(children, _MOST_BYTES)
            _report(statuses)
        if requests.fileno() in readable:
            content, passed, _, _ = socket.recv_fds(requests, _MOST_BYTES, 3)
            if not content:
                return None
            stdout, stderr, status = passed
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(stdout, 1)
                os.dup2(stderr, 2)
                for descriptor in (children, ended, *passed, *statuses.values()):
                    os.close(descriptor)
                request: dict[str, Any] = json.loads(content)
                return request
            statuses[pid] = status
            os.close(stdout)
            os.close(stderr)
            requests.send(str(pid).encode())


def _report(statuses: dict[int, int]) -> None:
    """Tell of every process that has ended; a signal that came twice is noticed once."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = statuses.pop(pid)
        with suppress(BrokenPipeError):
            os.write(told, os.waitstatus_to_exitcode(status).to_bytes(_STATUS_BYTES, signed=True))
        os.close(told)


def _become(request: dict[str, Any]) -> None:
    match request:
        case {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.argv = ["fairlead", *arguments]
        case _:
            raise ValueError("no request")


if __name__ == "__main__":
    main(int(sys.argv[1]))
