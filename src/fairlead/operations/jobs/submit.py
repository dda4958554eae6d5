"""Submitting a job: the workflow is checked where nodes are known, then made durable, and begun where there is room."""

from collections.abc import Collection
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.deployments import (
    DeploymentFaultError,
    DeploymentNotFound,
    DeploymentNotReady,
    DeploymentStopped,
    DeploymentUnavailable,
    PackSet,
)
from fairlead.domain.faults import FaultError, InsufficientCredits
from fairlead.domain.jobs.entries import Submission, Submitted
from fairlead.domain.jobs.events import EventEnvelope, Notice
from fairlead.domain.jobs.faults import (
    BadSubmission,
    DuplicateJob,
    EngineUnavailable,
    IdempotencyKeyUsed,
    InvalidWorkflow,
    JobFaultError,
    JobQueueFull,
    StorageFull,
    SubscriptionInactive,
)
from fairlead.domain.jobs.jobs import LiveJob, NewJob, SubmittedJob
from fairlead.domain.jobs.listing import labels_of_runs
from fairlead.domain.jobs.states import JobState
from fairlead.domain.runs.replays import key_id
from fairlead.domain.work.pools import DEFAULT_POOL, PoolRules
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.pool import Hosts
from fairlead.engine.hosts.service import Checked, Refused
from fairlead.messaging.event_hub import EventHub
from fairlead.operations.accounts.authenticate import ApiKey, Authenticator
from fairlead.operations.assets.files import WorkflowFiles
from fairlead.operations.jobs.callbacks import CheckCallbacks
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.jobs.store import JobStore, keep_documents
from fairlead.operations.work.places import Reservation
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.jobs.jobs import deflate, deflate_in_thread

_NO_ERRORS: Final = b"{}"
_NO_RULES: Final = PoolRules()
_ELSEWHERE: Final = deflate(b"{}")
"""The documents in the row of a job whose real ones are in a blob."""
_LEFT_OUT: Final = msgspec.json.encode({"message": "Some outputs of the workflow cannot be made."})
_NO_KEY: Final = (
    "This workflow has partner nodes, and the call has no credential that could pay for them later;"
    " send an API key that does as {field} in extra_data."
)

_NO_SLOT: Final = Notice("All parallel jobs of your subscription are busy; this one begins when one of them ends.")


