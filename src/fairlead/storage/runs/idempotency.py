"""Idempotency keys and the results kept for them (R-18): columns of the row of their run.

A key belongs to the newest run that was called with it: no two rows have the same `idempotency_id`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, bindparam, func, insert, literal, null, select, update

from fairlead.domain.faults import KeyConflict
from fairlead.domain.runs.entries import Admission, EarlierWork, IdempotencyKey, KeptResult, KeyUsed
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunState
from fairlead.storage.db.statements import Prepared, PreparedLookup, PreparedQuery
from fairlead.storage.db.tables import run_events, runs

_USED: Final = PreparedLookup(
    lambda one_of: select(runs.c.idempotency_id, runs.c.key_fingerprint, runs.c.id, runs.c.key_expires_at).where(
        one_of(runs.c.idempotency_id)
    )
)
_KEY: Final = (runs.c.idempotency_id, runs.c.key_fingerprint, runs.c.key_expires_at)
RESULT: Final = {one.name.removeprefix("result_"): one for one in runs.c if one.name.startswith("result_")}
"""The columns of a kept result by the names of its fields, in the order of the table."""
_ENDED: Final = PreparedQuery(
    select(
        runs.c.state,
        runs.c.charge,
        runs.c.byok,
        runs.c.created_at,
        runs.c.provider,
        runs.c.handle,
        runs.c.credential,
        runs.c.upstream_status,
        runs.c.key_expires_at,
        *RESULT.values(),
    ).where(runs.c.id == bindparam("run"), runs.c.finished_at.is_not(None)),
    ("run",),
)
FREE_KEY: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.idempotency_id == bindparam("key"))
    .values({**dict.fromkeys(_KEY, null()), runs.c.forget_at: runs.c.result_expires_at}),
    ("run", "key"),
    primary_key="run",
)
"""Only the key that a run has itself: one that expired meanwhile may belong to another run by now."""
_CONFLICT: Final = "This idempotency key was used for another call; use a new key."


_REPLAY: Final = "replayed"
_REPLAYS_NOTED: Final = 20
"""How many replays of a run are recorded: a caller may ask for a result as often as it likes."""


class EndedRun(msgspec.Struct, frozen=True):
    """A run as it is found by its key: its state, its charge, and its stored result.

    `left` is the work of a run that ended undecided, which has no result.
    """

    run_id: str
    state: RunState
    charge: int
    byok: bool
    created_at: int
    result: KeptResult | None
    left: EarlierWork | None = None


class KeyBook(msgspec.Struct):
    """The keys in a batch of entries: those in the database, and those that the batch itself takes and frees.

    The `freed` ones, as rows of FREE_KEY, must be written before the runs that take the keys.
    """

    known: dict[str, tuple[str, str, int]] = msgspec.field(default_factory=dict)
    """For each key the digest of its call, its run, and its expiry (ms)."""
    freed: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def refuse(self, entry: Admission, key: IdempotencyKey) -> KeyUsed | KeyConflict | None:
        """The verdict on a call by its key: used by the same call before, by another one, or None when it is free."""
        if (known := self.known.get(key.id)) is None:
            return None
        fingerprint, run_id, expires_at = known
        if entry.work is not None and entry.work.run_id == run_id:
            return None  # it takes the key over
        if expires_at <= entry.created_at:
            self.free(key.id, run_id)
            return None
        return KeyUsed(run_id) if fingerprint == key.fingerprint else KeyConflict(_CONFLICT)

    def take(self, entry: Admission, key: IdempotencyKey) -> None:
        """A call is admitted under its key."""
        if entry.work is not None:
            self.freed.append((entry.work.run_id, key.id))
        self.known[key.id] = (key.fingerprint, entry.run_id, key.expires_at)

    def free(self, key_id: str, run_id: str) -> None:
        """A run has ended without a result to replay, or its key has expired."""
        if self.known.get(key_id, ("", run_id))[1] == run_id:
            self.known.pop(key_id, None)
        self.freed.append((run_id, key_id))


def look_up_keys(connection: Connection, key_ids: Sequence[str]) -> KeyBook:
    """The book of those of some keys that are in use."""
    return KeyBook({key_id: (*known,) for key_id, *known in _USED.run(connection, key_ids)})


def key_in_use(connection: Connection, key_id: str, now: int) -> bool:
    """Whether a key was used before and is still valid."""
    found = connection.execute(select(runs.c.id).where(runs.c.idempotency_id == key_id, runs.c.key_expires_at > now))
    return found.first() is not None


def ended_run(connection: Connection, run_id: str) -> EndedRun | None:
    """A run with its stored result; None when there is none, or it has not ended."""
    found = _ENDED.run(connection, (run_id,))
    if not found:
        return None
    state, charge, byok, created_at, provider, handle, credential, status, key_expires_at, *told = found[0]
    kept = dict(zip(RESULT, told, strict=True))
    result = None if kept["expires_at"] is None else KeptResult(**kept)
    left = None
    if result is None and state == RunState.FAILED and handle is not None and key_expires_at is not None:
        work = Work(handle, credential or "", status)
        left = EarlierWork(run_id, provider, work, bool(byok), key_expires_at)
    return EndedRun(run_id, RunState(state), charge or 0, bool(byok), created_at, result, left)


def forget_expired(connection: Connection, now: int, limit: int) -> int:
    """Delete the expired keys and results of a batch of runs; returns how many of both there were."""
    due = connection.execute(select(runs.c.id).where(runs.c.forget_at <= now).limit(limit)).scalars().all()
    if not due:
        return 0
    of_due = update(runs).where(runs.c.id.in_(due))
    gone = 0
    for columns, expires_at in ((_KEY, runs.c.key_expires_at), (RESULT.values(), runs.c.result_expires_at)):
        gone += connection.execute(of_due.where(expires_at <= now).values(dict.fromkeys(columns))).rowcount
    connection.execute(of_due.values(forget_at=func.coalesce(runs.c.key_expires_at, runs.c.result_expires_at)))
    return gone


def note_replay(connection: Connection, run_id: str, now: int) -> None:
    """Record that the result of a run was replayed, up to a number of times."""
    event = run_events.c
    noted = select(func.count()).where(event.run_id == run_id, event.kind == _REPLAY).scalar_subquery()
    row = (
        literal(run_id),
        literal(_REPLAY),
        literal(1),
        literal("the result was sent again for its key"),
        literal(now),
    )
    names = ("run_id", "kind", "attempt", "detail", "at")
    connection.execute(insert(run_events).from_select(names, select(*row).where(noted < _REPLAYS_NOTED)))
