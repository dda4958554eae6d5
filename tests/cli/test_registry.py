"""`fairlead registry`: bans, and who has done what, as an operator sees them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.domain.registry import Actor
from fairlead.storage import registry
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW, Books

Ran = Callable[..., Result]


@pytest.fixture
def ran(database: Database, run: Run, database_url: str, tmp_path: Path) -> Ran:
    """Return a function that runs a command on a registry with one publisher."""
    books = Books(database, run)
    books.open()
    books.do(lambda c: registry.create_publisher(c, Actor(LAB, "key-1"), "acme", {"name": "Acme"}, NOW, 10))

    def run_command(*arguments: str) -> Result:
        where = ("--data", str(tmp_path), "--database", database_url)
        return CliRunner().invoke(commands, ["registry", *arguments, *where])

    return run_command


def test_second_ban_changes_nothing(ran: Ran) -> None:
    """The second time nothing is changed, and the first ban is the one that is told of."""
    assert ran("ban", "publisher", "acme").output == "Banned the publisher acme.\n"
    assert ran("ban", "publisher", "acme").output == "The publisher acme was banned already.\n"
    assert ran("unban", "publisher", "acme").output == "The publisher acme is not banned any more.\n"
    assert ran("unban", "publisher", "acme").output == "The publisher acme was not banned.\n"
    acts = json.loads(ran("acts", "--json").output)
    assert [act["act"] for act in acts] == ["publisher_unbanned", "publisher_banned", "publisher_created"]
    assert [act["key_id"] for act in acts] == [None, None, "key-1"]
    assert json.loads(ran("acts", "--json", "--limit", "1").output) == acts[:1]
    assert ran("acts", "--publisher", "nobody").output == "Nothing was done yet.\n"


def test_unknown_entry_cannot_be_banned(ran: Ran) -> None:
    """What was never published cannot be banned; the line says so, with status 1."""
    result = ran("ban", "node", "acme")
    assert (result.exit_code, result.output) == (1, "Error: there is no node with the id acme in the registry\n")
    assert ran("ban", "version", "acme").exit_code == 2
