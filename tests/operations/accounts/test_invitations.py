"""Invitations and proven addresses (T-04): who may become whom, on both kinds of database."""

import re
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor, ActorKind, Principal, Role
from fairlead.domain.faults import FaultError, Unauthorized
from fairlead.mail import Mailer, MailServer
from fairlead.operations.accounts import members, personal_keys, workspaces
from fairlead.operations.accounts.audit_log import AuditFilter, list_entries
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.invitations import (
    AcceptedInvitation,
    AcceptingInvitations,
    Invitations,
    NotMailedError,
    OtherMemberError,
    SignInFirstError,
    UnknownInvitationError,
)
from fairlead.operations.accounts.members import Member, UnprovenAddressError
from fairlead.operations.accounts.sessions import Origin, PersonalKey, SessionCookie, Sessions
from fairlead.operations.accounts.sweeping import AccountSweeper
from fairlead.storage.accounts import members as stored_members
from fairlead.storage.db.database import Database
from operations.letters import Letters

pytestmark = pytest.mark.req("T-04")

_HOUR: Final = 3_600_000
_ORIGIN: Final = Origin("192.0.2.1", "a browser")
_SHELL: Final = Actor(ActorKind.COMMAND, None, "tests")
_CHIEF: Final = "chief@example.com"
_SUBJECT: Final = "https://id.example chief"


class _Site:
    """An installation with two workspaces, each with an owner: `lab` has mallory, `mint` has victor."""

    def __init__(self, database: Database, run: Run) -> None:
        self.at = 1_790_000_000_000
        self.clock = Clock(lambda: self.at * 1_000_000)
        self.database, self.run = database, run
        self.sessions = Sessions(database, Authenticator(database, None, self.clock), self.clock)
        self.accepting = AcceptingInvitations(database, self.sessions, self.clock)
        self.lab, self.mint = (self._workspace(name) for name in ("lab", "mint"))
        self.mallory, self.victor = (self._owner(*who) for who in (("mallory", self.lab), ("victor", self.mint)))

    def _workspace(self, name: str) -> str:
        made: str = self.run(workspaces.create_workspace(self.database, workspaces.NewWorkspace(name=name), self.clock))
        return made

    def _owner(self, name: str, workspace_id: str) -> Actor:
        made = self.member(f"{name}@example.com")
        self.grant(made.id, workspace_id, unproven=True, role=Role.OWNER)
        return Actor(ActorKind.MEMBER, made.id, name)

    def member(self, email: str) -> Member:
        """A new member without roles."""
        person = members.NewPerson(email.partition("@")[0], email)
        made: Member = self.run(members.create_member(self.database, person, _SHELL, self.clock))
        return made

    def grant(self, member: str, workspace_id: str, *, unproven: bool = False, role: Role = Role.MEMBER) -> None:
        """Give a member a role."""
        self.run(members.grant_role(self.database, workspace_id, member, role, _SHELL, self.clock, unproven=unproven))

    def key(self, member: str) -> str:
        """A new personal key of a member."""
        issued = self.run(personal_keys.issue_personal_key(self.database, member, "", _SHELL, self.clock))
        return str(issued.text)

    def invite(
        self, email: str = _CHIEF, by: Actor | None = None, mailer: Mailer | None = None, role: Role = Role.MEMBER
    ) -> str | None:
        """Invite an address to the workspace of an owner; the token, where the link was not mailed."""
        by = by or self.mallory
        where = (self.lab, "lab") if by is self.mallory else (self.mint, "mint")
        made = Invitations(self.database, self.clock, 24 * _HOUR, mailer, "https://fairlead.example")
        issued = self.run(made.invite(where, email, role, by, base_url="http://here"))
        return None if issued.link is None else _token(issued.link)

    def accept(self, token: str | None, principal: Principal | None = None) -> AcceptedInvitation:
        """Accept by a token."""
        done: AcceptedInvitation = self.run(self.accepting.accept(token or "", "Somebody", principal, _ORIGIN))
        return done

    def sign_in(self, subject: str = _SUBJECT, email: str = _CHIEF) -> Principal | None:
        """Sign in at a provider that has verified an address."""
        done = self.run(self.database.write(lambda c: stored_members.sign_in_as(c, subject, email, self.at)))
        found: Principal | None = done.principal
        return found

    def is_good(self, credential: PersonalKey | SessionCookie) -> bool:
        """Whether a credential opens the administration API."""
        try:
            self.run(self.sessions.principal(credential))
        except FaultError as error:
            return not isinstance(error.fault, Unauthorized)
        return True

    def roles(self, email: str) -> dict[str, Role]:
        """The roles of a member, by workspace."""
        found: Member = self.run(members.find_member(self.database, email))
        return {one.workspace: one.role for one in found.memberships}


