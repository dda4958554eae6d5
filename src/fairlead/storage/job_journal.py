"""The journal of jobs: what is written of them, in batches (storage/group_commit.py)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from fairlead.domain.jobs.entries import JobEntry, JobRelease, JobVerdict
from fairlead.storage.database import Database
from fairlead.storage.group_commit import GroupCommit
from fairlead.storage.job_entries import WrittenJobs, write_job_entries


def _heed(written: asyncio.Future[JobVerdict]) -> None:
    """Take note of how a write ended that nobody waits for."""
    if not written.cancelled():
        written.exception()


def _nobody_hears(_: object) -> None:
    pass


class JobJournal(GroupCommit[JobEntry, WrittenJobs, JobVerdict]):
    """Writes entries of jobs.

    `tell_released` is told which jobs, with their workspaces, may now be claimed; `tell_remaining` how many jobs of
    each workspace now wait or are executed, where that has changed.
    """

    def __init__(self, database: Database, split: Callable[[int, Exception], None]) -> None:
        super().__init__(database, write_job_entries, split)
        self.tell_released: Callable[[Sequence[tuple[str, str]]], None] = _nobody_hears
        self.tell_remaining: Callable[[Mapping[str, int]], None] = _nobody_hears

    def written(self, batch: WrittenJobs) -> None:
        """Tell of jobs that may now be claimed and of queues that have changed, and go on where more is to be done."""
        if batch.remaining:
            # After whoever waits for the batch has gone on: how a job ended is told before how many are left (C-08).
            asyncio.get_running_loop().call_soon(self.tell_remaining, batch.remaining)
        if batch.released:
            self.tell_released(batch.released)
        for workspace_id in batch.unfinished:
            self.write(JobRelease(workspace_id)).add_done_callback(_heed)
