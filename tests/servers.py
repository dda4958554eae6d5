"""The real `fairlead serve` as a process, and the books behind it: started, asked, stopped, and proven."""

import asyncio
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import httpx
import psutil
from click.testing import CliRunner

from fairlead.cli import commands
from fairlead.storage.db.database import Database, open_database
from server_template import ForkedServer, fork_server, is_forkable

T = TypeVar("T")

COMMAND: Final = (sys.executable, "-m", "fairlead")
PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: httpx else reads all the world's certificates for each, 20 ms of a processor."""
_SAMPLE: Final = re.compile(r"([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)")


_ONE_AT_A_TIME: Final = threading.Lock()


class ServerFailedError(Exception):
    """A server ended instead of getting ready; its text is what it said."""


class Server:
    """A running server: its address, its first key, its data directory, and a client that sends the key."""

    def __init__(
        self,
        data: Path,
        database: str | None = None,
        catalog: Path | None = None,
        env: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.data = data
        self.database = database
        self.log = data.with_name(data.name + ".log")
        options = [*([] if database is None else ["--database", database])]
        options += [] if catalog is None else ["--catalog", str(catalog)]
        words = ["serve", "--data", str(data), "--port", "0", "--json", *options, *arguments]
        with self.log.open("ab") as log:
            self.process = _started(words, environment(env), log.fileno())
        self.url, self.key = self._ready()
        self._kept = KeptDatabase()
        self.client = httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=60, verify=PLAIN)

    def _ready(self) -> tuple[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait(60)
            self.process.stdout.close()
            raise ServerFailedError(f"exit status {status}: {self.log.read_text('utf-8')}")
        ready = json.loads(line)
        return ready["url"], ready["first_key"] or (self.data / "first-key").read_text("ascii").strip()

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop the server as an operator does, and return its exit status."""
        self.client.close()
        self._kept.close()
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def kill(self) -> None:
        """End the server as a power cut does."""
        self.stop(signal.SIGKILL)

    def cli(self, *arguments: str) -> Any:
        """Run a command on the server's data, in this process because that is quick; its JSON where it prints some."""
        try:
            with self._kept.used():
                return command(*arguments, "--data", str(self.data), *self._database_option())
        finally:
            if self.process.poll() is not None:
                self._kept.close()

    def audit(self) -> dict[str, Any]:
        """Prove the books; the report."""
        report: dict[str, Any] = self.cli("audit", "--json")
        return report

    def workspace(self, name: str = "default") -> dict[str, Any]:
        """The figures of a workspace, in dollars as text."""
        rows: list[dict[str, Any]] = self.cli("workspaces", "list", "--json")
        return next(row for row in rows if row["name"] == name)

    def ledger(self, workspace: str = "default") -> list[dict[str, Any]]:
        """The entries of a workspace, oldest first."""
        rows: list[dict[str, Any]] = self.cli("ledger", "show", workspace, "--limit", "10000", "--json")
        return rows

    def charges(self, run_id: str, workspace: str = "default") -> list[str]:
        """What was posted for a run, in dollars."""
        return [
            row["balance_change"].removeprefix("-")
            for row in self.ledger(workspace)
            if row["run_id"] == run_id and row["kind"] == "post"
        ]

    def new_workspace(self, name: str, *options: str, credit: str | None = None, models: str = "all") -> str:
        """Make a workspace with a key and return the key."""
        self.cli("workspaces", "create", name, *options)
        if credit is not None:
            self.cli("workspaces", "credit", name, credit)
        key: str = self.cli("keys", "create", name, "--models", models, "--json")["key"]
        return key

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry some labels; 0 where there is none."""
        page = self.client.get("/metrics").text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        samples = (match for line in page.splitlines() if (match := _SAMPLE.fullmatch(line)))
        return sum(
            float(value)
            for found, given, value in (sample.groups() for sample in samples)
            if found == name and all(label in (given or "") for label in wanted)
        )

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Every line of one event that the server has logged so far."""
        lines = self.log.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record.get("event") == event]

    def abandon(self, path: str, key: str, content: bytes, once: Callable[[], object], **headers: str) -> None:
        """Send a call, and leave without its answer once something is so; underscores in header names are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)) as connection:
            connection.request("POST", path, content, {"X-API-Key": key, **named})
            wait_until(once, "the moment to leave")

    def idle(self) -> None:
        """Wait until no run is under way."""
        wait_until(lambda: self.metric("fairlead_runs_in_flight") == 0, "no run in flight")

    def settled(self) -> None:
        """Prove that no run, hold or slot was left behind (the books after every test)."""
        self.idle()
        self.proven()

    def proven(self) -> None:
        """Prove the books of a server without live runs."""
        report = self.audit()
        assert report["clean"], report
        rows = self.cli("workspaces", "list", "--json")
        assert [row for row in rows if row["held"] != "0" or row["in_flight"] != 0] == []

    def _database_option(self) -> tuple[str, ...]:
        return () if self.database is None else ("--database", self.database)


class KeptDatabase:
    """The connections of commands, kept from one to the next: opening them takes far longer than what is asked.

    Commands run in an event loop of a thread of its own, so that tests with a loop may call them as well.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._runner: asyncio.Runner | None = None
        self._open: dict[str, _Unclosed] = {}

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have the commands within run in that loop, on databases that stay open."""
        with (
            _ONE_AT_A_TIME,
            patch("asyncio.run", self._run),
            patch("fairlead.server.installation.open_database", self._opened),
        ):
            yield

    def close(self) -> None:
        """Close them; used again, they are opened again."""
        for database in self._open.values():
            self._run(database.closed())
        if self._thread is not None and self._runner is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
        self._thread, self._runner, self._open = None, None, {}

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._thread = self._thread or ThreadPoolExecutor(1)
        self._runner = self._runner or asyncio.Runner()
        return self._thread.submit(self._runner.run, work).result()

    def _opened(self, url: str) -> Database:
        if url not in self._open:
            self._open[url] = _Unclosed(open_database(url))
        return self._open[url]


class _Unclosed:
    """A database that does not mind being closed by who has not opened it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.write = database.write
        self.read = database.read
        self.closed = database.close

    async def close(self) -> None:
        """Stay open."""


