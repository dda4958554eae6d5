"""A real PgBouncer in transaction mode, from Debian's package: between a server and a PostgreSQL that is replaced."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg  # type: ignore[import-untyped]
import pytest

import reaper
from databases import Postgres, reachable_folder, unprivileged_user
from machine import limit
from ports import free_ports

_START_SECONDS: Final = 60.0
_FILE: Final = """
[databases]
* = host=127.0.0.1 port={target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = users
admin_users = pgbouncer
pool_mode = transaction
default_pool_size = 4
server_login_retry = 0.2
"""
"""A connection that cannot be made is tried again soon; the four are fewer than a server keeps to itself."""


class NoPgBouncerError(Exception):
    """It was installed, and did not start."""


class PgBouncer:
    """A PgBouncer that leads to one PostgreSQL, and then to another."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder = folder
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    def url(self, name: str) -> str:
        """Name a database behind it as our settings do."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}?pgbouncer=true"

    def start(self, target: Postgres) -> None:
        """Begin to serve; NoPgBouncerError."""
        (self._folder / "users").write_text('"postgres" ""\n"pgbouncer" ""\n', encoding="utf-8")
        self._write(target)
        owner = unprivileged_user()
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self._folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath), **reaper.run_variables()},
                user=owner.get("user"), group=owner.get("group"), extra_groups=[] if owner else None,
            )  # fmt: skip
        end = time.monotonic() + limit(_START_SECONDS)
        while self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise NoPgBouncerError((self._folder / "log").read_text(errors="replace"))

    def lead_to(self, target: Postgres) -> None:
        """Lead to another PostgreSQL from now on, as operators do after a failover."""
        self._write(target)
        asyncio.run(self._order("RELOAD", "RECONNECT"))

    def stop(self) -> None:
        """Stop at once; does nothing when it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_START_SECONDS)
            self._process = None

    def _write(self, target: Postgres) -> None:
        text = _FILE.format(target=target.port, port=self.port)
        (self._folder / "pgbouncer.ini").write_text(text, encoding="utf-8")

    async def _order(self, *orders: str) -> None:
        console = await asyncpg.connect(f"postgresql://pgbouncer@127.0.0.1:{self.port}/pgbouncer")
        try:
            for order in orders:
                await console.execute(order)
        finally:
            await console.close()


@contextmanager
def running_pgbouncer(target: Postgres) -> Iterator[PgBouncer]:
    """Start one in front of a PostgreSQL, and stop it whatever happens; without the program the test is skipped."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed: it is in Debian's package pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix=reaper.folder_prefix(), dir=reachable_folder(unprivileged_user())))
    folder.chmod(0o755)
    bouncer = PgBouncer(folder, program)
    try:
        bouncer.start(target)
        yield bouncer
    finally:
        bouncer.stop()
        shutil.rmtree(folder, ignore_errors=True)