def _token(text: str) -> str:
    found = re.search(r"/console#invitation=(\w+)", text)
    assert found is not None, text
    return found[1]


@pytest.fixture
def site(database: Database, run: Run) -> _Site:
    """Return an installation with a clock of its own."""
    return _Site(database, run)


def test_inviter_does_not_become_whom_it_invites(site: _Site) -> None:
    """It accepts its own link, and holds a member of that address; whoever proves the address takes it back.

    Before that, nobody gives the address anything without saying that nobody has proven it.
    """
    taken = site.accept(site.invite())
    assert taken.session is not None
    key, cookie = site.key(taken.principal.id), taken.session.cookie
    assert (site.is_good(PersonalKey(key)), site.is_good(SessionCookie(cookie))) == (True, True)
    with pytest.raises(UnprovenAddressError):
        site.grant(_CHIEF, site.mint)
    with pytest.raises(UnprovenAddressError):
        site.run(members.change_member(site.database, _CHIEF, {"is_operator": True}, _SHELL, site.clock))
    chief = site.sign_in()
    assert chief is not None
    assert chief.id == taken.principal.id
    assert (site.is_good(PersonalKey(key)), site.is_good(SessionCookie(cookie))) == (False, False)
    site.grant(_CHIEF, site.mint)
    assert site.roles(_CHIEF) == {"lab": Role.MEMBER, "mint": Role.MEMBER}


def test_invitations_of_an_impostor_end_with_the_proof(site: _Site) -> None:
    """Or they would be a way back; so it is when a member is signed out everywhere."""
    impostor = site.accept(site.invite(role=Role.OWNER)).principal
    actor = Actor(ActorKind.MEMBER, impostor.id, "impostor")
    made = Invitations(site.database, site.clock, 24 * _HOUR, None, None)

    def leave_a_way_back() -> str:
        lab = (site.lab, "lab")
        issued = site.run(made.invite(lab, "friend@example.com", Role.OWNER, actor, base_url="http://here"))
        return _token(str(issued.link))

    before = leave_a_way_back()
    site.sign_in()
    with pytest.raises(UnknownInvitationError):
        site.accept(before)
    token = leave_a_way_back()
    site.run(site.sessions.end_all(site.run(members.find_member(site.database, _CHIEF)), _SHELL))
    with pytest.raises(UnknownInvitationError):
        site.accept(token)


def test_mailed_link_proves_the_address_and_revokes_what_was_made_before(site: _Site, letters: Letters) -> None:
    """Nobody but the mailbox has it, and accepting it takes the address back from whoever held it."""
    impostor = site.accept(site.invite())
    key = site.key(impostor.principal.id)
    assert site.invite(by=site.victor, mailer=letters.mailer) is None
    (recipients, letter) = letters.taken[0]
    assert (recipients, letter["Subject"]) == ([_CHIEF], "You are invited to the workspace mint")
    done = site.accept(_token(letter.get_content()))
    assert done.session is not None
    assert not site.is_good(PersonalKey(key))
    assert not site.is_good(SessionCookie(impostor.session.cookie if impostor.session else ""))
    assert site.is_good(SessionCookie(done.session.cookie))
    site.grant(_CHIEF, site.lab, role=Role.OWNER)
    kept = site.key(_CHIEF)
    site.sign_in()
    assert site.is_good(PersonalKey(kept))
    (entry,) = site.run(list_entries(site.database, AuditFilter(site.mint, action="invitation.accepted"), 9)).entries
    assert entry.act.detail["revoked_keys"] == 1
    assert _token(letter.get_content()) not in str(entry)


