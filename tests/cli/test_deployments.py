"""`fairlead deployments`: what an operator types, and what is said to it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.storage.db.database import Database
from storage.bookings import LAB, Books

Ran = Callable[..., Result]


@pytest.fixture
def ran(database: Database, run: Run, database_url: str, tmp_path: Path) -> Ran:
    """Return a function that runs a command about the deployments of a workspace."""
    Books(database, run).open()

    def run_command(*arguments: str) -> Result:
        where = ("--workspace", f"{LAB}-name", "--data", str(tmp_path), "--database", database_url)
        return CliRunner().invoke(commands, ["deployments", *arguments, *where])

    return run_command


def test_deployment_is_created_and_listed(ran: Ran) -> None:
    """It is made for a server to prepare; packs are named one by one, are none, or are all there are."""
    assert ran("list").output == "There are no deployments.\n"
    made = json.loads(ran("create", "pictures", "--pack", "crop", "--pack", "blur", "--json").output)
    assert (made["state"], made["packs"], made["last_release"]) == ("not_ready", None, 1)
    id_ = made["id"]
    assert ran("create", "plain", "--no-packs").output.startswith("Made plain-")
    assert ran("release", id_, "--no-packs").output == (
        f"Made release 2 of {id_}. It serves when a server has prepared it.\n"
    )
    assert json.loads(ran("release", id_, "--json").output)["packs"] is None
    table = ran("releases", id_).output.splitlines()
    assert [line.split()[0] for line in table] == ["version", "3", "2", "1"]
    assert [release["packs"] for release in json.loads(ran("releases", id_, "--json").output)] == [
        None, [], ["blur", "crop"],
    ]  # fmt: skip
    assert " all " in table[1]


def test_deployment_is_stopped_started_and_deleted(ran: Ran) -> None:
    """Each command says what is so now; doing it twice is no mistake, but for deleting."""
    id_ = json.loads(ran("create", "pictures", "--json").output)["id"]
    for _ in range(2):
        assert ran("stop", id_).output == f"Stopped {id_}.\n"
    for _ in range(2):
        assert ran("start", id_).output == f"{id_} is not ready.\n"
    assert json.loads(ran("stop", id_, "--json").output)["state"] == "stopped"
    assert ran("delete", id_).output == f"Deleted {id_}.\n"
    gone = ran("delete", id_)
    assert (gone.exit_code, gone.output) == (1, f"Error: there is no deployment {id_} in this workspace\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "Not_A_Label"), "A name has 1 to 40 characters"),
        (("create", "a", "--pack", "x", "--no-packs"), "name packs, or ask for none of them"),
        (("create", "a", "--pack", ""), "names of 1 to 255 characters"),
        (("create", "a", "--pool", "GPU"), "A pool must be 1 to 32 of a-z, 0-9 and -"),
        (("set", "pictures-00000000", "--pool", "gpu"), "there is no deployment pictures-00000000"),
        (("set", "pictures-00000000", "--pool", ""), "A pool must be 1 to 32"),
        (("set", "pictures-00000000"), "name a pool with --pool, or ask for none with --no-pool"),
        (("set", "pictures-00000000", "--pool", "gpu", "--no-pool"), "name a pool with --pool"),
        (("release", "pictures-00000000"), "there is no deployment pictures-00000000"),
        (("stop", "../x"), "there is no deployment ../x"),
    ],
)
def test_impossible_deployment_is_refused_in_one_line(ran: Ran, arguments: tuple[str, ...], told: str) -> None:
    """A line says why, and nothing is made."""
    result = ran(*arguments)
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert ran("list").output == "There are no deployments.\n"


@pytest.mark.req("M-05")
def test_pool_of_a_deployment_is_given_changed_and_taken_away(ran: Ran) -> None:
    """It is listed, and each command says where its jobs are executed now."""
    id_ = json.loads(ran("create", "pictures", "--pool", "gpu", "--json").output)["id"]
    header, row = ran("list").output.splitlines()
    assert "gpu" in row[header.index("pool") :]
    assert ran("set", id_, "--pool", "cpu").output == f"Jobs of {id_} are executed in the pool cpu.\n"
    assert [one["pool"] for one in json.loads(ran("list", "--json").output)] == ["cpu"]
    assert ran("set", id_, "--no-pool").output == f"Jobs of {id_} are executed where other rules say.\n"
    assert json.loads(ran("set", id_, "--no-pool", "--json").output)["pool"] is None


@pytest.mark.req("J-09")
def test_deployment_can_be_limited_to_kinds_of_tokens(ran: Ran) -> None:
    """Kinds that are named are kept, none where that is asked for, and both together are a mistake."""
    for options, kinds in (((), None), (("--token-kind", "oauth"), ["oauth"]), (("--no-tokens",), [])):
        assert json.loads(ran("create", "a", *options, "--json").output)["token_kinds"] == kinds
    assert ran("create", "a", "--no-tokens", "--token-kind", "oauth").exit_code != 0
