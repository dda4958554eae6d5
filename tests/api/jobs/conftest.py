"""Servers of the jobs API, one on each kind of database, and callers of theirs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from api.conftest import SETTINGS, NewName
from api.jobs.callers import JobsCaller
from databases import Postgres
from servers import Server, serving

BACKLOG: Final = 4
_PACKS: Final = Path(__file__).parents[1] / "cloud" / "packs"
ENGINE: Final = {
    **SETTINGS,
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(_PACKS),
    "FAIRLEAD_JOBS_BACKLOG": str(BACKLOG),
    "FAIRLEAD_WORKFLOW_LIMIT_MIB": "2",
    "FAIRLEAD_DRAIN_SECONDS": "1",
}

NewJobsCaller: TypeAlias = Callable[..., JobsCaller]


@pytest.fixture(scope="session")
def jobs_server(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server the tests of this folder share, on PostgreSQL."""
    database = postgres.url(postgres.create())
    data = tmp_path_factory.mktemp("jobs") / "data"
    with serving(data, database=database, env=ENGINE, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture
def new_jobs_caller(jobs_server: Server, new_name: NewName) -> Iterator[NewJobsCaller]:
    """Return a function that makes a workspace, with the options of `new_workspace`; no job of it is left behind."""
    made: list[JobsCaller] = []

    def make(*options: str) -> JobsCaller:
        name = f"jobs-{new_name()}"
        made.append(JobsCaller(jobs_server, name, jobs_server.new_workspace(name, *options)))
        return made[-1]

    yield make
    for caller in made:
        caller.stops()


@pytest.fixture
def caller(new_jobs_caller: NewJobsCaller) -> JobsCaller:
    """Return a caller in a workspace of this test."""
    return new_jobs_caller()


@pytest.fixture(scope="session")
def visitor(jobs_server: Server) -> JobsCaller:
    """Return a caller in a workspace in which nothing is ever changed: for tests of what is refused or only read."""
    return JobsCaller(jobs_server, "visited", jobs_server.new_workspace("visited"))
