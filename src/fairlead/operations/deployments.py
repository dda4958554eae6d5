"""Deployments as workspaces have them: made, changed, released, stopped and deleted, each with an entry in the log.

A server prepares what is wanted here (`operations.deployment_keeper`).
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.deployments import (
    DEPLOYMENTS_MAX,
    PACK_NAME_MAX,
    PACKS_MAX,
    RELEASES_MAX,
    BadDeployment,
    Deployment,
    DeploymentFaultError,
    DeploymentNotFound,
    PackSet,
    Release,
    TokenKinds,
    is_deployment_id,
    pack_set,
    refuse_name,
    refuse_pool,
)
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage import deployments
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

_GUESSLESS_BYTES: Final = 4
"""The random characters of an id after the name, so that no id reveals which names other workspaces have taken."""
_NAMES_SHOWN: Final = 5
T = TypeVar("T")


class Deployments:
    """The deployments of workspaces. Every method may raise DeploymentFaultError, and FaultError without a database.

    `known_packs` returns the existing node packs; None where they are not known here, so that the preparation decides.
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
        self,
        workspace_id: str,
        name: str,
        packs: Sequence[str] | None,
        by: Actor,
        token_kinds: TokenKinds = None,
        pool: str | None = None,
    ) -> Deployment:
        """Make a deployment with its first release, of some node packs or of every one there is.

        `token_kinds` are the kinds of tokens it takes beside API keys; None takes all. Its jobs are executed in its
        `pool`, or in the one that the rules of the installation choose.
        """
        if (refusal := refuse_name(name) or refuse_pool(pool)) is not None:
            raise DeploymentFaultError(refusal)
        wanted, now = await self._require_packs(packs), self._clock.now_ms()
        id_ = f"{name}-{secrets.token_hex(_GUESSLESS_BYTES)}"
        new = {"id": id_, "workspace_id": workspace_id, "name": name}
        kinds = None if token_kinds is None else tuple(sorted(set(token_kinds)))
        act = Act("deployment.created", workspace_id, id_, {"packs": wanted, "token_kinds": kinds, "pool": pool})
        return await self._change(
            lambda c: deployments.create_deployment(c, new, wanted, now, DEPLOYMENTS_MAX, kinds, pool), by, act, now
        )

    async def all(self, workspace_id: str) -> Sequence[Deployment]:
        """The deployments of a workspace, the newest first."""
        return await self._read(lambda c: deployments.list_deployments(c, workspace_id, DEPLOYMENTS_MAX))

    async def one(self, workspace_id: str, deployment_id: str) -> Deployment:
        """A deployment of a workspace."""
        _check_id(deployment_id)
        return await self._read(lambda c: deployments.get_deployment(c, workspace_id, deployment_id))

    async def change_pool(self, workspace_id: str, deployment_id: str, pool: str | None, by: Actor) -> Deployment:
        """Have further jobs of a deployment executed in a pool; None where the rules of the installation choose it."""
        _check_id(deployment_id)
        if (refusal := refuse_pool(pool)) is not None:
            raise DeploymentFaultError(refusal)
        act, now = Act("deployment.changed", workspace_id, deployment_id, {"pool": pool}), self._clock.now_ms()
        return await self._change(
            lambda c: deployments.change_pool(c, workspace_id, deployment_id, pool, now), by, act, now
        )

    async def publish(self, workspace_id: str, deployment_id: str, packs: Sequence[str] | None, by: Actor) -> Release:
        """Make another release, which serves as soon as it is prepared; a deployment that is stopped is started."""
        _check_id(deployment_id)
        wanted, now = await self._require_packs(packs), self._clock.now_ms()
        act = Act("deployment.released", workspace_id, deployment_id, {"packs": wanted})
        return await self._change(
            lambda c: deployments.publish_release(c, workspace_id, deployment_id, wanted, now, RELEASES_MAX),
            by,
            act,
            now,
        )

    async def releases(self, workspace_id: str, deployment_id: str) -> Sequence[Release]:
        """The releases of a deployment, the newest first."""
        _check_id(deployment_id)
        return await self._read(lambda c: deployments.list_releases(c, workspace_id, deployment_id))

    async def stop(self, workspace_id: str, deployment_id: str, by: Actor) -> Deployment:
        """Have a deployment take no more jobs; those it has taken go on."""
        _check_id(deployment_id)
        act, now = Act("deployment.stopped", workspace_id, deployment_id), self._clock.now_ms()
        return await self._change(
            lambda c: deployments.stop_deployment(c, workspace_id, deployment_id, now), by, act, now
        )

    async def start(self, workspace_id: str, deployment_id: str, by: Actor) -> Deployment:
        """Have a deployment that is stopped made ready again."""
        _check_id(deployment_id)
        act, now = Act("deployment.started", workspace_id, deployment_id), self._clock.now_ms()
        return await self._change(
            lambda c: deployments.start_deployment(c, workspace_id, deployment_id, now), by, act, now
        )

    async def delete(self, workspace_id: str, deployment_id: str, by: Actor) -> None:
        """Delete a deployment: its jobs that wait fail, and those that are executed are cancelled, soon after."""
        _check_id(deployment_id)
        act, now = Act("deployment.deleted", workspace_id, deployment_id), self._clock.now_ms()
        await self._change(lambda c: deployments.delete_deployment(c, workspace_id, deployment_id, now), by, act, now)

    async def _require_packs(self, packs: Sequence[str] | None) -> PackSet:
        wanted = pack_set(packs)
        if wanted is None:
            return None
        if len(wanted) > PACKS_MAX or any(not 1 <= len(name) <= PACK_NAME_MAX for name in wanted):
            detail = f"A release has at most {PACKS_MAX} node packs, with names of 1 to {PACK_NAME_MAX} characters."
            raise DeploymentFaultError(BadDeployment(detail, "packs"))
        known = wanted if self._known_packs is None else await self._known_packs()
        if unknown := sorted(set(wanted).difference(known)):
            named = ", ".join(name[:100] for name in unknown[:_NAMES_SHOWN])
            raise DeploymentFaultError(BadDeployment(f"There are no such node packs here: {named}.", "packs"))
        return wanted

    async def _change(self, work: Work[T], by: Actor, act: Act, now: int) -> T:
        try:
            return await self._database.write(with_entry(work, by, lambda _: act, now))
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


def _check_id(deployment_id: str) -> None:
    if not is_deployment_id(deployment_id):
        raise DeploymentFaultError(DeploymentNotFound(deployment_id))
