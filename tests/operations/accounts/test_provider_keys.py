"""Workspaces' own provider keys: stored, told of, opened for a run, and refused."""

from typing import Any, Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Fault, FaultError, InvalidInput, ModelNotFound, RequestNotFound, ServiceUnavailable
from fairlead.identity.master_secret import MasterSecret
from fairlead.identity.sealing import Sealer
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from operations.servers import Guarded
from storage.bookings import NOW, Books

KEY: Final = "sk-a-distinctive-key"
CLOCK: Final = Clock(lambda: NOW * 1_000_000)


@pytest.fixture
def authenticator(guarded: Guarded) -> Authenticator:
    """Return an authenticator for keys."""
    return Authenticator(guarded, None)


@pytest.fixture
def credential(guarded: Guarded, run: Run) -> ApiKey:
    """Return a key of a workspace."""
    run(create_workspace(guarded, NewWorkspace(name="lab"), CLOCK))
    return ApiKey(run(issue_key(guarded, "lab", "", None, "flk_", CLOCK)).text)


@pytest.fixture
def lab(authenticator: Authenticator, credential: ApiKey, run: Run) -> str:
    """Return the id of the workspace."""
    caller: Caller = run(authenticator.authenticate(credential))
    return caller.workspace_id


def keys_of(database: Guarded, authenticator: Authenticator, secret: int = 0) -> ProviderKeys:
    """Make what keeps keys, with one of several secrets."""
    sealer = Sealer(MasterSecret(bytes([secret] * 32)))
    return ProviderKeys(database, sealer, {"acme": True, "zoo": True, "open": False}, CLOCK, authenticator.forget)


@pytest.fixture
def keys(guarded: Guarded, authenticator: Authenticator) -> ProviderKeys:
    """Return what keeps keys."""
    return keys_of(guarded, authenticator)


def refusal_of(run: Run, work: Any) -> Fault:
    """Check that work is refused, in words without the key, and return the fault."""
    with pytest.raises(FaultError) as caught:
        run(work)
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value.__cause__)
    return caught.value.fault


@pytest.mark.req("R-17")
def test_key_is_sealed_and_opened_unchanged(keys: ProviderKeys, lab: str, run: Run, books: Books) -> None:
    """A key is sealed in the database, told of by its end, and opened whole."""
    told, is_new = run(keys.put(lab, "acme", KEY))
    assert (told.provider, told.hint, told.created_at, is_new) == ("acme", "-key", NOW, True)
    (row,) = books.rows("SELECT * FROM provider_keys")
    assert KEY.encode() not in bytes(row["sealed"])
    assert run(keys.list_all(lab)) == [told]
    assert run(keys.find(lab, "acme")) == told
    assert run(keys.open(lab, "acme")) == KEY
    assert run(keys.put(lab, "acme", "sk-another-key-2"))[1] is False
    assert run(keys.open(lab, "acme")) == "sk-another-key-2"


@pytest.mark.req("R-17")
@pytest.mark.parametrize("text", ["", KEY + "\n", KEY + "é", KEY * 300, "{" + KEY * 300, " " + KEY])
def test_text_that_is_no_key_is_refused(keys: ProviderKeys, lab: str, run: Run, text: str) -> None:
    """What cannot be a key is invalid, and never repeated."""
    assert isinstance(refusal_of(run, keys.put(lab, "acme", text)), InvalidInput)
    assert run(keys.list_all(lab)) == []


@pytest.mark.req("R-17")
def test_key_for_an_unknown_or_keyless_provider_is_refused(keys: ProviderKeys, lab: str, run: Run) -> None:
    """An unknown provider is a model nobody has; one that is called without a key of the caller's takes none."""
    unknown = refusal_of(run, keys.put(lab, "nobody", KEY))
    assert isinstance(unknown, ModelNotFound)
    assert unknown.detail == "There is no provider nobody."
    assert isinstance(refusal_of(run, keys.put(lab, "open", KEY)), InvalidInput)


