"""What every folder of tests may ask for: databases of both kinds, and one event loop a test."""

import asyncio
import gc
import os
import shutil
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from httpx._config import create_ssl_context
from httpx._transports import default as httpx_transports
from hypothesis import settings

import branch_coverage
import machine
import reaper
import second_try
from cluster.form import SQLITE, ManyServers
from compilation import compile_tests
from compiled_statements import share_compiled_statements
from databases import KINDS, Postgres, migrate_url, opened_database, running_postgres
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import WaitingDatabase, open_database
from fairlead.storage.ledger import ledger
from fake_partner import FakePartner, running_partner
from nats_servers import NatsServer, running_nats
from s3_store import S3Server, running_store
from servers import Form

# The same examples every time, so that a commit is judged by itself; `HYPOTHESIS_PROFILE=search` looks for new ones.
settings.register_profile("fairlead", deadline=None, max_examples=30, print_blob=True, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fairlead"))

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
_ON_BOTH_KINDS = ("storage", "operations/accounts", "operations/ledger")
"""Folders whose tests run on each kind of database (CONTRIBUTING.md says which tests need that)."""
_CONNECT_SECONDS = 12.0
_WORKERS_OF_A_CORE = 2
_GC_OBJECTS = 50_000
_TESTS = Path(__file__).parent
_LONG = (
    "providers/test_catalog_runs.py",
    "cli/test_demo.py",
    "cluster/test_form.py",
    "form/test_console.py",
    "end_to_end/test_crash.py",
    "end_to_end/test_crash_walk.py",
)
"""The files whose tests take longest."""


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` makes: two for each core that we may use.

    With three the same tests took an eighth more processor time, and were no faster. By itself xdist counts the
    machine's physical cores, even where we are confined to a few of them.
    """
    return _cores() * _WORKERS_OF_A_CORE


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile the tests once, for all of the processes that are about to be started."""
    compile_tests((config.invocation_params.dir / argument.partition("::")[0] for argument in config.args), _cores())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the form of the servers be chosen, and a second try of what failed."""
    told = "start two servers and a worker behind a load balancer wherever tests start a server"
    parser.addoption("--cluster", action="store_true", help=told)
    second_try.add_option(parser)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of some folders once on each kind of database, but for those that name a kind themselves."""
    folder = metafunc.definition.path.parent.relative_to(_TESTS).as_posix()
    named = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")]
    if "database_url" in metafunc.fixturenames and folder.startswith(_ON_BOTH_KINDS) and "database_url" not in named:
        metafunc.parametrize("database_url", KINDS, indirect=True)


@pytest.hookimpl(trylast=True)  # pytest sorts tests by their fixtures, too
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the long tests. Skip what is about one server, where each is an installation of several."""
    if hasattr(config, "workerinput"):
        _begin_with_long(items, config.workerinput["workercount"])
    if not config.getoption("--cluster"):
        return
    for item in items:
        if mark := item.get_closest_marker("single_server"):
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))
        elif "sqlite" in _parameters(item):
            item.add_marker(pytest.mark.skip(reason=SQLITE))


def _begin_with_long(items: list[pytest.Item], processes: int) -> None:
    """Put the long tests at the heads of the blocks that `--dist worksteal` makes of the tests, one for each process.

    Its processes steal from the ends of those blocks; what is long and at an end is waited for by all of the others.
    """
    files = [[item for item in items if item.path == _TESTS / name] for name in _LONG]
    others = iter([item for item in items if item.path not in {_TESTS / name for name in _LONG}])
    ordered: list[pytest.Item] = []
    for number in range(processes):
        size = (len(items) - len(ordered)) // (processes - number)
        head = list(chain.from_iterable(files[number::processes]))
        ordered += [*head, *islice(others, max(0, size - len(head)))]
    items[:] = [*ordered, *others]


def _parameters(item: pytest.Item) -> Collection[object]:
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else callspec.params.values()


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads its limit
def pytest_configure(config: pytest.Config) -> None:
    """Have everything ended that this run starts, also when it is killed; its workers inherit the run's mark."""
    if not hasattr(config, "workerinput"):
        reaper.watch_this_run()
        machine.measure()
        os.environ["PYTEST_TIMEOUT"] = str(machine.limit(float(config.getini("timeout"))))
    branch_coverage.measure(config)
    second_try.configure(config)
    share_compiled_statements()
    vars(httpx_transports)["create_ssl_context"] = cache(create_ssl_context)  # else each new client takes 20 ms


def pytest_collection_finish() -> None:
    """Hide the tests from the garbage collector, which would look at fifteen thousand of them forever.

    Every hundred objects is also too often for it: tests drop what they make.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS, *gc.get_threshold()[1:])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Return the PostgreSQL server of this test process, started when the first test asks for it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsServer]:
    """Return the NATS server of this test process, started when the first test asks for it."""
    with running_nats() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Return the S3-compatible store of this test process, started when the first test asks for it."""
    with running_store() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have servers be installations of several processes where that was asked for."""
    if not request.config.getoption("--cluster"):
        yield
        return
    many = ManyServers(*(request.getfixturevalue(name) for name in ("postgres", "nats", "s3_server")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Form, "install", many.install)
        yield


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a migrated SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(migrate_url(f"sqlite:///{path}"))
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """Return the URL of a fresh, migrated SQLite database."""
    path = tmp_path / "fairlead.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgresql_url(postgres: Postgres) -> Iterator[str]:
    """Return the URL of a fresh, migrated PostgreSQL database."""
    name = postgres.lend()
    yield postgres.url(name)
    postgres.take_back(name)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a fresh, migrated database: SQLite, or the kind that a test names as an indirect parameter."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    return url


@pytest.fixture(params=KINDS)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database without any tables; the test runs once on each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_bare()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def run() -> Iterator[Run]:
    """Return a function that runs a coroutine, always in the same event loop of this test."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def database(database_url: str, run: Run) -> Iterator[Database]:
    """Return an open, migrated database that belongs to the loop of `run`."""
    opened_database: Database = open_database(database_url)
    if database_url.startswith("postgresql"):  # whose connections take longer than their bound beside busy loops
        opened_database = WaitingDatabase(opened_database, machine.limit(_CONNECT_SECONDS))
    yield opened_database
    run(opened_database.close())


@pytest.fixture
def proven_books(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prove after the test that the books add up. Made autouse by the folders whose tests move money."""
    url = request.getfixturevalue("database_url") if "database_url" in request.fixturenames else None
    yield
    if url is None:
        return
    if url.startswith("postgresql"):
        server: Postgres = request.getfixturevalue("postgres")
        assert server.read(url, ledger.disagreements) == []
    else:
        assert asyncio.run(_disagreements(url)) == []


async def _disagreements(url: str) -> list[dict[str, Any]]:
    async with opened_database(url) as database:
        return await database.read(ledger.disagreements)


@pytest.fixture(scope="session")
def shared_partner() -> Iterator[FakePartner]:
    """Return the partner all tests of a process share."""
    with running_partner() as running:
        yield running


@pytest.fixture
def partner(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner with nothing scripted and nothing remembered."""
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()
