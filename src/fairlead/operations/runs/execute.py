"""Execution: ask the partner, close the books, and only then answer. Owned by the application, not by a connection."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.domain.billing.rates import charge
from fairlead.domain.faults import ContentPolicyViolation, DeadlineExceeded, FaultError, InternalError, bucket
from fairlead.domain.runs.entries import Acceptance, Settlement, Superseded
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.domain.runs.states import RunState
from fairlead.observing.observations import (
    DatabaseTrouble,
    DeadlinePassed,
    Observer,
    RunEnded,
    RunSuperseded,
    UnexpectedError,
)
from fairlead.operations.clock import Clock
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.providers.classify import Accepted
from fairlead.providers.exchange import Exchange, Order
from fairlead.storage.database import DatabaseUnavailableError
from fairlead.storage.journal import Journal

_RETRY_FIRST: Final = 0.1
_RETRY_MAX: Final = 5.0


class Answer(msgspec.Struct, frozen=True):
    """How a run ended, for whoever still waits: its outcome, and what was charged in 10^-8 dollars."""

    outcome: Outcome
    charge: int


class SupersededError(Exception):
    """The run was taken over by another server while this one still worked on it."""


def _nobody_left() -> bool:
    return False


class Execution:
    """One run under way. `has_left` says whether whoever asked for it is gone; it goes on all the same (R-25)."""

    __slots__ = ("ended", "has_left", "run", "task")

    def __init__(self, run: AdmittedRun, has_left: Callable[[], bool], loop: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.has_left = has_left
        self.ended: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[Answer]

    def wake(self) -> None:
        """End the wait for the run: it has ended, or the time is up."""
        if not self.ended.done():
            self.ended.set_result(None)


class Executor:
    """Executes admitted runs in tasks of its own, and keeps them until they have ended."""

    def __init__(self, exchange: Exchange, journal: Journal, clock: Clock, observe: Observer) -> None:
        self._exchange = exchange
        self._journal = journal
        self._clock = clock
        self._observe = observe
        self._under_way: set[Execution] = set()

    @property
    def under_way(self) -> int:
        """How many runs this process works on."""
        return len(self._under_way)

    def run_ids(self) -> set[str]:
        """The runs this process works on."""
        return {execution.run.run_id for execution in self._under_way}

    def start(
        self, run: AdmittedRun, handle: str | None = None, has_left: Callable[[], bool] = _nobody_left
    ) -> Execution:
        """Begin (or with a handle: go on with) a run, whatever becomes of the connection that asked for it."""
        loop = asyncio.get_running_loop()
        execution = Execution(run, has_left, loop)
        execution.task = loop.create_task(self._execute(execution, handle))
        self._under_way.add(execution)
        return execution

    async def answer_in_time(self, execution: Execution, seconds: float) -> Answer:
        """Wait for a run, but not for ever: FaultError(DeadlineExceeded) when the time is up; the run goes on (R-24).

        `asyncio.wait` would do the same at three times the cost, and this is waited on by every call.
        """
        timer = asyncio.get_running_loop().call_later(seconds, execution.wake)
        try:
            await execution.ended
        finally:
            timer.cancel()
        if execution.task.done():
            return execution.task.result()
        execution.has_left = _nobody_left
        self._observe(DeadlinePassed(execution.run.run_id))
        raise FaultError(DeadlineExceeded(seconds))

    async def drain(self, seconds: float) -> None:
        """Let runs under way end, for so long; those that do not are taken over after the next start."""
        if self._under_way:
            _, late = await asyncio.wait([execution.task for execution in self._under_way], timeout=seconds)
            for task in late:
                task.cancel()

    async def _execute(self, execution: Execution, handle: str | None) -> Answer:
        """Work on a run to its end, and wake whoever waits for it."""
        run = execution.run
        asked_at = time.perf_counter()
        try:
            outcome, charged = await self._ask(run, handle)
            partner_seconds = time.perf_counter() - asked_at
            settlement = settle(run, outcome, charged, self._clock.now_ms(), caller_left=execution.has_left())
            await self.record(settlement)
            self._ended(run, settlement, partner_seconds)
            return Answer(outcome, charged)
        except SupersededError:
            return Answer(Failed(InternalError()), 0)
        finally:
            self._under_way.discard(execution)
            execution.wake()

    async def _ask(self, run: AdmittedRun, handle: str | None) -> tuple[Outcome, int]:
        """What the partner makes of a run, and its price; a bug on the way must not leave a hold behind."""
        order = Order(run.provider, run.call, run.content, run.run_id)
        try:
            if handle is None:
                reading = await self._exchange.send(order)
                if not isinstance(reading, Accepted):
                    return reading, _charge(run, reading)
                handle = reading.handle
                await self.record(Acceptance(run.run_id, run.attempt, handle))
            outcome = await self._exchange.follow(order, handle)
            return outcome, _charge(run, outcome)
        except SupersededError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the run ends and its money is free again
            self._observe(UnexpectedError(f"execute {run.run_id}", error))
            return Failed(InternalError()), 0

    async def record(self, entry: Acceptance | Settlement) -> None:
        """Make an entry durable, however long that takes; SupersededError when the run is another's now.

        Giving up would leave money held for work that has ended. What keeps an entry from being written is observed
        at every try; a run it cannot be written for stays live, and is taken over after the next start.
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
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MAX)

    def _ended(self, run: AdmittedRun, settlement: Settlement, partner_seconds: float) -> None:
        self._observe(
            RunEnded(
                run_id=run.run_id,
                workspace=run.workspace,
                model_id=run.model_id,
                provider=run.provider,
                result="success" if settlement.state is RunState.SUCCEEDED else settlement.reason,
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


def _is_billed(run: AdmittedRun, outcome: Outcome) -> bool:
    """Whether a run is charged: a generation that completed (R-29), or a refusal where the model bills those (R-27)."""
    if isinstance(outcome, Completed):
        return True
    return run.refusal_is_billed and isinstance(outcome.fault, ContentPolicyViolation)


def _charge(run: AdmittedRun, outcome: Outcome) -> int:
    """The price of a run in 10^-8 dollars; a rate card that changed since cannot take it above what was held."""
    if not _is_billed(run, outcome):
        return 0
    if isinstance(outcome, Failed):
        return run.hold
    return min(run.hold, charge(run.quote, outcome.answer, outcome.headers))


def settle(run: AdmittedRun, outcome: Outcome, charged: int, now: int, *, caller_left: bool) -> Settlement:
    """What is written when a run ends: posted when it is billed, else voided."""
    match outcome:
        case Completed():
            state, reason = RunState.SUCCEEDED, "completed"
        case Failed(fault):
            state, reason = RunState.FAILED, bucket(fault)
    return Settlement(
        run_id=run.run_id,
        workspace_id=run.workspace_id,
        attempt=run.attempt,
        state=state,
        hold=run.hold,
        charge=charged,
        billed=_is_billed(run, outcome),
        reason=reason,
        rate_version=run.quote.card.version,
        finished_at=now,
        upstream_status=outcome.upstream_status,
        caller_left=caller_left,
    )
