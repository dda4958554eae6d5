"""The statements of a batch of entries (storage/runs/entries.py), compiled once, and the runs that they lock."""

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Connection,
    bindparam,
    case,
    false,
    insert,
    literal_column,
    null,
    select,
    update,
)

from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    BookedRun,
    LiveRun,
    Postponement,
    Redirection,
    Settlement,
    TopUp,
    Withdrawal,
)
from fairlead.domain.runs.states import WAITING, RunEvent, RunState, advance, states_before
from fairlead.domain.work.entries import Claim, DocumentBlob, TakeOver
from fairlead.storage.db.statements import Prepared, PreparedLookup, Rows, change_and_look_up
from fairlead.storage.db.tables import ledger_entries, run_events, runs, workspaces
from fairlead.storage.ledger.run_books import KEYS
from fairlead.storage.runs.idempotency import RESULT
from fairlead.storage.work.changes import LockedWork, WorkRows
from fairlead.storage.work.table import in_state

_Row: TypeAlias = tuple[object, ...]
OfARun: TypeAlias = Claim | Withdrawal | TakeOver | Acceptance | Redirection | TopUp | Postponement | Settlement

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
    runs.c.postponed,
    runs.c.tries,
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
    ),
    with_time=True,
)
ROWS: Final = WorkRows(
    runs,
    number=runs.c.place,
    begun_at=runs.c.claimed_at,
    parked=in_state(runs, WAITING),
    claimed=advance(RunState.RELEASED, RunEvent.CLAIM),
    taken_over={state: advance(state, RunEvent.TAKE_OVER) for state in states_before(RunEvent.TAKE_OVER)},
    more=(
        runs.c.hold,
        runs.c.key_id,
        runs.c.model_id,
        runs.c.place,
        runs.c.request_blob,
        runs.c.labels,
        runs.c.charge,
        runs.c.finished_at,
        runs.c.provider,
        runs.c.rate_version,
        runs.c.cancel_requested_at,
    ),
    size=runs.c.hold,
    not_before=runs.c.not_before,
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
        "most",
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
        "pool",
        "labels",
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
    primary_key="workspace",
)
ACCEPT_RUN: Final = ROWS.update("state", "handle", "credential")
REDIRECT_RUN: Final = ROWS.update("provider", "state", "handle", "credential", "hold", "rate_version", "redirected")
TOP_UP_RUN: Final = ROWS.update("hold")
POSTPONE_RUN: Final = Prepared(
    update(runs)
    .where(
        runs.c.id == bindparam("work"),
        runs.c.attempt == bindparam("of_attempt"),
        runs.c.state == bindparam("of_state"),
    )
    .values(
        state=bindparam("state"),
        claimed_at=null(),
        not_before=bindparam("not_before", type_=BigInteger),
        postponed=runs.c.postponed + literal_column("1"),
        tries=runs.c.tries + bindparam("tried", type_=BigInteger),
    ),
    ("state", "not_before", "tried", "work", "of_attempt", "of_state"),
    primary_key="work",
)
HOLD_BACK: Final = (
    update(runs)
    .where(
        runs.c.workspace_id == bindparam("workspace"),
        in_state(runs, WAITING),
        runs.c.state == literal_column(f"'{RunState.PARKED.value}'"),
        runs.c.provider == bindparam("of_provider"),
        runs.c.byok.is_(false()),
        runs.c.not_before <= bindparam("now"),
    )
    .values(not_before=bindparam("until"))
)
"""Parked runs of a workspace at a provider that could be released now wait until a time; its own keys never cool."""
_BOOKED: Final = [one for one in runs.c if one.name in {"key_id", "model_id", "place", "request_blob"}]


def _end_run(kept: Collection[Column[object]]) -> Prepared:
    """End a run that is as the entry expects: live, of this attempt, and with the expected hold."""
    until = [bindparam(name, type_=BigInteger) for name in ("until", "or_until")]
    expiry = {runs.c.forget_at: case((runs.c.forget_at < until[0], runs.c.forget_at), else_=until[1])} if kept else {}
    ended = runs.c.state, runs.c.charge, runs.c.reason, runs.c.upstream_status, runs.c.caller_left, runs.c.finished_at
    written = *ended, *kept, runs.c.price_facts
    new: dict[Column[object], BindParameter[object]] = {one: bindparam(f"new_{one.name}") for one in written}
    forgotten = dict.fromkeys((runs.c.request, runs.c.request_blob, runs.c.request_size), null())
    statement = (
        update(runs)
        .where(
            runs.c.id == bindparam("run"),
            runs.c.attempt == bindparam("of_attempt"),
            runs.c.hold == bindparam("held"),
            *(column.is_not_distinct_from(bindparam(f"of_{column.name}")) for column in _BOOKED),
            runs.c.finished_at.is_(None),  # not by states, for which PostgreSQL would use the indexes of work under way
        )
        .values({**new, **forgotten, **expiry})
    )
    names = [f"new_{one.name}" for one in ended]
    if kept:
        names += ["until", "or_until", *(f"new_{one.name}" for one in kept)]
    names += ["new_price_facts", "run", "of_attempt", "held", *(f"of_{column.name}" for column in _BOOKED)]
    return Prepared(statement, names, primary_key="run")


