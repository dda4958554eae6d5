"""The credentials of a server at NATS: a user and a password, a token, or a file of credentials as `nsc` writes it.

The file holds a JSON Web Token and the seed of an Ed25519 key, which signs a random text of the NATS server. It is read
for each connection, so that it can be replaced while the server runs.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

_BLOCK: Final = re.compile(r"-----BEGIN (NATS USER JWT|USER NKEY SEED)-----\s+([A-Za-z0-9_.=-]+)\s+-+END")
_FILE_BYTES_MAX: Final = 64 * 1024
_SEED_BYTES: Final = 36
"""Two bytes for the purpose of the key, 32 for the seed, and two for a checksum."""
_PORT: Final = 4222


class BadCredentialsError(Exception):
    """A file of credentials cannot be used. The message never repeats its content."""


class CredentialsFile:
    """A file of credentials. Its methods raise BadCredentialsError where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def token(self) -> bytes:
        """The JSON Web Token."""
        return self._read()[0]

    def sign(self, text: str) -> bytes:
        """The signature of a text, in base64."""
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 -- 9 MB that only this needs

        return base64.b64encode(ed25519.Ed25519PrivateKey.from_private_bytes(self._read()[1]).sign(text.encode()))

    def _read(self) -> tuple[bytes, bytes]:
        try:
            with self._path.open("rb") as file:
                text = file.read(_FILE_BYTES_MAX).decode("ascii", "replace")
        except OSError as error:
            raise BadCredentialsError(f"the file of credentials cannot be read: {error.strerror}") from None
        found = dict(_BLOCK.findall(text))
        try:
            seed = found["USER NKEY SEED"]
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
            if len(raw) != _SEED_BYTES:
                raise BadCredentialsError("the file of credentials has a seed of another length")
            return found["NATS USER JWT"].encode(), raw[2:34]
        except (KeyError, binascii.Error):
            raise BadCredentialsError("the file of credentials has no token and no seed of a user") from None


def address_of(url: str) -> str:
    """The URL of a server without its credentials."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or _PORT}"


class Identity(msgspec.Struct, frozen=True):
    """The credentials of a client of NATS; None for those that are not given."""

    user: str | None = None
    password: str | None = None
    token: str | None = None
    file: CredentialsFile | None = None


def identity_of(urls: Sequence[str], file: Path | None) -> Identity:
    """The credentials in the URLs of servers, or in a file."""
    if file is not None:
        return Identity(file=CredentialsFile(file))
    parts = next((found for url in urls if (found := urlsplit(url)).username), None)
    if parts is None or parts.username is None:
        return Identity()
    name = unquote(parts.username)
    return Identity(token=name) if parts.password is None else Identity(name, unquote(parts.password))