def _started(words: list[str], env: Mapping[str, str], stderr: int) -> "subprocess.Popen[bytes] | ForkedServer":
    """Start a command, its modules loaded already if its environment allows that."""
    if is_forkable(env):
        return fork_server(words, env, stderr)
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=stderr, env=env)


@contextmanager
def serving(
    data: Path,
    *,
    database: str | None = None,
    catalog: Path | None = None,
    env: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = (),
) -> Iterator[Server]:
    """Run a server; afterwards it must end with status 0 and leave clean books, unless the test ended it."""
    server = Server(data, database, catalog, env, arguments)
    try:
        yield server
    except BaseException:
        server.kill()
        raise
    was_running = server.process.poll() is None
    status = server.stop()
    if was_running:
        assert status == 0, server.log.read_text("utf-8")
    server.proven()
    assert server.logged("UnexpectedError") == []


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without the settings of anyone who runs the tests, who ask faster than any caller may.

    Most tests execute no workflow, and are spared the processes for it. Where root runs them, packs are loaded as root:
    a setting of its own, which an operator has to give.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    allowed = {"FAIRLEAD_ENGINE_ALLOW_ROOT": "true"} if os.getuid() == 0 else {}
    usual = {"FAIRLEAD_LOG_FORMAT": "json", "FAIRLEAD_REQUESTS_PER_MINUTE": "0", "FAIRLEAD_ENGINE": "false"}
    return {**ours, **usual, **allowed, **(more or {})}


def command(*arguments: str) -> Any:
    """Run a command that must succeed; its JSON where it printed some, else its text."""
    result = CliRunner().invoke(commands, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1 if "audit" in arguments else 0), result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@contextmanager
def killed_at_last(process: "subprocess.Popen[Any]") -> Iterator[None]:
    """Kill a process when the block is left, if it still runs: `with Popen` would wait for it forever."""
    try:
        yield
    finally:
        process.kill()


def is_alive(process: int) -> bool:
    """Return whether a process goes on; one that has ended and waits for its parent does not."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], T], what: str, seconds: float = 60, pause: float = 0.02) -> T:
    """Ask until the answer is true, within bounds; AssertionError says what was waited for in vain."""
    give_up_at = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"waited in vain for: {what}"
        time.sleep(pause)
    return found


async def wait_until_async(condition: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Ask as `wait_until` does, while an event loop goes on."""
    return await asyncio.to_thread(wait_until, condition, what, seconds)
