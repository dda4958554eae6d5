"""The status of queued runs (R-33) and their results (R-34), for callers."""

import math

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import ROUTER_GATE, Caller, refuse_gate, refuse_model
from fairlead.domain.faults import FaultError, RequestNotFound, ServiceUnavailable, bucket
from fairlead.domain.runs.entries import KeptResult
from fairlead.domain.runs.outcomes import Failed
from fairlead.domain.runs.queue import (
    WAITING_MAX,
    QueueStatus,
    Throughput,
    interval_between,
    is_request_id,
    retry_after_waiting,
    retry_after_working,
    status_of,
)
from fairlead.domain.runs.replays import read_fault
from fairlead.operations.runs.results import Answer, ResultGoneError, Results, read_dropped
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction
from fairlead.storage.runs.idempotency import EndedRun, ended_run
from fairlead.storage.runs.queue import QueuedRun, queued_run


class RequestStatus(msgspec.Struct, frozen=True):
    """The status of a queued run, and the seconds after which to ask again.

    `position` is how many runs are ahead of it, only while it waits. One that `waits_for` a provider, which could not
    take it yet, is tried again at `tried_again_at` (ms) at the earliest. One that `is_cancelling` is under way and was
    asked to stop. `error_type` is the bucket with which
    collecting fails, only if it does: the run failed, or its result was lost.
    """

    request_id: str
    model_id: str
    status: QueueStatus
    retry_after: int
    position: int | None = None
    error_type: str | None = None
    waits_for: str | None = None
    tried_again_at: int | None = None
    is_cancelling: bool = False


class Collector(msgspec.Struct, frozen=True):
    """Shows callers their queued runs. Runs of others are not found, as if they did not exist."""

    database: Database
    results: Results
    clock: Clock
    throughput: Throughput = msgspec.field(default_factory=Throughput)

    async def status(self, caller: Caller, model_id: str, request_id: str) -> RequestStatus:
        """The status of a queued run; FaultError, RequestNotFound(expired) if its result is no longer kept."""
        check_reader(caller, model_id)
        found = await find(self.database, caller, model_id, request_id)
        status = self._status(found)
        if found.blob is None or found.size is None:
            return status
        lost = await self.results.loss(found.blob, found.size)
        return status if lost is None else msgspec.structs.replace(status, error_type=bucket(lost))

    def just_queued(self, caller: Caller, model_id: str, request_id: str, position: int) -> RequestStatus:
        """The status of a run that was queued at this moment."""
        wait = retry_after_waiting(position, self.throughput.interval_ms(caller.workspace_id))
        return RequestStatus(request_id, model_id, QueueStatus.IN_QUEUE, wait, position)

    async def collect(self, caller: Caller, model_id: str, request_id: str) -> Answer | RequestStatus:
        """The result of a queued run, or its status while it is in progress; FaultError."""
        check_reader(caller, model_id)
        found, ended = await _look_up(self.database, caller, model_id, request_id, with_end=True)
        if found.finished_at is None:
            return self._status(found)
        self._refuse_expired(found)
        if ended is None or ended.result is None:
            raise FaultError(RequestNotFound(expired=True))
        return await self._answer(ended, ended.result)

    async def _answer(self, ended: EndedRun, kept: KeptResult) -> Answer:
        try:
            outcome = await self.results.read(kept)
        except ResultGoneError as error:
            raise FaultError(RequestNotFound(expired=True, is_lost=True)) from error
        tells_no_charge = isinstance(outcome, Failed) or ended.byok
        return Answer(outcome, None if tells_no_charge else ended.charge, dropped=read_dropped(kept))

    def _status(self, found: QueuedRun) -> RequestStatus:
        status, now = status_of(found.state), self.clock.now_ms()
        waits_for, again_at = (found.provider, found.not_before) if found.not_before > now else (None, None)
        match status:
            case QueueStatus.IN_QUEUE:
                wait = retry_after_waiting(found.position or 0, interval_between(found.claims))
                wait = max(wait, min(WAITING_MAX, math.ceil((found.not_before - now) / 1000)))
            case QueueStatus.IN_PROGRESS:
                wait = retry_after_working(now - (found.claimed_at or found.created_at))
            case QueueStatus.COMPLETED:
                self._refuse_expired(found)
                wait = 1
        error_type = _error_type(found)
        is_cancelling = status is QueueStatus.IN_PROGRESS and found.cancel_requested_at is not None
        return RequestStatus(
            found.run_id, found.model_id, status, wait, found.position, error_type, waits_for, again_at, is_cancelling
        )

    def _refuse_expired(self, found: QueuedRun) -> None:
        if found.kept_until is None or found.kept_until <= self.clock.now_ms():
            raise FaultError(RequestNotFound(expired=True))


async def find(database: Database, caller: Caller, model_id: str, request_id: str) -> QueuedRun:
    """A caller's queued run of a model; FaultError(RequestNotFound) for any other id."""
    found, _ = await _look_up(database, caller, model_id, request_id, with_end=False)
    return found


async def _look_up(
    database: Database, caller: Caller, model_id: str, request_id: str, *, with_end: bool
) -> tuple[QueuedRun, EndedRun | None]:
    """A caller's queued run, as from `find`; `with_end` also the kept result of one that has ended."""
    if not is_request_id(request_id):
        raise FaultError(RequestNotFound())

    # Both are read in one transaction, because the run may end between two.
    def look(transaction: Transaction) -> tuple[QueuedRun | None, EndedRun | None]:
        found = queued_run(transaction, caller.workspace_id, request_id)
        has_ended = found is not None and found.finished_at is not None
        return found, ended_run(transaction, request_id) if with_end and has_ended else None

    try:
        found, ended = await database.read(look)
    except DatabaseUnavailableError as error:
        raise FaultError(away()) from error
    if found is None or found.model_id != model_id:
        raise FaultError(RequestNotFound())
    return found, ended


def check_reader(caller: Caller, model_id: str) -> None:
    """Refuse callers without access to the router or to the model; FaultError.

    The requests of a retired model stay readable.
    """
    if fault := refuse_gate(caller, ROUTER_GATE, "The model router") or refuse_model(caller, model_id):
        raise FaultError(fault)


def away() -> ServiceUnavailable:
    """The fault while the queue cannot be read."""
    return ServiceUnavailable("The queue cannot be read right now.")


def _error_type(found: QueuedRun) -> str | None:
    """The bucket with which collecting a failed run is answered."""
    return None if found.fault is None else bucket(read_fault(found.fault))
