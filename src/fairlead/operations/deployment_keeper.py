"""Keeps deployments ready: has their releases prepared, and takes those out of service whose packs are missing (J-15).

A server prepares a release by having an engine host started with its node packs. Of several servers, the first to
finish decides.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from fairlead.clock import Clock
from fairlead.domain.deployments import (
    REASON_MAX,
    Deployment,
    DeploymentEvent,
    PackSet,
    Placement,
    Release,
    title_of,
)
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.pool import Hosts, Prepared
from fairlead.observing.observations import DatabaseTrouble, DeploymentMoved, Observer, ReleaseSettled, UnexpectedError
from fairlead.storage import deployments
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.deployments import Moved

_AT_ONCE: Final = 8
_SEEN_MAX: Final = 1_000
"""How many are read at a time: those that are paused must not hide the others."""
_READY_MAX: Final = 10_000
_FORGOTTEN_AT_ONCE: Final = 100
_PAUSE_FIRST: Final = 1.0
_PAUSE_MAX: Final = 60.0
_PAUSES_MAX: Final = 10_000
T = TypeVar("T")


class _Pause(NamedTuple):
    """The pause of a deployment, and its end by the monotonic clock."""

    seconds: float
    until: float


_NO_PAUSE: Final = _Pause(_PAUSE_FIRST / 2, 0.0)


class DeploymentKeeper:
    """Makes deployments ready and keeps them ready. What it cannot write now, it finds again soon."""

    def __init__(self, database: Database, hosts: Hosts, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._hosts = hosts
        self._clock = clock
        self._observe = observe
        self._pauses: dict[str, _Pause] = {}
        self._verified: Hashable = None
        """What was known of node packs when the deployments that are ready were last compared with it."""
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By the deployments they are for."""

    async def look(self) -> None:
        """Begin to prepare releases, and to ask for hosts again for deployments that have a release and are not ready.

        It does not wait for any of it: packs that take minutes to load do not hold up other deployments.
        """
        seen = await self._find(  # in one read, because this is asked twice a second
            "read deployments",
            lambda c: [
                (
                    deployments.releases_to_prepare(c, _SEEN_MAX),
                    deployments.deployments_to_probe(c, _SEEN_MAX),
                    deployments.last_change(c),
                )
            ],
        )
        for to_prepare, to_probe, last_change in seen:
            for release in to_prepare:
                self._begin(release.deployment_id, partial(self._prepare, release))
            for found in to_probe:
                self._begin(found.id, partial(self._probe, found))
            await self._verify(last_change)

    async def close(self) -> None:
        """Give up what is under way; the next check finds it again."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def lose(self, placement: Placement, why: str) -> None:
        """Note that no host takes a deployment's work, which was ready a moment ago."""
        await self._move(placement, DeploymentEvent.LOSE, why)

    async def forget(self) -> int:
        """Forget a batch of deleted deployments that no job names any more, and return how many were."""
        found = await self._try("forget deployments", lambda c: deployments.forget_deployments(c, _FORGOTTEN_AT_ONCE))
        if not found and (needed := await self._try("read copies", deployments.copies_in_use)) is not None:
            await self._hosts.forget_copies(needed)
        return found or 0

    async def _verify(self, last_change: tuple[int, int]) -> None:
        """Take deployments out of service whose packs cannot be loaded any more, as soon as that is known."""
        names = await self._hosts.all_packs()
        known = (self._hosts.edition, names, last_change)
        if known == self._verified:
            return
        self._verified = known
        for found in await self._find("read deployments", lambda c: deployments.ready_deployments(c, _READY_MAX)):
            if not set(found.packs or ()) <= set(names):
                await self._hosts.restore_copies(found.packs, names)
                names = await self._hosts.all_packs()
            self._hosts.begin_to_try(found.packs, names)
            if (why := self._hosts.refusal(found.packs, names)) is not None:
                await self.lose(Placement(found.id, found.serving or 0, found.packs), why)

    def _begin(self, deployment_id: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do something for a deployment, unless that is being done, the deployment is paused, or there is no room."""
        is_possible = deployment_id not in self._under_way and len(self._under_way) < _AT_ONCE
        if is_possible and self._is_due(deployment_id):
            task = self._under_way[deployment_id] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(partial(self._note_end, deployment_id))

    def _note_end(self, deployment_id: str, task: "asyncio.Task[None]") -> None:
        del self._under_way[deployment_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._wait(deployment_id)
            self._observe(UnexpectedError(f"look after {deployment_id}", error))

    def _is_due(self, deployment_id: str) -> bool:
        """Whether it is time to try a deployment again: after each failure the pause is twice as long."""
        return self._pauses.get(deployment_id, _NO_PAUSE).until <= time.monotonic()

    def _wait(self, deployment_id: str) -> None:
        seconds = min(_PAUSE_MAX, 2 * self._pauses.get(deployment_id, _NO_PAUSE).seconds)
        self._pauses[deployment_id] = _Pause(seconds, time.monotonic() + seconds)
        while len(self._pauses) > _PAUSES_MAX:
            del self._pauses[next(iter(self._pauses))]

    async def _prepare(self, release: Release) -> None:
        try:
            copied = await self._hosts.copy_packs(release.packs)
            if copied.error is None:
                prepared = await self._hosts.prepare(copied.names, again=copied.names != ())
            else:
                prepared = Prepared((), copied.missing, copied.error)
        except EngineUnavailableError as error:
            self._wait(release.deployment_id)
            await self._note(release.deployment_id, str(error))
            return
        self._pauses.pop(release.deployment_id, None)
        await self._settle(release, prepared)

    async def _probe(self, deployment: Deployment) -> None:
        placement = Placement(deployment.id, deployment.serving or 0, deployment.packs)
        try:
            await self._hosts.restore_copies(deployment.packs, await self._hosts.all_packs())
            why = _blame(deployment.packs, await self._hosts.prepare(deployment.packs))
        except EngineUnavailableError as error:
            why = str(error)
        if why is None:
            self._pauses.pop(deployment.id, None)
            await self._move(placement, DeploymentEvent.PREPARE, None)
            return
        self._wait(deployment.id)
        await self._note(deployment.id, why)

    async def _settle(self, release: Release, prepared: Prepared) -> None:
        why, nodes = _blame(release.packs, prepared), sum(report.nodes for report in prepared.packs)
        kept = None if why else [report.name for report in prepared.packs if report.error is None]
        id_, now = release.deployment_id, self._clock.now_ms()
        moved = await self._try(
            "settle a release",
            lambda c: deployments.settle_release(c, id_, release.version, None if why else nodes, why, now, kept),
        )
        self._observe(ReleaseSettled(id_, release.version, why))
        self._tell(id_, moved)

    async def _note(self, deployment_id: str, why: str) -> None:
        now = self._clock.now_ms()
        await self._try(
            "note what a deployment waits for",
            lambda c: deployments.note_waiting(c, deployment_id, why[:REASON_MAX], now),
        )

    async def _move(self, placement: Placement, event: DeploymentEvent, why: str | None) -> None:
        now, kept = self._clock.now_ms(), None if why is None else why[:REASON_MAX]
        moved = await self._try(
            "move a deployment", lambda c: deployments.move_deployment(c, placement, event, kept, now)
        )
        self._tell(placement.deployment_id, moved)

    def _tell(self, deployment_id: str, moved: Moved | None) -> None:
        if moved is not None:
            self._observe(DeploymentMoved(deployment_id, moved.state.value, moved.reason))

    async def _find(self, doing: str, work: Work[Sequence[T]]) -> Sequence[T]:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            self._verified = None
            self._observe(DatabaseTrouble(doing, str(error)))
            return ()

    async def _try(self, doing: str, work: Work[T]) -> T | None:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble(doing, str(error)))
            return None


def _blame(packs: PackSet, prepared: Prepared) -> str | None:
    """Why a release cannot serve; None where it can.

    A release that names packs needs each of them; one that takes all packs gets those that can be loaded.
    """
    if prepared.error is not None:
        return prepared.error[:REASON_MAX]
    broken = [report for report in prepared.packs if report.error is not None] if packs is not None else []
    if not broken:
        return None
    return f"The node pack {title_of(broken[0].name)} cannot be loaded: {broken[0].error}"[:REASON_MAX]
