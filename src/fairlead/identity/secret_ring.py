"""The master secrets of a server during a rotation: which is current, and which are still valid.

The current one seals and signs. The others open and verify: former ones, and the next one, which is announced first, so
that no server meets a text that it cannot open. They are a setting, or lines of a file:

    q83vEj…                                  the current secret
    Zm9vYm…  next                            one that was announced
    aGVsbG…  former 1763800000000            a former one, and since when (ms since 1970)
"""

import base64
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairlead.identity.master_secret import (
    SECRET_BYTES,
    BadSecretError,
    MasterSecret,
    Secrets,
    kept_secret,
    secret_of,
    sync_folder,
)

SECRETS_MAX: Final = 8
_FILE_BYTES_MAX: Final = 1024
_LOOK_SECONDS: Final = 1.0
_NEXT, _FORMER = "next", "former"
_FORM: Final = "has lines of a secret in base64, and `next` or `former` with a time behind all but the first"


@dataclass(frozen=True, slots=True)
class RingEntry:
    """A secret of a ring: the current one, the next, or a former one, with the time at which it became that (ms)."""

    text: str = field(repr=False)
    is_next: bool = False
    former_since: int | None = None

    @property
    def secret(self) -> MasterSecret:
        """The secret itself."""
        return secret_of(self.text)

    def line(self) -> str:
        """The entry as a line of the file."""
        if self.former_since is not None:
            return f"{self.text}  {_FORMER} {self.former_since}"
        return f"{self.text}  {_NEXT}" if self.is_next else self.text


def new_text() -> str:
    """A new secret, in its written form."""
    return base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def secrets_of(text: str) -> tuple[MasterSecret, ...]:
    """The secrets of a setting, with commas between them, the current one first; BadSecretError."""
    found = tuple(secret_of(part) for part in text.split(","))
    if len(found) > SECRETS_MAX or len({secret.id for secret in found}) < len(found):
        raise BadSecretError(f"names at most {SECRETS_MAX} secrets, each once")
    return found


def read_ring(path: Path) -> tuple[RingEntry, ...]:
    """The entries of a file that is its owner's alone, the current one first; BadSecretError, OSError."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode & 0o777
        if mode & 0o077:
            raise BadSecretError(f"{path} is open to others ({mode:o}); run chmod 600 on it")
        content = file.read(_FILE_BYTES_MAX)
    try:
        return _entries(content.decode("ascii", "replace"))
    except BadSecretError as error:
        raise BadSecretError(f"{path} {error}") from None  # the cause would hold what was found


def write_ring(path: Path, entries: Sequence[RingEntry]) -> None:
    """Replace the entries of a file, atomically and durably: a reader finds the old ones or the new ones."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # O_EXCL, 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.writelines(f"{entry.line()}\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        sync_folder(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)


def announce(entries: Sequence[RingEntry]) -> tuple[RingEntry, ...]:
    """The entries with a next one, which is known now and used later; unchanged where there is one already."""
    if any(entry.is_next for entry in entries):
        return tuple(entries)
    return (*entries, RingEntry(new_text(), is_next=True))


def rotate_ring(entries: Sequence[RingEntry], now: int) -> tuple[RingEntry, ...]:
    """The entries with another current one: the announced one, or else a new one. BadSecretError for too many."""
    if len(entries) >= SECRETS_MAX and not any(entry.is_next for entry in entries):
        raise BadSecretError(f"holds {SECRETS_MAX} secrets already; run `fairlead secret finish` first")
    following = next((entry.text for entry in entries if entry.is_next), None) or new_text()
    return (
        RingEntry(following),
        RingEntry(entries[0].text, former_since=now),
        *(entry for entry in entries[1:] if not entry.is_next),
    )


def without_former(entries: Sequence[RingEntry]) -> tuple[RingEntry, ...]:
    """The entries without the former ones."""
    return tuple(entry for entry in entries if entry.former_since is None)


class FixedSecrets:
    """Secrets of a setting, which do not change while the server runs."""

    def __init__(self, known: Sequence[MasterSecret]) -> None:
        self._known = tuple(known)

    def __repr__(self) -> str:
        return "FixedSecrets(…)"

    def list_all(self, *, fresh: bool = False) -> Sequence[MasterSecret]:
        """The secrets."""
        del fresh
        return self._known


class SecretFile:
    """Secrets of a file, read again when it changes: within a second, or when a secret is missing.

    Where the file can no longer be read, the known secrets stay in use. BadSecretError and OSError at the beginning
    only; `make` makes a file where there is none.
    """

    def __init__(self, path: Path, *, make: bool, now: Callable[[], float] = time.monotonic) -> None:
        if make and not path.exists():
            kept_secret(path)
        self._path = path
        self._now = now
        self._stamp = self._stamp_now()
        self._known = self._read()
        self._looked_at = now()

    def __repr__(self) -> str:
        return "SecretFile(…)"

    def list_all(self, *, fresh: bool = False) -> Sequence[MasterSecret]:
        """The secrets of the file, as it was within the last second, or as it is now."""
        now = self._now()
        if fresh or now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._look()
        return self._known

    def _look(self) -> None:
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._known = self._read()
                self._stamp = stamp
        except (OSError, BadSecretError):
            return

    def _stamp_now(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> tuple[MasterSecret, ...]:
        return tuple(entry.secret for entry in read_ring(self._path))


class DerivedKeys:
    """The keys of one purpose, one for each secret that is known now, the current one's first."""

    def __init__(self, secrets: Secrets, purpose: str) -> None:
        self._secrets = secrets
        self._purpose = purpose
        self._of: Sequence[MasterSecret] = ()
        self._keys: tuple[bytes, ...] = ()

    def __call__(self) -> Sequence[bytes]:
        """The keys."""
        known = self._secrets.list_all()
        if known is not self._of:
            self._keys = tuple(secret.derive(self._purpose) for secret in known)
            self._of = known
        return self._keys


def _is_current(entry: RingEntry) -> bool:
    return not entry.is_next and entry.former_since is None


def _entries(content: str) -> tuple[RingEntry, ...]:
    entries = tuple(_entry(line) for line in content.splitlines() if line.strip())
    if not entries or len(entries) > SECRETS_MAX or any(_is_current(one) != (one is entries[0]) for one in entries):
        raise BadSecretError(_FORM)
    return entries


def _entry(line: str) -> RingEntry:
    match line.split():
        case [text]:
            entry = RingEntry(text)
        case [text, "next"]:
            entry = RingEntry(text, is_next=True)
        case [text, "former", since] if since.isdigit():
            entry = RingEntry(text, former_since=int(since))
        case _:
            raise BadSecretError(_FORM)
    secret_of(entry.text)
    return entry
