"""What jobs have made, as it is fetched: files by signed link, and texts (J-13)."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.domain.callers import Caller
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.outputs import JobOutput, ShownFile, ShownText, shown_by_job, shown_by_node
from fairlead.domain.media import is_shown
from fairlead.identity.links import Links
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.clock import Clock
from fairlead.storage.database import Database, DatabaseUnavailableError
from fairlead.storage.workflow_files import WorkflowFile, find_files


class JobOutputs:
    """Finds the outputs of jobs. `links` must sign for the path of files; links are good for `link_seconds`.

    A file that is not there any more is no output. Every method raises FaultError where the database is away.
    """

    def __init__(
        self, database: Database, links: Links, clock: Clock, observe: Observer, *, link_seconds: int = 3600
    ) -> None:
        self._database = database
        self._links = links
        self._clock = clock
        self._observe = observe
        self._link_seconds = link_seconds

    async def of_job(self, caller: Caller, job: Job) -> Sequence[JobOutput]:
        """Everything that a job has made."""
        return await self._found(caller, shown_by_job(job.outputs))

    async def of_node(self, caller: Caller, node_id: str, ui: Mapping[str, Any]) -> Sequence[JobOutput]:
        """What a node has just shown."""
        return await self._found(caller, list(shown_by_node(node_id, ui)))

    async def _found(self, caller: Caller, shown: Sequence[ShownFile | ShownText]) -> Sequence[JobOutput]:
        now = self._clock.now_ms()
        names = {(item.kind, item.name) for item in shown if isinstance(item, ShownFile)}
        files: Mapping[tuple[str, str], WorkflowFile] = {}
        if names:
            try:
                files = await self._database.read(lambda c: find_files(c, caller.workspace_id, names, now))
            except DatabaseUnavailableError as error:
                self._observe(DatabaseTrouble("find the outputs of a job", str(error)))
                raise FaultError(ServiceUnavailable("Outputs cannot be read right now.")) from error
        outputs = (self._output(item, files, now) for item in shown)
        return [output for output in outputs if output is not None]

    def _output(
        self, shown: ShownFile | ShownText, files: Mapping[tuple[str, str], WorkflowFile], now: int
    ) -> JobOutput | None:
        if isinstance(shown, ShownText):
            size = len(shown.text.encode("utf-8", "replace"))
            return JobOutput(shown.node_id, "text", "text/plain; charset=utf-8", size, text=shown.text)
        file = files.get((shown.kind, shown.name))
        if file is None:
            return None
        until = now // 1000 + self._link_seconds
        if file.expires_at is not None:
            until = min(until, file.expires_at // 1000)
        disposition = "inline" if is_shown(file.content_type) else "attachment"
        return JobOutput(
            node_id=shown.node_id,
            name=file.name,
            content_type=file.content_type,
            size=file.size,
            id=file.id,
            blob=file.blob,
            link=self._links.sign(file.id, until, file.name, disposition),
            link_expires_at=until * 1000,
        )
