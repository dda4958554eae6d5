"""Claiming: released runs get a worker, here or on another server; what waits too long is withdrawn (docs/queue.md)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.domain.faults import QueueTimeout, ServiceUnavailable, bucket
from fairlead.domain.runs.entries import Claim, KeptResult, LiveRun, Release, Withdrawal, Withdrawn
from fairlead.domain.runs.failures import write_fault
from fairlead.domain.runs.queue import Throughput
from fairlead.domain.runs.states import RunState
from fairlead.observing.observations import DatabaseTrouble, Observer, QueueDepth, RunClaimed, RunWithdrawn
from fairlead.operations.clock import Clock
from fairlead.operations.runs.execute import Execution, Executor
from fairlead.operations.runs.resume import CannotResumeError, Resumer
from fairlead.operations.runs.void import Voider
from fairlead.storage import queue
from fairlead.storage.database import Database, DatabaseUnavailableError
from fairlead.storage.journal import Journal

FOUND_AT_ONCE: Final = 500
_RETRY_FIRST: Final = 0.1
_RETRY_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Claimer:
    """Takes runs from the queue. A run waits at most `timeout_ms`; how it ended can be collected for `collectable_ms`.

    `throughput` learns how fast each workspace's queue moves.
    """

    database: Database
    journal: Journal
    resumer: Resumer
    executor: Executor
    voider: Voider
    clock: Clock
    observe: Observer
    server_id: str
    timeout_ms: int
    collectable_ms: int
    throughput: Throughput = field(default_factory=Throughput)

    async def claim(self, run_id: str, workspace_id: str) -> Execution | None:
        """Take a released run and set it going; None when it was another's, or can no longer be run."""
        with self.executor.expecting(run_id):
            return await self._begun(run_id, workspace_id)

    async def _begun(self, run_id: str, workspace_id: str) -> Execution | None:
        entry = Claim(run_id, workspace_id, self.server_id, self.clock.now_ms())
        found = await self._claimed(entry)
        if found is None:
            return None
        self.throughput.note(workspace_id, entry.at)
        self.observe(RunClaimed(run_id, found.model_id, (entry.at - found.created_at) / 1000))
        try:
            run = await self.resumer.resume(found)
        except CannotResumeError as error:
            await self.voider.void(found, RunState.FAILED, bucket(error.fault), error.fault)
            return None
        return self.executor.start(run)

    async def find_released(self, behind: str = "") -> Sequence[tuple[str, str]]:
        """Runs that wait for a worker, some of each workspace, those behind the workspace `behind` first.

        Ids and workspaces. What no wake-up told of is found here.
        """
        try:
            return await self.database.read(lambda c: queue.released_runs(c, behind, FOUND_AT_ONCE))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("find released runs", str(error)))
            return []

    async def time_out(self) -> int:
        """Withdraw a batch of runs that have waited too long, and return how many were."""
        now = self.clock.now_ms()
        try:
            late = await self.database.read(lambda c: queue.waiting_since(c, now - self.timeout_ms, FOUND_AT_ONCE))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("time out queued runs", str(error)))
            return 0
        kept = KeptResult(now + self.collectable_ms, fault=write_fault(QueueTimeout()))
        reason = bucket(QueueTimeout())
        entries = [Withdrawal(run_id, workspace_id, reason, kept, now) for run_id, workspace_id in late]
        verdicts = await self._write_all(entries)
        withdrawn = [entry for entry, said in zip(entries, verdicts, strict=True) if isinstance(said, Withdrawn)]
        for entry in withdrawn:
            self.observe(RunWithdrawn(entry.run_id, reason))
        return len(withdrawn)

    async def use_room(self) -> None:
        """Give slots to what is parked in workspaces that have some to spare: their limits were raised."""
        try:
            depth, found = await self.database.read(
                lambda c: (queue.depth(c), queue.workspaces_with_room(c, FOUND_AT_ONCE))
            )
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("use room in queues", str(error)))
            return
        self.observe(QueueDepth(*depth))
        await self._write_all([Release(workspace_id) for workspace_id in found])

    async def pass_on_cancels(self) -> None:
        """Tell the runs under way here which of them were cancelled, through whichever server that was."""
        try:
            unwanted = await self.database.read(lambda c: queue.unwanted_runs(c, self.server_id))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("read cancellations", str(error)))
            return
        if unwanted:
            self.executor.cancel(frozenset(unwanted))

    async def _claimed(self, entry: Claim) -> LiveRun | None:
        """Make a claim durable, however long that takes: a claim that nobody knows of would hold its run up."""
        pause = _RETRY_FIRST
        while True:
            try:
                verdict = await self.journal.write(entry)
            except DatabaseUnavailableError as error:
                self.observe(DatabaseTrouble("claim", str(error)))
            else:
                if not isinstance(verdict, ServiceUnavailable):
                    return verdict if isinstance(verdict, LiveRun) else None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MAX)

    async def _write_all(self, entries: list[Withdrawal] | list[Release]) -> list[object]:
        """Write entries that are looked for again where they could not be written."""
        return await asyncio.gather(*(self.journal.write(entry) for entry in entries), return_exceptions=True)
