"""Seals texts that are stored in the database and must not be readable there: AES-256-GCM.

A sealed text is bound to its workspace and its purpose, such as its provider, so that a row copied to another workspace
does not open. The form is one byte of version, the name of the master secret that sealed it, twelve bytes of nonce,
then the ciphertext with its tag. The first version had no name of a secret; it is still opened.
"""

import secrets
from typing import TYPE_CHECKING, Final

from fairlead.identity.master_secret import ID_BYTES, MasterSecret, Secrets

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PURPOSE: Final = "provider keys"
PREFIX_BYTES: Final = 1 + ID_BYTES
"""The prefix of all that one secret has sealed."""
_NAMELESS: Final = b"\x01"
_VERSION: Final = b"\x02"
_NONCE_BYTES: Final = 12


class CannotOpenError(Exception):
    """It was sealed with another secret, for another workspace or purpose, or was altered since."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class Sealer:
    """Seals texts with the current master secret, and opens what any of the known ones has sealed."""

    __slots__ = ("_ciphers", "_secrets")

    def __init__(self, secrets_: Secrets) -> None:
        self._secrets = secrets_
        self._ciphers: dict[bytes, AESGCM] = {}

    def __repr__(self) -> str:
        return "Sealer(…)"

    @property
    def prefix(self) -> bytes:
        """The prefix of everything that is sealed now."""
        return _VERSION + self._secrets.list_all()[0].id

    def seal(self, workspace_id: str, what: str, text: str) -> bytes:
        """Seal a text for a workspace and a purpose, such as its provider, under a nonce of its own."""
        nonce, current = secrets.token_bytes(_NONCE_BYTES), self._secrets.list_all()[0]
        sealed = self._cipher(current).encrypt(nonce, text.encode(), _binding(_VERSION, workspace_id, what))
        return _VERSION + current.id + nonce + sealed

    def open(self, workspace_id: str, what: str, sealed: bytes) -> str:
        """Open what was sealed for the same workspace and purpose; CannotOpenError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- as in master_secret.py

        version = sealed[:1]
        start = PREFIX_BYTES if version == _VERSION else len(_NAMELESS)
        nonce, content = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
        if version not in (_NAMELESS, _VERSION) or len(nonce) != _NONCE_BYTES:
            raise CannotOpenError
        for secret in self._candidates(sealed):
            try:
                return self._cipher(secret).decrypt(nonce, content, _binding(version, workspace_id, what)).decode()
            except InvalidTag:
                continue
        raise CannotOpenError

    def _candidates(self, sealed: bytes) -> list[MasterSecret]:
        """The secrets that may have sealed it; an unknown one is looked for at their source."""
        if sealed[:1] == _NAMELESS:
            return list(self._secrets.list_all())
        name = sealed[1:PREFIX_BYTES]
        found = [secret for secret in self._secrets.list_all() if secret.id == name]
        return found or [secret for secret in self._secrets.list_all(fresh=True) if secret.id == name]

    def _cipher(self, secret: MasterSecret) -> "AESGCM":
        found = self._ciphers.get(secret.id)
        if found is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- as in master_secret.py

            found = self._ciphers[secret.id] = AESGCM(secret.derive(PURPOSE))
        return found


def _binding(version: bytes, workspace_id: str, what: str) -> bytes:
    """What a sealed text belongs to; a provider's name has no null character, so no two pairs have one binding."""
    return b"\0".join((version, what.encode(), workspace_id.encode()))
