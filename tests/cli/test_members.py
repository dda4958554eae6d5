"""`fairlead members`: people, roles, keys and the log from a shell, also where nobody can sign in any more."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from databases import opened_database
from fairlead.cli import commands
from fairlead.clock import Clock
from fairlead.operations.accounts.members import bootstrap_operator
from fairlead.operations.accounts.workspaces import bootstrap
from servers import command

_EMAIL: Final = "ada@example.com"


@pytest.fixture
def where(database_url: str, tmp_path: Path) -> tuple[str, ...]:
    """Return the options that lead to an installation with its first workspace and its first operator."""

    async def fill() -> None:
        async with opened_database(database_url) as database:
            await bootstrap(database, "flk_", ("pro", 5), Clock())
            assert await bootstrap_operator(database, Clock()) is not None
            assert await bootstrap_operator(database, Clock()) is None

    asyncio.run(fill())
    return ("--data", str(tmp_path), "--database", database_url)


def _refusal_of(*arguments: str) -> str:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exception is not None
    return f"{result.output}{result.exception!r}"


def _members(where: tuple[str, ...]) -> dict[str, Any]:
    return {row["email"]: row for row in command("members", "list", "--json", *where)}


@pytest.mark.req("A-01")
def test_member_is_made_changed_and_deleted_by_command(where: tuple[str, ...]) -> None:
    """A key is shown once; what is done is in the log under the name of the system's user."""
    made = command("members", "create", _EMAIL, "--name", "Ada", "--json", *where)
    assert made["key"].startswith("flp_")
    command("members", "set", _EMAIL, "--name", "Ada King", "--operator", *where)
    assert (_members(where)[_EMAIL]["name"], _members(where)[_EMAIL]["is_operator"]) == ("Ada King", True)
    second = command("members", "key", _EMAIL, "--label", "laptop", "--json", *where)
    assert {row["id"] for row in command("members", "keys", _EMAIL, "--json", *where)} == {made["id"], second["id"]}
    command("members", "revoke", _EMAIL, second["id"], *where)
    assert [row["id"] for row in command("members", "keys", _EMAIL, "--json", *where)] == [made["id"]]
    command("members", "delete", _EMAIL, *where)
    assert _EMAIL not in _members(where)
    log = command("members", "log", "--json", *where)
    assert [row["action"] for row in log][:5] == [
        "member.deleted", "personal_key.revoked", "personal_key.created", "member.changed", "personal_key.created",
    ]  # fmt: skip
    assert log[0]["actor"].startswith("command ")
    assert log[-1]["actor"] == "server server"


@pytest.mark.req("A-01")
def test_role_is_given_and_taken_by_command(where: tuple[str, ...]) -> None:
    """Who is not a member yet is made one; who is one gets no further key."""
    first = command("members", "invite", "default", _EMAIL, "--role", "viewer", "--json", *where)
    again = command("members", "invite", "default", _EMAIL.upper(), "--role", "owner", "--json", *where)
    assert (first["key"] is None, again["key"], again["id"]) == (False, None, first["id"])
    assert _members(where)[_EMAIL]["roles"] == {"default": "owner"}
    command("members", "remove", "default", _EMAIL, *where)
    assert _members(where)[_EMAIL]["roles"] == {}
    assert "UnknownMemberError" in _refusal_of("members", "remove", "default", _EMAIL, *where)
    log = command("members", "log", "--workspace", "default", "--json", *where)
    assert [row["action"] for row in log][:3] == ["membership.deleted", "membership.created", "membership.created"]


@pytest.mark.req("A-01")
def test_last_operator_stays_also_by_command(where: tuple[str, ...]) -> None:
    """And anybody with a shell can always make a key for that one."""
    operator = next(iter(_members(where).values()))["id"]
    assert "LastOperatorError" in _refusal_of("members", "delete", operator, *where)
    assert "LastOperatorError" in _refusal_of("members", "set", operator, "--no-operator", *where)
    assert command("members", "key", operator, "--json", *where)["key"].startswith("flp_")
    assert "EmailTakenError" not in _refusal_of("members", "create", "no address", "--name", "x", *where)
    assert "give --name" in _refusal_of("members", "set", operator, *where)
