"""Runs and their holds: how a batch of journal entries becomes rows, all or nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    insert,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)

from fairlead.domain.billing.books import EntryKind, Funds, is_costly, refuse_admission, refuse_hold
from fairlead.domain.callers import Billing
from fairlead.domain.faults import Unauthorized
from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    Committed,
    JournalEntry,
    LiveRun,
    Redirection,
    Settlement,
    Stray,
    Superseded,
    Verdict,
)
from fairlead.domain.runs.states import LIVE, RunEvent, RunState, advance, states_before
from fairlead.storage.idempotency import KeyBook
from fairlead.storage.prepared import Prepared, PreparedLookup
from fairlead.storage.tables import api_keys, ledger_entries, runs, servers, workspaces

_Row = tuple[Any, ...]


def _in_state(states: Iterable[RunState]) -> ColumnElement[bool]:
    """Name states in a statement that is compiled once: literals, so that its only parameters are those of a row."""
    return or_(*(runs.c.state == literal_column(f"'{state.value}'") for state in sorted(states)))


_ACCEPTED: Final = advance(RunState.DISPATCHED, RunEvent.ACCEPT).value
_REDIRECTABLE: Final = frozenset(states_before(RunEvent.REDIRECT))
_LOCK_WORKSPACES: Final = PreparedLookup(
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
        )
        .where(one_of(workspaces.c.id))
        .order_by(workspaces.c.id)
        .with_for_update()
    )
)
_REVOKED_KEYS: Final = PreparedLookup(
    lambda one_of: select(api_keys.c.id).where(one_of(api_keys.c.id), api_keys.c.revoked_at.is_not(None))
)
_LOCK_RUNS: Final = PreparedLookup(
    lambda one_of: (
        select(runs.c.id, runs.c.attempt, runs.c.state, runs.c.charge, runs.c.finished_at, runs.c.hold, runs.c.provider)
        .where(one_of(runs.c.id))
        .order_by(runs.c.id)
        .with_for_update()
    )
)
_INSERT_RUN: Final = Prepared(
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
        "caller_left",
        "request",
        "created_at",
    ),
)
_INSERT_ENTRY: Final = Prepared(
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
_MOVE_MONEY: Final = Prepared(
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"))
    .values(
        balance=workspaces.c.balance + bindparam("balance_change"),
        held=workspaces.c.held + bindparam("held_change"),
        in_flight=workspaces.c.in_flight + bindparam("slots"),
        costly_in_flight=workspaces.c.costly_in_flight + bindparam("costly"),
    ),
    ("balance_change", "held_change", "slots", "costly", "workspace"),
)
_ACCEPT_RUN: Final = Prepared(
    update(runs)
    .where(
        runs.c.id == bindparam("run"),
        runs.c.attempt == bindparam("of_attempt"),
        _in_state(states_before(RunEvent.ACCEPT)),
    )
    .values(state=bindparam("new_state"), handle=bindparam("new_handle"), credential=bindparam("new_credential")),
    ("new_state", "new_handle", "new_credential", "run", "of_attempt"),
)
_REDIRECT_RUN: Final = Prepared(
    update(runs)
    .where(
        runs.c.id == bindparam("run"),
        runs.c.attempt == bindparam("of_attempt"),
        _in_state(states_before(RunEvent.REDIRECT)),
    )
    .values(
        provider=bindparam("new_provider"),
        rate_version=bindparam("new_version"),
        hold=bindparam("new_hold"),
        redirected=true(),
    ),
    ("new_provider", "new_hold", "new_version", "run", "of_attempt"),
)
_SETTLE_RUN: Final = Prepared(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.attempt == bindparam("of_attempt"), _in_state(LIVE))
    .values(
        state=bindparam("new_state"),
        charge=bindparam("new_charge"),
        reason=bindparam("new_reason"),
        upstream_status=bindparam("new_upstream_status"),
        caller_left=bindparam("new_caller_left"),
        finished_at=bindparam("now"),
        request=null(),
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


@dataclass(slots=True)
class _Movement:
    """What a batch changes in the figures of one workspace."""

    balance: int = 0
    held: int = 0
    slots: int = 0
    costly: int = 0


@dataclass(slots=True)
class _Batch:
    """The rows a batch of entries turns into, gathered before any is written."""

    funds: dict[str, Funds]
    keys: KeyBook
    movements: dict[str, _Movement] = field(default_factory=dict)
    new_runs: list[_Row] = field(default_factory=list)
    accepted: list[_Row] = field(default_factory=list)
    redirected: list[_Row] = field(default_factory=list)
    settled: list[_Row] = field(default_factory=list)
    ledger: list[_Row] = field(default_factory=list)

    def movement(self, workspace_id: str) -> _Movement:
        return self.movements.setdefault(workspace_id, _Movement())


def write_entries(connection: Connection, entries: Sequence[JournalEntry]) -> Sequence[Verdict]:
    """Write a batch of entries and say what became of each.

    Workspaces are locked first and in the order of their ids, so that two servers cannot deadlock. Ends come before
    admissions: they free the slots and the money the admissions are decided on.
    """
    money = {entry.workspace_id for entry in entries if not isinstance(entry, Acceptance)}
    admissions = [entry for entry in entries if isinstance(entry, Admission)]
    # Keys are looked up behind the lock of their workspace: of two calls with one key the second finds the first.
    batch = _Batch(_funds(connection, money), KeyBook(connection, admissions))
    standing = _standing(connection, [entry.run_id for entry in entries if not isinstance(entry, Admission)])
    revoked = _revoked(connection, admissions)
    verdicts: dict[int, Verdict] = {}
    for entry in entries:
        if not isinstance(entry, Admission):
            verdicts[id(entry)] = _go_on(batch, entry, standing.get(entry.run_id))
    for entry in admissions:
        verdicts[id(entry)] = _admit(batch, entry, revoked)
    _write(connection, batch)
    return [verdicts.get(id(entry)) for entry in entries]


def _funds(connection: Connection, workspace_ids: set[str]) -> dict[str, Funds]:
    rows = _LOCK_WORKSPACES.run(connection, sorted(workspace_ids))
    # A struct is made by position: nine figures by name would cost more than reading them.
    return {row[0]: Funds(Billing(row[1]), *row[2:]) for row in rows}


def _standing(connection: Connection, run_ids: Sequence[str]) -> dict[str, _Row]:
    """How each run stands: attempt, state, charge, end, hold and provider; locked until the batch is written."""
    return {row[0]: tuple(row[1:]) for row in _LOCK_RUNS.run(connection, run_ids)}


def _go_on(batch: _Batch, entry: Acceptance | Redirection | Settlement, standing: _Row | None) -> Verdict:
    """Gather what an entry does to a run that stands so, or say that it comes too late."""
    if standing is None or standing[0] != entry.attempt:
        return Superseded()
    if standing[1] in LIVE:
        match entry:
            case Settlement():
                _settle(batch, entry, standing[4])
            case Redirection(provider=provider) if provider == standing[5]:
                return None  # written before, in a commit whose answer was lost
            case Redirection():
                return _redirect(batch, entry) if standing[1] in _REDIRECTABLE else Superseded()
            case Acceptance():
                batch.accepted.append((_ACCEPTED, entry.handle, entry.credential, entry.run_id, entry.attempt))
        return None
    # A run that ended as this entry says was ended by it, in a commit whose answer was lost.
    same = isinstance(entry, Settlement) and standing[1:4] == (entry.state, entry.charge, entry.finished_at)
    return None if same else Superseded()


def _revoked(connection: Connection, admissions: Sequence[Admission]) -> set[str]:
    """Which keys were revoked since their callers were looked up: a cache must not spend a revoked key's money."""
    key_ids = {entry.key_id for entry in admissions if entry.key_id is not None}
    return {row[0] for row in _REVOKED_KEYS.run(connection, list(key_ids))}


