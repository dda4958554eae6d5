"""The worker of the queue: claims released runs as soon as it is told of them, and looks for what it was not told."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.runs.claim import Claimer
from fairlead.operations.runs.execute import Execution
from fairlead.workers.periodic import run_periodically
from fairlead.workers.released import ReleasedWork

_LOOK_SECONDS: Final = 1.0
_CLAIMS_AT_ONCE: Final = 64
_CLAIMS_SECONDS: Final = 5.0


class QueueWorker:
    """Works on at most `places` queued runs at a time, until it is cancelled; nothing it meets may end it.

    Runs it has claimed go on in tasks of the executor, which waits for them when the server stops. `awaited` names the
    runs, with their workspaces, that jobs of this server wait for: a server that stops still claims those.
    """

    def __init__(
        self, claimer: Claimer, places: int, awaited: Callable[[], Mapping[str, str]], observe: Observer
    ) -> None:
        self._awaited = awaited
        self._claimer = claimer
        self._places = places
        self._observe = observe
        self._released = ReleasedWork()
        self._tasks = set[asyncio.Task[None]]()
        self._working = 0
        self._is_stopping = False

    def tell(self, released: Sequence[tuple[str, str]]) -> None:
        """Hear of runs that may be claimed. What does not fit is found later."""
        self._released.tell(released)
        self._take_next()

    def stop(self) -> None:
        """Claim nothing more but what the jobs of this server wait for; what was claimed goes on."""
        self._is_stopping = True
        self.tell(tuple(self._awaited().items()))

    async def work(self) -> None:
        """Look after the queue until cancelled; from then on nothing more is claimed."""
        try:
            await run_periodically(self._look, _LOOK_SECONDS, "look after the queue", self._observe)
        finally:
            self._is_stopping, self._places = True, 0
            if self._tasks:  # a claim that is being written has its run begun, and waited for with the others
                await asyncio.wait(self._tasks, timeout=_CLAIMS_SECONDS)

    async def _look(self) -> None:
        if self._is_stopping:
            self.tell(tuple(self._awaited().items()))
        elif self._places:
            self._released.refresh(await self._claimer.find_released(self._released.last_workspace))
            self._take_next()
        await self._claimer.pass_on_cancels()
        await self._claimer.use_room()
        while await self._claimer.time_out():
            pass

    def _take_next(self) -> None:
        while self._released and self._has_place():
            run_id, workspace_id = self._released.take()
            if self._is_stopping and run_id not in self._awaited():
                self._released.forget(run_id)
                continue
            self._working += 1
            task = asyncio.get_running_loop().create_task(self._take(run_id, workspace_id))
            self._tasks.add(task)
            task.add_done_callback(self._note_claim)

    def _has_place(self) -> bool:
        """Whether another run can be taken: claims that begin together also call their partners together."""
        return self._working < self._places and len(self._tasks) < _CLAIMS_AT_ONCE

    async def _take(self, run_id: str, workspace_id: str) -> None:
        execution: Execution | None = None
        try:
            execution = await self._claimer.claim(run_id, workspace_id)
        except Exception as error:  # noqa: BLE001 -- a bug must not cost the worker a place forever
            self._observe(UnexpectedError(f"claim {run_id}", error))
        finally:
            if execution is None:
                self._one_less(run_id)
            else:
                execution.task.add_done_callback(lambda _: self._one_less(run_id))

    def _note_claim(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._take_next()

    def _one_less(self, run_id: str) -> None:
        # Known until it has ended: what was read before its claim may name it afterwards, and a second claim of this
        # server in the same millisecond would look like the first.
        self._released.forget(run_id)
        self._working -= 1
        self._take_next()
