"""A server with a registry, and callers who publish."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import httpx
import pytest

from api.conftest import SETTINGS, NewName
from api.registry.publishing import Publishing
from databases import Postgres
from servers import Server, serving

NewPublishing: TypeAlias = Callable[[], Publishing]


@pytest.fixture(scope="session")
def registry(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server the tests of this folder share, on PostgreSQL."""
    database = postgres.url(postgres.create())
    data = tmp_path_factory.mktemp("registry") / "data"
    with serving(data, database=database, env=SETTINGS, arguments=("--no-local-partner",)) as server:
        yield server


@pytest.fixture(scope="session")
def anybody(registry: Server) -> Iterator[httpx.Client]:
    """Return a client without a credential."""
    with httpx.Client(base_url=registry.url, timeout=60) as client:
        yield client


@pytest.fixture
def new_publishing(registry: Server, anybody: httpx.Client, new_name: NewName) -> NewPublishing:
    """Return a function that makes a caller in a workspace of its own, with a publisher."""

    def make() -> Publishing:
        name = new_name()
        caller = Publishing(registry, anybody, name, registry.new_workspace(name), f"pub-{name}")
        document = {"id": caller.publisher, "name": name}
        assert caller.ask("POST", "/publishers", json=document).status_code == 201
        return caller

    return make


@pytest.fixture
def publishing(new_publishing: NewPublishing) -> Publishing:
    """Return a caller with a publisher."""
    return new_publishing()
