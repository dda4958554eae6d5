"""Partner nodes on the server: their models run through the router, paid by the key of their job (C-11).

A run is known by its job, its node, the turn and the body: a job that is executed again after its server has died
finds the runs it has begun, and pays for none twice.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import (
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    Fault,
    FaultError,
    ProviderTimeout,
    QueueBacklogFull,
    ServiceUnavailable,
    StillRunning,
)
from fairlead.domain.runs.entries import IdempotencyKey, QueueTicket
from fairlead.domain.runs.outcomes import Completed, Outcome
from fairlead.domain.runs.replays import key_id
from fairlead.domain.runs.selection import RouteOptions
from fairlead.engine.hosts.service import DeclinedError, ModelAnswer
from fairlead.messaging.event_hub import EventHub, RunWatch
from fairlead.operations.jobs.model_faults import decline
from fairlead.operations.jobs.model_files import ModelFiles
from fairlead.operations.jobs.patience import Patience
from fairlead.operations.runs.admit import AdmittedRun, Admitter, RunCommand
from fairlead.operations.runs.awaited_runs import AwaitedRuns
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.collect import Collector, RequestStatus
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.requests import CheckedCall
from fairlead.operations.runs.results import Answer
from fairlead.providers.exchange import Exchange

T = TypeVar("T")

INTERRUPTED: Final = "InterruptedByCallerError"
_WITHOUT_FALLBACK: Final = RouteOptions(may_fall_back=False)
_LOOK_SECONDS: Final = 0.25
"""How often it is checked in memory whether a job was cancelled."""
_PAUSE_FIRST: Final = 0.5
_PAUSE_MAX: Final = 5.0
"""How often the database is asked about a run whose end may not be published."""


class NodeCall(msgspec.Struct, frozen=True):
    """A model that a node of a job calls, in which turn, with which body; `labels` are the run's, as JSON."""

    job_id: str
    node: str
    turn: int
    model_id: str
    body: bytes
    labels: str | None = None


class _Call(msgspec.Struct, frozen=True):
    """A node's call of a model as the router takes it, and a check whether its job is still wanted."""

    checked: CheckedCall
    command: RunCommand
    wanted: Callable[[], bool]


