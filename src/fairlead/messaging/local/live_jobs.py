"""The state of jobs under way, for those who begin to watch later and for messages of progress."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.events import (
    EventEnvelope,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Place,
    Preview,
    Progress,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.messaging.event_hub import NodeProgress

_JOBS_MAX: Final = 10_000
"""How many jobs under way are remembered. More at one server would be jobs whose end was never published."""
_RUNNING_MAX: Final = 8
"""How many running nodes of a job are named beside the one a message is about: a bound on every message."""


class _LiveJob(msgspec.Struct):
    """What began last in a job, its newest preview, and the progress of its running nodes."""

    workspace_id: str
    is_ours: bool
    executing: EventEnvelope | None = None
    preview: Preview | None = None
    running: OrderedDict[str, NodeProgress] = msgspec.field(default_factory=OrderedDict)

    def note(self, progress: NodeProgress) -> tuple[NodeProgress, ...]:
        """Take note of a node's progress; return it and the others that run."""
        node = progress.place.node
        self.running.pop(node, None)
        others = tuple(self.running.values())
        if progress.is_running:
            self.running[node] = progress
            if len(self.running) > _RUNNING_MAX:
                self.running.popitem(last=False)
        return (progress, *others)

    def note_end(self, place: Place) -> tuple[NodeProgress, ...]:
        """Take note that a node has finished; return its progress and that of the others that run."""
        last = self.running.get(place.node)
        most = 1 if last is None else last.most
        return self.note(NodeProgress(place, most, most, is_running=False))


class LiveJobs:
    """The jobs under way whose events are published here, the newest `_JOBS_MAX` of them."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, _LiveJob] = OrderedDict()

    def executing(self, workspace_id: str) -> Sequence[EventEnvelope]:
        """What began last in each job of a workspace."""
        return [
            job.executing
            for job in self._jobs.values()
            if job.workspace_id == workspace_id and job.executing is not None
        ]

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job; None where there is none."""
        job = self._jobs.get(job_id)
        return None if job is None else job.preview

    def has_seen(self, envelope: EventEnvelope) -> bool:
        """Whether it is known already that a node has begun, or has finished."""
        job = None if envelope.job_id is None else self._jobs.get(envelope.job_id)
        match envelope.event:
            case Executing(place):
                return job is not None and place.node in job.running
            case Finished(place):
                return job is None or place.node not in job.running
            case _:
                return False

    def forget_others(self, workspace_id: str) -> None:
        """Forget the jobs of a workspace that other servers execute, because their ends may not arrive here."""
        others = [id_ for id_, job in self._jobs.items() if job.workspace_id == workspace_id and not job.is_ours]
        for job_id in others:
            del self._jobs[job_id]

    def note(self, envelope: EventEnvelope, *, is_ours: bool = True) -> Sequence[NodeProgress]:
        """Take note of an event of a job; return the progress that is sent with it."""
        job_id = envelope.job_id
        if job_id is None:
            return ()
        match envelope.event:
            case Started():
                self._remember(job_id, envelope.workspace_id, is_ours=is_ours)
            case Executing(place):
                job = self._jobs.get(job_id) or self._remember(job_id, envelope.workspace_id, is_ours=is_ours)
                job.executing = envelope
                return job.note(NodeProgress(place))
            case Finished(place) if job_id in self._jobs:
                return self._jobs[job_id].note_end(place)
            case Preview() as preview if job_id in self._jobs:
                self._jobs[job_id].preview = preview
            case Progress(place, value, most) if job_id in self._jobs:
                return self._jobs[job_id].note(NodeProgress(place, value, most))
            case Stopped(place) if job_id in self._jobs and place.node in self._jobs[job_id].running:
                return self._jobs[job_id].note_end(place)
            case Succeeded() | Failed() | Interrupted():
                self._jobs.pop(job_id, None)
            case _:
                pass
        return ()

    def _remember(self, job_id: str, workspace_id: str, *, is_ours: bool) -> _LiveJob:
        job = self._jobs[job_id] = _LiveJob(workspace_id, is_ours)
        if len(self._jobs) > _JOBS_MAX:
            self._jobs.popitem(last=False)
        return job
