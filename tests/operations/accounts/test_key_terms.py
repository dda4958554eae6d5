"""Keys end, rotate, and are used from where they may be (T-04): API keys and personal keys, on both databases."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.key_terms import (
    NETWORKS_MAX,
    SESSION_DAYS,
    SESSION_DAYS_MAX,
    BadTermsError,
    KeyTerms,
    PersonalTerms,
    Scope,
    allows,
    end_of,
    read_networks,
)
from fairlead.domain.accounts.rights import Actor, ActorKind, Principal, Right, Role
from fairlead.domain.days import DAY_MS, HOUR_MS
from fairlead.domain.faults import Fault, FaultError, Forbidden, Unauthorized
from fairlead.operations.accounts import keys, members, personal_keys, workspaces
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator
from fairlead.operations.accounts.personal_keys import EndedCredentialError
from fairlead.operations.accounts.sessions import Origin, PersonalKey, SessionCookie, Sessions
from fairlead.storage.db.database import Database

pytestmark = pytest.mark.req("T-04")

_BY: Final = Actor(ActorKind.COMMAND, None, "tests")
_EMAIL: Final = "ada@example.com"
_HOME: Final = ip_address("203.0.113.7")
_AWAY: Final = ip_address("198.51.100.7")
_HOMES: Final = read_networks(["203.0.113.0/24", "2001:db8::/32"])


class _Site:
    """An installation with a workspace and its owner, at a time that a test sets."""

    def __init__(self, database: Database, run: Run) -> None:
        self.at = 1_790_000_000_000
        self.clock = Clock(lambda: self.at * 1_000_000)
        self.database, self.run = database, run
        self.authenticator = Authenticator(database, None, self.clock)
        self.sessions = Sessions(database, self.authenticator, self.clock)
        self.lab: str = run(workspaces.create_workspace(database, workspaces.NewWorkspace(name="lab"), self.clock))
        self.ada: str = run(members.create_member(database, members.NewPerson("Ada", _EMAIL), _BY, self.clock)).id
        grant = members.grant_role(database, self.lab, _EMAIL, Role.OWNER, _BY, self.clock, unproven=True)
        run(grant)

    def api_key(self, terms: KeyTerms) -> keys.IssuedKey:
        """A new API key."""
        made: keys.IssuedKey = self.run(
            keys.issue_key(self.database, "lab", "", None, "flk_", self.clock, terms=terms, by=_BY)
        )
        return made

    def personal_key(self, terms: PersonalTerms, by: Principal | None = None) -> keys.IssuedKey:
        """A new personal key, made at a shell unless somebody asks for it."""
        made: keys.IssuedKey = self.run(
            personal_keys.issue_personal_key(self.database, _EMAIL, "", _BY, self.clock, terms, by)
        )
        return made

    def principal(self, text: str) -> Principal:
        """Whom a personal key belongs to."""
        found: Principal = self.run(self.sessions.principal(PersonalKey(text, _HOME)))
        return found

    def sign_in(self, text: str) -> Principal:
        """Whom a session belongs to that begins with a key."""
        begun = self.run(self.sessions.begin(PersonalKey(text, _HOME), Origin(None, None)))
        found: Principal = self.run(self.sessions.principal(SessionCookie(begun.cookie)))
        return found

    def listed(self) -> list[Any]:
        """The member's personal keys."""
        return list(self.run(personal_keys.list_personal_keys(self.database, self.ada)))

    def use_api_key(self, text: str, address: Any = _HOME) -> Fault | None:
        """Call with an API key, as if nothing was remembered of it; the refusal."""
        self.authenticator.forget(self.lab)
        return self._refusal(lambda: self.authenticator.authenticate(ApiKey(text, lambda: address)))

    def use_personal_key(self, text: str, address: Any = _HOME) -> Fault | None:
        """Call with a personal key; the refusal."""
        return self._refusal(lambda: self.sessions.principal(PersonalKey(text, address)))

    def _refusal(self, call: Callable[[], Any]) -> Fault | None:
        try:
            self.run(call())
        except FaultError as error:
            return error.fault
        return None


_Make: TypeAlias = Callable[[_Site, PersonalTerms], keys.IssuedKey]
_Use: TypeAlias = Callable[..., Fault | None]
_KINDS: Final = pytest.mark.parametrize(
    ("make", "use"),
    [(_Site.api_key, _Site.use_api_key), (_Site.personal_key, _Site.use_personal_key)],
    ids=["API key", "personal key"],
)


@pytest.fixture
def site(database: Database, run: Run) -> _Site:
    """Return an installation with a clock of its own."""
    return _Site(database, run)