class Submitter:
    """Submits jobs. `backlog` is how many of a workspace may wait; `key_field` what the partner key is called.

    Idempotency keys are kept for `keys_kept_ms` from their use on. `pools` say where a job is executed whose
    deployment has no pool of its own; this server executes those of the pools that it `works_for`.
    """

    def __init__(
        self,
        hosts: Hosts,
        store: JobStore,
        executor: JobExecutor,
        files: WorkflowFiles,
        documents: StoredDocuments,
        authenticator: Authenticator,
        event_hub: EventHub,
        clock: Clock,
        *,
        backlog: int,
        key_field: str,
        keys_kept_ms: int,
        pools: PoolRules = _NO_RULES,
        works_for: Collection[str] = (DEFAULT_POOL,),
    ) -> None:
        self._hosts = hosts
        self._store = store
        self._executor = executor
        self._files = files
        self._documents = documents
        self._authenticator = authenticator
        self._event_hub = event_hub
        self._clock = clock
        self._backlog = backlog
        self._key_field = key_field
        self._keys_kept_ms = keys_kept_ms
        self._pools = pools
        self._works_for = frozenset(works_for)

    async def submit(self, caller: Caller, new: NewJob) -> SubmittedJob:
        """Check a workflow and make it a job; JobFaultError and FaultError say why it is refused."""
        job_id = new_id()
        checked = await self._check(caller, job_id, new)
        payer = await self._payer(caller, new, checked)
        documents = await keep_documents(self._documents, job_id, checked.workflow, new.extra)
        pool = self._pool(caller, new, checked)
        reservation = self._executor.reserve(caller.workspace_id) if pool in self._works_for else None
        submission = Submission(
            job_id=job_id,
            workspace_id=caller.workspace_id,
            workflow=await deflate_in_thread(checked.workflow) if documents is None else _ELSEWHERE,
            extra=await deflate_in_thread(new.extra) if documents is None else _ELSEWHERE,
            wanted=msgspec.json.encode(checked.outputs).decode(),
            nodes=checked.nodes,
            created_at=self._clock.now_ms(),
            backlog=self._backlog,
            key_id=caller.key_id,
            partner_key_id=None if payer is None else payer.payer_id,
            server_id=None if reservation is None else self._executor.server_id,
            labels=new.labels,
            idempotency_id=None if new.idempotency_key is None else key_id(caller.workspace_id, new.idempotency_key),
            idempotency_until=self._clock.now_ms() + self._keys_kept_ms,
            files=new.files,
            placement=new.placement,
            chosen_id=new.chosen_id,
            storage=self._files.limits,
            documents=documents,
            pool=pool,
        )
        submitted = await self._record(submission, reservation)
        live = _live(submission, checked, new)
        if submitted.state is JobState.RUNNING:
            self._executor.begin(live, reservation)
        else:
            self._let_wait(live, pool, submitted.state)
        return SubmittedJob(live.public_id, submitted.number, checked.node_errors)

    def _pool(self, caller: Caller, new: NewJob, checked: Checked[bytes]) -> str:
        """The pool whose servers execute a job: its deployment's own comes before every rule (M-05)."""
        own = None if new.placement is None else new.placement.pool
        return own or self._pools.of_job(checked.classes, caller.subscription)

    def _let_wait(self, job: LiveJob, pool: str, state: JobState) -> None:
        """Cache a job that this server may claim later, and tell its watchers that it waits for its turn."""
        if pool in self._works_for:
            self._executor.remember(job)
        if state is JobState.PARKED:
            told = EventEnvelope(job.workspace_id, job.id, job.public_id, job.created_at, _NO_SLOT)
            self._event_hub.publish(told)

    async def _check(self, caller: Caller, job_id: str, new: NewJob) -> Checked[bytes]:
        callbacks = CheckCallbacks(self._files, caller.workspace_id)
        try:
            found = await self._hosts.check(
                job_id, caller.workspace_id, new.workflow, new.targets, callbacks, _packs(new)
            )
        except EngineUnavailableError as error:
            raise JobFaultError(EngineUnavailable()) from error
        if callbacks.unanswered is not None:
            raise callbacks.unanswered
        if isinstance(found, Refused):
            raise JobFaultError(_invalid(found.error, found.node_errors, callbacks))
        if new.is_strict and found.node_errors != _NO_ERRORS:
            raise JobFaultError(_invalid(_LEFT_OUT, found.node_errors, callbacks))
        return found

    async def _payer(self, caller: Caller, new: NewJob, checked: Checked[bytes]) -> Caller | None:
        """Who pays for partner nodes (C-11, K-07): the key that was named, else the caller. None without such nodes."""
        if not checked.partner_nodes:
            return None
        payer = caller
        if new.partner_key is not None:
            payer = await self._authenticator.authenticate(ApiKey(new.partner_key, lambda: new.partner_address))
        if payer.payer_id is None:
            raise JobFaultError(BadSubmission("partner_key_missing", _NO_KEY.format(field=self._key_field)))
        if payer.is_exhausted:
            raise FaultError(InsufficientCredits(available=0))
        return payer

    async def _write(self, submission: Submission) -> object:
        """Write it; once more where its COMMIT broke off, as in a failover, which leaves it written or not."""
        try:
            return await self._store.write(submission)
        except FaultError as error:
            if not _is_uncertain(error):
                raise
        return await self._store.write(msgspec.structs.replace(submission, is_repeated=True))

    async def _record(self, submission: Submission, reservation: Reservation | None) -> Submitted:
        """Make a job durable; a place that was reserved for it is given back unless it takes it.

        Where nobody knows whether the entry was kept, its blob may be needed: it is swept if no job names it.
        """
        verdict: object = None
        try:
            verdict = await self._write(submission)
        finally:
            takes_place = isinstance(verdict, Submitted) and verdict.state is JobState.RUNNING
            if reservation is not None and not takes_place:
                reservation.give_back()
        if submission.documents is not None and not isinstance(verdict, Submitted):
            await self._documents.delete([submission.documents.blob.name])
        match verdict:
            case Submitted():
                return verdict
            case DuplicateJob() | SubscriptionInactive() | JobQueueFull() | IdempotencyKeyUsed() | StorageFull():
                raise JobFaultError(verdict)
            case DeploymentNotFound() | DeploymentNotReady() | DeploymentUnavailable() | DeploymentStopped():
                raise DeploymentFaultError(verdict)
            case _:
                raise AssertionError(verdict)


def _is_uncertain(error: FaultError) -> bool:
    return isinstance(error.__cause__, DatabaseUnavailableError) and error.__cause__.is_uncertain


def _invalid(error: bytes, node_errors: bytes, callbacks: CheckCallbacks) -> InvalidWorkflow:
    return InvalidWorkflow(msgspec.json.decode(error), msgspec.json.decode(node_errors), frozenset(callbacks.missing))


def _live(submission: Submission, checked: Checked[bytes], new: NewJob) -> LiveJob:
    return LiveJob(
        id=submission.job_id,
        public_id=submission.chosen_id or submission.job_id,
        workspace_id=submission.workspace_id,
        attempt=1,
        workflow=checked.workflow,
        extra=new.extra,
        wanted=checked.outputs,
        nodes=checked.nodes,
        created_at=submission.created_at,
        started_at=submission.created_at,
        partner_key_id=submission.partner_key_id,
        packs=_packs(new),
        run_labels=labels_of_runs(new.labels),
    )


def _packs(new: NewJob) -> PackSet:
    return None if new.placement is None else new.placement.packs
