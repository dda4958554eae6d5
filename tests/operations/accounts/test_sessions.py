"""Sessions by the clock, and deleted workspaces by theirs: on both kinds of database."""

import asyncio
from typing import Any, Final

import msgspec
import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER, Actor, ActorKind, Role
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.operations.accounts import members, personal_keys, workspaces
from fairlead.operations.accounts.audit_log import AuditFilter, list_entries
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator, WorkspaceSession
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.sessions import Origin, PersonalKey, SessionCookie, Sessions
from fairlead.operations.accounts.sweeping import AccountSweeper
from fairlead.storage.db.database import Database

_HOUR: Final = 3_600_000
_ORIGIN: Final = Origin("192.0.2.1", "a browser")
_BY: Final = Actor(ActorKind.COMMAND, None, "tests")


class _Hands:
    """The hands of a clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1_790_000_000_000

    def now_ns(self) -> int:
        return self.at * 1_000_000


class _Site:
    """An installation with a workspace and a member who owns it, at a time that a test sets."""

    def __init__(self, database: Database, run: Run) -> None:
        self.hands = _Hands()
        self.clock = Clock(self.hands.now_ns)
        self.database = database
        self.run = run
        self.authenticator = Authenticator(database, None, self.clock)
        self.sessions = Sessions(database, self.authenticator, self.clock)
        self.lab = run(workspaces.create_workspace(database, workspaces.NewWorkspace(name="lab"), self.clock))
        person = members.NewPerson("Ada", "ada@example.com")
        self.member = run(members.create_member(database, person, _BY, self.clock))
        self.key = run(personal_keys.issue_personal_key(database, self.member.id, "", _BY, self.clock)).text
        grant = members.grant_role(database, self.lab, self.member.id, Role.OWNER, _BY, self.clock, unproven=True)
        run(grant)
        self.seen: list[Any] = []
        self.sweeper = AccountSweeper(database, self.clock, self.seen.append)

    def sign_in(self) -> str:
        """Begin a session; its cookie."""
        cookie: str = self.run(self.sessions.begin(PersonalKey(self.key), _ORIGIN)).cookie
        return cookie

    def is_good(self, cookie: str) -> bool:
        """Whether a cookie opens the administration API."""
        try:
            self.run(self.sessions.principal(SessionCookie(cookie)))
        except FaultError as error:
            return not isinstance(error.fault, Unauthorized)
        return True


@pytest.fixture
def site(database: Database, run: Run) -> _Site:
    """Return an installation with a clock of its own."""
    return _Site(database, run)


def test_session_that_is_not_used_ends_after_an_hour(site: _Site) -> None:
    """One that is used goes on; what is noted of it is no more than a minute old."""
    used, idle = site.sign_in(), site.sign_in()
    for _ in range(3):
        site.hands.at += _HOUR // 2
        assert site.is_good(used)
    assert not site.is_good(idle)


def test_session_ends_after_twelve_hours_however_it_is_used(site: _Site) -> None:
    """Somebody signs in again every day."""
    cookie = site.sign_in()
    for _ in range(24):
        site.hands.at += _HOUR // 2
        assert site.is_good(cookie)
    site.hands.at += 1
    assert not site.is_good(cookie)


def test_use_of_other_apis_keeps_a_session_alive(site: _Site) -> None:
    """A page that only runs models is used, too."""
    cookie = site.sign_in()
    for _ in range(3):
        site.hands.at += _HOUR // 2
        site.authenticator.forget(site.lab)
        caller = site.run(site.authenticator.authenticate(WorkspaceSession(cookie, "lab", is_change=True)))
        assert (caller.workspace_id, caller.role, caller.actor.id) == (site.lab, Role.OWNER, site.member.id)
    assert site.is_good(cookie)


def test_ended_sessions_are_forgotten(site: _Site) -> None:
    """The sweeper deletes them, and nothing else."""
    site.sign_in()
    site.hands.at += _HOUR // 2
    kept = site.sign_in()
    site.hands.at += _HOUR // 2 + 1
    assert site.run(site.sweeper.forget()) == 1
    assert site.run(site.sweeper.forget()) == 0
    assert site.is_good(kept)
    assert len(site.run(site.sessions.list_all(site.member.id))) == 1


def test_member_has_at_most_fifty_sessions(site: _Site) -> None:
    """The oldest ends where there would be more."""
    cookies = [site.sign_in() for _ in range(51)]
    assert [site.is_good(cookie) for cookie in (cookies[0], cookies[1], cookies[50])] == [False, True, True]


@pytest.mark.req("A-01")
def test_deleted_workspace_ends_when_its_time_is_over(site: _Site) -> None:
    """Before that it can be restored; after it nothing opens it, its name is free, and the log has its end."""
    key = site.run(issue_key(site.database, "lab", "", None, "flk_", site.clock))
    site.run(workspaces.delete_workspace(site.database, site.lab, _HOUR, site.clock, _BY))
    with pytest.raises(FaultError) as suspended:
        site.run(site.authenticator.authenticate(ApiKey(key.text)))
    assert isinstance(suspended.value.fault, Forbidden)
    site.hands.at += _HOUR - 1
    assert site.run(site.sweeper.forget()) == 0
    site.hands.at += 1
    assert site.run(site.sweeper.forget()) == 1
    assert site.run(site.sweeper.forget()) == 0
    site.authenticator.forget(site.lab)
    with pytest.raises(FaultError) as ended:
        site.run(site.authenticator.authenticate(ApiKey(key.text)))
    assert isinstance(ended.value.fault, Unauthorized)
    assert site.run(members.find_member(site.database, site.member.id)).memberships == ()
    assert site.run(workspaces.list_records(site.database, None, None, 10)) == []
    site.run(workspaces.create_workspace(site.database, workspaces.NewWorkspace(name="lab"), site.clock))
    page = site.run(list_entries(site.database, AuditFilter(site.lab), 1))
    assert (page.entries[0].act.action, page.entries[0].act.target) == ("workspace.ended", "lab")
    assert msgspec.structs.replace(page.entries[0].actor, address=None) == SERVER


@pytest.mark.req("A-01")
def test_two_operators_cannot_remove_each_other_at_once(site: _Site) -> None:
    """One of the two is left, whichever comes second."""

    async def race() -> list[Any]:
        made = [
            await members.create_member(
                site.database,
                members.NewPerson("Op", f"op{n}@example.com", is_operator=True),
                _BY,
                site.clock,
                unproven=True,
            )
            for n in range(2)
        ]
        return await asyncio.gather(
            *(members.delete_member(site.database, one.id, _BY, site.clock) for one in made), return_exceptions=True
        )

    outcomes = site.run(race())
    assert [type(one) for one in outcomes].count(members.LastOperatorError) == 1