def test_missing_key_is_not_found(keys: ProviderKeys, lab: str, run: Run) -> None:
    """Where nothing is stored there is nothing to show or to delete, whatever the name."""
    for provider in ("acme", "nobody", "\0", "x" * 1000):
        assert isinstance(refusal_of(run, keys.find(lab, provider)), RequestNotFound)
        assert isinstance(refusal_of(run, keys.delete(lab, provider)), RequestNotFound)
    run(keys.put(lab, "acme", KEY))
    run(keys.delete(lab, "acme"))
    assert run(keys.list_all(lab)) == []
    assert isinstance(refusal_of(run, keys.open(lab, "acme")), ServiceUnavailable)


@pytest.mark.req("R-17")
def test_key_sealed_with_a_lost_secret_must_be_stored_again(
    keys: ProviderKeys, guarded: Guarded, authenticator: Authenticator, lab: str, run: Run
) -> None:
    """A key that cannot be opened is for its owner to store again; it is still told of, and replaced."""
    run(keys.put(lab, "acme", KEY))
    later = keys_of(guarded, authenticator, secret=1)
    fault = refusal_of(run, later.open(lab, "acme"))
    assert isinstance(fault, InvalidInput)
    assert "Store it again" in fault.detail
    assert run(later.find(lab, "acme")).hint == "-key"
    run(later.put(lab, "acme", KEY))
    assert run(later.open(lab, "acme")) == KEY


@pytest.mark.req("R-17")
def test_copied_row_does_not_open_elsewhere(keys: ProviderKeys, lab: str, run: Run, books: Books) -> None:
    """A row that was moved to another provider, or workspace, does not open there."""
    run(keys.put(lab, "acme", KEY))
    books.sql("UPDATE provider_keys SET provider = 'zoo'")
    assert isinstance(refusal_of(run, keys.open(lab, "zoo")), InvalidInput)
    books.sql("UPDATE provider_keys SET provider = 'acme'")
    assert run(keys.open(lab, "acme")) == KEY
    books.open(id_="thief")
    books.sql("UPDATE provider_keys SET workspace_id = 'thief'")
    assert isinstance(refusal_of(run, keys.open("thief", "acme")), InvalidInput)


def test_unavailable_database_makes_every_verb_unavailable(
    keys: ProviderKeys, guarded: Guarded, lab: str, run: Run
) -> None:
    """While the database is away, every verb is unavailable."""
    run(keys.put(lab, "acme", KEY))
    works = (
        lambda: keys.put(lab, "acme", KEY),
        lambda: keys.list_all(lab),
        lambda: keys.find(lab, "acme"),
        lambda: keys.delete(lab, "acme"),
        lambda: keys.open(lab, "acme"),
    )
    for work in works:
        guarded.refusals = 1
        assert isinstance(refusal_of(run, work()), ServiceUnavailable)
    assert run(keys.open(lab, "acme")) == KEY


@pytest.mark.req("R-17")
def test_new_key_is_known_at_once(
    keys: ProviderKeys, authenticator: Authenticator, credential: ApiKey, lab: str, run: Run
) -> None:
    """In the process that changed a key, the very next call knows it: nothing older is remembered."""
    assert authenticator.recall(credential) is not None
    run(keys.put(lab, "acme", KEY))
    assert authenticator.recall(credential) is None
    assert run(authenticator.authenticate(credential)).own_keys == {"acme"}
    run(keys.delete(lab, "acme"))
    assert run(authenticator.authenticate(credential)).own_keys == frozenset()


@pytest.mark.req("R-17")
def test_slow_read_does_not_bring_an_old_key_back(
    authenticator: Authenticator, guarded: Guarded, credential: ApiKey, lab: str, run: Run
) -> None:
    """What was read before a change is not remembered after it."""
    authenticator.forget(lab)
    read = guarded.read

    async def slow_read(work: Any) -> Any:
        found = await read(work)
        authenticator.forget(lab)
        return found

    guarded.read = slow_read  # type: ignore[method-assign]
    run(authenticator.authenticate(credential))
    assert authenticator.recall(credential) is None


def test_change_of_one_workspace_leaves_the_others_remembered(
    authenticator: Authenticator, credential: ApiKey, lab: str, run: Run
) -> None:
    """A change of one workspace costs the others nothing."""
    run(authenticator.authenticate(credential))
    authenticator.forget("another")
    assert authenticator.recall(credential) is not None
    authenticator.forget(lab)
    assert authenticator.recall(credential) is None
