"""The journal of jobs: what is written of them, in batches (storage/db/group_commit.py)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead.domain.jobs.entries import JobEntry, JobVerdict
from fairlead.domain.work.entries import Release
from fairlead.storage.db.database import Database
from fairlead.storage.db.group_commit import BatchSpacing, GroupCommit
from fairlead.storage.jobs.entries import WrittenJobs, write_job_entries

_SPACING: Final = BatchSpacing(least_entries=2, seconds=0.003)
"""The end of a job and the claim of the next are two entries: there is load. Jobs that end within a moment of each
other then share a commit, which was a sixth of what a small job costs. One job alone is never two entries at once."""


def _heed(written: asyncio.Future[JobVerdict]) -> None:
    """Take note of how a write ended that nobody waits for."""
    if not written.cancelled():
        written.exception()


def _ignore(_: object) -> None:
    pass


class JobJournal(GroupCommit[JobEntry, WrittenJobs, JobVerdict]):
    """Writes entries of jobs, and says what they have changed once it is durable.

    `released` hears which jobs, with their workspaces, may now be claimed; `remaining` how many jobs of each workspace
    now wait or are executed, where that has changed.
    """

    def __init__(
        self,
        database: Database,
        split: Callable[[int, Exception], None],
        *,
        released: Callable[[Sequence[tuple[str, str]]], None] = _ignore,
        remaining: Callable[[Mapping[str, int]], None] = _ignore,
    ) -> None:
        super().__init__(database, write_job_entries, split, _SPACING)
        self._released = released
        self._remaining = remaining

    def written(self, batch: WrittenJobs) -> None:
        """Say what has changed, and go on where more is to be done."""
        if batch.remaining:
            # After the writers of the batch have gone on: how a job ended is told before how many are left (C-08).
            asyncio.get_running_loop().call_soon(self._remaining, batch.remaining)
        if batch.released:
            self._released(batch.released)
        for workspace_id in batch.unfinished:
            self.write(Release(workspace_id)).add_done_callback(_heed)
