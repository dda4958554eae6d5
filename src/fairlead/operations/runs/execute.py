"""Execution: call the partner, settle the run, and only then answer. No connection owns it."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from fairlead.clock import Clock, Deadlines
from fairlead.domain.faults import (
    Cancelled,
    DeadlineExceeded,
    Fault,
    FaultError,
    InternalError,
    Upstream,
    bucket,
    is_fault,
)
from fairlead.domain.runs.entries import (
    Acceptance,
    BookedRun,
    CancelNoted,
    KeptResult,
    Postponement,
    Redirection,
    Settlement,
    TopUp,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.domain.runs.replays import write_fault
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Superseded
from fairlead.observing.observations import (
    DatabaseTrouble,
    DeadlinePassed,
    Observer,
    RunEnded,
    RunPostponed,
    RunSuperseded,
    UnexpectedError,
)
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.dispatch import Cancellation, Dispatcher, Served, SupersededError
from fairlead.operations.runs.postpone import Postponer
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.results import Answer, Results
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.runs.entries import RunJournal

_RETRY_FIRST: Final = 0.1
_RETRY_MAX: Final = 5.0
_SUCCESSOR_SECONDS: Final = 3600.0
_KEPT_FOR_CALLER_MS: Final = 3_600_000
"""How long a run that was taken over keeps its result for a caller who may still wait at the server before."""


def _nobody_left() -> bool:
    return False


class Execution(msgspec.Struct, eq=False):
    """One run in progress. `has_left` says whether its caller has disconnected; the run continues all the same (R-25).

    `answered` is the HTTP status with which the partner accepted the work, once it has.
    """

    run: AdmittedRun
    has_left: Callable[[], bool]
    answered: int | None
    cancellation: Cancellation
    ended: asyncio.Future[None]
    task: "asyncio.Task[Answer]" = None  # type: ignore[assignment]  # `Executor.start` sets it, which needs us first

    def expire(self, _seconds: float) -> None:
        """End the wait, because the time is up."""
        if not self.ended.done():
            self.ended.set_result(None)


class Executor:
    """Executes admitted runs in tasks of its own, and keeps them until they have ended.

    The result of a queued run can be collected for `collectable_ms`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        replayer: Replayer,
        results: Results,
        postponer: Postponer,
        journal: RunJournal,
        clock: Clock,
        observe: Observer,
        collectable_ms: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._postponer = postponer
        self._replayer = replayer
        self._results = results
        self._collectable_ms = collectable_ms
        self._journal = journal
        self._clock = clock
        self._observe = observe
        self._under_way: dict[str, Execution] = {}
        self._deadlines = Deadlines()

    @property
    def under_way(self) -> int:
        """How many runs this process works on."""
        return len(self._under_way)

    @property
    def taken_over(self) -> int:
        """How many of them were begun by another server."""
        return sum(1 for execution in self._under_way.values() if execution.run.is_taken_over)

    def run_ids(self) -> set[str]:
        """The runs this process works on."""
        return set(self._under_way)

    def start(self, run: AdmittedRun, has_left: Callable[[], bool] = _nobody_left) -> Execution:
        """Begin a run, or continue its work, independently of the connection that asked for it."""
        loop = asyncio.get_running_loop()
        answered = None if run.work is None else run.work.status
        execution = Execution(run, has_left, answered, Cancellation(run.is_unwanted), loop.create_future())
        execution.task = loop.create_task(self._execute(execution))
        self._under_way[run.run_id] = execution
        return execution

    async def answer_in_time(self, execution: Execution, seconds: float) -> Answer:
        """Wait for a run within bounds: FaultError(DeadlineExceeded) when the time is up; the run goes on (R-24).

        `asyncio.wait` would do the same at three times the cost, and this is waited on by every call.
        """
        deadline = self._deadlines.begin(execution.ended.get_loop(), seconds, execution.expire)
        try:
            await execution.ended
        finally:
            deadline.cancel()
        # The end of the run and the deadline both end this wait; only the task says which it was.
        if execution.task.done():
            return execution.task.result()
        # The caller has been told to come back, so a connection that closes now says nothing about the run.
        execution.has_left = _nobody_left
        self._observe(DeadlinePassed(execution.run.run_id))
        raise FaultError(DeadlineExceeded(seconds, Upstream(execution.answered)))

    def cancel(self, run_ids: Collection[str]) -> None:
        """Pass the cancellation of some of the runs in progress on to their partners, where that is possible."""
        for execution in [self._under_way[run_id] for run_id in run_ids if run_id in self._under_way]:
            execution.cancellation.request()

    async def drain(self, seconds: float) -> None:
        """Wait up to some seconds for runs in progress; those that continue are taken over after the next start."""
        if self._under_way:
            _, late = await asyncio.wait([execution.task for execution in self._under_way.values()], timeout=seconds)
            for task in late:
                task.cancel()

    async def _execute(self, execution: Execution) -> Answer:
        """Work on a run to its end, and wake everything that waits for it."""
        run = execution.run
        asked_at = time.perf_counter()
        try:
            served = await self._dispatcher.serve(run, self.record, execution.cancellation)
            partner_seconds = time.perf_counter() - asked_at
            if run.waits_until is not None and await self._postpone(execution, served):
                return Answer(served.outcome, None)
            has_fallen_back = served.has_fallen_back and isinstance(served.outcome, Completed)
            answer = Answer(
                outcome=served.outcome,
                charge=None if run.selection.is_byok else served.charge,
                fallback_provider=served.plan.provider if has_fallen_back else None,
                dropped=served.plan.dropped if isinstance(served.outcome, Completed) else (),
            )
            is_kept = run.is_queued or run.key is not None or run.is_taken_over
            kept = await self._keep(run, answer) if is_kept else None
            settlement = settle(run, served, kept, self._clock.now_ms(), caller_left=execution.has_left())
            await self.record(settlement)
            self._observe_end(run, served, settlement, partner_seconds)
        except SupersededError:
            if self._under_way.get(run.run_id) is execution:
                del self._under_way[run.run_id]
            return await self._answer_of_successor(run)
        else:
            return answer
        finally:
            if self._under_way.get(run.run_id) is execution:  # otherwise it was lost to another server, and won back
                del self._under_way[run.run_id]
            if not execution.ended.done():
                execution.ended.set_result(None)

    async def _postpone(self, execution: Execution, served: Served) -> bool:
        """Send a queued run back to wait for its partner, if it may; one that was cancelled ends."""
        entry = None if execution.cancellation.is_requested else self._postponer.entry(execution.run, served)
        if entry is None or await self.record(entry) is not None:
            return False
        self._observe(RunPostponed(entry.run_id, execution.run.model.id, entry.provider, entry.pause_ms / 1000))
        return True

    async def _answer_of_successor(self, run: AdmittedRun) -> Answer:
        """The result of a run at the server that took it over: its caller may still wait for it here (M-02)."""
        give_up_at, pause = time.monotonic() + _SUCCESSOR_SECONDS, _RETRY_FIRST
        is_awaited = not (run.is_queued or run.is_taken_over)  # nobody waits here for others
        while is_awaited and time.monotonic() < give_up_at:
            try:
                if (answer := await self._replayer.answer_of(run.run_id)) is not None:
                    return answer
            except FaultError:
                pass  # the database or the store of results is unavailable; the caller's own deadline ends this
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MAX)
        return Answer(Failed(DeadlineExceeded(_SUCCESSOR_SECONDS)), None)

    async def _keep(self, run: AdmittedRun, answer: Answer) -> KeptResult | None:
        """The result to keep for the run's collectors, or for its idempotency key; a bug here must not cost the run."""
        try:
            if run.is_queued:
                return await self._results.keep(answer, self._clock.now_ms() + self._collectable_ms)
            if run.key is not None:
                return await self._replayer.keep(answer, run.key, run.base_url)
            return await self._results.keep(answer, self._clock.now_ms() + _KEPT_FOR_CALLER_MS)
        except Exception as error:  # noqa: BLE001 -- as above
            self._observe(UnexpectedError(f"keep the result of {run.run_id}", error))
            return self._without_result(run)

    def _without_result(self, run: AdmittedRun) -> KeptResult | None:
        """The record in place of a result that could not be kept."""
        if run.is_queued:
            return KeptResult(self._clock.now_ms() + self._collectable_ms, fault=write_fault(InternalError()))
        return None if run.key is None else KeptResult(run.key.expires_at, replayable_until=0)

    async def record(self, entry: Acceptance | Redirection | TopUp | Postponement | Settlement) -> Fault | None:
        """Make an entry durable, however long that takes; SupersededError if the run is another server's by now.

        A move to another provider and a hold that grows may be refused, for lack of money, and a postponement after a
        cancellation; the result is the reason.

        Giving up would leave money held for work that has ended. Each failed attempt is observed; a run whose entry
        cannot be written stays live, and is taken over after the next start.
        """
        pause = _RETRY_FIRST
        while True:
            try:
                verdict = await self._journal.write(entry)
            except DatabaseUnavailableError as error:
                self._observe(DatabaseTrouble(type(entry).__name__, str(error)))
            except Exception as error:  # noqa: BLE001 -- a bug in storage, which must not cost the entry
                self._observe(UnexpectedError(f"record {entry.run_id}", error))
            else:
                if isinstance(verdict, Superseded):
                    self._observe(RunSuperseded(entry.run_id))
                    raise SupersededError(entry.run_id)
                if verdict is None:
                    if type(entry) is Acceptance:
                        self._note_answer(entry)
                    return None
                if isinstance(entry, Redirection | TopUp) and is_fault(verdict):
                    return verdict
                if isinstance(verdict, CancelNoted):
                    return Cancelled()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MAX)

    def _note_answer(self, entry: Acceptance) -> None:
        """Remember that a partner has answered, for callers that stop waiting before the end (R-22)."""
        if (execution := self._under_way.get(entry.run_id)) is not None:
            execution.answered = entry.status

    def _observe_end(self, run: AdmittedRun, served: Served, settlement: Settlement, partner_seconds: float) -> None:
        self._observe(
            RunEnded(
                run_id=run.run_id,
                workspace=run.workspace,
                model_id=run.request.model.id,
                provider=served.plan.leg.provider,
                result="success" if isinstance(served.outcome, Completed) else settlement.reason,
                charge=settlement.charge,
                upstream_status=settlement.upstream_status,
                started_at_ns=run.started_at_ns,
                seconds=(self._clock.now_ns() - run.started_at_ns) / 1e9,
                partner_seconds=partner_seconds,
                caller_left=settlement.caller_left,
                attempt=run.attempt,
                traceparent=run.traceparent,
            )
        )


def settle(run: AdmittedRun, served: Served, kept: KeptResult | None, now: int, *, caller_left: bool) -> Settlement:
    """The entry for the end of a run: a post if it is billed, otherwise a void."""
    outcome = served.outcome
    match outcome:
        case Completed():
            state, reason, is_undecided = RunState.SUCCEEDED, "completed", False
        case Failed(fault, reached=reached):  # a partner with undecided work may still report how it ends
            state, reason, is_undecided = RunState.FAILED, bucket(fault), reached is Reached.UNDECIDED
    booked = None
    if not (run.is_taken_over or run.is_queued):
        hold = served.plan.quote.amount
        booked = BookedRun(hold, run.api_key_id, run.request.model.id, labels=run.labels)
    return Settlement(
        run_id=run.run_id,
        workspace_id=run.workspace_id,
        attempt=run.attempt,
        state=state,
        charge=served.charge,
        is_billed=served.is_billed,
        reason=reason,
        rate_version=served.plan.quote.card.label,
        finished_at=now,
        upstream_status=outcome.upstream_status,
        caller_left=caller_left,
        key_id=None if run.key is None or run.is_queued or is_undecided else run.key.id,
        result=kept,
        events=served.events,
        booked=booked,
        facts=served.facts,
    )
