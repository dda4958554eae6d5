"""Rotating the server's master secret, by command and over HTTP.

The secrets are a setting, which nothing here can change, or a file of this machine. The audit log names the secrets,
which reveals nothing of them. A file and the database cannot change together, so a change is logged before it is made.
On a machine one change is made at a time.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.identity.master_secret import BadSecretError, Secrets
from fairlead.identity.secret_ring import RingEntry, announce, read_ring, rotate_ring, without_former, write_ring
from fairlead.operations.accounts.audit_log import Act, record_act
from fairlead.operations.accounts.secrets import Resealed, keep_derived, note_first_secret, reseal, uses
from fairlead.storage.db.database import Database

SecretStateName: TypeAlias = Literal["current", "next", "former", "unknown", "unnamed"]

_ROUNDS: Final = 10
_HOUR_MS: Final = 3_600_000
_A_SETTING: Final = (
    "the secret is the setting FAIRLEAD_SECRET_KEY, which only an operator can change: give every server the new "
    "secret behind the old one, with a comma between; then the new one first; then run `fairlead secret reseal`"
)


class RotationError(Exception):
    """The secrets cannot be changed in their present state; the text says why, and what to do."""


class SecretState(msgspec.Struct, frozen=True):
    """A secret by its name, and how many sealed texts need it.

    `unknown` marks a secret that nobody here has; `unnamed` stands for texts that were sealed before secrets had names.
    `since` is when a former secret was replaced (ms since 1970).
    """

    name: str | None
    state: SecretStateName
    since: int | None
    sealed: int


class Rotated(msgspec.Struct, frozen=True):
    """The secret that is current now, and what was sealed again with it."""

    current: str
    resealed: Resealed


class Finished(msgspec.Struct, frozen=True):
    """How many secrets were deleted and webhook secrets stored, and how many sealed texts cannot be opened."""

    forgotten: int
    webhook_secrets_kept: int
    unreadable: int


class SecretRotation(msgspec.Struct, frozen=True):
    """Shows and changes the master secrets. `path` is their file, None if they are a setting.

    Links that a secret has signed are valid for `links_ms`. Every change may raise RotationError.
    """

    database: Database
    secrets: Secrets
    path: Path | None
    links_ms: int
    clock: Clock

    async def states(self) -> list[SecretState]:
        """The known secrets, the current one first, then others that something sealed still needs."""
        names = [one.id.hex() for one in self.secrets.list_all(fresh=True)]
        used = await uses(self.database, self.secrets)
        entries = await asyncio.to_thread(self._entries)
        of_name = {entry.secret.id.hex(): entry for entry in entries}
        found = [_state(name, of_name.get(name), used.get(name, 0), is_first=name == names[0]) for name in names]
        return found + [
            SecretState(name or None, "unknown" if name else "unnamed", None, count)
            for name, count in used.items()
            if name not in names and count
        ]

    async def prepare(self, by: Actor) -> str:
        """Make the next secret known without using it, and return its name. There is at most one next secret."""
        changed = await self._change(announce, by, lambda changed: Act("secret.prepared", target=_next_name(changed)))
        return _next_name(changed)

    async def rotate(self, by: Actor, tell: Callable[[int], None] = lambda _: None) -> Rotated:
        """Make another secret the current one, and seal again what the one before has sealed.

        The one before still opens and verifies until `finish`. `tell` is called after each batch with how many texts
        are done.
        """
        now = self.clock.now_ms()
        changed = await self._change(
            lambda entries: rotate_ring(entries, now),
            by,
            lambda changed: Act("secret.rotated", target=changed[0].secret.id.hex()),
        )
        self.secrets.list_all(fresh=True)
        return Rotated(changed[0].secret.id.hex(), await reseal(self.database, self.secrets, tell))

    async def reseal(self, by: Actor, tell: Callable[[int], None] = lambda _: None) -> Rotated:
        """Seal with the current secret what others have sealed, to continue a rotation that was interrupted."""
        await note_first_secret(self.database, self.secrets)
        current = self.secrets.list_all(fresh=True)[0].id.hex()
        await record_act(self.database, by, Act("secret.resealed", target=current), self.clock)
        return Rotated(current, await reseal(self.database, self.secrets, tell))

    async def finish(self, by: Actor, *, at_once: bool) -> Finished:
        """Delete the former secrets once nothing needs them; with `at_once` even if links they signed may be valid."""
        entries = await asyncio.to_thread(self._entries)
        if not at_once:
            self._refuse_young(entries)
        self.secrets.list_all(fresh=True)
        unreadable = await self._settle()
        forgotten = sum(entry.former_since is not None for entry in entries)
        act = Act("secret.finished", detail={"forgotten": forgotten})
        if self.path is None:
            await record_act(self.database, by, act, self.clock)
        kept = await keep_derived(self.database, self.secrets)
        if self.path is not None:
            await self._change(without_former, by, lambda _: act)
            self.secrets.list_all(fresh=True)
        return Finished(forgotten, kept, unreadable)

    async def _settle(self) -> int:
        """Seal again until nothing needs a former secret; returns how many texts no secret opens."""
        for _ in range(_ROUNDS):
            found = await reseal(self.database, self.secrets)
            if not found.done:
                return found.unreadable
        raise RotationError("a server still seals with a secret of before: has every one of them learnt the new one?")

    async def _change(
        self,
        change: Callable[[Sequence[RingEntry]], Sequence[RingEntry]],
        by: Actor,
        describe: Callable[[Sequence[RingEntry]], Act],
    ) -> Sequence[RingEntry]:
        """Record the act, then replace the entries of the file under a lock."""
        if self.path is None:
            raise RotationError(_A_SETTING)
        await note_first_secret(self.database, self.secrets)
        try:
            descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
                changed = change(read_ring(self.path))
                await record_act(self.database, by, describe(changed), self.clock)
                await asyncio.to_thread(write_ring, self.path, changed)
            finally:
                os.close(descriptor)
        except (BadSecretError, OSError) as error:
            raise RotationError(f"the server's secret cannot be changed: {error}") from None
        return changed

    def _entries(self) -> Sequence[RingEntry]:
        try:
            return () if self.path is None else read_ring(self.path)
        except (BadSecretError, OSError) as error:
            raise RotationError(f"the server's secret cannot be read: {error}") from None

    def _refuse_young(self, entries: Sequence[RingEntry]) -> None:
        """Refuse to delete a secret whose links may still be valid."""
        youngest = max((entry.former_since or 0 for entry in entries), default=0)
        left = youngest + self.links_ms - self.clock.now_ms()
        if youngest and left > 0:
            hours = -(-left // _HOUR_MS)
            raise RotationError(
                f"links that the secret of before has signed may be good for {hours} hours; --now forgets it all the"
                " same, as `now` does over HTTP"
            )


def _next_name(entries: Sequence[RingEntry]) -> str:
    return next(entry.secret.id.hex() for entry in entries if entry.is_next)


def _state(name: str, entry: RingEntry | None, sealed: int, *, is_first: bool) -> SecretState:
    if is_first:
        return SecretState(name, "current", None, sealed)
    is_next = entry is not None and entry.is_next
    return SecretState(name, "next" if is_next else "former", None if entry is None else entry.former_since, sealed)