@_KINDS
def test_key_ends_when_its_time_is_over(site: _Site, make: _Make, use: _Use) -> None:
    """One without an end goes on."""
    ending = make(site, PersonalTerms(end_of(2, site.at))).text
    lasting = make(site, PersonalTerms()).text
    site.at += 2 * DAY_MS - 1
    assert (use(site, ending), use(site, lasting)) == (None, None)
    site.at += 1
    assert isinstance(use(site, ending), Unauthorized)
    assert use(site, lasting) is None


@_KINDS
def test_key_is_used_from_its_networks_alone(site: _Site, make: _Make, use: _Use) -> None:
    """Also right after it was used from there; and not from an address that is unknown."""
    key = make(site, PersonalTerms(None, _HOMES)).text
    assert use(site, key, _HOME) is None
    assert use(site, key, ip_address("2001:db8::7")) is None
    for address in (_AWAY, None):
        assert isinstance(use(site, key, address), Forbidden), address


def test_remembered_key_is_used_from_its_networks_alone(site: _Site) -> None:
    """What is remembered of a key for a moment does not pass over the address."""
    key = site.api_key(KeyTerms(None, _HOMES)).text
    assert site.use_api_key(key) is None
    assert site.authenticator.recall(ApiKey(key, lambda: _HOME)) is not None
    assert site.authenticator.recall(ApiKey(key, lambda: _AWAY)) is None
    with pytest.raises(FaultError):
        site.run(site.authenticator.authenticate(ApiKey(key, lambda: _AWAY)))


@_KINDS
def test_rotated_key_has_two_secrets_for_the_overlap(site: _Site, make: _Make, use: _Use) -> None:
    """It stays the same key; after the overlap the old secret opens nothing, and without one at once."""
    key = make(site, PersonalTerms(None, _HOMES))

    def rotate(hours: int) -> keys.IssuedKey:
        rotated: keys.IssuedKey = site.run(
            keys.rotate_key(site.database, key.id, "flk_", hours, site.clock, _BY)
            if use is _Site.use_api_key
            else personal_keys.rotate_personal_key(site.database, site.ada, key.id, hours, _BY, site.clock)
        )
        return rotated

    second = rotate(24)
    assert second.id == key.id
    site.at += 24 * HOUR_MS - 1
    assert (use(site, key.text), use(site, second.text)) == (None, None)
    assert isinstance(use(site, key.text, _AWAY), Forbidden)
    site.at += 1
    assert isinstance(use(site, key.text), Unauthorized)
    third = rotate(0)
    assert isinstance(use(site, second.text), Unauthorized)
    assert use(site, third.text) is None


def test_secret_before_a_rotation_still_names_its_key(site: _Site) -> None:
    """So that somebody who finds it can revoke the key, which ends both secrets."""
    key = site.api_key(KeyTerms())
    second = site.run(keys.rotate_key(site.database, key.id, "flk_", 24, site.clock, _BY))
    assert site.run(keys.find_key(site.database, key.text)) == key.id
    assert site.run(keys.revoke_key(site.database, key.id, site.clock, _BY))
    assert all(isinstance(site.use_api_key(text), Unauthorized) for text in (key.text, second.text))
    with pytest.raises(keys.UnknownKeyError):
        site.run(keys.rotate_key(site.database, key.id, "flk_", 24, site.clock, _BY))


def test_last_use_of_keys_is_written_in_the_background(site: _Site) -> None:
    """For API keys and personal keys; a call itself writes nothing."""
    api, own = site.api_key(KeyTerms()), site.personal_key(PersonalTerms())

    def used() -> tuple[int | None, int | None]:
        record = site.run(keys.find_record(site.database, site.lab, api.id, site.clock))
        return record.used_at, site.listed()[0].used_at

    for _ in range(2):
        site.at += 90_000
        assert (site.use_api_key(api.text), site.use_personal_key(own.text)) == (None, None)
        before = used()
        site.run(site.authenticator.uses.write())
        assert before != used() == (site.at, site.at)
    site.run(site.authenticator.uses.write())


