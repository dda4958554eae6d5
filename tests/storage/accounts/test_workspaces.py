"""Workspaces and keys: who a credential belongs to, and what both allow."""

from typing import Any

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import (
    Billing,
    Caller,
    Gate,
    Patterns,
    SingleSignOn,
    refuse_gate,
    refuse_model,
    refuse_policy,
)
from fairlead.domain.faults import ServiceUnavailable
from fairlead.operations.accounts.workspaces import bootstrap
from fairlead.storage.accounts import workspace_records
from fairlead.storage.accounts import workspaces as callers
from fairlead.storage.accounts.credits import NewCredit, credit
from fairlead.storage.accounts.workspaces import NameTakenError, UnknownKeyError, UnknownWorkspaceError
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW, Books, admission, new_key


def by_key(books: Books, digest: str = "digest-of-key-1") -> Caller | None:
    """Look a caller up by the digest of its key."""
    found: Caller | None = books.do(lambda c: callers.caller_by_key(c, digest, NOW))
    return found


@pytest.mark.req("R-37")
def test_key_is_found_by_its_digest(books: Books) -> None:
    """A digest leads to its key, its workspace and the rights of both."""
    books.open(models=("acme/*",), providers=("acme",), balance=5)
    books.do(lambda c: callers.create_key(c, new_key(models=("acme/one",))))
    caller = by_key(books)
    assert caller is not None
    assert (caller.workspace_id, caller.workspace, caller.key_id) == (LAB, "lab-id-name", "key-1")
    assert caller.workspace_models == Patterns(("acme/*",))
    assert (caller.credential_models, caller.providers) == (Patterns(("acme/one",)), Patterns(("acme",)))
    assert by_key(books, "key-1") is None


@pytest.mark.req("R-38")
@pytest.mark.parametrize("spoilt", ["{", "null", "[1]"])
def test_unreadable_rights_refuse_for_now(books: Books, database: Database, run: Run, spoilt: str) -> None:
    """What a workspace may use cannot be told, so it is 503 for its callers; a server starts all the same."""
    books.open()
    books.do(lambda c: callers.create_key(c, new_key()))
    books.sql("UPDATE workspaces SET models = :text, providers = :text, gates = :text", text=spoilt)
    caller = by_key(books)
    assert caller is not None
    assert not caller.may_run("acme/one")
    for fault in (refuse_model(caller, "acme/one"), refuse_policy(caller, "acme"), refuse_gate(caller, "router", "It")):
        assert isinstance(fault, ServiceUnavailable)
    assert run(bootstrap(database, "flk_", ("pro", 5), Clock())) is None
    assert [row["id"] for row in books.do(callers.list_workspaces)] == [LAB]


@pytest.mark.req("R-37")
def test_revoked_key_is_unknown(books: Books) -> None:
    """A revoked key is as unknown as one that never was, and is revoked only once."""
    books.open()
    books.do(lambda c: callers.create_key(c, new_key()))
    assert books.do(lambda c: callers.revoke_key(c, "key-1", NOW)) is True
    assert by_key(books) is None
    assert books.do(lambda c: callers.revoke_key(c, "key-1", NOW)) is False
    assert books.do(lambda c: callers.revoke_key(c, "key-9", NOW)) is False


def test_name_is_given_once(books: Books) -> None:
    """A second workspace of a name is refused, and leaves nothing behind."""
    books.open()
    with pytest.raises(NameTakenError, match="lab-id-name"):
        books.open(id_="other-id", name="lab-id-name")
    assert [row["id"] for row in books.do(callers.list_workspaces)] == [LAB]


@pytest.mark.parametrize("called", [LAB, "lab-id-name"])
def test_workspace_is_found_by_name_and_id(books: Books, called: str) -> None:
    """A workspace goes by its name and by its id."""
    books.open()
    assert books.do(lambda c: callers.workspace_id_of(c, called)) == LAB


def test_unknown_workspace_is_refused_by_name(books: Books) -> None:
    """A name nobody has is refused by that name."""
    books.open()
    with pytest.raises(UnknownWorkspaceError, match="nobody"):
        books.do(lambda c: callers.workspace_id_of(c, "nobody"))


@pytest.mark.req("R-38")
def test_changed_rights_take_effect(books: Books) -> None:
    """Models, providers and gates change together; a gate that is not named stays."""
    books.open(gates={"router": Gate.OFF})
    books.do(lambda c: callers.create_key(c, new_key()))
    changes = {"models": ("acme/*",), "providers": None, "gates": {"provider:acme": Gate.OFF}}
    books.do(lambda c: callers.change_workspace(c, LAB, changes))
    caller = by_key(books)
    assert caller is not None
    assert (caller.workspace_models, caller.providers) == (Patterns(("acme/*",)), Patterns(None))
    assert caller.gates == {"router": Gate.OFF, "provider:acme": Gate.OFF}


def test_changed_terms_take_effect(books: Books) -> None:
    """Billing, cap and limit are plain values."""
    books.open()
    changes = {"billing": Billing.POSTPAID, "cap": 70, "in_flight_limit": 3}
    books.do(lambda c: callers.change_workspace(c, LAB, changes))
    (row,) = books.do(callers.list_workspaces)
    assert (row["billing"], row["cap"], row["in_flight_limit"]) == ("postpaid", 70, 3)
    assert books.do(lambda c: callers.available(c, LAB)) == 70