def _admit(batch: _Batch, entry: Admission, revoked: set[str]) -> Verdict:
    funds = batch.funds.get(entry.workspace_id)
    if funds is None or entry.key_id in revoked:
        return Unauthorized("This API key is not valid.")
    if used := batch.keys.refuse(entry):
        return used
    if fault := refuse_admission(funds, entry.hold):
        return fault
    funds = batch.funds[entry.workspace_id] = funds.with_hold(entry.hold)
    movement = batch.movement(entry.workspace_id)
    movement.held += entry.hold
    movement.slots += 1
    movement.costly += is_costly(entry.hold)
    batch.keys.take(entry)
    batch.new_runs.append(_new_run(entry))
    batch.ledger.append(_ledger_row(entry, EntryKind.HOLD, 0, entry.hold, "admitted", entry.created_at))
    return None if funds.commitment_limit is None else Committed(funds.commitment_limit, funds.held)


def _redirect(batch: _Batch, entry: Redirection) -> Verdict:
    """Gather a run's move to another provider; a hold that grows needs the money like an admission does."""
    funds, more = batch.funds[entry.workspace_id], entry.hold - entry.held
    if more > 0 and (fault := refuse_hold(funds, more)):
        return fault
    batch.funds[entry.workspace_id] = funds.with_raise(entry.held, entry.hold)
    movement = batch.movement(entry.workspace_id)
    movement.held += more
    movement.costly += is_costly(entry.hold) - is_costly(entry.held)
    batch.redirected.append((entry.provider, entry.hold, entry.rate_version, entry.run_id, entry.attempt))
    batch.ledger.append(
        (
            entry.workspace_id,
            entry.run_id,
            2 + entry.turn,
            EntryKind.RAISE.value,
            0,
            more,
            f"redirected to {entry.provider}",
            entry.rate_version,
            entry.at,
        )
    )
    return None


