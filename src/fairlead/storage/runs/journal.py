"""The journal of runs: what is written of them, in batches (storage/db/group_commit.py)."""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.domain.runs.entries import JournalEntry, Verdict
from fairlead.domain.runs.queue import RunChanged
from fairlead.domain.work.entries import Release
from fairlead.storage.db.database import Database
from fairlead.storage.db.group_commit import GroupCommit
from fairlead.storage.runs.entries import Written, write_entries


def _heed(written: asyncio.Future[Verdict]) -> None:
    """Take note of how a write ended that nobody waits for."""
    if not written.cancelled():
        written.exception()


def _ignore(_: object) -> None:
    pass


class Journal(GroupCommit[JournalEntry, Written, Verdict]):
    """Writes entries of runs, and says what they have changed once it is durable.

    `released` hears which queued runs, with their workspaces, may now be claimed, `changed` which were claimed or have
    ended, `unneeded` which blobs held the bodies of runs that have just ended.
    """

    def __init__(
        self,
        database: Database,
        split: Callable[[int, Exception], None],
        *,
        released: Callable[[Sequence[tuple[str, str]]], None] = _ignore,
        changed: Callable[[Sequence[RunChanged]], None] = _ignore,
        unneeded: Callable[[Sequence[str]], None] = _ignore,
    ) -> None:
        super().__init__(database, write_entries, split)
        self._released = released
        self._changed = changed
        self._unneeded = unneeded

    def written(self, batch: Written) -> None:
        """Say what has changed, and go on where more could be released."""
        if batch.released:
            self._released(batch.released)
        if batch.changed:
            self._changed(batch.changed)
        if batch.unneeded:
            self._unneeded(batch.unneeded)
        for workspace_id in batch.unfinished:
            # Where this cannot be written, the next look finds what waits.
            self.write(Release(workspace_id)).add_done_callback(_heed)
