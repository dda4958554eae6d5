"""Workspaces' own provider keys as rows: one a provider, seen by nobody else."""

import pytest

from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.accounts.provider_keys import StoredKey
from fairlead.storage.accounts import provider_keys, workspaces
from fairlead.storage.accounts.provider_keys import SealedKey
from storage.bookings import LAB, NOW, Books, new_key


def sealed_key(provider: str = "acme", workspace_id: str = LAB, sealed: bytes = b"\x01s", at: int = NOW) -> SealedKey:
    """Return a sealed key."""
    return SealedKey(workspace_id, sealed, StoredKey(provider, "last", at))


def put(books: Books, key: SealedKey) -> bool:
    """Keep a key, and say whether there was none."""
    new: bool = books.do(lambda c: provider_keys.put_key(c, key))
    return new


@pytest.mark.req("R-17")
def test_second_key_replaces_the_first(books: Books) -> None:
    """A second key for a provider takes the place of the first, and says so."""
    books.open()
    assert put(books, sealed_key()) is True
    assert put(books, sealed_key(sealed=b"\x01t\0\xff", at=NOW + 1)) is False
    assert books.do(lambda c: provider_keys.list_keys(c, LAB)) == [StoredKey("acme", "last", NOW + 1)]
    assert books.do(lambda c: provider_keys.find_sealed(c, LAB, "acme")) == b"\x01t\0\xff"


@pytest.mark.req("R-17")
def test_workspace_sees_its_own_keys_alone(books: Books) -> None:
    """Listing, finding and deleting go by workspace and provider, both."""
    books.open()
    books.open(id_="other-id")
    for provider, workspace_id in (("zoo", LAB), ("acme", LAB), ("acme", "other-id")):
        put(books, sealed_key(provider, workspace_id, sealed=f"{provider} {workspace_id}".encode()))
    listed = books.do(lambda c: provider_keys.list_keys(c, LAB))
    assert [key.provider for key in listed] == ["acme", "zoo"]
    assert books.do(lambda c: provider_keys.find_sealed(c, "other-id", "acme")) == b"acme other-id"
    assert books.do(lambda c: provider_keys.find_sealed(c, "other-id", "zoo")) is None
    assert books.do(lambda c: provider_keys.delete_key(c, "other-id", "zoo")) is False
    assert books.do(lambda c: provider_keys.delete_key(c, LAB, "acme")) is True
    assert books.do(lambda c: provider_keys.delete_key(c, LAB, "acme")) is False
    assert books.do(lambda c: provider_keys.find_sealed(c, "other-id", "acme")) == b"acme other-id"


def test_key_needs_its_workspace(books: Books) -> None:
    """A key needs its workspace."""
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        put(books, sealed_key())


@pytest.mark.req("R-17")
def test_caller_knows_which_keys_its_workspace_has(books: Books) -> None:
    """A caller knows the providers its workspace has keys for, by key and by token, and no others."""
    books.open()
    books.open(id_="other-id")
    books.do(lambda c: workspaces.create_key(c, new_key()))

    def find_callers() -> list[frozenset[str]]:
        found: list[Caller] = [
            books.do(lambda c: workspaces.caller_by_key(c, "digest-of-key-1", NOW)),
            books.do(lambda c: workspaces.caller_by_workspace(c, LAB, "ada", Patterns())),
        ]
        return [caller.own_keys for caller in found]

    put(books, sealed_key("acme", "other-id"))
    assert find_callers() == [frozenset()] * 2
    for provider in ("acme", "b.c_d-e"):
        put(books, sealed_key(provider))
    assert find_callers() == [frozenset({"acme", "b.c_d-e"})] * 2
    books.do(lambda c: provider_keys.delete_key(c, LAB, "acme"))
    assert find_callers() == [frozenset({"b.c_d-e"})] * 2
