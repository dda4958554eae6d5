"""The statements a batch of entries becomes (storage/runs/entries.py), compiled once, and the runs they lock."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Connection,
    bindparam,
    case,
    insert,
    literal_column,
    null,
    select,
    true,
    update,
)

from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    BookedRun,
    LiveRun,
    Redirection,
    Settlement,
    TakeOver,
    Withdrawal,
)
from fairlead.domain.runs.states import LIVE, WAITING, WORKING, RunEvent, RunState, states_before
from fairlead.domain.work.entries import Claim, DocumentBlob
from fairlead.storage.db.statements import Prepared, PreparedLookup, run_together
from fairlead.storage.db.tables import ledger_entries, run_events, runs, workspaces
from fairlead.storage.runs.idempotency import RESULT
from fairlead.storage.work.table import in_state

_Row: TypeAlias = tuple[object, ...]
OfARun: TypeAlias = Claim | Withdrawal | TakeOver | Acceptance | Redirection | Settlement

LIVE_RUN_COLUMNS: Final = (
    runs.c.id,
    runs.c.workspace_id,
    runs.c.model_id,
    runs.c.provider,
    runs.c.state,
    runs.c.attempt,
    runs.c.handle,
    runs.c.hold,
    runs.c.rate_version,
    runs.c.request,
    runs.c.credential,
    runs.c.operation,
    runs.c.strict,
    runs.c.byok,
    runs.c.redirected,
    runs.c.idempotency_id,
    runs.c.base_url,
    runs.c.place,
    runs.c.created_at,
    runs.c.cancel_requested_at,
    runs.c.request_blob,
    runs.c.request_size,
)
_LIVE_RUN_NAMES: Final = (
    "run_id",
    *(column.name for column in LIVE_RUN_COLUMNS[1:15]),
    "key_id",
    *(column.name for column in LIVE_RUN_COLUMNS[16:]),
    "workspace",
)


LOCK_WORKSPACES: Final = PreparedLookup(
    lambda one_of: (
        select(
            workspaces.c.id,
            workspaces.c.billing,
            workspaces.c.balance,
            workspaces.c.held,
            workspaces.c.cap,
            workspaces.c.in_flight,
            workspaces.c.in_flight_limit,
            workspaces.c.costly_in_flight,
            workspaces.c.commitment_limit,
            workspaces.c.waiting,
            workspaces.c.parked,
            workspaces.c.parked_held,
            workspaces.c.last_place,
            workspaces.c.budgets,
        )
        .where(one_of(workspaces.c.id))
        .order_by(workspaces.c.id)
        .with_for_update()
    )
)
LOCK_RUNS: Final = PreparedLookup(
    lambda one_of: (
        select(
            runs.c.id,
            runs.c.hold,
            runs.c.key_id,
            runs.c.model_id,
            runs.c.place,
            runs.c.request_blob,
            runs.c.attempt,
            runs.c.state,
            runs.c.charge,
            runs.c.finished_at,
            runs.c.provider,
            runs.c.server_id,
            runs.c.rate_version,
            runs.c.claimed_at,
        )
        .where(one_of(runs.c.id))
        .order_by(runs.c.id)
        .with_for_update()
    )
)
INSERT_RUN: Final = Prepared(
    insert(runs),
    (
        "id",
        "workspace_id",
        "key_id",
        "model_id",
        "provider",
        "state",
        "attempt",
        "server_id",
        "handle",
        "credential",
        "hold",
        "rate_version",
        "operation",
        "strict",
        "byok",
        "idempotency_id",
        "place",
        "least",
        "dropped",
        "base_url",
        "caller_left",
        "request",
        "request_blob",
        "request_size",
        "created_at",
        "key_fingerprint",
        "key_expires_at",
        "forget_at",
    ),
)
INSERT_ENTRY: Final = Prepared(
    insert(ledger_entries),
    (
        "workspace_id",
        "run_id",
        "phase",
        "kind",
        "balance_change",
        "held_change",
        "reason",
        "rate_version",
        "created_at",
    ),
)
MOVE_FIGURES: Final = Prepared(
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"))
    .values(
        balance=workspaces.c.balance + bindparam("balance_change"),
        held=workspaces.c.held + bindparam("held_change"),
        in_flight=workspaces.c.in_flight + bindparam("slots"),
        costly_in_flight=workspaces.c.costly_in_flight + bindparam("costly"),
        waiting=workspaces.c.waiting + bindparam("more_waiting"),
        parked=workspaces.c.parked + bindparam("more_parked"),
        parked_held=workspaces.c.parked_held + bindparam("parked_held_change"),
        last_place=workspaces.c.last_place + bindparam("places"),
    ),
    (
        "balance_change",
        "held_change",
        "slots",
        "costly",
        "more_waiting",
        "more_parked",
        "parked_held_change",
        "places",
        "workspace",
    ),
)
ACCEPT_RUN: Final = Prepared(
    update(runs)
    .where(
        runs.c.id == bindparam("run"),
        runs.c.attempt == bindparam("of_attempt"),
        in_state(runs, states_before(RunEvent.ACCEPT)),
    )
    .values(state=bindparam("new_state"), handle=bindparam("new_handle"), credential=bindparam("new_credential")),
    ("new_state", "new_handle", "new_credential", "run", "of_attempt"),
)
REDIRECT_RUN: Final = Prepared(
    update(runs)
    .where(
        runs.c.id == bindparam("run"),
        runs.c.attempt == bindparam("of_attempt"),
        in_state(runs, states_before(RunEvent.REDIRECT)),
    )
    .values(
        provider=bindparam("new_provider"),
        rate_version=bindparam("new_version"),
        hold=bindparam("new_hold"),
        redirected=true(),
    ),
    ("new_provider", "new_hold", "new_version", "run", "of_attempt"),
)


_BOOKED: Final = [one for one in runs.c if one.name in {"key_id", "model_id", "place", "request_blob"}]


def _end_run(kept: Collection[Column[object]]) -> Prepared:
    """End a run that is found as it is said to be: live, of this attempt, and as the books are said to have it."""
    until = [bindparam(name, type_=BigInteger) for name in ("until", "or_until")]
    expiry = {runs.c.forget_at: case((runs.c.forget_at < until[0], runs.c.forget_at), else_=until[1])} if kept else {}
    ended = runs.c.state, runs.c.charge, runs.c.reason, runs.c.upstream_status, runs.c.caller_left, runs.c.finished_at
    new: dict[Column[object], BindParameter[object]] = {one: bindparam(f"new_{one.name}") for one in (*ended, *kept)}
    forgotten = dict.fromkeys((runs.c.request, runs.c.request_blob, runs.c.request_size), null())
    statement = (
        update(runs)
        .where(
            runs.c.id == bindparam("run"),
            runs.c.attempt == bindparam("of_attempt"),
            runs.c.hold == bindparam("held"),
            *(column.is_not_distinct_from(bindparam(f"of_{column.name}")) for column in _BOOKED),
            in_state(runs, LIVE),
        )
        .values({**new, **forgotten, **expiry})
    )
    names = [f"new_{one.name}" for one in ended]
    if kept:
        names += ["until", "or_until", *(f"new_{one.name}" for one in kept)]
    return Prepared(statement, [*names, "run", "of_attempt", "held", *(f"of_{column.name}" for column in _BOOKED)])


END_RUN: Final = _end_run(())
END_AND_KEEP: Final = _end_run(tuple(RESULT.values()))
"""The same for a run whose result is kept."""
_RESULT_VALUES: Final = attrgetter(*RESULT)
CLAIM_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), in_state(runs, states_before(RunEvent.CLAIM)))
    .values(
        state=bindparam("new_state"),
        attempt=runs.c.attempt + literal_column("1"),
        server_id=bindparam("new_server"),
        claimed_at=bindparam("now"),
    ),
    ("new_state", "new_server", "now", "run"),
)
TAKE_OVER_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.attempt == bindparam("of_attempt"), in_state(runs, WORKING))
    .values(
        state=bindparam("new_state"),
        attempt=runs.c.attempt + literal_column("1"),
        server_id=bindparam("new_server"),
    ),
    ("new_state", "new_server", "run", "of_attempt"),
)
RELEASE_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), in_state(runs, states_before(RunEvent.RELEASE)))
    .values(state=bindparam("new_state")),
    ("new_state", "run"),
)
NOTE_CANCEL: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.cancel_requested_at.is_(None), in_state(runs, WORKING))
    .values(cancel_requested_at=bindparam("now")),
    ("now", "run"),
)
CHANGES: Final = (CLAIM_RUN, NOTE_CANCEL, ACCEPT_RUN, REDIRECT_RUN, TAKE_OVER_RUN, END_RUN, END_AND_KEEP)
"""In the order in which a batch writes them."""
INSERT_EVENT: Final = Prepared(insert(run_events), ("run_id", "kind", "attempt", "detail", "at"))
CLAIMED: Final = PreparedLookup(
    lambda one_of: (
        select(*LIVE_RUN_COLUMNS, workspaces.c.name)
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
        .where(one_of(runs.c.id))
    )
)
"""The runs that are claimed or taken over, as `live_run` reads them."""
_HEAD: Final = (
    select(runs.c.id, runs.c.hold)
    .where(
        runs.c.workspace_id == bindparam("workspace"),
        runs.c.hold < bindparam("below"),
        in_state(runs, WAITING),
        in_state(runs, (RunState.PARKED,)),
    )
    .order_by(runs.c.place)
    .limit(bindparam("most"))
)


def new_run(entry: Admission, state: str, place: int | None) -> _Row:
    """The row of INSERT_RUN for a run that is admitted in a state, with its place in the queue where it has one."""
    ticket, key, work = entry.ticket, entry.key, None if entry.work is None else entry.work.work
    blob = entry.request if type(entry.request) is DocumentBlob else None
    return (
        entry.run_id,
        entry.workspace_id,
        entry.key_id,
        entry.model_id,
        entry.provider,
        state,
        1 if ticket is None else 0,
        entry.server_id,
        None if work is None else work.handle,
        None if work is None else work.credential,
        entry.hold,
        entry.rate_version,
        entry.operation,
        entry.strict,
        entry.byok,
        None if key is None else key.id,
        place,
        entry.least,
        entry.dropped,
        None if ticket is None else ticket.base_url,
        False,
        entry.request if blob is None else None,
        None if blob is None else blob.name,
        None if blob is None else blob.size,
        entry.created_at,
        *((None, None, None) if key is None else (key.fingerprint, key.expires_at, key.expires_at)),
    )


def end_row(entry: Settlement | Withdrawal, state: str, attempt: int, booked: BookedRun) -> _Row:
    """The row of END_RUN for a run that ends as an entry says, or of END_AND_KEEP where its result is kept."""
    if type(entry) is Settlement:
        kept, left, at = entry.result, entry.caller_left, entry.finished_at
        ending = (state, entry.charge, entry.reason, entry.upstream_status, left, at)
    else:
        kept, ending = entry.kept, (state, 0, entry.reason, None, False, entry.at)
    found = entry.run_id, attempt, booked.hold, booked.key_id, booked.model_id, booked.place, booked.request_blob
    if kept is None:
        return (*ending, *found)
    return (*ending, kept.expires_at, kept.expires_at, *_RESULT_VALUES(kept), *found)


def head_of_queue(connection: Connection, workspace_id: str, below: int, most: int) -> Sequence[tuple[str, int]]:
    """The parked runs of a workspace that were queued first and are held for less than `below`: id and hold."""
    found = connection.execute(_HEAD, {"workspace": workspace_id, "below": below, "most": most})
    return [(row[0], row[1]) for row in found]


def live_run(row: Sequence[Any]) -> LiveRun:
    """A run out of its LIVE_RUN_COLUMNS and the name of its workspace."""
    found = dict(zip(_LIVE_RUN_NAMES, row, strict=True))
    blob, size = found.pop("request_blob"), found.pop("request_size")
    return LiveRun(
        **{
            **found,
            "request": found["request"] if blob is None else DocumentBlob(blob, size),
            "state": RunState(found["state"]),
            "credential": found["credential"] or "",
            "strict": bool(found["strict"]),
            "byok": bool(found["byok"]),
            "redirected": bool(found["redirected"]),
        }
    )


class LockedRun(msgspec.Struct):
    """A run as it is found when an entry about it arrives; locked until the batch is written.

    Two entries of a batch may be about one run: the second then meets the state and the attempt that the first has
    made of it.
    """

    booked: BookedRun
    attempt: int
    state: str
    charge: int | None
    finished_at: int | None
    provider: str
    server_id: str
    rate_version: str
    claimed_at: int | None


def lock_runs(connection: Connection, of_runs: Sequence[OfARun]) -> tuple[dict[str, LockedRun], set[object]]:
    """Write those ends of runs that say what is booked, and lock the other runs that entries are about.

    Such an end compares and sets. A run that is not as it says, or that the batch has more to say of, is read first.
    """
    run_ids: list[str] = []
    ends: dict[Prepared, list[_Row]] = {END_RUN: [], END_AND_KEEP: []}
    for entry in of_runs:
        run_ids.append(entry.id if type(entry) is Claim else entry.run_id)
        if type(entry) is Settlement and entry.booked is not None:
            row = end_row(entry, entry.state.value, entry.attempt, entry.booked)
            ends[END_RUN if entry.result is None else END_AND_KEEP].append(row)
    ended: set[object] = set()
    if len(set(run_ids)) == len(run_ids):
        for statement, rows in ends.items():
            ended |= statement.changed(connection, rows, "run")
    runs = {}
    for row in LOCK_RUNS.run(connection, sorted(set(run_ids) - ended)):
        runs[row[0]] = LockedRun(BookedRun(*row[1:6]), *row[6:])
    return runs, ended


def write_changes(connection: Connection, changes: Mapping[Prepared, Sequence[_Row]]) -> None:
    """Write what entries have made of locked runs: one after the other, because several may be about the same run."""
    for statement in CHANGES:
        if rows := changes.get(statement):
            run_together(connection, (statement, rows))
