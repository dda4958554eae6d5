"""The journal of runs: what is written of them, in batches (storage/group_commit.py)."""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.domain.runs.entries import JournalEntry, Release, Verdict
from fairlead.storage.database import Database
from fairlead.storage.entries import Written, write_entries
from fairlead.storage.group_commit import GroupCommit


def _heed(written: asyncio.Future[Verdict]) -> None:
    """Take note of how a write ended that nobody waits for."""
    if not written.cancelled():
        written.exception()


def _nobody_claims(_: Sequence[tuple[str, str]]) -> None:
    pass


def _nobody_deletes(_: Sequence[str]) -> None:
    pass


class Journal(GroupCommit[JournalEntry, Written, Verdict]):
    """Writes entries of runs.

    `tell_released` is told which queued runs, with their workspaces, may now be claimed, `tell_unneeded` which blobs
    held the bodies of runs that have just ended.
    """

    def __init__(self, database: Database, split: Callable[[int, Exception], None]) -> None:
        super().__init__(database, write_entries, split)
        self.tell_released: Callable[[Sequence[tuple[str, str]]], None] = _nobody_claims
        self.tell_unneeded: Callable[[Sequence[str]], None] = _nobody_deletes

    def written(self, batch: Written) -> None:
        """Tell of runs that may now be claimed and of blobs to be deleted, and go on where more could be released."""
        if batch.released:
            self.tell_released(batch.released)
        if batch.unneeded:
            self.tell_unneeded(batch.unneeded)
        for workspace_id in batch.unfinished:
            # Whoever waits is found again where this cannot be written.
            self.write(Release(workspace_id)).add_done_callback(_heed)
