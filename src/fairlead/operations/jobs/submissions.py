"""Submissions of the jobs API: once for a key, complete or not at all, and refused node by node (J-08, J-12)."""

import asyncio
from typing import Final

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.deployments import DeploymentFaultError, DeploymentUnavailable
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.faults import EngineUnavailable, IdempotencyKeyUsed, InvalidWorkflow, JobFaultError
from fairlead.domain.jobs.findings import findings_of, refusal_of_engine
from fairlead.domain.jobs.jobs import Job, NewJob, SubmittedJob
from fairlead.domain.runs.replays import key_id
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.assets.records import Assets
from fairlead.operations.deployment_keeper import DeploymentKeeper
from fairlead.operations.jobs.nodes import NodeCatalog
from fairlead.operations.jobs.read import JobReader
from fairlead.operations.jobs.submit import Submitter
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.jobs.ids import delete_expired_keys, used_keys

_FORGOTTEN_AT_ONCE: Final = 500


class JobSubmissions:
    """Takes submissions, and keeps their idempotency keys until they expire."""

    def __init__(
        self,
        submitter: Submitter,
        assets: Assets,
        reader: JobReader,
        nodes: NodeCatalog,
        keeper: DeploymentKeeper,
        database: Database,
        clock: Clock,
        observe: Observer,
    ) -> None:
        self._submitter = submitter
        self._assets = assets
        self._reader = reader
        self._nodes = nodes
        self._keeper = keeper
        self._database = database
        self._clock = clock
        self._observe = observe

    async def submit(self, caller: Caller, new: NewJob) -> Job:
        """Make a job of a submission; JobFaultError, DeploymentFaultError and FaultError say why it is refused.

        A key is used from the transaction on that makes the job. One that is used already is refused before the
        workflow is looked at, and whatever is wrong with that.
        """
        if new.idempotency_key is not None:
            await self._refuse_used(key_id(caller.workspace_id, new.idempotency_key))
        new = await self._assets.resolve(caller, new)
        try:
            submitted = await self._submit(caller, new)
        except JobFaultError as error:
            if new.placement is None or not isinstance(error.fault, EngineUnavailable):
                raise
            await self._keeper.lose(new.placement, str(error.__cause__))
            raise DeploymentFaultError(DeploymentUnavailable()) from error
        return await self._reader.job(caller, submitted.public_id)

    async def _submit(self, caller: Caller, new: NewJob) -> SubmittedJob:
        """A durable job, or what is wrong with its workflow, in the form of this API."""
        try:
            return await self._submitter.submit(caller, new)
        except JobFaultError as error:
            if not isinstance(error.fault, InvalidWorkflow):
                raise
            known = await self._nodes.classes(None if new.placement is None else new.placement.packs)
            found = await asyncio.to_thread(findings_of, new.workflow, known)
            raise JobFaultError(found or refusal_of_engine(error.fault)) from error

    async def forget(self) -> int:
        """Delete a batch of expired keys; returns how many there were."""
        now = self._clock.now_ms()
        try:
            return await self._database.write(lambda c: delete_expired_keys(c, now, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("forget keys of jobs", str(error)))
            return 0

    async def _refuse_used(self, idempotency_id: str) -> None:
        try:
            used = await self._database.read(lambda c: used_keys(c, [idempotency_id]))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("read keys of jobs", str(error)))
            raise FaultError(ServiceUnavailable("Jobs cannot be recorded right now.")) from error
        if used:
            raise JobFaultError(IdempotencyKeyUsed())
