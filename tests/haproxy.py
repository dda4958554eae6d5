"""A real HAProxy with the file that `deploy/compose` ships, in front of servers on this machine."""

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

import reaper
from deploy.kit import DEPLOY
from machine import limit
from ports import free_ports

ADDRESS: Final = "127.0.0.1"
"""Where it connects from; servers know it as a proxy's."""
_START_SECONDS: Final = 60.0
_OURS: Final = "global\n    stats socket {path} mode 600 level user\n"
"""A second file, which lets tests ask what the balancer thinks of each server."""
_CONNECTIONS: Final = "1000"
"""Fewer than the file says, for machines with few open files."""


class NoHaproxyError(Exception):
    """It was installed, and did not start."""


class Haproxy:
    """Balances requests over the servers at some ports, of which any may be down."""

    def __init__(self, folder: Path, program: str, ports: Sequence[int]) -> None:
        (self._port,) = free_ports(1)
        self.url = f"http://{ADDRESS}:{self._port}"
        self._statistics = folder / "statistics.sock"
        self._log = folder / "haproxy.log"
        (folder / "haproxy.cfg").write_text(shipped_file(self._port, ports), encoding="utf-8")
        (folder / "ours.cfg").write_text(_OURS.format(path=self._statistics), encoding="utf-8")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-n", _CONNECTIONS, "-f", "haproxy.cfg", "-f", "ours.cfg"], cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=reaper.run_variables(),
            )  # fmt: skip

    def is_ready(self, port: int) -> bool:
        """Whether the server at a port gets requests."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(limit(_START_SECONDS))
            connection.connect(str(self._statistics))
            connection.sendall(b"show stat\n")
            rows = b"".join(iter(lambda: connection.recv(65536), b"")).decode().splitlines()
        names = rows[0].removeprefix("# ").split(",")
        states = {row[1]: row[names.index("status")] for row in (line.split(",") for line in rows[1:]) if len(row) > 1}
        return states[_name(port)].startswith("UP")

    def wait_until_started(self) -> None:
        """Wait until it takes connections; NoHaproxyError."""
        end = time.monotonic() + limit(_START_SECONDS)
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(OSError):
                socket.create_connection((ADDRESS, self._port), 1).close()
                if self._statistics.exists():  # it comes last
                    return
            time.sleep(0.02)
        raise NoHaproxyError(self._log.read_text(errors="replace"))

    def stop(self) -> None:
        """Stop at once; does nothing when it has stopped."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_START_SECONDS)


def shipped_file(port: int, servers: Sequence[int]) -> str:
    """Return the shipped file, but for where it listens and which servers there are."""
    text = (DEPLOY / "compose" / "haproxy.cfg").read_text(encoding="utf-8")
    text, ours = re.subn(r"(?m)^    bind :8080$", f"    bind {ADDRESS}:{port}", text)
    text, theirs = re.subn(r"(?m)^    server server\d server\d:8080\n", "", text)
    assert (ours, theirs) == (1, 3)
    return text + "".join(f"    server {_name(one)} {ADDRESS}:{one}\n" for one in servers)


def haproxy_program() -> str | None:
    """Return the program, where it is installed."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")


def find_haproxy() -> str:
    """Return the program; without it the test is skipped."""
    program = haproxy_program()
    if program is None:
        pytest.skip("haproxy is not installed: it is in Debian's package haproxy")
    return program


@contextmanager
def running_haproxy(folder: Path, ports: Sequence[int], program: str | None = None) -> Iterator[Haproxy]:
    """Start one, and stop it whatever happens."""
    balancer = Haproxy(folder, program or find_haproxy(), ports)
    try:
        balancer.wait_until_started()
        yield balancer
    finally:
        balancer.stop()


def _name(port: int) -> str:
    return f"at-{port}"
