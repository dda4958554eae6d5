"""Ends runs that nobody will work on any more: nothing is charged, and their holds are released."""

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import Fault
from fairlead.domain.runs.entries import KeptResult, LiveRun, Settlement, Stray
from fairlead.domain.runs.replays import write_fault
from fairlead.domain.runs.states import RunState
from fairlead.operations.runs.dispatch import SupersededError
from fairlead.operations.runs.execute import Executor


class Voider(msgspec.Struct, frozen=True):
    """Voids runs. The outcome of a queued one can be collected for `collectable_ms`."""

    executor: Executor
    clock: Clock
    collectable_ms: int

    async def void(self, run: Stray | LiveRun, state: RunState, reason: str, fault: Fault) -> bool:
        """End a run without a charge; its collectors get the fault. False if it has ended already.

        The idempotency key of a lost run stays in use, because running it again could pay twice; so does that of a
        queued run, which represents its place in the queue.
        """
        is_queued = run.place is not None
        now = self.clock.now_ms()
        settlement = Settlement(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            state=state,
            charge=0,
            is_billed=False,
            reason=reason,
            rate_version=run.rate_version,
            finished_at=now,
            caller_left=not is_queued,
            key_id=None if is_queued or state is RunState.LOST else run.key_id,
            result=KeptResult(now + self.collectable_ms, fault=write_fault(fault)) if is_queued else None,
        )
        try:
            await self.executor.record(settlement)
        except SupersededError:
            return False
        return True