def _new_run(entry: Admission) -> _Row:
    return (
        entry.run_id,
        entry.workspace_id,
        entry.key_id,
        entry.model_id,
        entry.provider,
        RunState.DISPATCHED.value,
        1,
        entry.server_id,
        entry.hold,
        entry.rate_version,
        entry.operation,
        entry.strict,
        entry.byok,
        None if entry.key is None else entry.key.id,
        False,
        entry.request,
        entry.created_at,
    )


def _settle(batch: _Batch, entry: Settlement, hold: int) -> None:
    """Gather the end of a run. What it frees is what the books hold for it, whatever its server believes."""
    movement = batch.movement(entry.workspace_id)
    movement.balance -= entry.charge
    movement.held -= hold
    movement.slots -= 1
    movement.costly -= is_costly(hold)
    batch.keys.settle(entry)
    if funds := batch.funds.get(entry.workspace_id):
        batch.funds[entry.workspace_id] = funds.after_settlement(hold, entry.charge)
    batch.settled.append(
        (
            entry.state.value,
            entry.charge,
            entry.reason,
            entry.upstream_status,
            entry.caller_left,
            entry.finished_at,
            entry.run_id,
            entry.attempt,
        )
    )
    kind = EntryKind.POST if entry.billed else EntryKind.VOID
    batch.ledger.append(_ledger_row(entry, kind, -entry.charge, -hold, entry.reason, entry.finished_at))


def _ledger_row(entry: Admission | Settlement, kind: EntryKind, balance: int, held: int, reason: str, at: int) -> _Row:
    phase = 1 if kind is EntryKind.HOLD else 2
    return (entry.workspace_id, entry.run_id, phase, kind.value, balance, held, reason, entry.rate_version, at)


def _write(connection: Connection, batch: _Batch) -> None:
    _ACCEPT_RUN.run(connection, batch.accepted)
    _REDIRECT_RUN.run(connection, batch.redirected)
    _SETTLE_RUN.run(connection, batch.settled)
    _INSERT_RUN.run(connection, batch.new_runs)
    _INSERT_ENTRY.run(connection, batch.ledger)
    _MOVE_MONEY.run(
        connection,
        [(moved.balance, moved.held, moved.slots, moved.costly, key) for key, moved in sorted(batch.movements.items())],
    )
    batch.keys.write(connection)


