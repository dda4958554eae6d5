"""A server with an administration API, on SQLite, and people of every role."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from api.admin.members import Person, add_member, first_operator
from api.conftest import SETTINGS, NewName, fill
from fake_partner import CatalogFolder, FakePartner
from servers import Server, serving

NewPerson: TypeAlias = Callable[..., Person]


@pytest.fixture(scope="session")
def site(shared_partner: FakePartner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server the tests of this folder share."""
    with serving(**_options(shared_partner, tmp_path_factory.mktemp("admin"))) as server:
        yield server


@pytest.fixture
def broken_site(shared_partner: FakePartner, tmp_path: Path) -> Iterator[Server]:
    """Return a server of this test alone, whose database the test breaks: its log may have unexpected errors."""
    server = Server(**_options(shared_partner, tmp_path))
    try:
        yield server
    finally:
        server.kill()


def _options(partner: FakePartner, folder: Path) -> dict[str, Any]:
    catalog = CatalogFolder(folder / "catalog")
    fill(catalog, partner.url)
    return {
        "data": folder / "data",
        "catalog": catalog.path,
        # Tests sign in from one address, more often than anybody may: a trusted proxy tells them apart.
        "env": {**SETTINGS, "FAIRLEAD_TRUSTED_PROXIES": "127.0.0.1"},
        "arguments": ("--no-local-partner",),
    }


@pytest.fixture(scope="session")
def operator(site: Server) -> Person:
    """Return the operator that the first start has made."""
    return first_operator(site)


@pytest.fixture
def workspace(site: Server, new_name: NewName) -> str:
    """Return the name of a workspace of this test."""
    name = new_name()
    site.cli("workspaces", "create", name)
    return name


@pytest.fixture
def new_person(operator: Person, workspace: str, new_name: NewName) -> NewPerson:
    """Return a function that makes a person with a role in the workspace of this test, or in another."""

    def make(role: str = "member", where: str = workspace) -> Person:
        return add_member(operator, where, role, new_name())

    return make
