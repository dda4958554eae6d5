"""Has a job executed: an engine host does the work, the end is made durable, and only then published."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import FaultError, Unauthorized
from fairlead.domain.jobs.entries import JobEnding, JobProgress, Moved
from fairlead.domain.jobs.errors import CRASH, INACTIVE_SUBSCRIPTION, INTERNAL, TOO_MUCH, VALIDATION
from fairlead.domain.jobs.events import Ending, Failed, Interrupted, Place, Succeeded
from fairlead.domain.jobs.jobs import LiveJob
from fairlead.domain.jobs.outputs import SHOWS_TOO_MUCH
from fairlead.domain.jobs.states import JobState
from fairlead.domain.work.entries import Superseded, TakeOver
from fairlead.engine.hosts.classes import class_of
from fairlead.engine.hosts.execution import failure
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.pool import Hosts
from fairlead.engine.hosts.service import DeclinedError, Execute, ModelAnswer
from fairlead.messaging.event_hub import EventHub
from fairlead.observing.observations import JobEnded, JobsUnderWay, Observer, UnexpectedError
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.assets.files import WorkflowFiles
from fairlead.operations.jobs.callbacks import FileNotKeptError, JobCallbacks
from fairlead.operations.jobs.model_faults import decline
from fairlead.operations.jobs.models import ModelRunner, NodeCall
from fairlead.operations.jobs.patience import Patience
from fairlead.operations.jobs.store import JobStore
from fairlead.operations.work.places import Places, Reservation
from fairlead.storage.jobs.jobs import deflate_in_thread

_FLUSH_SECONDS: Final = 1.0
_HAND_BACK_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0
"""How long a failed job waits for its files to be stored: the store may be away."""
_REMEMBERED_BYTES: Final = 16 * 2**20
_REMEMBERED_EACH: Final = 64 * 1024
_NOWHERE: Final = Place("", "")
_NOT_ITS_OWN: Final = "The job could not be executed, for a reason that is not its own."
_START_BLOCKERS: Final = {
    INACTIVE_SUBSCRIPTION: "The subscription of this workspace is not active any more.",
    INTERNAL: "The stored workflow of this job is lost.",
    CRASH: "The servers that had this job executed ended again and again before it did.",
}


class _Extra(msgspec.Struct):
    extra_pnginfo: msgspec.Raw = msgspec.Raw(b"null")


_extra: Final = msgspec.json.Decoder(_Extra)


class JobExecution(msgspec.Struct, frozen=True):
    """A job that is executed here."""

    task: asyncio.Task[None]


class JobExecutor:
    """Has jobs executed, each in one of the `places`, in tasks that belong to no connection.

    The end of a job and its files are kept for `kept_ms`. Events are written every `flush_seconds` meanwhile.
    """

    def __init__(
        self,
        hosts: Hosts,
        store: JobStore,
        files: WorkflowFiles,
        models: ModelRunner,
        authenticator: Authenticator,
        event_hub: EventHub,
        clock: Clock,
        observe: Observer,
        patience: Patience,
        *,
        server_id: str,
        places: Places,
        kept_ms: int,
        flush_seconds: float = _FLUSH_SECONDS,
    ) -> None:
        self.server_id: Final = server_id
        self._hosts = hosts
        self._store = store
        self._files = files
        self._models = models
        self._authenticator = authenticator
        self._event_hub = event_hub
        self._clock = clock
        self._observe = observe
        self._patience = patience
        self._places = places
        self._kept_ms = kept_ms
        self._flush_seconds = flush_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unwanted: set[str] = set()
        self._remembered: OrderedDict[str, LiveJob] = OrderedDict()
        self._remembered_bytes = 0
        self._is_stopping = False

    def reserve(self, workspace_id: str) -> Reservation | None:
        """A place for a workspace's job that is about to be claimed; `begin` uses it, or it is given back.

        None where there is none for it.
        """
        return self._places.reserve(workspace_id)

    def begin(self, job: LiveJob, reservation: Reservation | None = None) -> JobExecution:
        """Have a claimed job executed, in the place that was reserved for it."""
        task = asyncio.get_running_loop().create_task(self._run_or_hand_back(job, reservation))
        self._tasks[job.id] = task
        self._observe(JobsUnderWay(len(self._tasks)))
        task.add_done_callback(lambda _: self._note_end(job.id))
        return JobExecution(task)

    def interrupt(self, job_id: str) -> bool:
        """Stop a job that is executed here; False when it is not."""
        if job_id not in self._tasks:
            return False
        self._unwanted.add(job_id)
        self._hosts.interrupt(job_id)
        return True

    def interrupt_all(self, job_ids: Iterable[str]) -> None:
        """Stop those of some jobs that are executed here."""
        for job_id in job_ids:
            self.interrupt(job_id)

    def job_ids(self) -> frozenset[str]:
        """The jobs that are executed here."""
        return frozenset(self._tasks)

    def remember(self, job: LiveJob) -> None:
        """Cache a job that was just submitted here and has to wait, so that it need not be read when it is claimed."""
        if _size(job) > _REMEMBERED_EACH:
            return
        self._remembered[job.id] = job
        self._remembered_bytes += _size(job)
        while self._remembered_bytes > _REMEMBERED_BYTES:
            self._pop(next(iter(self._remembered)))

    def recall(self, job_id: str) -> LiveJob | None:
        """Take a cached job out of the cache."""
        return self._pop(job_id) if job_id in self._remembered else None

    def _pop(self, job_id: str) -> LiveJob:
        job = self._remembered.pop(job_id)
        self._remembered_bytes -= _size(job)
        return job

    def stop(self) -> None:
        """Begin nothing more: jobs that are submitted here from now on wait for another server."""
        self._is_stopping = True
        self._places.close()

    async def drain(self, seconds: float) -> None:
        """Begin nothing more and wait for executing jobs; those that go on after that are given back to begin again."""
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _note_end(self, job_id: str) -> None:
        del self._tasks[job_id]
        self._unwanted.discard(job_id)
        self._observe(JobsUnderWay(len(self._tasks)))

    async def _run_or_hand_back(self, job: LiveJob, reservation: Reservation | None) -> None:
        try:
            await self._run(job, reservation)
        except (EngineUnavailableError, asyncio.CancelledError):
            if self._is_stopping:
                await self._hand_back(job)
            # Else it is found as a stray, and taken over.

    async def _run(self, job: LiveJob, reservation: Reservation | None) -> None:
        callbacks = JobCallbacks(
            job,
            self._files,
            self._event_hub,
            self._clock,
            self._patience,
            lambda node, turn, model, body: self._run_model(job, node, turn, model, body),
            lambda: self._clock.now_ms() + self._kept_ms,
            lambda: self._hosts.interrupt(job.id),
        )
        flushing = _Flushing(lambda: self._flush(job, callbacks), self._observe, self._flush_seconds)
        try:
            ending = await self._execute(job, callbacks)
        except EngineUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 -- a bug must not leave a job without an end
            self._observe(UnexpectedError(f"execute {job.id}", error))
            ending = failure(_NOWHERE, "", INTERNAL, _NOT_ITS_OWN)
        finally:
            await flushing.stop()
            # Now, so that the next job's claim shares a transaction with the end of this one.
            if reservation is not None:
                reservation.give_back()
        await self._end(job, callbacks, ending)

    async def _execute(self, job: LiveJob, callbacks: JobCallbacks) -> Ending:
        if job.start_blocker is not None:
            return failure(_NOWHERE, "", job.start_blocker, _START_BLOCKERS[job.start_blocker])
        hidden = _hidden_inputs(job.extra)
        order = Execute(job=job.id, workflow=job.workflow, outputs=job.wanted, hidden=hidden)
        try:
            ending = await self._hosts.execute(job.workspace_id, order, callbacks, job.packs)
            await _settle(callbacks, ending)
        except FileNotKeptError as error:
            return await _not_kept(job, error)
        finally:
            callbacks.close()
        if callbacks.overflowed:
            return failure(_NOWHERE, "", TOO_MUCH, SHOWS_TOO_MUCH)
        return ending

    async def _end(self, job: LiveJob, callbacks: JobCallbacks, ending: Ending) -> None:
        """Make the end durable, then publish it: those who learn of a success can read its outputs."""
        now = self._clock.now_ms()
        is_kept = callbacks.note(ending, now)
        verdict = await self._store.write_at_last(
            JobEnding(
                job_id=job.id,
                workspace_id=job.workspace_id,
                attempt=job.attempt,
                state=_state_after(ending),
                outputs=await deflate_in_thread(callbacks.outputs()),
                failure=None if isinstance(ending, Succeeded) else msgspec.json.encode(ending),
                progress=callbacks.progress(),
                events=callbacks.unwritten(),
                at=now,
                expires_at=now + self._kept_ms,
                shown_again=callbacks.files_shown_again(),
            )
        )
        if not isinstance(verdict, Moved):
            return  # another server has it, and publishes its end
        callbacks.publish(ending, now, is_kept=is_kept)
        self._observe(_observation_of(job, ending, verdict.state, now))

    async def _hand_back(self, job: LiveJob) -> None:
        """Let a job begin again elsewhere. Where that cannot be written, it is taken over from a silent server."""
        now = self._clock.now_ms()
        entry = TakeOver(job.id, job.workspace_id, job.attempt, None, now, now + self._kept_ms, is_handed_back=True)
        with suppress(FaultError, TimeoutError):
            async with asyncio.timeout(_HAND_BACK_SECONDS):
                await self._store.write_at_last(entry)

    async def _flush(self, job: LiveJob, callbacks: JobCallbacks) -> None:
        """Write events periodically, for readers and for the case that this server dies."""
        while True:
            if callbacks.has_news:
                progress = callbacks.progress()
                entry = JobProgress(
                    job.id, job.workspace_id, job.attempt, progress, callbacks.unwritten(), self._clock.now_ms()
                )
                if isinstance(await asyncio.shield(self._store.write_at_last(entry)), Superseded):
                    self._hosts.interrupt(job.id)  # it was taken over
                    return
            await asyncio.sleep(self._flush_seconds)

    async def _run_model(self, job: LiveJob, node: str, turn: int, model: str, body: bytes) -> ModelAnswer:
        if job.partner_key_id is None:
            raise DeclinedError(VALIDATION, "This job was submitted without a key that pays for partner nodes.")
        try:
            payer = await self._patience.ask(
                "look up who pays", partial(self._authenticator.payer, job.partner_key_id, job.workspace_id)
            )
        except FaultError as error:
            if isinstance(error.fault, Unauthorized):
                why = "The key that pays for the partner nodes is not valid any more."
                raise DeclinedError(VALIDATION, why) from error
            raise decline(error.fault) from error
        call = NodeCall(job.id, node, turn, model, body, job.run_labels)
        return await self._models.run(payer, call, lambda: job.id not in self._unwanted)


def _size(job: LiveJob) -> int:
    """About how much memory a job takes."""
    return 1_000 + len(job.workflow) + len(job.extra)


class _Flushing:
    """Background work that begins after some seconds, when most jobs have ended, and goes on until it is stopped.

    A failure is observed, and the job goes on.
    """

    def __init__(self, work: Callable[[], Coroutine[None, None, None]], observe: Observer, seconds: float) -> None:
        self._work = work
        self._observe = observe
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._observed_work())

    async def _observed_work(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 -- a bug in writing events must not end the job
            self._observe(UnexpectedError("write the progress of a job", error))

    async def stop(self) -> None:
        """Stop, and return when nothing is written any more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def _state_after(ending: Ending) -> JobState:
    match ending:
        case Succeeded():
            return JobState.SUCCEEDED
        case Failed(is_late=is_late):
            return JobState.EXPIRED if is_late else JobState.FAILED
        case Interrupted():
            return JobState.CANCELED


