"""Where the keys that verify tokens come from: a shared secret, a file, or an address.

A key is bound to one algorithm when it is read, never by the token that names it: a public key published for RS256 can
therefore not be used as the secret of an HS256 token.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import jiter
import msgspec

from fairlead.documents.values import has_more_values
from fairlead.http_client.transport import Transport, TransportError

_FETCH_SECONDS: Final = 5.0
_SET_BYTES_MAX: Final = 256 * 1024
_SET_KEYS_MAX: Final = 100
_SET_VALUES_MAX: Final = 10_000
_CANDIDATES_MAX: Final = 4
_RSA_BITS: Final = range(2048, 8192 + 1)
_SECRET_BYTES_MIN: Final = 32
_RETRY_SECONDS: Final = 10.0
_RETRY_SECONDS_WITHOUT_KEYS: Final = 1.0

_PUBLIC_KEY_ALGORITHMS: Final = frozenset({"RS256", "ES256"})
_Stamp: TypeAlias = tuple[int, int, int]


class KeysUnavailableError(Exception):
    """The keys that verify tokens are not available now, so that no token can be verified. Trying again may help."""


class KeySetError(ValueError):
    """This is not a JSON Web Key Set, or it is too large to be taken for one."""


class VerificationKey(msgspec.Struct, frozen=True):
    """A key under its issuer's name, for one algorithm only; `material` is in PyJWT's form."""

    kid: str | None
    algorithm: str
    material: Any


class KeySource(Protocol):
    """The source of a verifier's keys."""

    @property
    def algorithms(self) -> frozenset[str]:
        """The algorithms of the tokens it can have keys for."""
        ...

    async def find(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """Find the few keys a token may be signed with; none when its issuer has no such key.

        KeysUnavailableError when that cannot be known.
        """
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...


class SharedSecret:
    """One secret known to the issuer and to us (HS256); ValueError for one too short or that is really a public key."""

    algorithms: Final = frozenset({"HS256"})

    def __init__(self, secret: str) -> None:
        from jwt import PyJWTError  # noqa: PLC0415 -- a server without tokens must not pay for PyJWT
        from jwt.algorithms import HMACAlgorithm  # noqa: PLC0415 -- same

        try:
            material = HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(secret)
        except PyJWTError as error:
            raise ValueError("the shared secret of tokens is empty, or a key of another kind") from error
        if len(material) < _SECRET_BYTES_MIN:
            raise ValueError(f"the shared secret of tokens needs at least {_SECRET_BYTES_MIN} bytes (RFC 7518)")
        self._keys = (VerificationKey(None, "HS256", material),)

    async def find(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """Return the secret, whatever the token calls it."""
        del kid
        return self._keys if algorithm in self.algorithms else ()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


class KeyFile:
    """A JSON Web Key Set in a file, read again when the file changes.

    A missing or broken file makes the keys unavailable at once: the file is the operator's, and removing it is
    deliberate.
    """

    algorithms: Final = _PUBLIC_KEY_ALGORITHMS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self._keys: tuple[VerificationKey, ...] | None = None

    async def find(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """Find keys in the file as it is now."""
        return candidates(self._current(), algorithm, kid)

    async def close(self) -> None:
        """Do nothing: the file is not kept open."""

    def _current(self) -> tuple[VerificationKey, ...]:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._stamp = self._keys = None
                self._keys = read_key_set(self._read())
                self._stamp = stamp
        except OSError as error:
            raise KeysUnavailableError(f"the key set cannot be read: {error.strerror}") from error
        except KeySetError as error:
            self._stamp = stamp  # a broken file is parsed once, not once a token
            raise KeysUnavailableError(f"the key set cannot be used: {error}") from error
        if self._keys is None:
            raise KeysUnavailableError("the key set cannot be used, and has not changed since")
        return self._keys

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            # One byte more than is allowed shows that there is too much.
            return file.read(_SET_BYTES_MAX + 1)


class KeyUrl:
    """A JSON Web Key Set at an address, kept for a while.

    It is fetched again after `max_age` seconds, or when a token names a key it does not have; the latter at most every
    ten seconds, so that forged names cannot cause many requests to the issuer. While the issuer cannot be reached the
    old keys are good for `stale` seconds more. There is one fetch at a time, which goes on when the caller who has
    caused it leaves.
    """

    algorithms: Final = _PUBLIC_KEY_ALGORITHMS

    def __init__(
        self, url: str, *, max_age: float = 300, stale: float = 3600, now: Callable[[], float] = time.monotonic
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the address of a key set starts with http:// or https:// and names a host")
        self._url = url
        self._max_age = max_age
        self._stale = stale
        self._now = now
        self._transport = Transport()
        self._fetching: asyncio.Task[None] | None = None
        self._keys: tuple[VerificationKey, ...] = ()
        self._fetched_at: float | None = None
        self._searched_at: float | None = None
        self._failed_at: float | None = None
        self._failure = "they were never fetched"

    @property
    def failure(self) -> str | None:
        """Why the last fetch failed, fit for a log; None when it did not."""
        return None if self._failed_at is None else self._failure

    async def find(self, algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
        """Find keys in the set as last fetched, fetching it when it is old or lacks the key."""
        just_fetched = await self._renew()
        found = candidates(self._usable(), algorithm, kid)
        if found or kid is None or just_fetched or not self._may_search():
            return found
        if (fetch := self._running_fetch()) is not None:
            await asyncio.shield(fetch)
        return candidates(self._usable(), algorithm, kid)

    async def close(self) -> None:
        """End a running fetch and close the connections."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait((self._fetching,))
        await self._transport.close()

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._now() - self._fetched_at

    def _has_usable(self) -> bool:
        return self._age() < self._max_age + self._stale

    def _usable(self) -> tuple[VerificationKey, ...]:
        if not self._has_usable():
            raise KeysUnavailableError(f"the key set cannot be fetched: {self._failure}")
        return self._keys

    def _may_search(self) -> bool:
        """Whether an unknown name may cost a fetch now; if so it is counted."""
        now = self._now()
        if self._fetching is None:
            if self._searched_at is not None and now - self._searched_at < _RETRY_SECONDS:
                return False
            self._searched_at = now
        return True

    def _may_try(self) -> bool:
        pause = _RETRY_SECONDS if self._has_usable() else _RETRY_SECONDS_WITHOUT_KEYS
        return self._failed_at is None or self._now() - self._failed_at >= pause

    async def _renew(self) -> bool:
        """Fetch a set that is old; whether a fetch was waited for.

        An issuer that did not answer last time is asked again without waiting, as long as there are keys to use: it
        may take until the time limit, and every caller would.
        """
        if self._age() < self._max_age or (fetch := self._running_fetch()) is None:
            return False
        if self._failed_at is not None and self._has_usable():
            return False
        await asyncio.shield(fetch)
        return True

    def _running_fetch(self) -> asyncio.Task[None] | None:
        """Return the fetch under way, or a new one; None when one failed too shortly ago."""
        if self._fetching is None and self._may_try():
            self._fetching = asyncio.create_task(self._fetch(), name="fairlead-key-set")
        return self._fetching

    async def _fetch(self) -> None:
        """Replace the keys, or keep the reason why not."""
        try:
            keys = read_key_set(await self._download())
        except (KeySetError, TransportError) as error:
            # The text of a foreign error may repeat the address, and that may hold a password.
            self._failure = str(error) if isinstance(error, KeySetError) else type(error).__name__
            self._failed_at = self._now()
        else:
            self._keys = keys
            self._fetched_at = self._now()
            self._failed_at = None
        finally:
            self._fetching = None

    async def _download(self) -> bytes:
        answer = await self._transport.send(
            "GET", self._url, {"Accept": "application/json"}, None, seconds=_FETCH_SECONDS, limit=_SET_BYTES_MAX + 1
        )
        if answer.status != 200:  # noqa: PLR2004 -- the one status that carries a key set
            raise KeySetError(f"it was answered with status {answer.status}")
        return answer.content


def candidates(keys: tuple[VerificationKey, ...], algorithm: str, kid: str | None) -> tuple[VerificationKey, ...]:
    """Choose the keys a token may be signed with: those of its algorithm and name, at most four.

    A token that names no key may be signed with any of its algorithm, which is how issuers with one key do it.
    """
    chosen = (key for key in keys if key.algorithm == algorithm and kid in (None, key.kid))
    return tuple(key for key, _ in zip(chosen, range(_CANDIDATES_MAX), strict=False))


def read_key_set(text: bytes) -> tuple[VerificationKey, ...]:
    """Read a JSON Web Key Set, without the keys that cannot be used here; KeySetError for anything else."""
    if len(text) > _SET_BYTES_MAX:
        raise KeySetError(f"it is larger than {_SET_BYTES_MAX} bytes")
    if has_more_values(text, _SET_VALUES_MAX):
        raise KeySetError(f"it holds more than {_SET_VALUES_MAX} values")
    try:
        document = jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise KeySetError("it is not JSON") from error
    match document:
        case {"keys": list(entries)} if len(entries) <= _SET_KEYS_MAX:
            return tuple(key for entry in entries if (key := _read_key(entry)) is not None)
        case {"keys": list()}:
            raise KeySetError(f"it has more than {_SET_KEYS_MAX} keys")
        case _:
            raise KeySetError("it has no list of keys")


def _read_key(entry: object) -> VerificationKey | None:
    """Read one key, or None when it is not a public key for signatures that we know how to verify.

    A key that comes with its private half is left out: anyone who could read the set could have signed the token.
    """
    if not isinstance(entry, dict):
        return None
    match entry:
        case {"d": _}:
            return None
        case {"kty": "RSA", "n": str(), "e": str()}:
            algorithm = "RS256"
        case {"kty": "EC", "crv": "P-256", "x": str(), "y": str()}:
            algorithm = "ES256"
        case _:
            return None
    kid = entry.get("kid")
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm or not isinstance(kid, str | None):
        return None
    material = _read_material(algorithm, entry)
    return None if material is None else VerificationKey(kid, algorithm, material)


def _read_material(algorithm: str, entry: dict[str, object]) -> object:
    """Build the public key of an entry; None when its numbers make no key, or a weak one."""
    from jwt import PyJWTError  # noqa: PLC0415 -- a server without tokens must not pay for PyJWT
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm  # noqa: PLC0415 -- same

    try:
        if algorithm == "ES256":
            return ECAlgorithm.from_jwk(entry)
        key = RSAAlgorithm.from_jwk(entry)
    except (PyJWTError, ValueError):
        return None
    return key if key.key_size in _RSA_BITS else None
