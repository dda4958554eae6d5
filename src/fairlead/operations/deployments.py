"""Deployments: made, released, stopped and deleted by their workspaces, and kept ready by the servers (J-15).

A server prepares a release by having an engine host started with its node packs. Which server of several does it makes
no difference: the first has the last word.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from fairlead.domain.deployments import (
    DEPLOYMENTS_MAX,
    PACK_NAME_MAX,
    PACKS_MAX,
    REASON_MAX,
    RELEASES_MAX,
    BadDeployment,
    Deployment,
    DeploymentEvent,
    DeploymentFaultError,
    DeploymentNotFound,
    PackSet,
    Placement,
    Release,
    TokenKinds,
    is_deployment_id,
    pack_set,
    refuse_name,
    title_of,
)
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.pool import Hosts, Prepared
from fairlead.observing.observations import DatabaseTrouble, DeploymentMoved, Observer, ReleaseSettled, UnexpectedError
from fairlead.operations.clock import Clock
from fairlead.storage import deployments
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.deployments import Moved

_AT_ONCE: Final = 8
_SEEN_MAX: Final = 1_000
"""How many are looked at: those that are left alone for a while must not hide the others."""
_READY_MAX: Final = 10_000
_FORGOTTEN_AT_ONCE: Final = 100
_GUESSLESS_BYTES: Final = 4
"""Of an id, behind the name: so that no id tells which names other workspaces have taken."""
_NAMES_SHOWN: Final = 5
_PAUSE_FIRST: Final = 1.0
_PAUSE_MAX: Final = 60.0
_PAUSES_MAX: Final = 10_000
T = TypeVar("T")


class _Pause(NamedTuple):
    """How long a deployment is left alone, and until when by the monotonic clock."""

    seconds: float
    until: float


_NO_PAUSE: Final = _Pause(_PAUSE_FIRST / 2, 0.0)


class Deployments:
    """The deployments of workspaces. Every method may raise DeploymentFaultError, and FaultError without a database.

    `known_packs` says which node packs there are; None where that is not known here, and preparing will tell.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        observe: Observer,
        known_packs: Callable[[], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._observe = observe
        self._known_packs = known_packs

    async def create(
        self, workspace_id: str, name: str, packs: Sequence[str] | None, token_kinds: TokenKinds = None
    ) -> Deployment:
        """Make a deployment with its first release, of some node packs or of every one there is.

        `token_kinds` are the kinds of tokens it takes beside API keys; None takes all.
        """
        if (refusal := refuse_name(name)) is not None:
            raise DeploymentFaultError(refusal)
        wanted, now = await self._require_packs(packs), self._clock.now_ms()
        id_ = f"{name}-{secrets.token_hex(_GUESSLESS_BYTES)}"
        new = {"id": id_, "workspace_id": workspace_id, "name": name}
        kinds = None if token_kinds is None else tuple(sorted(set(token_kinds)))
        return await self._write(lambda c: deployments.create_deployment(c, new, wanted, now, DEPLOYMENTS_MAX, kinds))

    async def all(self, workspace_id: str) -> Sequence[Deployment]:
        """The deployments of a workspace, the newest first."""
        return await self._read(lambda c: deployments.list_deployments(c, workspace_id, DEPLOYMENTS_MAX))

    async def one(self, workspace_id: str, deployment_id: str) -> Deployment:
        """A deployment of a workspace."""
        _check_id(deployment_id)
        return await self._read(lambda c: deployments.get_deployment(c, workspace_id, deployment_id))

    async def publish(self, workspace_id: str, deployment_id: str, packs: Sequence[str] | None) -> Release:
        """Make another release, which serves as soon as it is prepared; a deployment that is stopped is started."""
        _check_id(deployment_id)
        wanted, now = await self._require_packs(packs), self._clock.now_ms()
        return await self._write(
            lambda c: deployments.publish_release(c, workspace_id, deployment_id, wanted, now, RELEASES_MAX)
        )

    async def releases(self, workspace_id: str, deployment_id: str) -> Sequence[Release]:
        """The releases of a deployment, the newest first."""
        _check_id(deployment_id)
        return await self._read(lambda c: deployments.list_releases(c, workspace_id, deployment_id))

    async def stop(self, workspace_id: str, deployment_id: str) -> Deployment:
        """Have a deployment take no more jobs; those it has taken go on."""
        _check_id(deployment_id)
        now = self._clock.now_ms()
        return await self._write(lambda c: deployments.stop_deployment(c, workspace_id, deployment_id, now))

    async def start(self, workspace_id: str, deployment_id: str) -> Deployment:
        """Have a deployment that is stopped made ready again."""
        _check_id(deployment_id)
        now = self._clock.now_ms()
        return await self._write(lambda c: deployments.start_deployment(c, workspace_id, deployment_id, now))

    async def delete(self, workspace_id: str, deployment_id: str) -> None:
        """Delete a deployment: its jobs that wait fail, and those that are executed are cancelled, soon after."""
        _check_id(deployment_id)
        now = self._clock.now_ms()
        await self._write(lambda c: deployments.delete_deployment(c, workspace_id, deployment_id, now))

    async def _require_packs(self, packs: Sequence[str] | None) -> PackSet:
        wanted = pack_set(packs)
        if wanted is None:
            return None
        if len(wanted) > PACKS_MAX or any(not 1 <= len(name) <= PACK_NAME_MAX for name in wanted):
            detail = f"A release has at most {PACKS_MAX} node packs, with names of 1 to {PACK_NAME_MAX} characters."
            raise DeploymentFaultError(BadDeployment(detail))
        known = wanted if self._known_packs is None else await self._known_packs()
        if unknown := sorted(set(wanted).difference(known)):
            named = ", ".join(name[:100] for name in unknown[:_NAMES_SHOWN])
            raise DeploymentFaultError(BadDeployment(f"There are no such node packs here: {named}."))
        return wanted

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            raise self._away("write deployments", error) from error

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise self._away("read deployments", error) from error

    def _away(self, doing: str, error: DatabaseUnavailableError) -> FaultError:
        self._observe(DatabaseTrouble(doing, str(error)))
        return FaultError(ServiceUnavailable("Deployments cannot be reached right now."))


class DeploymentKeeper:
    """Makes deployments ready and keeps them so. What it cannot write now, it finds again soon."""

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

        Nothing of it is waited for: packs that take minutes to load keep nobody else's waiting.
        """
        for release in await self._find("read releases", lambda c: deployments.releases_to_prepare(c, _SEEN_MAX)):
            self._begin(release.deployment_id, partial(self._prepare, release))
        for found in await self._find("read deployments", lambda c: deployments.deployments_to_probe(c, _SEEN_MAX)):
            self._begin(found.id, partial(self._probe, found))
        await self._verify()

    async def close(self) -> None:
        """Give up what is under way; the next look finds it again."""
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

    async def _verify(self) -> None:
        """Take deployments out of service whose packs cannot be loaded any more, as soon as that is known."""
        changed = await self._find("read deployments", deployments.last_change)
        names = await self._hosts.all_packs()
        known = (self._hosts.edition, names, tuple(changed))
        if not changed or known == self._verified:
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
        """Do something for a deployment, unless that is being done, it is to be left alone, or there is no room."""
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


def _check_id(deployment_id: str) -> None:
    if not is_deployment_id(deployment_id):
        raise DeploymentFaultError(DeploymentNotFound(deployment_id))


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
