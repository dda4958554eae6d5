"""`fairlead secret`: a rotation as an operator does it, beside a running server that follows (S-10)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from click.testing import CliRunner, Result

from databases import KINDS, Postgres
from fairlead.cli import commands
from fairlead.server.installation import DataDirectoryError
from fake_partner import CatalogFolder, FakePartner, reply, running_partner
from servers import Server, serving, wait_until

pytestmark = pytest.mark.req("S-10")
_KEY: Final = "sk-a-key-that-is-sealed-0123456789"
Ran = Callable[..., Result]


@pytest.fixture(scope="module")
def partner() -> Iterator[FakePartner]:
    """Return a partner that answers."""
    with running_partner() as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def server(
    partner: FakePartner, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return a server with a partner, on each kind of database."""
    postgres: Postgres | None = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    database = None if postgres is None else postgres.url(postgres.create())
    folder = tmp_path_factory.mktemp("secret")
    partner.script("/json", reply(200, b'{"made":true}'))
    catalog = CatalogFolder(folder / "catalog")
    catalog.add_provider(partner.url)
    catalog.add_model("fake/json-1")
    with serving(
        folder / "data", database=database, catalog=catalog.path, arguments=("--no-local-partner",)
    ) as running:
        yield running


@pytest.fixture
def ran(server: Server, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Return a function that runs a command on the installation of the server; no secret is ever printed."""
    if server.database is not None:
        monkeypatch.setenv("FAIRLEAD_DATABASE", server.database)

    def run(*arguments: str) -> Result:
        done = CliRunner().invoke(commands, ["secret", *arguments, "--data", str(server.data)])
        assert not any(line.split()[0] in done.output for line in _file(server).read_text().splitlines())
        return done

    return run


def _file(server: Server) -> Path:
    return server.data / "secret-key"


def _runs_with_own_key(server: Server, partner: FakePartner) -> bool:
    """Whether a run is made with the workspace's own key."""
    answered = server.client.post("/v2/models/fake/json-1", json={"prompt": "a"})
    return answered.status_code == 200 and _KEY in str(partner.requests("/json")[-1].headers)


def test_server_goes_on_through_a_rotation_and_its_end(server: Server, partner: FakePartner, ran: Ran) -> None:
    """Its keys open, its webhook secret stays, and the secret of before is forgotten only when it may be."""
    assert server.client.put("/v2/provider-keys/fake", json={"key": _KEY}).status_code in (200, 201)
    told = server.client.get("/v2/webhook-secret").json()["secret"]
    first = json.loads(ran("list", "--json").output)[0]["name"]
    assert _runs_with_own_key(server, partner)
    prepared = json.loads(ran("rotate", "--prepare", "--json").output)["prepared"]
    assert _runs_with_own_key(server, partner)
    done = json.loads(ran("rotate", "--json").output)
    assert (done["current"], done["resealed"], done["unreadable"]) == (prepared, 1, 0)
    assert [row["state"] for row in json.loads(ran("list", "--json").output)] == ["current", "former"]
    assert _runs_with_own_key(server, partner)
    early = ran("finish")
    assert early.exit_code == 1
    assert "--now" in early.output
    assert ran("finish", "--now").exit_code == 0
    left = json.loads(ran("list", "--json").output)
    assert [row["name"] for row in left] == [prepared] != [first]
    wait_until(lambda: _runs_with_own_key(server, partner), "a run with the key that is sealed again")
    assert server.client.get("/v2/webhook-secret").json()["secret"] == told
    assert _file(server).stat().st_mode & 0o777 == 0o600
    assert ran("reseal").exit_code == 0


def test_setting_is_rotated_by_hand(server: Server, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says how; with both secrets in the setting, what the second sealed is sealed with the first."""
    old = _file(server).read_text().split()[0]
    new = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", f"{new},{old}")
    refused = ran("rotate")
    assert refused.exit_code == 1
    assert "fairlead secret reseal" in refused.output
    assert json.loads(ran("reseal", "--json").output)["unreadable"] == 0
    assert [row["sealed"] for row in json.loads(ran("list", "--json").output)][1] == 0
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", f"{old},{new}")  # as it was, for the server
    assert ran("reseal").exit_code == 0


def test_file_that_is_broken_is_told_without_what_it_holds(server: Server, tmp_path: Path) -> None:
    """One line names the file and its form."""
    broken = tmp_path / "data"
    broken.mkdir()
    (broken / "secret-key").write_text("c2VjcmV0\nformer\n")
    (broken / "secret-key").chmod(0o600)
    done = CliRunner().invoke(
        commands, ["secret", "list", "--data", str(broken), "--database", server.database or _sqlite(server)]
    )
    assert isinstance(done.exception, DataDirectoryError)
    assert "c2VjcmV0" not in str(done.exception)


def _sqlite(server: Server) -> str:
    return f"sqlite:///{server.data / 'fairlead.db'}"


def test_healthy_afterwards(server: Server) -> None:
    """The server of these tests is still ready."""
    assert httpx.get(server.url + "/readyz", timeout=30).status_code == 200
