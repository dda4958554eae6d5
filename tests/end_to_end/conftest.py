"""Servers of one's own: what these tests do to a server, no other test should meet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import Postgres
from fake_partner import CatalogFolder, FakePartner


@pytest.fixture
def catalog(tmp_path: Path, partner: FakePartner) -> CatalogFolder:
    """Return a catalog folder with the partner and one model of it."""
    folder = CatalogFolder(tmp_path / "catalog")
    folder.add_provider(partner.url, is_postponed=True)
    folder.add_model("fake/json-1")
    return folder


@pytest.fixture(params=["sqlite", "postgresql"])
def either_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database that servers may be killed on; the test runs once on each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/fresh.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)
