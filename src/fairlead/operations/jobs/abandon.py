"""Ending the jobs of deleted deployments: those that wait fail, those that are executed are stopped (J-15)."""

from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.jobs.entries import JobCancel, Moved
from fairlead.domain.jobs.errors import DEPLOYMENT_DELETED
from fairlead.domain.jobs.events import EventEnvelope, Failed, Failure, Place
from fairlead.domain.jobs.states import WORKING, JobTransition
from fairlead.messaging.event_hub import EventHub
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.jobs.store import JobStore
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.deployments import abandoned_jobs, clear_deployment, deleted_deployments

_AT_ONCE: Final = 200
_DELETED: Final = Failed(
    Failure(Place("", ""), "", DEPLOYMENT_DELETED, "The deployment this job was sent to was deleted.", [], {}, [])
)
_FAILURE: Final = msgspec.json.encode(_DELETED)


class JobAbandoner(msgspec.Struct, frozen=True):
    """Finds the jobs of deleted deployments and ends them; ended jobs are kept for `kept_ms`.

    Nothing is submitted to a deleted deployment, so one without jobs to end is done for good. If a server dies
    half-way, the next server that looks does the rest.
    """

    database: Database
    store: JobStore
    executor: JobExecutor
    event_hub: EventHub
    clock: Clock
    observe: Observer
    kept_ms: int

    async def abandon(self) -> int:
        """End a batch of jobs of each deleted deployment, and return how many were found."""
        count = 0
        try:
            for deployment_id, workspace_id in await self.database.read(lambda c: deleted_deployments(c, _AT_ONCE)):
                count += await self._abandon_of(deployment_id, workspace_id)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("abandon jobs", str(error)))
        return count

    async def _abandon_of(self, deployment_id: str, workspace_id: str) -> int:
        found = await self.database.read(lambda c: abandoned_jobs(c, workspace_id, deployment_id, _AT_ONCE))
        if not found:
            now = self.clock.now_ms()
            await self.database.write(lambda c: clear_deployment(c, deployment_id, now))
        for job_id in found:
            await self._abandon(job_id, workspace_id)
        return len(found)

    async def _abandon(self, job_id: str, workspace_id: str) -> None:
        now = self.clock.now_ms()
        entry = JobCancel(job_id, workspace_id, now, now + self.kept_ms, cause=JobTransition.ABANDON, failure=_FAILURE)
        verdict = await self.store.write_at_last(entry)
        if not isinstance(verdict, Moved):
            return  # it has ended meanwhile
        if verdict.state in WORKING:
            self.executor.interrupt(job_id)  # another server finds the request by itself
        else:
            self.event_hub.publish(EventEnvelope(workspace_id, job_id, verdict.public_id, now, _DELETED))