def test_link_passed_on_by_hand_does_not_open_a_member_that_exists(site: _Site) -> None:
    """Neither a proven one nor another: its holder signs in as that member first, and as no other."""
    for email in (_CHIEF, "victor@example.com"):
        if email == _CHIEF:
            site.member(_CHIEF)
            site.sign_in()
        token = site.invite(email)
        with pytest.raises(SignInFirstError):
            site.accept(token)
        mallory = site.run(site.sessions.principal(PersonalKey(site.key(str(site.mallory.id)))))
        with pytest.raises(OtherMemberError):
            site.accept(token, mallory)
        owner = site.run(site.sessions.principal(PersonalKey(site.key(email))))
        done = site.accept(token, owner)
        assert (done.session, done.principal.id) == (None, owner.id)
        assert site.roles(email)["lab"] == Role.MEMBER


def test_member_that_is_bound_to_a_provider_is_not_signed_in_by_mail(site: _Site, letters: Letters) -> None:
    """A letter is less than what the provider asks for."""
    site.member(_CHIEF)
    site.sign_in()
    site.invite(mailer=letters.mailer)
    with pytest.raises(SignInFirstError):
        site.accept(_token(letters.taken[0][1].get_content()))


def test_invitation_is_accepted_once(site: _Site) -> None:
    """And not after it was withdrawn, replaced, or has expired, nor once its inviter may give no role there."""
    used = site.invite()
    site.accept(used)
    replaced = site.invite("a@example.com")
    last = site.invite("a@example.com")
    expired = site.invite("b@example.com")
    site.at += 24 * _HOUR
    unbacked = site.invite("c@example.com")
    site.run(members.remove_from_workspace(site.database, site.lab, str(site.mallory.id), _SHELL, site.clock))
    for token in (used, replaced, last, expired, unbacked, "nothing"):
        with pytest.raises(UnknownInvitationError):
            site.accept(token)
    sweeper = AccountSweeper(site.database, site.clock, lambda _: None)
    assert site.run(sweeper.forget()) >= 2
    assert site.run(sweeper.forget()) == 0


def test_accepting_takes_no_right_away(site: _Site) -> None:
    """An owner who accepts to be a viewer is still an owner."""
    victor = site.run(site.sessions.principal(PersonalKey(site.key(str(site.victor.id)))))
    site.accept(site.invite("victor@example.com", by=site.victor, role=Role.VIEWER), victor)
    assert site.roles("victor@example.com") == {"mint": Role.OWNER}


def test_invitation_that_cannot_be_mailed_is_not_made(site: _Site) -> None:
    """The inviter is told, and no token is left behind."""
    away = Mailer(MailServer("127.0.0.1", 1, "none", "fairlead@example.com"))
    with pytest.raises(NotMailedError, match="unreachable"):
        site.invite(mailer=away)
    known = Invitations(site.database, site.clock, _HOUR, None, None)
    assert site.run(known.list_open(site.lab, None, 9)) == []


def test_another_address_has_to_be_proven_again(site: _Site) -> None:
    """What was proven is the address, not the member; one who signs in with the new address has proven that."""
    site.member(_CHIEF)
    site.sign_in()

    def is_unproven(changes: dict[str, Any]) -> bool:
        changed: Member = site.run(members.change_member(site.database, _CHIEF, changes, _SHELL, site.clock))
        return changed.is_unproven

    assert not is_unproven({"name": "Chief"})
    with pytest.raises(UnprovenAddressError):
        is_unproven({"email": "boss@example.com", "is_operator": True})
    assert is_unproven({"email": "boss@example.com"})
    kept = site.key("boss@example.com")
    site.sign_in(email="boss@example.com")
    found: Member = site.run(members.find_member(site.database, "boss@example.com"))
    assert (found.is_unproven, site.is_good(PersonalKey(kept))) == (False, True)


def test_unproven_members_are_listed(site: _Site) -> None:
    """An operator sees whose address nobody has proven."""
    site.member(_CHIEF)
    site.sign_in()
    found = site.run(members.list_members(site.database, None, 9, unproven=True))
    assert [one.email for one in found] == ["mallory@example.com", "victor@example.com"]
