"""Sealing of texts that are kept in the database and must not be read there: AES-256-GCM.

What is sealed is bound to its workspace and its provider, so that a row copied to another workspace does not open.
The form is one byte of version, twelve of nonce, then the ciphertext with its tag.
"""

import secrets
from typing import TYPE_CHECKING, Final

from fairlead.identity.master_secret import MasterSecret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PURPOSE: Final = "provider keys"
_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12


class CannotOpenError(Exception):
    """It was sealed with another secret, for another workspace or provider, or was altered since."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class Sealer:
    """Seals and opens texts with a key derived from the master secret, at their first use."""

    __slots__ = ("_cipher", "_secret")

    def __init__(self, secret: MasterSecret) -> None:
        self._secret = secret
        self._cipher: AESGCM | None = None

    def __repr__(self) -> str:
        return "Sealer(…)"

    def seal(self, workspace_id: str, provider: str, text: str) -> bytes:
        """Seal a text for a workspace and a provider, under a nonce of its own."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._ready().encrypt(nonce, text.encode(), _binding(workspace_id, provider))

    def open(self, workspace_id: str, provider: str, sealed: bytes) -> str:
        """Open what was sealed for the same workspace and provider; CannotOpenError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- as in master_secret.py

        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if sealed[:1] != _VERSION or len(nonce) != _NONCE_BYTES:
            raise CannotOpenError
        try:
            return self._ready().decrypt(nonce, content, _binding(workspace_id, provider)).decode()
        except InvalidTag:
            raise CannotOpenError from None

    def _ready(self) -> "AESGCM":
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- as in master_secret.py

            self._cipher = AESGCM(self._secret.derive(PURPOSE))
        return self._cipher


def _binding(workspace_id: str, provider: str) -> bytes:
    """What a sealed text belongs to; a provider's name has no null character, so no two pairs have one binding."""
    return b"\0".join((_VERSION, provider.encode(), workspace_id.encode()))
