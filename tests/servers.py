"""The real `fairlead serve` as a process, and the books behind it: started, asked, stopped, and proven."""

import asyncio
import http.client
import json
import math
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Protocol, TypeVar
from unittest.mock import patch

import httpx
import psutil
from click.testing import CliRunner
from sqlalchemy import Connection, select

from fairlead.cli import commands
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import WaitingDatabase, open_database
from fairlead.storage.db.tables import workspaces
from fairlead.storage.ledger import ledger
from machine import limit
from server_template import fork_server, is_forkable

T = TypeVar("T")

COMMAND: Final = (sys.executable, "-m", "fairlead")
PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: httpx else reads all the world's certificates for each, 20 ms of a processor."""
_SAMPLE: Final = re.compile(r"([a-z_]+)(\{.*\})? ([0-9.e+-]+)")
_STANDSTILL_SECONDS: Final = 120
"""Longer than it takes until a server goes on with a run whose takeover was written without its knowing."""
_FINDERS: Final = frozenset({"audit", "doctor"})
"""Commands that exit with 1 where they have found something."""
_ONE_AT_A_TIME: Final = threading.Lock()
_RESTARTED_SECONDS: Final = 5.0
"""How long a command waits for a database whose server a test has restarted: the connections that are kept are cut."""


class ServerFailedError(Exception):
    """A server ended instead of getting ready; its text is what it said."""


class Process(Protocol):
    """A process that tests have started, forked or not."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...  # noqa: D102 -- as subprocess.Popen has it

    def wait(self, timeout: float | None = None) -> int: ...  # noqa: D102 -- same

    def send_signal(self, number: int, /) -> None: ...  # noqa: D102 -- same

    def terminate(self) -> None: ...  # noqa: D102 -- same


@dataclass(frozen=True)
class Order:
    """What a server is to be started with; `program` is how the `fairlead` command is called."""

    data: Path
    database: str | None = None
    catalog: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    program: Sequence[str] | None = None
    log_of: Path | None = None
    """The data directory beside which it logs, where that is not its own."""

    @property
    def log(self) -> Path:
        """Where what is started for it logs."""
        data = self.log_of or self.data
        return data.with_name(data.name + ".log")

    def start(self, *words: str) -> Process:
        """Start a command on what was ordered, which logs there and prints a line of JSON when it is ready."""
        options = [] if self.database is None else ["--database", self.database]
        options += [] if self.catalog is None else ["--catalog", str(self.catalog)]
        with self.log.open("ab") as log:
            given = [*words, "--data", str(self.data), "--json", *options, *self.arguments]
            return start_command(given, environment(self.env), log.fileno(), self.program)

    def wait_until_ready(self, process: Process) -> dict[str, Any]:
        """Wait for that line; ServerFailedError where the process ends instead."""
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            status = process.wait(limit(60))
            process.stdout.close()
            raise ServerFailedError(f"exit status {status}: {self.log.read_text('utf-8')}")
        ready: dict[str, Any] = json.loads(line)
        return ready


@dataclass(frozen=True)
class Installation:
    """What runs for an order: its processes, the address of its API, those of its metrics, and where its books are."""

    processes: Sequence[Process]
    url: str
    first_key: str | None
    operator_urls: Sequence[str]
    database: str | None
    store: Mapping[str, str]
    """The settings by which commands find its files."""
    close: Callable[[], None] = lambda: None

    def stop(self, by: int) -> list[int]:
        """End every process by a signal; their exit statuses."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(by)
        statuses = [_end(process) for process in self.processes]
        self.close()
        return statuses


def one_server(order: Order) -> Installation:
    """Start one server, which is all of its installation."""
    process = order.start("serve", "--port", "0")
    ready = order.wait_until_ready(process)
    store = {**store_settings(order.env), **({} if order.catalog is None else {"FAIRLEAD_CATALOG": str(order.catalog)})}
    return Installation([process], ready["url"], ready["first_key"], [ready["url"]], order.database, store)


def store_settings(env: Mapping[str, str]) -> Mapping[str, str]:
    """Those of some settings that say where files are."""
    return {name: value for name, value in env.items() if name.startswith("FAIRLEAD_BLOBS")}


class Form:
    """What is started for `Server`: one server, unless the tests are told otherwise (`--cluster`)."""

    install: ClassVar[Callable[[Order], Installation]] = staticmethod(one_server)


