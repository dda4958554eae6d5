"""The server's master secret, and the keys that are derived from it: one for each purpose, none of them the secret.

It is given in a setting, or made once and kept in a file for its owner alone. Servers that share a database must share
it, or none of them can open what another has sealed.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

SECRET_BYTES: Final = 32
ID_BYTES: Final = 8
_FILE_BYTES_MAX: Final = 256
_FORM: Final = f"must be {SECRET_BYTES} bytes in base64, as `openssl rand -base64 {SECRET_BYTES}` prints them"


class BadSecretError(ValueError):
    """A text or a file that holds no master secret. The message never repeats the content."""


class Secrets(Protocol):
    """The master secrets that are valid at the moment."""

    def list_all(self, *, fresh: bool = False) -> Sequence["MasterSecret"]:
        """The known ones, the current one first. With `fresh` they are read again from their source."""
        ...


class MasterSecret:
    """Thirty-two secret bytes, hidden in its repr; BadSecretError for any other number.

    By itself it is the current one.
    """

    __slots__ = ("_material", "id")

    def __init__(self, material: bytes) -> None:
        if len(material) != SECRET_BYTES:
            raise BadSecretError(_FORM)
        self._material = material
        self.id: Final = self.derive("the name of this secret")[:ID_BYTES]
        """Its name in what was sealed with it, which reveals nothing of it."""

    def list_all(self, *, fresh: bool = False) -> Sequence["MasterSecret"]:
        """Itself."""
        del fresh
        return (self,)

    def __repr__(self) -> str:
        return "MasterSecret(…)"

    def derive(self, purpose: str) -> bytes:
        """Derive the 32-byte key of one purpose (HKDF-SHA256, RFC 5869), which reveals nothing of any other key."""
        # Written out in two steps, because `cryptography` takes 9 MB, which a server that seals nothing need not pay; a
        # test compares it with that library.
        extracted = hmac.digest(bytes(hashlib.sha256().digest_size), self._material, "sha256")
        return hmac.digest(extracted, b"fairlead: " + purpose.encode() + b"\x01", "sha256")


def secret_of(text: str) -> MasterSecret:
    """Read a secret in its written form, base64; BadSecretError."""
    try:
        return MasterSecret(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError):
        raise BadSecretError(_FORM) from None  # the cause would hold the text


def read_secret(path: Path) -> MasterSecret:
    """Read the secret of a file that is its owner's alone; BadSecretError, FileNotFoundError and other OSErrors."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode & 0o777
        if mode & 0o077:
            raise BadSecretError(f"{path} is open to others ({mode:o}); run chmod 600 on it")
        content = file.read(_FILE_BYTES_MAX)
    try:
        return secret_of(content.decode("ascii", "replace"))
    except BadSecretError as error:
        raise BadSecretError(f"{path} {error}") from None  # the same


def kept_secret(path: Path) -> MasterSecret:
    """Read the secret of a file, which is made where there is none yet; BadSecretError, OSError.

    The file appears whole or not at all: a crash leaves no half of it, and of two that make it at once one wins.
    """
    with suppress(FileNotFoundError):
        return read_secret(path)
    _make(path)
    return read_secret(path)


def _make(path: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # O_EXCL, 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(SECRET_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first, and all use its secret
            os.link(name, path)
        sync_folder(path.parent)
    finally:
        Path(name).unlink()


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable: what is sealed must not outlive the secret."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
