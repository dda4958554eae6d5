"""Another master secret: nothing that the one before has sealed, signed or derived is lost on the way (S-10)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.provider_keys import StoredKey
from fairlead.identity.links import LinkRefusedError, Links
from fairlead.identity.master_secret import MasterSecret, Secrets
from fairlead.identity.sealing import PREFIX_BYTES, CannotOpenError, Sealer
from fairlead.identity.secret_ring import (
    DerivedKeys,
    FixedSecrets,
    RingEntry,
    SecretFile,
    announce,
    new_text,
    read_ring,
    rotate_ring,
    without_former,
    write_ring,
)
from fairlead.operations.accounts import secrets as operations
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from fairlead.storage.accounts import provider_keys, sealed_rows
from fairlead.storage.accounts.provider_keys import SealedKey
from identity.test_links import parts_of
from operations.servers import Guarded
from storage.bookings import NOW

pytestmark = pytest.mark.req("S-10")

_OLD, _NEW, _OTHER = (MasterSecret(bytes([number] * 32)) for number in (1, 2, 3))
_BEFORE, _AFTER = FixedSecrets([_OLD]), FixedSecrets([_NEW, _OLD])
_CLOCK: Final = Clock(lambda: NOW * 1_000_000)
_PROVIDERS: Final = 450


class KilledError(Exception):
    """The process is no more."""


@pytest.fixture
def lab(guarded: Guarded, run: Run) -> str:
    """Return the id of a workspace."""
    run(create_workspace(guarded, NewWorkspace(name="lab"), _CLOCK))
    key = run(issue_key(guarded, "lab", "", None, "flk_", _CLOCK))
    caller: Caller = run(Authenticator(guarded, None).authenticate(ApiKey(key.text)))
    return caller.workspace_id


@pytest.fixture
def stored(guarded: Guarded, lab: str, run: Run) -> Callable[..., None]:
    """Return a function that stores a key at a provider as a server with some secrets does."""

    def store(secrets: Secrets, *providers: str) -> None:
        sealer = Sealer(secrets)

        def put(connection: Any) -> None:
            for provider in providers:
                sealed = sealer.seal(lab, provider, f"key at {provider}")
                provider_keys.put_key(connection, SealedKey(lab, sealed, StoredKey(provider, "", NOW)))

        run(guarded.write(put))

    return store


def _open_key(guarded: Guarded, run: Run, lab: str, secrets: Secrets, provider: str) -> str:
    sealed = run(guarded.read(lambda c: provider_keys.find_sealed(c, lab, provider)))
    return Sealer(secrets).open(lab, provider, sealed)


def test_all_that_was_sealed_opens_with_the_new_secret_alone_afterwards(
    guarded: Guarded, lab: str, stored: Callable[..., None], run: Run
) -> None:
    """Several batches, with rows of the first version among them, and one that no known secret opens."""
    names = [f"p{number:03}" for number in range(_PROVIDERS)]
    stored(_BEFORE, *names)
    stored(FixedSecrets([_OTHER]), "strange")
    found = run(operations.reseal(guarded, _AFTER))
    assert (found.done, found.unreadable) == (_PROVIDERS, 1)
    assert run(operations.uses(guarded, _AFTER)) == {
        _NEW.id.hex(): _PROVIDERS, _OLD.id.hex(): 0, _OTHER.id.hex(): 1,
    }  # fmt: skip
    for name in names[:: _PROVIDERS // 7]:
        assert _open_key(guarded, run, lab, FixedSecrets([_NEW]), name) == f"key at {name}"
    assert run(operations.reseal(guarded, _AFTER)).done == 0


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_rotation_that_is_killed_in_the_middle_is_taken_up_where_it_was(
    guarded: Guarded, lab: str, stored: Callable[..., None], run: Run, batches: int
) -> None:
    """What was done stays done, every key opens in between, and the rest follows; none is sealed twice."""
    names = [f"p{number:03}" for number in range(_PROVIDERS)]
    stored(_BEFORE, *names)
    heard: list[int] = []

    def die(done: int) -> None:
        heard.append(done)
        if len(heard) > batches:
            raise KilledError

    with pytest.raises(KilledError):
        run(operations.reseal(guarded, _AFTER, die))
    for name in names[:: _PROVIDERS // 7]:
        assert _open_key(guarded, run, lab, _AFTER, name) == f"key at {name}"
    assert run(operations.reseal(guarded, _AFTER)).done == _PROVIDERS - heard[-1]


def test_key_that_is_changed_meanwhile_is_not_overwritten(
    guarded: Guarded, lab: str, stored: Callable[..., None], run: Run
) -> None:
    """A row is replaced only as it was read."""
    stored(_BEFORE, "acme")
    table = sealed_rows.SEALED[0]
    prefix = Sealer(_AFTER).prefix
    (row,) = run(guarded.read(lambda c: sealed_rows.outdated_rows(c, table, prefix, None, 10)))
    stored(_AFTER, "acme")
    changed = run(guarded.read(lambda c: provider_keys.find_sealed(c, lab, "acme")))
    assert run(guarded.write(lambda c: sealed_rows.replace_sealed(c, table, [(row, b"older")]))) == 0
    assert run(guarded.read(lambda c: provider_keys.find_sealed(c, lab, "acme"))) == changed


def test_webhook_secrets_stay_what_they_are_through_a_rotation_and_its_end(
    guarded: Guarded, lab: str, run: Run
) -> None:
    """Those that derive and those that were rotated, before, during and after; a new workspace derives from the new."""
    run(operations.note_first_secret(guarded, _BEFORE))
    run(create_workspace(guarded, NewWorkspace(name="other"), _CLOCK))
    rotated_workspace = run(guarded.read(lambda c: sealed_rows.derived_webhook_secrets(c, "", 9)))[-1][0]
    before = WebhookSecrets(guarded, _BEFORE, _CLOCK)
    run(before.rotate(rotated_workspace))
    told = {id_: run(before.show(id_)).text for id_ in (lab, rotated_workspace)}
    assert len({*told.values()}) == 2

    def show_secret(secrets: Secrets) -> dict[str, str]:
        office = WebhookSecrets(guarded, secrets, _CLOCK)
        return {id_: run(office.show(id_)).text for id_ in told}

    assert show_secret(_AFTER) == told
    run(operations.reseal(guarded, _AFTER))
    assert show_secret(_AFTER) == show_secret(_BEFORE if lab == rotated_workspace else _AFTER) == told
    assert run(operations.keep_derived(guarded, _AFTER)) >= 1
    assert show_secret(FixedSecrets([_NEW])) == told
    assert run(operations.keep_derived(guarded, _AFTER)) == 0
    assert run(WebhookSecrets(guarded, FixedSecrets([_NEW]), _CLOCK).rotate(lab)).text not in told.values()


def test_link_of_before_is_good_until_its_secret_is_forgotten() -> None:
    """Links are signed with the current secret, and verified with each that is known."""
    old, both, new = (Links(DerivedKeys(known, "links")) for known in (_BEFORE, _AFTER, FixedSecrets([_NEW])))
    made = parts_of(old.sign("asset-1", NOW + 60, "a.png", "inline"))
    assert both.verify(made, NOW) == NOW + 60
    assert new.verify(parts_of(both.sign("asset-1", NOW + 60, "a.png", "inline")), NOW) == NOW + 60
    with pytest.raises(LinkRefusedError):
        new.verify(made, NOW)


def test_row_says_which_secret_sealed_it_and_rows_without_a_name_still_open() -> None:
    """The name is in front of the nonce; what the version before has sealed is tried with each secret."""
    sealed = Sealer(_AFTER).seal("w", "acme", "text")
    assert sealed[1:PREFIX_BYTES] == _NEW.id
    with pytest.raises(CannotOpenError):
        Sealer(_BEFORE).open("w", "acme", sealed)
    assert Sealer(_AFTER).open("w", "acme", _seal_as_version_before()) == "text"


def _seal_as_version_before() -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- heavy, and only here

    nonce = bytes(12)
    return b"\x01" + nonce + AESGCM(_OLD.derive("provider keys")).encrypt(nonce, b"text", b"\x01\0acme\0w")


def test_servers_learn_of_a_rotation_from_their_file(tmp_path: Path) -> None:
    """Within a second, or at once where something was sealed with a secret that is missed."""
    path, now = tmp_path / "secret-key", [0.0]
    first, second = (SecretFile(path, make=True, now=lambda: now[0]) for _ in range(2))
    write_ring(path, rotate_ring(read_ring(path), NOW))
    assert [one.id for one in second.list_all()] == [one.id for one in first.list_all()]
    now[0] += 1
    current, former = first.list_all()
    assert second.list_all(fresh=True)[0].id == current.id != former.id
    write_ring(path, without_former(rotate_ring(read_ring(path), NOW)))
    path.chmod(0o644)
    now[0] += 1
    assert first.list_all()[0].id == current.id, "a file that cannot be used changes nothing"
    path.chmod(0o600)
    sealed = Sealer(SecretFile(path, make=False)).seal("w", "acme", "text")
    assert Sealer(first).open("w", "acme", sealed) == "text"


def test_announced_secret_becomes_the_current_one() -> None:
    """It is known before it is used; announcing twice announces one."""
    entries = announce([RingEntry(new_text())])
    assert announce(entries) == entries
    changed = rotate_ring(entries, NOW)
    assert [entry.text for entry in changed] == [entries[1].text, entries[0].text]
    assert (changed[0].is_next, changed[1].former_since) == (False, NOW)
    assert without_former(changed) == changed[:1]
    assert entries[1].text not in repr(entries)