class Server:
    """A running server: its address, its first key, its data directory, and a client that sends the key.

    With `--cluster` it is an installation of several processes behind a load balancer (`cluster/form.py`).
    """

    def __init__(
        self,
        data: Path,
        database: str | None = None,
        catalog: Path | None = None,
        env: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        program: Sequence[str] | None = None,
    ) -> None:
        order = Order(data, database, catalog, env or {}, arguments, program)
        self._installation = Form.install(order)
        self.store = self._installation.store
        self.data = data
        self.log = order.log
        self.database = self._installation.database
        self.url = self._installation.url
        self.key = self._installation.first_key or (data / "first-key").read_text("ascii").strip()
        self._kept = KeptDatabase()
        self.client = httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=limit(60), verify=PLAIN)

    @property
    def process(self) -> Process:
        """The only process of a server that is alone; who asks for it is marked `single_server`."""
        (process,) = self._installation.processes
        return process

    @property
    def size(self) -> int:
        """How many processes of ours it is: each tells an operator of itself."""
        return len(self._installation.processes)

    @property
    def is_running(self) -> bool:
        """Whether none of its processes has ended."""
        return all(process.poll() is None for process in self._installation.processes)

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop the server as an operator does, and return its exit status: one that is not 0, where there is any."""
        self.client.close()
        self._kept.close()
        return next((status for status in self._installation.stop(by) if status), 0)

    def kill(self) -> None:
        """End the server as a power cut does."""
        self.stop(signal.SIGKILL)

    def cli(self, *arguments: str) -> Any:
        """Run a command on the server's data, in this process because that is quick; its JSON where it prints some."""
        try:
            with self._kept.use(), self._store_environment():
                return command(*arguments, "--data", str(self.data), *self._database_option())
        finally:
            if not self.is_running:
                self._kept.close()

    def _store_environment(self) -> AbstractContextManager[object]:
        """The settings of its store; without any, the environment is not copied for every command."""
        return patch.dict(os.environ, self.store) if self.store else nullcontext()

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
        """The sum of a metric's samples that carry some labels, over all its processes; 0 where there is none."""
        pages = [self.client.get(f"{url}/metrics").text for url in self._installation.operator_urls]
        return sum(metric_of(page, name, **labels) for page in pages)

    def logged_events(self, event: str) -> list[dict[str, Any]]:
        """Every line of one event that the server has logged so far."""
        lines = self.log.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record.get("event") == event]

    def abandon(self, path: str, key: str, content: bytes, once: Callable[[], object], **headers: str) -> None:
        """Send a call, and leave without its answer once something is so; underscores in header names are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=limit(30))) as connection:
            connection.request("POST", path, content, {"X-API-Key": key, **named})
            wait_until(once, "the moment to leave")

    def idle(self) -> None:
        """Wait until no run is under way."""
        wait_until(lambda: self.metric("fairlead_runs_in_flight") == 0, "no run in flight")

    def wait_until_drained(self) -> None:
        """Wait until no run of the default workspace is live, as long as their number goes on falling."""
        live, give_up_at = math.inf, 0.0
        while left := self.workspace()["in_flight"]:
            if left < live:
                live, give_up_at = left, time.monotonic() + limit(_STANDSTILL_SECONDS)
            assert time.monotonic() < give_up_at, f"these stayed live: {self._live()}"
            time.sleep(0.1)

    def prove_settled(self) -> None:
        """Prove that no run, hold or slot was left behind (the books after every test).

        As `proven` does it, but for the stored files, and without the commands: thousands of tests end with it.
        """
        wait_until(lambda: not self.busy_workspaces(), "no run is under way, and nothing is held")
        assert self._read(ledger.disagreements) == []

    def busy_workspaces(self) -> list[dict[str, Any]]:
        """The workspaces that have something held, or a run under way."""
        return self._read(_busy_workspaces)

    def _read(self, work: Callable[[Connection], T]) -> T:
        """Read its books without a command, over the connection that commands have."""
        try:
            return self._kept.read(database_url(self.data, self.database), work)
        finally:
            if not self.is_running:
                self._kept.close()

    def _live(self) -> dict[str, str]:
        """The model of each run of the default workspace that is not settled, by the run's id."""
        rows = self.ledger()
        ended = {row["run_id"] for row in rows if row["kind"] != "hold"}
        return {row["run_id"]: row["model_id"] for row in rows if row["run_id"] not in ended}

    def proven(self) -> None:
        """Prove the books of a server without live runs."""
        report = self.audit()
        assert report["clean"], report
        rows = self.cli("workspaces", "list", "--json")
        assert [row for row in rows if row["held"] != "0" or row["in_flight"] != 0] == []

    def _database_option(self) -> tuple[str, ...]:
        return () if self.database is None else ("--database", self.database)


