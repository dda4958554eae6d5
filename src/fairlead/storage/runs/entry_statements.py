"""The statements a batch of journal entries becomes (storage/runs/entries.py), compiled once."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    Connection,
    bindparam,
    insert,
    literal_column,
    null,
    select,
    true,
    update,
)

from fairlead.domain.runs.entries import Admission, LiveRun
from fairlead.domain.runs.states import WAITING, WORKING, RunEvent, RunState, states_before
from fairlead.domain.work.entries import DocumentBlob
from fairlead.storage.db.statements import Prepared, PreparedLookup
from fairlead.storage.db.tables import ledger_entries, run_events, runs, workspaces
from fairlead.storage.work.table import in_state

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
            runs.c.attempt,
            runs.c.state,
            runs.c.charge,
            runs.c.finished_at,
            runs.c.hold,
            runs.c.provider,
            runs.c.key_id,
            runs.c.model_id,
            runs.c.server_id,
            runs.c.place,
            runs.c.rate_version,
            runs.c.claimed_at,
            runs.c.request_blob,
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
SETTLE_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.attempt == bindparam("of_attempt"), in_state(runs, WORKING))
    .values(
        state=bindparam("new_state"),
        charge=bindparam("new_charge"),
        reason=bindparam("new_reason"),
        upstream_status=bindparam("new_upstream_status"),
        caller_left=bindparam("new_caller_left"),
        finished_at=bindparam("now"),
        request=null(),
        request_blob=null(),
        request_size=null(),
    ),
    (
        "new_state",
        "new_charge",
        "new_reason",
        "new_upstream_status",
        "new_caller_left",
        "now",
        "run",
        "of_attempt",
    ),
)


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
WITHDRAW_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), in_state(runs, states_before(RunEvent.WITHDRAW)))
    .values(
        state=bindparam("new_state"),
        charge=bindparam("new_charge"),
        reason=bindparam("new_reason"),
        finished_at=bindparam("now"),
        request=null(),
        request_blob=null(),
        request_size=null(),
    ),
    ("new_state", "new_charge", "new_reason", "now", "run"),
)
NOTE_CANCEL: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.cancel_requested_at.is_(None), in_state(runs, WORKING))
    .values(cancel_requested_at=bindparam("now")),
    ("now", "run"),
)
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


def new_run(entry: Admission, state: str, place: int | None) -> tuple[object, ...]:
    """The row of INSERT_RUN for a run that is admitted in a state, with its place in the queue where it has one."""
    ticket = entry.ticket
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
        entry.hold,
        entry.rate_version,
        entry.operation,
        entry.strict,
        entry.byok,
        None if entry.key is None else entry.key.id,
        place,
        entry.least,
        entry.dropped,
        None if ticket is None else ticket.base_url,
        False,
        entry.request if blob is None else None,
        None if blob is None else blob.name,
        None if blob is None else blob.size,
        entry.created_at,
    )


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