def _observation_of(job: LiveJob, ending: Ending, state: JobState, now: int) -> JobEnded:
    return JobEnded(
        job_id=job.id,
        public_id=job.public_id,
        workspace_id=job.workspace_id,
        state=state.value,
        exception_type=ending.failure.exception_type if isinstance(ending, Failed) else None,
        nodes=job.nodes,
        waited=(job.started_at - job.created_at) / 1000,
        seconds=(now - job.started_at) / 1000,
        attempt=job.attempt,
    )


async def _settle(callbacks: JobCallbacks, ending: Ending) -> None:
    """Wait until the files of a job are durable and its events published, before its end. FileNotKeptError."""
    if isinstance(ending, Succeeded):
        await callbacks.settle()
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            await callbacks.settle()


async def _not_kept(job: LiveJob, error: FileNotKeptError) -> Failed:
    """The failure of the node whose file could not be kept."""
    place, cause = error.place or _NOWHERE, error.cause
    node_type = await asyncio.to_thread(class_of, job.workflow, place.real_node)
    return failure(place, node_type, cause.exception_type, cause.message, error.executed)


def _hidden_inputs(extra: bytes) -> bytes:
    """The values of hidden inputs that come with a submission."""
    known = bytes(_extra.decode(extra).extra_pnginfo)
    return b'{"EXTRA_PNGINFO":%b}' % known if known.startswith(b"{") else b"{}"
