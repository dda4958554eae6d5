"""Servers that execute workflows, one on each kind of database, and callers of theirs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from api.cloud.clients import Client
from api.conftest import SETTINGS, NewName
from servers import Server, serving

BACKLOG: Final = 4
ORIGIN: Final = "https://editor.example:8443"
"""Of an editor that is served from elsewhere."""
_PACKS: Final = Path(__file__).with_name("packs")
_SETTINGS: Final = {
    **SETTINGS,
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(_PACKS),
    "FAIRLEAD_JOBS_BACKLOG": str(BACKLOG),
    "FAIRLEAD_WORKFLOW_LIMIT_MIB": "2",
    "FAIRLEAD_DRAIN_SECONDS": "1",
    "FAIRLEAD_ALLOWED_ORIGINS": f"http://localhost:5173, {ORIGIN}",
}

NewCloudClient: TypeAlias = Callable[..., Client]


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server the tests of this folder share, on SQLite."""
    data = tmp_path_factory.mktemp("cloud") / "data"
    with serving(data, env=_SETTINGS, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture
def new_cloud_client(cloud: Server, new_name: NewName) -> Iterator[NewCloudClient]:
    """Return a function that makes a workspace, with the options of `new_workspace`; no job of it is left behind."""
    made: list[Client] = []

    def make(*options: str, **more: Any) -> Client:
        name = new_name()
        made.append(Client(cloud, name, cloud.new_workspace(name, *options, **more)))
        return made[-1]

    yield make
    for client in made:
        client.stops()


@pytest.fixture
def caller(new_cloud_client: NewCloudClient) -> Client:
    """Return a caller in a workspace of this test, with the subscription of a new workspace."""
    return new_cloud_client()


@pytest.fixture(scope="session")
def visitor(cloud: Server) -> Client:
    """Return a caller in a workspace in which nothing is ever changed: for tests of what is refused or only read."""
    return Client(cloud, "visited", cloud.new_workspace("visited"))