class ModelRunner:
    """Runs partners' models for the nodes of jobs. It counts the runs it waits for among the `awaited`.

    A workspace has at most `backlog` runs waiting; the keys of runs are kept for `keys_kept_ms`. A node waits for its
    model for at most `seconds`. While the database or the files are away, `patience` has them asked again.
    """

    def __init__(
        self,
        admitter: Admitter,
        executor: Executor,
        collector: Collector,
        canceller: Canceller,
        exchange: Exchange,
        files: ModelFiles,
        events: EventHub,
        awaited: AwaitedRuns,
        clock: Clock,
        patience: Patience,
        *,
        backlog: int,
        keys_kept_ms: int,
        seconds: float,
    ) -> None:
        self._admitter = admitter
        self._executor = executor
        self._collector = collector
        self._canceller = canceller
        self._exchange = exchange
        self._files = files
        self._events = events
        self._awaited = awaited
        self._clock = clock
        self._backlog = backlog
        self._keys_kept_ms = keys_kept_ms
        self._patience = patience
        self._seconds = seconds

    async def run(self, payer: Caller, asked: NodeCall, wanted: Callable[[], bool]) -> ModelAnswer:
        """Run a model for a node and wait for its end; DeclinedError when it cannot be run, or has failed.

        Once the job is not `wanted` any more the run is cancelled. Where this call itself is cancelled, because the
        server stops, the run goes on: the job finds it again.
        """
        try:
            checked = self._admitter.checks.check_headers(payer, asked.model_id, lambda: _WITHOUT_FALLBACK)
            command = await self._command(payer, asked, checked.model)
            call = _Call(checked, command, wanted)
            async with asyncio.timeout(self._seconds):
                outcome = await self._outcome(call)
            if isinstance(outcome, Completed):
                files = partial(self._files.answer, payer.workspace_id, checked.model, outcome)
                return await self._patience.ask("keep results", files)
        except FaultError as error:
            raise decline(error.fault) from error
        except TimeoutError as error:
            raise decline(ProviderTimeout()) from error
        raise decline(outcome.fault)

    async def _command(self, payer: Caller, asked: NodeCall, model: Model) -> RunCommand:
        """The call as the router takes it.

        The line break in its key distinguishes it from those that callers can choose.
        """
        digest = hashlib.sha256(asked.body).hexdigest()
        name = f"job\n{asked.job_id}\n{asked.node}\n{asked.turn}\n{model.id}\n{digest}"
        expires_at = self._clock.now_ms() + self._keys_kept_ms
        key = IdempotencyKey(key_id(payer.workspace_id, name), digest, expires_at)
        run_id = new_id()
        content = await self._patience.ask(
            "keep inputs", lambda: self._files.link_media(asked.body, payer.workspace_id, run_id)
        )
        return RunCommand(run_id, content, key, self._files.base_url, labels=asked.labels)

    async def _outcome(self, call: _Call) -> Outcome:
        native = call.checked.model.native
        if any(self._exchange.answers_bytes(native.provider, name) for name in native.calls.values()):
            return await self._at_once(call)
        ticket = QueueTicket(self._backlog, self._files.base_url)
        # Counted from before it is queued: a server that stops still executes the runs that its own jobs wait for.
        with self._awaited.waiting(call.command.run_id, call.checked.caller.workspace_id):
            queued = await self._patiently(
                call, lambda: self._admitter.enqueue(call.checked, call.command, ticket), _is_full
            )
        return await self._await_end(call, queued.run_id, queued.pool)

    async def _at_once(self, call: _Call) -> Outcome:
        """Run a model that answers with bytes, which cannot be queued; a run that was begun before is awaited."""
        admitted = await self._patiently(call, lambda: self._admitter.admit(call.checked, call.command), _passes)
        if isinstance(admitted, Answer):
            return admitted.outcome
        return await self._execute(call, admitted)

    async def _execute(self, call: _Call, run: AdmittedRun) -> Outcome:
        execution = self._executor.start(run)
        while not execution.task.done():
            await asyncio.wait([execution.task], timeout=_LOOK_SECONDS)
            if not call.wanted() and not execution.task.done():
                self._executor.cancel((run.run_id,))
                raise _not_wanted()
        return execution.task.result().outcome

    async def _await_end(self, call: _Call, run_id: str, pool: str) -> Outcome:
        """The outcome of a queued run of a pool; it is cancelled once its job is not wanted any more."""
        pause, workspace_id = _PAUSE_FIRST, call.checked.caller.workspace_id
        with (
            self._awaited.waiting(run_id, workspace_id, pool),
            closing(self._events.watch_run(workspace_id, run_id)) as watch,
        ):
            while True:
                found = await self._collect(call, run_id)
                if found is not None:
                    return found.outcome
                if not await self._pause(call, pause, watch):
                    with suppress(FaultError):  # the run goes on and is paid for: it was too late
                        await self._canceller.cancel(call.checked.caller, call.checked.model.id, run_id)
                    raise _not_wanted()
                pause = min(pause * 2, _PAUSE_MAX)

    async def _collect(self, call: _Call, run_id: str) -> Answer | None:
        """The outcome of a run, None while it goes on or cannot be read."""
        try:
            found = await self._collector.collect(call.checked.caller, call.checked.model.id, run_id)
        except FaultError as error:
            if isinstance(error.fault, ServiceUnavailable):
                return None
            raise
        return None if isinstance(found, RequestStatus) else found

    async def _patiently(
        self, call: _Call, begin: Callable[[], Awaitable[T]], is_passing: Callable[[Fault], bool]
    ) -> T:
        """Begin a run, and retry while the reason of a refusal is temporary."""
        pause = _PAUSE_FIRST
        while True:
            try:
                return await self._patience.ask("begin a run", begin)
            except FaultError as error:
                if not is_passing(error.fault):
                    raise
            if not await self._pause(call, pause):
                raise _not_wanted()
            pause = min(pause * 2, _PAUSE_MAX)

    async def _pause(self, call: _Call, seconds: float, watch: RunWatch | None = None) -> bool:
        """Wait until a run that is watched has ended, or for a while; whether the job is still wanted."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while call.wanted() and loop.time() < until:
            if watch is None:
                await asyncio.sleep(_LOOK_SECONDS)
            elif (change := await watch.wait(_LOOK_SECONDS)) is not None and change.has_ended:
                break
        return call.wanted()


def _is_full(fault: Fault) -> bool:
    return isinstance(fault, QueueBacklogFull)


def _passes(fault: Fault) -> bool:
    """Whether a fault passes when one of the workspace's own runs ends."""
    if isinstance(fault, CommittedSpendExceeded):
        return fault.needed is None
    return isinstance(fault, ConcurrencyLimitExceeded | StillRunning)


def _not_wanted() -> DeclinedError:
    return DeclinedError(INTERRUPTED, "The job is not wanted any more.")
