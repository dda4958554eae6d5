"""The worker of jobs: claims released ones as soon as it is told of them, and looks for what it was not told."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.jobs.abandon import JobAbandoner
from fairlead.operations.jobs.claim import JobClaimer
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.jobs.nodes import NodeCatalog
from fairlead.workers.periodic import run_periodically
from fairlead.workers.released import ReleasedWork

_LOOK_SECONDS: Final = 1.0
_TAKE_OVER_EVERY: Final = 5
_FORGET_EVERY: Final = 60


class JobWorker:
    """Has jobs executed while there are places for them, until it is cancelled; nothing it meets may end it.

    Each of `forgets` forgets a batch of what was kept long enough, and says how much that was.
    """

    def __init__(
        self,
        claimer: JobClaimer,
        abandoner: JobAbandoner,
        executor: JobExecutor,
        nodes: NodeCatalog,
        forgets: Sequence[Callable[[], Awaitable[int]]],
        observe: Observer,
    ) -> None:
        self._claimer = claimer
        self._abandoner = abandoner
        self._executor = executor
        self._nodes = nodes
        self._forgets = forgets
        self._observe = observe
        self._released = ReleasedWork()
        self._tasks = set[asyncio.Task[None]]()
        self._is_stopping = False
        executor.freed = self._take_next

    def tell(self, released: Sequence[tuple[str, str]]) -> None:
        """Hear of jobs that may be claimed. What does not fit is found later."""
        self._released.tell(released)
        self._take_next()

    def stop(self) -> None:
        """Claim nothing more; what was claimed goes on."""
        self._is_stopping = True

    async def work(self) -> None:
        """Look after the jobs until cancelled; from then on nothing more is claimed."""
        turns = itertools.count()
        try:
            await run_periodically(lambda: self._look(next(turns)), _LOOK_SECONDS, "look after jobs", self._observe)
        finally:
            self.stop()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_LOOK_SECONDS)

    async def _look(self, turns: int) -> None:
        await self._nodes.follow_catalog()
        if turns % _TAKE_OVER_EVERY == 0:
            await self._claimer.take_over()
        self._released.refresh(await self._claimer.find_released(self._released.last_workspace))
        self._take_next()
        await self._claimer.pass_on_cancels()
        await self._claimer.use_room()
        while await self._claimer.time_out():
            pass
        while await self._abandoner.abandon():
            pass
        if turns % _FORGET_EVERY == 0:
            for forget in self._forgets:
                while await forget():
                    pass

    def _take_next(self) -> None:
        while self._released and not self._is_stopping and self._executor.reserve():
            task = asyncio.get_running_loop().create_task(self._take(*self._released.take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _take(self, job_id: str, workspace_id: str) -> None:
        try:
            await self._claimer.claim(job_id, workspace_id)
        except Exception as error:  # noqa: BLE001 -- a bug must not cost the others
            self._observe(UnexpectedError(f"claim {job_id}", error))
        finally:
            self._released.forget(job_id)
