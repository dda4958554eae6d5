"""An account of NATS and a user of it, as `nsc` makes them: tokens that keys of operator and account have signed."""

import base64
import json
import secrets
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_OPERATOR: Final = 14 << 3
_ACCOUNT: Final = 0
_USER: Final = 20 << 3
_SEED: Final = 18 << 3


class _Key:
    """A key of NATS: its public name, its seed, and what it signs."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._raw = secrets.token_bytes(32)
        self._key = Ed25519PrivateKey.from_private_bytes(self._raw)
        self.public = _with_checksum(
            bytes([kind]) + self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        )

    @property
    def seed(self) -> str:
        """The seed in its written form."""
        return _with_checksum(bytes([_SEED | self._kind >> 5, (self._kind & 31) << 3]) + self._raw)

    def token(self, subject: "_Key", **claims: Any) -> str:
        """A token about another key."""
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        body = {"jti": "x", "iat": 1, "iss": self.public, "sub": subject.public, "name": "x", "nats": claims}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
        return f"{text}.{_base64(self._key.sign(text.encode()))}"


class Account:
    """An operator, an account and a user."""

    def __init__(self) -> None:
        """Make their keys."""
        self._operator, self._account, self._user = _Key(_OPERATOR), _Key(_ACCOUNT), _Key(_USER)

    def configuration(self) -> str:
        """What a NATS server is configured with that knows the account."""
        operator = self._operator.token(self._operator, type="operator", version=2)
        limits = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1}
        account = self._operator.token(self._account, type="account", version=2, limits={**limits, "wildcards": True})
        return f"operator: {operator}\nresolver: MEMORY\nresolver_preload: {{ {self._account.public}: {account} }}\n"

    def credentials(self) -> str:
        """The user's file of credentials."""
        limits = {"subs": -1, "data": -1, "payload": -1}
        token = self._account.token(self._user, type="user", version=2, pub={}, sub={}, **limits)
        return (
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self._user.seed}\n------END USER NKEY SEED------\n"
        )


def _with_checksum(raw: bytes) -> str:
    """Bytes with their check sum (CRC-16/XMODEM), as NATS writes keys."""
    crc = 0
    for byte in raw:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(raw + crc.to_bytes(2, "little")).decode().rstrip("=")


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
