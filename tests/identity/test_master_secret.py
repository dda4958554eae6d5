"""The server's secret: where it comes from, what is derived from it, and that nobody sees it."""

import base64
import hmac
import os
import re
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from fairlead.identity.master_secret import BadSecretError, MasterSecret, kept_secret, read_secret, secret_of

BYTES: Final = bytes(range(32))
TEXT: Final = base64.b64encode(BYTES).decode()


def test_each_purpose_has_its_own_key() -> None:
    """Each purpose has a key of its own, always the same, and none of them is the secret."""
    secret = MasterSecret(BYTES)
    keys = {secret.derive(purpose) for purpose in ("provider keys", "asset links", "")}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}
    assert BYTES not in keys
    assert MasterSecret(BYTES).derive("asset links") in keys


def test_derived_keys_follow_rfc_5869() -> None:
    """What was sealed must open after an upgrade: the derivation is that of RFC 5869, done here by hand."""
    extracted = hmac.digest(bytes(32), BYTES, "sha256")
    assert MasterSecret(BYTES).derive("provider keys") == hmac.digest(
        extracted, b"fairlead: provider keys\x01", "sha256"
    )


def test_secret_cannot_be_printed() -> None:
    """Neither form of printing shows any of it."""
    secret = MasterSecret(BYTES)
    assert (repr(secret), str(secret)) == ("MasterSecret(…)", "MasterSecret(…)")


@pytest.mark.parametrize(
    "text",
    ["", TEXT[:-4], TEXT + "AAAA", "hunter2-hunter2-hunter2", TEXT.replace("A", "!", 1), "é" * 44, TEXT + TEXT],
    ids=["nothing", "short", "long", "no base64", "another alphabet", "no ASCII", "two"],
)
def test_malformed_secret_is_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    """Anything but 32 bytes in base64 is refused in words that say what it should be, never what it is."""
    path = tmp_path / "secret-key"
    path.write_text(text)
    path.chmod(0o600)
    ways: list[Callable[[], MasterSecret]] = [
        partial(secret_of, text),
        partial(read_secret, path),
        partial(kept_secret, path),
    ]
    for read in ways:
        with pytest.raises(BadSecretError, match="32 bytes in base64") as caught:
            read()
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert not text or text not in str(caught.value)
    assert path.read_text() == text, "a bad file is left for its owner to look at"


def test_line_end_of_a_secret_is_ignored() -> None:
    """Programs that print a secret end its line."""
    assert secret_of(f" {TEXT}\n").derive("a") == MasterSecret(BYTES).derive("a")


def test_secret_file_is_made_once(tmp_path: Path) -> None:
    """The first start makes the file for its owner alone, and nothing beside it; later ones read it."""
    path = tmp_path / "secret-key"
    before = os.umask(0)
    try:
        first = kept_secret(path)
    finally:
        os.umask(before)
    written = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"[A-Za-z0-9+/]{43}=\n", written)
    assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]
    assert kept_secret(path).derive("a") == first.derive("a") == read_secret(path).derive("a")
    assert path.read_text() == written
    assert kept_secret(tmp_path / "another").derive("a") != first.derive("a")


def test_concurrent_starts_share_a_secret(tmp_path: Path) -> None:
    """Of several starts that make the file at once one wins, and all use its secret."""
    path = tmp_path / "secret-key"
    together = threading.Barrier(8)
    found: list[bytes] = []

    def start() -> None:
        together.wait(30)
        found.append(kept_secret(path).derive("a"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_secret_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A file that others can read or write is no secret; the refusal says what to do."""
    path = tmp_path / "secret-key"
    kept_secret(path)
    path.chmod(mode)
    with pytest.raises(BadSecretError, match="chmod 600"):
        kept_secret(path)


def test_reading_makes_no_secret_file(tmp_path: Path) -> None:
    """Reading makes nothing: a secret made by mistake would open nothing."""
    with pytest.raises(FileNotFoundError):
        read_secret(tmp_path / "secret-key")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Where the file cannot be made there is no secret."""
    with pytest.raises(OSError, match="secret-key"):
        kept_secret(tmp_path / "nowhere" / "secret-key")
