"""Idempotency keys and the results kept for them (R-18). The books of a run and its key are one transaction."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, RowMapping, bindparam, delete, insert, select

from fairlead.domain.faults import KeyConflict
from fairlead.domain.runs.entries import Admission, EarlierWork, IdempotencyKey, KeptResult, KeyUsed, Settlement
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunState
from fairlead.storage.db.statements import Prepared, PreparedLookup
from fairlead.storage.db.tables import idempotency_keys, run_results, runs

_Row = tuple[Any, ...]
_USED: Final = PreparedLookup(
    lambda one_of: select(
        idempotency_keys.c.id,
        idempotency_keys.c.fingerprint,
        idempotency_keys.c.run_id,
        idempotency_keys.c.expires_at,
    ).where(one_of(idempotency_keys.c.id))
)
_FREE: Final = Prepared(
    delete(idempotency_keys).where(
        idempotency_keys.c.id == bindparam("key"), idempotency_keys.c.run_id == bindparam("run")
    ),
    ("key", "run"),
)
"""Only the key a run took itself: one that expired meanwhile may be another run's by now."""
_TAKE: Final = Prepared(insert(idempotency_keys), ("id", "fingerprint", "run_id", "expires_at"))
_KEEP: Final = Prepared(
    insert(run_results),
    (
        "run_id",
        "fault",
        "content_type",
        "content",
        "blob",
        "size",
        "fallback_provider",
        "dropped",
        "replayable_until",
        "expires_at",
    ),
)
_CONFLICT: Final = "This idempotency key was used for another call; use a new key."


class EndedRun(msgspec.Struct, frozen=True):
    """A run as its key finds it again: its state, what it was charged, and what was kept of it.

    `left` is the work of a run that ended undecided: there is no result then.
    """

    run_id: str
    state: RunState
    charge: int
    byok: bool
    created_at: int
    result: KeptResult | None
    left: EarlierWork | None = None


class KeyBook:
    """The keys a batch of entries meets: those in the database, and those the batch itself takes and frees."""

    def __init__(self, connection: Connection, admissions: Sequence[Admission]) -> None:
        wanted = [entry.key.id for entry in admissions if entry.key is not None]
        self._known: dict[str, _Row] = {}
        for row in _USED.run(connection, wanted):
            self._known[row[0]] = tuple(row[1:])
        self._freed: list[_Row] = []
        self._taken: list[_Row] = []
        self._kept: list[_Row] = []

    def refuse(self, entry: Admission, key: IdempotencyKey) -> KeyUsed | KeyConflict | None:
        """What its key says of a call: used by the same call before, by another one, or None when it is free."""
        if (known := self._known.get(key.id)) is None:
            return None
        fingerprint, run_id, expires_at = known
        if entry.work is not None and entry.work.run_id == run_id:
            return None  # it takes the key over
        if expires_at <= entry.created_at:
            self._free(key.id, run_id)
            return None
        return KeyUsed(run_id) if fingerprint == key.fingerprint else KeyConflict(_CONFLICT)

    def take(self, entry: Admission, key: IdempotencyKey) -> None:
        """A call is admitted under its key."""
        row = (key.id, key.fingerprint, entry.run_id, key.expires_at)
        if entry.work is not None:
            self._freed.append((key.id, entry.work.run_id))
        self._known[key.id] = row[1:]
        self._taken.append(row)

    def settle(self, entry: Settlement) -> None:
        """A run has ended: its key keeps the result, or is free where there is none."""
        if entry.result is not None:
            self.keep(entry.run_id, entry.result)
        elif entry.key_id is not None:
            self._free(entry.key_id, entry.run_id)

    def keep(self, run_id: str, kept: KeptResult) -> None:
        """How a run ended, for later calls."""
        self._kept.append(
            (
                run_id,
                kept.fault,
                kept.content_type,
                kept.content,
                kept.blob,
                kept.size,
                kept.fallback_provider,
                kept.dropped,
                kept.replayable_until,
                kept.expires_at,
            )
        )

    def rows(self) -> tuple[tuple[Prepared, Sequence[_Row]], ...]:
        """What is to be written, after the runs, which the results refer to: statements and their rows, in order."""
        return (_FREE, self._freed), (_TAKE, self._taken), (_KEEP, self._kept)

    def _free(self, key_id: str, run_id: str) -> None:
        if self._known.get(key_id, (None, run_id))[1] == run_id:
            self._known.pop(key_id, None)
        self._freed.append((key_id, run_id))


def key_in_use(connection: Connection, key_id: str, now: int) -> bool:
    """Whether a key was used before and still counts."""
    found = connection.execute(
        select(idempotency_keys.c.run_id).where(idempotency_keys.c.id == key_id, idempotency_keys.c.expires_at > now)
    )
    return found.first() is not None


def ended_run(connection: Connection, run_id: str) -> EndedRun | None:
    """A run and what was kept of it; None when there is none, or it has not ended."""
    row = (
        connection.execute(
            select(
                runs.c.state,
                runs.c.charge,
                runs.c.byok,
                runs.c.created_at,
                runs.c.provider,
                runs.c.handle,
                runs.c.credential,
                runs.c.upstream_status,
                idempotency_keys.c.expires_at.label("key_expires_at"),
                run_results,
            )
            .outerjoin(run_results, run_results.c.run_id == runs.c.id)
            .outerjoin(
                idempotency_keys,
                (idempotency_keys.c.id == runs.c.idempotency_id) & (idempotency_keys.c.run_id == runs.c.id),
            )
            .where(runs.c.id == run_id, runs.c.finished_at.is_not(None))
        )
        .mappings()
        .first()
    )
    if row is None:
        return None
    names = KeptResult.__struct_fields__
    kept = None if row["expires_at"] is None else KeptResult(**{name: row[name] for name in names})
    left = _left(run_id, row) if kept is None else None
    return EndedRun(
        run_id, RunState(row["state"]), row["charge"] or 0, bool(row["byok"]), row["created_at"], kept, left
    )


def _left(run_id: str, row: RowMapping) -> EarlierWork | None:
    """The work of a run that failed without a result, and whose key nobody freed."""
    if row["state"] != RunState.FAILED or row["handle"] is None or row["key_expires_at"] is None:
        return None
    work = Work(row["handle"], row["credential"] or "", row["upstream_status"])
    return EarlierWork(run_id, row["provider"], work, bool(row["byok"]), row["key_expires_at"])


def forget_expired(connection: Connection, now: int, limit: int) -> int:
    """Delete a batch of keys and results whose time is up, and return how many rows went."""
    gone = 0
    for table in (idempotency_keys, run_results):
        key = table.primary_key.columns[0]
        old = connection.execute(select(key).where(table.c.expires_at <= now).limit(limit)).scalars().all()
        if old:
            connection.execute(delete(table).where(key.in_(old)))
        gone += len(old)
    return gone