def database_url(data: Path, database: str | None) -> str:
    """The URL of a server's database, which is a file in its data directory unless another was asked for."""
    return Settings(data=data, database=database).database_url()


def _busy_workspaces(connection: Connection) -> list[dict[str, Any]]:
    figures = select(workspaces.c.name, workspaces.c.held, workspaces.c.in_flight)
    busy = figures.where((workspaces.c.held != 0) | (workspaces.c.in_flight != 0))
    return [dict(row) for row in connection.execute(busy).mappings()]


def metric_of(page: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples on a page that carry some labels; 0 where there is none."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    samples = (match for line in page.splitlines() if (match := _SAMPLE.fullmatch(line)))
    return sum(
        float(value)
        for found, given, value in (sample.groups() for sample in samples)
        if found == name and all(label in (given or "") for label in wanted)
    )


class KeptDatabase:
    """The connections of commands, kept from one to the next: opening them takes far longer than what is asked.

    Commands run in an event loop of a thread of its own, so that tests with a loop may call them as well.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._runner: asyncio.Runner | None = None
        self._open: dict[str, _Unclosed] = {}

    @contextmanager
    def use(self) -> Iterator[None]:
        """Have the commands within run in that loop, on databases that stay open."""
        with (
            _ONE_AT_A_TIME,
            patch("asyncio.run", self._run),
            patch("fairlead.server.installation.open_database", self._database_at),
        ):
            yield

    def read(self, url: str, work: Callable[[Connection], T]) -> T:
        """Read a database as a command would."""
        with _ONE_AT_A_TIME:
            return self._run(self._database_at(url).read(work))

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

    def _database_at(self, url: str) -> Database:
        if url not in self._open:
            self._open[url] = _Unclosed(WaitingDatabase(open_database(url), limit(_RESTARTED_SECONDS)))
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


def start_command(
    words: list[str], env: Mapping[str, str], stderr: int, program: Sequence[str] | None = None
) -> Process:
    """Start a command, its modules loaded already if it is ours and its environment allows that."""
    if program is None and is_forkable(env):
        return fork_server(words, env, stderr)
    return subprocess.Popen([*(program or COMMAND), *words], stdout=subprocess.PIPE, stderr=stderr, env=env)


def _end(process: Process) -> int:
    status = process.wait(limit(60))
    if process.stdout is not None:
        process.stdout.close()
    return status


@contextmanager
def serving(
    data: Path,
    *,
    database: str | None = None,
    catalog: Path | None = None,
    env: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    program: Sequence[str] | None = None,
) -> Iterator[Server]:
    """Run a server; afterwards it must end with status 0 and leave clean books, unless the test ended it.

    `program` is how the `fairlead` command is called, where it is that of another version.
    """
    server = Server(data, database, catalog, env, arguments, program)
    try:
        yield server
    except BaseException:
        server.kill()
        raise
    was_running = server.is_running
    status = server.stop()
    if was_running:
        assert status == 0, server.log.read_text("utf-8")
    server.proven()
    assert server.logged_events("UnexpectedError") == []


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without the settings of anyone who runs the tests, who ask faster than any caller may.

    Most tests execute no workflow, and are spared the processes for it. Where root runs them, packs are loaded as root:
    a setting of its own, which an operator has to give.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    allowed = {"FAIRLEAD_ENGINE_ALLOW_ROOT": "true"} if os.getuid() == 0 else {}
    usual = {
        "FAIRLEAD_LOG_FORMAT": "json",
        "FAIRLEAD_REQUESTS_PER_MINUTE": "0",
        "FAIRLEAD_READS_PER_MINUTE": "0",
        "FAIRLEAD_ENGINE": "false",
    }
    return {**ours, **usual, **allowed, **(more or {})}


def command(*arguments: str) -> Any:
    """Run a command that must succeed; its JSON where it printed some, else its text."""
    result = CliRunner().invoke(commands, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1 if _FINDERS.intersection(arguments) else 0), result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@contextmanager
def kill_at_last(process: "subprocess.Popen[Any]") -> Iterator[None]:
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
    """Ask until the answer is true, within bounds; AssertionError says what was waited for in vain.

    `seconds` are those of an idle machine.
    """
    give_up_at = time.monotonic() + limit(seconds)
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"waited in vain for: {what}"
        time.sleep(pause)
    return found


async def wait_until_async(condition: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Ask as `wait_until` does, while an event loop goes on."""
    return await asyncio.to_thread(wait_until, condition, what, seconds)
