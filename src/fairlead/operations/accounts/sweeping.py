"""Deletes what has expired: sessions that have ended, invitations, and workspaces whose deletion was not taken back.

The audit log, revoked keys and inputs are kept as long as the settings say; the default is forever. The ledger of a
deleted workspace stays, because the proof of the books needs it. Everything by which the workspace could act or be
entered is deleted, its files expire, and its name is free again.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER
from fairlead.domain.days import DAY_MS
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.accounts import audit_log, invitations, sessions, workspace_records, workspaces
from fairlead.storage.accounts.sessions import Lifetime
from fairlead.storage.assets import files
from fairlead.storage.db.database import Database, DatabaseUnavailableError

Forget: TypeAlias = Callable[..., int]
"""Deletes up to `limit` records older than `before` (ms) over a connection; returns how many."""
_FORGOTTEN_AT_ONCE: Final = 500
_PAUSE_MS: Final = 3_600_000


class AccountSweeper:
    """Deletes expired sessions, invitations and workspaces."""

    def __init__(self, database: Database, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._clock = clock
        self._observe = observe

    async def forget(self) -> int:
        """Delete a batch; returns how many there were, 0 when none are left."""
        try:
            return await self._forget()
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("end sessions and workspaces", str(error)))
            return 0

    async def _forget(self) -> int:
        now = self._clock.now_ms()
        lifetime = Lifetime.at(now)
        # A read comes first: nearly always there is nothing to do, and a write would wait for others.
        if not await self._database.read(
            lambda c: (
                workspace_records.has_due(c, now) or sessions.has_ended(c, lifetime) or invitations.has_expired(c, now)
            )
        ):
            return 0
        forgotten = await self._database.write(
            lambda c: sessions.forget_ended(c, lifetime) + invitations.forget_expired(c, now)
        )
        return forgotten + await self._database.write(lambda c: workspace_records.end_due(c, SERVER, now))


class KeptDays(msgspec.Struct, frozen=True):
    """For how many days each kind of record is kept; 0 means forever."""

    audit_log: int = 0
    revoked_keys: int = 0
    inputs: int = 0


class RecordSweeper:
    """Deletes old records, a batch at a time. A kind without old records is checked again after an hour."""

    def __init__(self, database: Database, clock: Clock, observe: Observer, kept: KeptDays) -> None:
        self._database = database
        self._clock = clock
        self._observe = observe
        forgotten: tuple[tuple[int, Forget], ...] = (
            (kept.audit_log, audit_log.forget_entries),
            (kept.revoked_keys, workspaces.forget_revoked_keys),
            (kept.inputs, files.delete_old_inputs),
        )
        self._due = {forget: (days, 0) for days, forget in forgotten if days}

    async def forget(self) -> int:
        """Delete a batch of each kind; returns how many records, 0 when none are left."""
        now, sum_ = self._clock.now_ms(), 0
        for forget, (days, due_at) in self._due.items():
            if now < due_at:
                continue
            work = partial(forget, before=now - days * DAY_MS, limit=_FORGOTTEN_AT_ONCE)
            try:
                count = await self._database.write(work)
            except DatabaseUnavailableError as error:
                self._observe(DatabaseTrouble("forget old records", str(error)))
                return 0
            if count == 0:
                self._due[forget] = (days, now + _PAUSE_MS)
            sum_ += count
        return sum_