END_RUN: Final = _end_run(())
END_AND_KEEP: Final = _end_run(tuple(RESULT.values()))
"""The same for a run whose result is kept."""
_RESULT_VALUES: Final = attrgetter(*RESULT)
INSERT_EVENT: Final = Prepared(insert(run_events), ("run_id", "kind", "attempt", "detail", "at"))
CLAIMED: Final = PreparedLookup(
    lambda one_of: (
        select(*LIVE_RUN_COLUMNS, workspaces.c.name)
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
        .where(one_of(runs.c.id))
    )
)
"""The runs that are claimed or taken over, as `live_run` reads them."""


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
        entry.most,
        entry.dropped,
        None if ticket is None else ticket.base_url,
        False,
        entry.request if blob is None else None,
        None if blob is None else blob.name,
        None if blob is None else blob.size,
        entry.created_at,
        *((None, None, None) if key is None else (key.fingerprint, key.expires_at, key.expires_at)),
        entry.pool,
        entry.labels,
    )


def end_row(entry: Settlement | Withdrawal, state: str, attempt: int, booked: BookedRun) -> _Row:
    """The row of END_RUN for a run that ends as an entry says, or of END_AND_KEEP where its result is kept."""
    if type(entry) is Settlement:
        kept, left, at = entry.result, entry.caller_left, entry.finished_at
        ending, facts = (state, entry.charge, entry.reason, entry.upstream_status, left, at), entry.facts
    else:
        kept, ending, facts = entry.kept, (state, 0, entry.reason, None, False, entry.at), None
    found = facts, entry.run_id, attempt, booked.hold, booked.key_id, booked.model_id, booked.place, booked.request_blob
    if kept is None:
        return (*ending, *found)
    return (*ending, kept.expires_at, kept.expires_at, *_RESULT_VALUES(kept), *found)


def live_run(row: Sequence[Any]) -> LiveRun:
    """A run, from its LIVE_RUN_COLUMNS and the name of its workspace."""
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


class LockedRun(LockedWork):
    """A run as it is found when an entry about it arrives: its hold, its end, its server and its attempt."""

    booked: BookedRun
    charge: int | None
    finished_at: int | None
    provider: str
    rate_version: str
    cancel_requested_at: int | None


def id_of(entry: OfARun) -> str:
    """The run that an entry is about."""
    return entry.id if type(entry) is Claim or type(entry) is TakeOver else entry.run_id


class Found(NamedTuple):
    """The runs that were locked, the ids of those that were ended, and rows of KEYS."""

    runs: dict[str, LockedRun]
    ended: set[object]
    keys: Rows


def lock_runs(connection: Connection, of_runs: Sequence[OfARun], key_ids: Iterable[str | None]) -> Found:
    """Write the ends of runs that name the expected hold, lock the other runs of the entries, and look up API keys.

    Such an end compares and sets. A run that differs from it, or that has further entries in the batch, is read first.
    """
    run_ids: list[str] = []
    ends: dict[Prepared, list[_Row]] = {END_RUN: [], END_AND_KEEP: []}
    for entry in of_runs:
        if type(entry) is not Settlement or entry.booked is None:
            run_ids.append(id_of(entry))
        else:
            run_ids.append(entry.run_id)
            row = end_row(entry, entry.state.value, entry.attempt, entry.booked)
            ends[END_RUN if entry.result is None else END_AND_KEEP].append(row)
    changes = ends.items() if len(set(run_ids)) == len(run_ids) else ()
    ended, keys = change_and_look_up(connection, list(changes), "run", KEYS, sorted(filter(None, key_ids)))
    runs = {}
    if unread := sorted(set(run_ids) - ended):
        for row in ROWS.lock(connection, unread):
            runs[row[0]] = LockedRun(*(*row[:6], BookedRun(*row[6:12]), *row[12:]))
    return Found(runs, ended, keys)
