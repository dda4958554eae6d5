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
    assert "UnprovenAddressError" in _refusal_of("members", "set", _EMAIL, "--operator", *where)
    command("members", "set", _EMAIL, "--name", "Ada King", "--operator", "--unproven", *where)
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


@pytest.mark.req("A-01", "T-04")
def test_role_is_given_and_taken_by_command(where: tuple[str, ...]) -> None:
    """An address that nobody has proven gets one only where the command says so."""
    command("members", "create", _EMAIL, "--name", "Ada", *where)
    assert "UnprovenAddressError" in _refusal_of("members", "grant", "default", _EMAIL, *where)
    command("members", "grant", "default", _EMAIL.upper(), "--role", "owner", "--unproven", *where)
    assert _members(where)[_EMAIL]["roles"] == {"default": "owner"}
    assert [row["email"] for row in command("members", "list", "--unproven", "--json", *where)] == [_EMAIL]
    command("members", "remove", "default", _EMAIL, *where)
    assert _members(where)[_EMAIL]["roles"] == {}
    assert "UnknownMemberError" in _refusal_of("members", "remove", "default", _EMAIL, *where)
    log = command("members", "log", "--workspace", "default", "--json", *where)
    assert [row["action"] for row in log][:2] == ["membership.deleted", "membership.created"]


@pytest.mark.req("T-04")
def test_person_is_invited_by_command(where: tuple[str, ...]) -> None:
    """The link is printed, and makes nobody a member before it is accepted; another one takes its place."""
    first = command("members", "invite", "default", _EMAIL, "--role", "viewer", "--json", *where)
    again = command("members", "invite", "default", _EMAIL, "--role", "owner", "--json", *where)
    assert "#invitation=" in first["link"]
    assert first["link"] != again["link"]
    assert _EMAIL not in _members(where)
    (listed,) = command("members", "invitations", "default", "--json", *where)
    assert (listed["id"], listed["role"], listed["is_mailed"]) == (again["id"], "owner", False)
    command("members", "withdraw", "default", again["id"], *where)
    assert command("members", "invitations", "default", "--json", *where) == []
    assert "UnknownInvitationError" in _refusal_of("members", "withdraw", "default", again["id"], *where)


@pytest.mark.req("A-01")
def test_last_operator_stays_also_by_command(where: tuple[str, ...]) -> None:
    """And anybody with a shell can always make a key for that one."""
    operator = next(iter(_members(where).values()))["id"]
    assert "LastOperatorError" in _refusal_of("members", "delete", operator, *where)
    assert "LastOperatorError" in _refusal_of("members", "set", operator, "--no-operator", *where)
    assert command("members", "key", operator, "--json", *where)["key"].startswith("flp_")
    assert "EmailTakenError" not in _refusal_of("members", "create", "no address", "--name", "x", *where)
    assert "give --name" in _refusal_of("members", "set", operator, *where)
