"""Servers of one's own: what these tests do to a server, no other test should meet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_partner import CatalogFolder, FakePartner, running_partner


@pytest.fixture(scope="session")
def shared_partner() -> Iterator[FakePartner]:
    """Return the partner all tests of this folder share."""
    with running_partner() as running:
        yield running


@pytest.fixture
def partner(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return the partner with nothing scripted and nothing remembered."""
    shared_partner.reset()
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def catalog(tmp_path: Path, partner: FakePartner) -> CatalogFolder:
    """Return a catalog folder with the partner and one model of it."""
    folder = CatalogFolder(tmp_path / "catalog")
    folder.add_provider(partner.url)
    folder.add_model("fake/json-1")
    return folder