def announce_server(connection: Connection, server_id: str, now: int, forget_before: int) -> None:
    """Say that a server is alive: its runs are its own until it falls silent. Forgets servers long silent."""
    if connection.execute(update(servers).where(servers.c.id == server_id).values(seen_at=now)).rowcount == 0:
        connection.execute(insert(servers).values(id=server_id, seen_at=now))
    owners = select(runs.c.server_id).where(runs.c.finished_at.is_(None))
    connection.execute(servers.delete().where(servers.c.seen_at < forget_before, servers.c.id.not_in(owners)))


def take_over_orphans(connection: Connection, server_id: str, silent_since: int, limit: int) -> list[LiveRun]:
    """Claim up to `limit` unfinished runs whose server has not been seen since, raising each run's attempt.

    The old owner's writes name the old attempt and so find nothing to change.
    """
    alive = select(servers.c.id).where(servers.c.seen_at > silent_since)
    orphans = connection.execute(
        select(runs, workspaces.c.name.label("workspace"))
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
        .where(runs.c.finished_at.is_(None), runs.c.server_id != server_id, runs.c.server_id.not_in(alive))
        .order_by(runs.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=runs)
    ).mappings()
    return [_take_over(connection, row, server_id) for row in orphans.all()]


def _take_over(connection: Connection, row: RowMapping, server_id: str) -> LiveRun:
    state = advance(RunState(row["state"]), RunEvent.TAKE_OVER)
    connection.execute(
        update(runs)
        .where(and_(runs.c.id == row["id"], runs.c.attempt == row["attempt"]))
        .values(state=state, attempt=row["attempt"] + 1, server_id=server_id)
    )
    return LiveRun(
        run_id=row["id"],
        workspace_id=row["workspace_id"],
        workspace=row["workspace"],
        model_id=row["model_id"],
        provider=row["provider"],
        state=state,
        attempt=row["attempt"] + 1,
        handle=row["handle"],
        hold=row["hold"],
        rate_version=row["rate_version"],
        request=row["request"],
        credential=row["credential"] or "",
        operation=row["operation"],
        strict=bool(row["strict"]),
        byok=bool(row["byok"]),
        redirected=bool(row["redirected"]),
        key_id=row["idempotency_id"],
    )


def live_runs_of(connection: Connection, server_id: str, admitted_before: int) -> list[Stray]:
    """The unfinished runs of a server that were admitted before a time."""
    rows = connection.execute(
        select(runs.c.id, runs.c.workspace_id, runs.c.attempt, runs.c.rate_version, runs.c.idempotency_id).where(
            runs.c.finished_at.is_(None), runs.c.server_id == server_id, runs.c.created_at < admitted_before
        )
    )
    return [Stray(*row) for row in rows]


def operation_of_work(connection: Connection, workspace_id: str, handle: str) -> str | None:
    """What the run was billed as whose work a partner named so (R-16); None when this workspace has no such run."""
    found = connection.execute(
        select(runs.c.operation)
        .where(runs.c.workspace_id == workspace_id, runs.c.handle == handle, runs.c.operation.is_not(None))
        .order_by(runs.c.id.desc())
        .limit(1)
    ).scalar()
    return None if found is None else str(found)


def lost_runs(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """The newest runs whose outcome could not be known: voided, and named here for an operator to look into."""
    rows = connection.execute(
        select(runs.c.id, runs.c.workspace_id, runs.c.model_id, runs.c.provider, runs.c.hold, runs.c.finished_at)
        .where(runs.c.state == RunState.LOST)
        .order_by(runs.c.finished_at.desc())
        .limit(limit)
    ).mappings()
    return [dict(row) for row in rows]