def test_narrowed_key_leaves_some_rights_of_its_member(site: _Site) -> None:
    """By scope and by workspace; it signs nobody in."""
    reading = site.principal(site.personal_key(PersonalTerms(scopes=(Scope.READ,))).text)
    assert [reading.leaves(right) for right in (Right.SEE, Right.READ, Right.RUN, Right.MANAGE, Right.PERSON)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    within = site.personal_key(PersonalTerms(workspace_id=site.lab)).text
    assert site.principal(within).leaves(Right.MANAGE)
    assert not site.principal(within).leaves(Right.PERSON)
    for text in (within, site.personal_key(PersonalTerms(scopes=(Scope.OPERATE,))).text):
        with pytest.raises(FaultError) as refused:
            site.sign_in(text)
        assert isinstance(refused.value.fault, Forbidden)


def test_operators_key_for_one_workspace_is_an_owners_there(site: _Site) -> None:
    """And sees and operates nothing else."""
    other = site.run(workspaces.create_workspace(site.database, workspaces.NewWorkspace(name="other"), site.clock))
    site.run(members.change_member(site.database, _EMAIL, {"is_operator": True}, _BY, site.clock, unproven=True))
    found = site.principal(site.personal_key(PersonalTerms(workspace_id=other)).text)
    assert (found.is_operator, [(one.workspace, one.role) for one in found.memberships]) == (
        False, [("other", Role.OWNER)],
    )  # fmt: skip
    assert not found.leaves(Right.OPERATE)


def test_key_made_in_a_session_ends(site: _Site) -> None:
    """In 90 days, or in as many as were said, up to 366; so does one that such a key makes, or a session rotates."""
    first = site.personal_key(PersonalTerms())
    session = site.sign_in(first.text)
    made = site.personal_key(PersonalTerms(), session)
    chained = site.personal_key(PersonalTerms(end_of(7, site.at)), site.principal(made.text))
    with pytest.raises(BadTermsError):
        site.personal_key(PersonalTerms(end_of(SESSION_DAYS_MAX + 1, site.at)), session)
    with_key = site.personal_key(PersonalTerms(), site.principal(first.text))
    ends = {one.id: (one.terms.expires_at, one.is_of_session) for one in site.listed()}
    assert ends == {
        first.id: (None, False),
        made.id: (site.at + SESSION_DAYS * DAY_MS, True),
        chained.id: (site.at + 7 * DAY_MS, True),
        with_key.id: (None, False),
    }
    site.run(personal_keys.rotate_personal_key(site.database, site.ada, with_key.id, 1, _BY, site.clock, session))
    rotated = next(one for one in site.listed() if one.id == with_key.id)
    assert (rotated.terms.expires_at, rotated.is_of_session) == (site.at + SESSION_DAYS * DAY_MS, True)


def test_signing_out_everywhere_revokes_the_keys_of_sessions(site: _Site) -> None:
    """Those that were made otherwise stay, and all where that is said."""
    first = site.personal_key(PersonalTerms())
    made = site.personal_key(PersonalTerms(), site.sign_in(first.text))
    member = site.run(members.find_member(site.database, site.ada))
    site.run(site.sessions.end_all(member, _BY, keeps_keys=True))
    assert site.use_personal_key(made.text) is None
    site.run(site.sessions.end_all(member, _BY))
    assert isinstance(site.use_personal_key(made.text), Unauthorized)
    assert site.use_personal_key(first.text) is None
    assert site.run(site.sessions.list_all(site.ada)) == []


def test_session_makes_no_key_after_it_has_ended(site: _Site) -> None:
    """A call that was let in before may come to its change only afterwards; likewise one with a key."""
    first = site.personal_key(PersonalTerms())
    session, with_key = site.sign_in(first.text), site.principal(first.text)
    site.personal_key(PersonalTerms())
    site.run(personal_keys.delete_personal_key(site.database, site.ada, first.id, _BY, site.clock))
    for by in (session, with_key):
        with pytest.raises(EndedCredentialError):
            site.personal_key(PersonalTerms(), by)


def test_session_ends_with_the_end_of_its_key(site: _Site) -> None:
    """Not hours later."""
    begun = site.run(
        site.sessions.begin(PersonalKey(site.personal_key(PersonalTerms(site.at + 60_000)).text), Origin(None, None))
    )
    site.at += 60_000
    with pytest.raises(FaultError) as ended:
        site.run(site.sessions.principal(SessionCookie(begun.cookie)))
    assert isinstance(ended.value.fault, Unauthorized)


@pytest.mark.parametrize("texts", [["nonsense"], ["203.0.113.7/24"], ["10.0.0.0/8"] * (NETWORKS_MAX + 1), [""]])
def test_bad_networks_are_refused(texts: list[str]) -> None:
    """The field is named."""
    with pytest.raises(BadTermsError) as refused:
        read_networks(texts)
    assert refused.value.field == "networks"


def test_address_in_no_network_is_refused() -> None:
    """No networks allow every address; an unknown address is in none."""
    assert allows((), None)
    assert allows(read_networks(["203.0.113.7"]), _HOME)
    assert not allows(read_networks(["203.0.113.7"]), _AWAY)
    assert not allows(read_networks(["0.0.0.0/0"]), None)
