"""The last operator stays one, also when several remove each other at the same moment: on both kinds of database."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor, ActorKind
from fairlead.operations.accounts import members, personal_keys
from fairlead.operations.accounts.members import LastOperatorError, Member, NewPerson
from fairlead.storage.db.database import Database

pytestmark = pytest.mark.req("A-01")

_BY: Final = Actor(ActorKind.COMMAND, None, "tests")
_CLOCK: Final = Clock()


async def _operator(database: Database, name: str) -> Member:
    person = NewPerson(name, f"{name}@example.com", is_operator=True)
    return await members.create_member(database, person, _BY, _CLOCK, unproven=True)


async def _operators(database: Database) -> list[str]:
    return [one.name for one in await members.list_members(database, None, 100) if one.is_operator]


@pytest.mark.parametrize(
    "remove",
    [
        lambda database, one: members.delete_member(database, one.id, _BY, _CLOCK),
        lambda database, one: members.change_member(database, one.id, {"is_operator": False}, _BY, _CLOCK),
    ],
    ids=["deleted", "made less"],
)
def test_of_operators_who_remove_each_other_one_stays(
    database: Database, run: Run, remove: Callable[[Database, Member], Awaitable[object]]
) -> None:
    """Of several at once, each of which would leave one, the last is refused."""

    async def work() -> tuple[list[object], list[str]]:
        made = [await _operator(database, name) for name in ("ada", "eve", "mallory")]
        done = await asyncio.gather(*(remove(database, one) for one in made), return_exceptions=True)
        return list(done), await _operators(database)

    done, left = run(work())
    assert [isinstance(one, LastOperatorError) for one in done].count(True) == 1
    assert len(left) == 1


def test_last_way_in_of_operators_is_not_revoked(database: Database, run: Run) -> None:
    """Another key of theirs, or another operator with one, must be there first; keys of members are no way in."""

    async def work() -> None:
        ada = await _operator(database, "ada")
        member = await members.create_member(database, NewPerson("bob", "bob@example.com"), _BY, _CLOCK)
        await personal_keys.issue_personal_key(database, member.id, "", _BY, _CLOCK)
        first = await personal_keys.issue_personal_key(database, ada.id, "first", _BY, _CLOCK)
        with pytest.raises(LastOperatorError):
            await personal_keys.delete_personal_key(database, ada.id, first.id, _BY, _CLOCK)
        second = await personal_keys.issue_personal_key(database, ada.id, "second", _BY, _CLOCK)
        revoked = (personal_keys.delete_personal_key(database, ada.id, key.id, _BY, _CLOCK) for key in (first, second))
        done = await asyncio.gather(*revoked, return_exceptions=True)
        assert [isinstance(one, LastOperatorError) for one in done].count(True) == 1
        assert len(await personal_keys.list_personal_keys(database, ada.id)) == 1

    run(work())


def test_operator_with_single_sign_on_needs_no_key(database: Database, run: Run) -> None:
    """Somebody who has signed in at a provider gets in without one."""

    async def work() -> None:
        ada = await _operator(database, "ada")
        key = await personal_keys.issue_personal_key(database, ada.id, "first", _BY, _CLOCK)
        await members.change_member(database, ada.id, {"subject": "https://id.example ada"}, _BY, _CLOCK)
        await personal_keys.delete_personal_key(database, ada.id, key.id, _BY, _CLOCK)
        assert await personal_keys.list_personal_keys(database, ada.id) == []

    run(work())