@pytest.mark.req("R-38")
@pytest.mark.parametrize("state", ['"maybe"', '""', '"ON"', "null", "1", "[]"])
def test_unreadable_gate_is_unknown(books: Books, state: str) -> None:
    """A switch that says neither on nor off is unknown."""
    books.open()
    books.do(lambda c: callers.create_key(c, new_key()))
    books.sql("UPDATE workspaces SET gates = :gates", gates=f'{{"router": {state}}}')
    caller = by_key(books)
    assert caller is not None
    assert caller.gates == {"router": Gate.UNKNOWN}


@pytest.mark.parametrize("called", [LAB, "lab-id-name"])
@pytest.mark.req("R-37")
def test_token_speaks_for_its_workspace(books: Books, called: str) -> None:
    """A token names its workspace and brings its own subject and models."""
    books.open()
    caller = books.do(lambda c: callers.caller_by_workspace(c, called, "ada", Patterns(("acme/*",))))
    assert (caller.workspace_id, caller.subject, caller.key_id) == (LAB, "ada", None)
    assert caller.credential_models == Patterns(("acme/*",))
    assert books.do(lambda c: callers.caller_by_workspace(c, "nobody", "ada", Patterns())) is None


@pytest.mark.req("R-37")
def test_workspace_named_like_an_id_does_not_speak_for_its_owner(books: Books) -> None:
    """An id leads to its own workspace, whichever was made first."""
    books.open("another", name=LAB)
    books.open()
    caller = books.do(lambda c: callers.caller_by_workspace(c, LAB, "ada", Patterns()))
    assert caller.workspace_id == LAB


@pytest.mark.parametrize(("billing", "exhausted"), [(Billing.PREPAID, True), (Billing.POSTPAID, False)])
def test_empty_prepaid_workspace_is_exhausted(books: Books, billing: Billing, *, exhausted: bool) -> None:
    """Only a prepaid workspace can be exhausted: by what it holds, too."""
    books.open(billing=billing, cap=1000, balance=100)
    books.do(lambda c: callers.create_key(c, new_key()))
    before = by_key(books)
    books.write(admission(hold=100))
    after = by_key(books)
    assert before is not None
    assert after is not None
    assert (before.is_exhausted, after.is_exhausted) == (False, exhausted)


def test_credits_add_up_to_the_balance(books: Books) -> None:
    """Money in and corrections out add up to the balance that is answered."""
    books.open(balance=500)
    assert books.do(lambda c: credit(c, LAB, NewCredit(-120, "correction"), NOW)) == (380, True)
    assert books.entries() == [("credit", 500, 0), ("credit", -120, 0)]


def test_listed_key_hides_its_digest(books: Books) -> None:
    """The list has names and hints by age, and nothing that opens anything."""
    books.open()
    books.do(lambda c: callers.create_key(c, new_key("key-2", created_at=NOW + 1)))
    books.do(lambda c: callers.create_key(c, new_key("key-1", models=("acme/*",))))
    listed = books.do(workspace_records.list_keys)
    assert [(row["id"], row["workspace"], row["models"]) for row in listed] == [
        ("key-1", "lab-id-name", ["acme/*"]),
        ("key-2", "lab-id-name", None),
    ]
    assert "digest" not in listed[0]


def test_key_needs_its_workspace(books: Books) -> None:
    """A key needs its workspace."""
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        books.do(lambda c: callers.create_key(c, new_key()))


@pytest.mark.req("J-11")
@pytest.mark.parametrize(
    ("workspace", "account", "governs"),
    [
        ({}, {}, None),
        ({"organization_id": "w"}, {"organization_id": "a"}, None),
        ({"sso_required": True}, {}, SingleSignOn()),
        ({"organization_id": "w", "sso_required": True}, {}, SingleSignOn("w")),
        ({"organization_id": "w", "sso_required": True}, {"organization_id": "a"}, SingleSignOn("a")),
        ({"organization_id": "w"}, {"sso_required": True}, SingleSignOn("w")),
        ({}, {"organization_id": "a", "sso_required": True}, SingleSignOn("a")),
    ],
    ids=str,
)
def test_organization_of_the_account_governs_a_key(
    books: Books, workspace: dict[str, Any], account: dict[str, Any], governs: SingleSignOn | None
) -> None:
    """That of its account, else that of its workspace, where one of them wants to; a token is never governed."""
    books.open(**workspace)
    books.do(lambda c: callers.create_key(c, new_key(**account)))
    caller = by_key(books)
    assert caller is not None
    assert caller.single_sign_on == governs
    assert books.do(lambda c: callers.caller_by_key_id(c, "key-1", NOW)).single_sign_on == governs
    assert books.do(lambda c: callers.caller_by_workspace(c, LAB, "ada", Patterns())).single_sign_on is None


@pytest.mark.req("J-11")
def test_changed_organization_takes_effect(books: Books) -> None:
    """That of a workspace and of a living key can be changed, each by itself."""
    books.open()
    books.do(lambda c: callers.create_key(c, new_key()))
    books.do(lambda c: callers.change_workspace(c, LAB, {"organization_id": "w", "sso_required": True}))
    books.do(lambda c: callers.change_key(c, "key-1", {"organization_id": "a"}))
    caller = by_key(books)
    assert caller is not None
    assert caller.single_sign_on == SingleSignOn("a")
    books.do(lambda c: callers.change_key(c, "key-1", {"organization_id": None}))
    assert books.do(lambda c: callers.caller_by_key_id(c, "key-1", NOW)).single_sign_on == SingleSignOn("w")
    books.do(lambda c: callers.revoke_key(c, "key-1", NOW))
    with pytest.raises(UnknownKeyError, match="key-1"):
        books.do(lambda c: callers.change_key(c, "key-1", {"sso_required": True}))
