"""Deployments over the administration API: made, changed, released and deleted by those who run workflows."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, workspace_of
from fairlead.api.admin.bodies import answer, page_of, read_body
from fairlead.api.admin.documents import Page
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import PoolName, Time, as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.deployments import (
    NAME_MAX,
    PACK_NAME_MAX,
    PACKS_MAX,
    Deployment,
    DeploymentState,
    Release,
    ReleaseState,
    title_of,
)
from fairlead.operations.deployments import Deployments

_CREATED: Final = 201
_DELETED: Final = 204
Packs: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=PACK_NAME_MAX)]], msgspec.Meta(max_length=PACKS_MAX)
]
StateName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": [state.value for state in DeploymentState]})
]
ReleaseStateName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": [state.value for state in ReleaseState]})
]


class DeploymentShown(TypedDict):
    """A deployment: `packs` of the release that serves, null for every pack; `token_kinds` null for all kinds.

    `pool` is where its jobs are executed, null where the rules of the installation decide it.
    """

    id: str
    name: str
    state: StateName
    reason: str | None
    serving: int | None
    packs: Sequence[str] | None
    last_release: int
    token_kinds: Sequence[str] | None
    pool: PoolName | None
    created_at: Time
    updated_at: Time


class ReleaseShown(TypedDict):
    """A release of a deployment: `nodes` is how many classes its packs add, once it is prepared."""

    version: int
    state: ReleaseStateName
    packs: Sequence[str] | None
    nodes: int | None
    reason: str | None
    created_at: Time
    settled_at: Time | None


class NewRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A release to be made, with some node packs; null stands for all packs."""

    packs: Packs | None = None


class NewDeployment(NewRelease, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A deployment to be made, with its first release. Without `token_kinds` every kind of token opens it."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
    token_kinds: list[TokenKind] | None = None
    pool: PoolName | None = None


class DeploymentChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The pool of the jobs that a deployment takes from now on; null where the rules of the installation decide it."""

    pool: PoolName | None


class DeploymentHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of deployments; a server of the installation that executes workflows prepares them."""

    deployments: Deployments

    async def list_deployments(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/deployments`: all of them, the newest first; there are at most a hundred."""
        found = await self.deployments.all(workspace_of(request).id)
        return answer(page_of([_show(one) for one in found], "deployments", None))

    async def create_deployment(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/deployments`: a deployment whose id begins with its name."""
        new, by = await read_body(request, NewDeployment), actor_of(request)
        kinds = None if new.token_kinds is None else tuple(new.token_kinds)
        made = await self.deployments.create(workspace_of(request).id, new.name, new.packs, by, kinds, new.pool)
        return answer(_show(made), _CREATED)

    async def show_deployment(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/deployments/{deployment_id}`: one of them."""
        return answer(_show(await self.deployments.one(workspace_of(request).id, _id(request))))

    async def change_deployment(self, request: Request) -> Response:
        """`PATCH …/{deployment_id}`: another pool; jobs that it has taken stay in theirs."""
        change, by = await read_body(request, DeploymentChange), actor_of(request)
        changed = await self.deployments.change_pool(workspace_of(request).id, _id(request), change.pool, by)
        return answer(_show(changed))

    async def stop_deployment(self, request: Request) -> Response:
        """`POST …/{deployment_id}/stop`: it takes no more jobs, those it has go on."""
        return answer(_show(await self.deployments.stop(workspace_of(request).id, _id(request), actor_of(request))))

    async def start_deployment(self, request: Request) -> Response:
        """`POST …/{deployment_id}/start`: a stopped one is made ready again."""
        return answer(_show(await self.deployments.start(workspace_of(request).id, _id(request), actor_of(request))))

    async def delete_deployment(self, request: Request) -> Response:
        """`DELETE …/{deployment_id}`: its jobs that wait fail, and those that are executed are stopped."""
        await self.deployments.delete(workspace_of(request).id, _id(request), actor_of(request))
        return Response(status_code=_DELETED)

    async def list_releases(self, request: Request) -> Response:
        """`GET …/{deployment_id}/releases`: all of them, the newest first; there are at most five hundred."""
        found = await self.deployments.releases(workspace_of(request).id, _id(request))
        return answer(page_of([_shown_release(one) for one in found], "releases", None))

    async def publish_release(self, request: Request) -> Response:
        """`POST …/{deployment_id}/releases`: another release, which serves once it is prepared."""
        new, by = await read_body(request, NewRelease), actor_of(request)
        made = await self.deployments.publish(workspace_of(request).id, _id(request), new.packs, by)
        return answer(_shown_release(made), _CREATED)


def _id(request: Request) -> str:
    return str(request.path_params["deployment_id"])


def _titles(packs: Sequence[str] | None) -> Sequence[str] | None:
    """Packs as operators name them: a release is executed with copies of its own."""
    return None if packs is None else [title_of(name) for name in packs]


def _show(one: Deployment) -> DeploymentShown:
    return {
        "id": one.id,
        "name": one.name,
        "state": one.state.value,
        "reason": one.reason,
        "serving": one.serving,
        "packs": _titles(one.packs),
        "last_release": one.last_release,
        "token_kinds": None if one.token_kinds is None else [kind.value for kind in one.token_kinds],
        "pool": one.pool,
        "created_at": as_time(one.created_at),
        "updated_at": as_time(one.updated_at),
    }


def _shown_release(one: Release) -> ReleaseShown:
    return {
        "version": one.version,
        "state": one.state.value,
        "packs": _titles(one.packs),
        "nodes": one.nodes,
        "reason": one.reason,
        "created_at": as_time(one.created_at),
        "settled_at": None if one.settled_at is None else as_time(one.settled_at),
    }


_PATH: Final = "/workspaces/{workspace}/deployments"
_ONE: Final = f"{_PATH}/{{deployment_id}}"
_SHOWN: Final = {200: Answer("The deployment.", DeploymentShown)}
ROUTES: Final = (
    Route(
        "GET",
        _PATH,
        DeploymentHandlers.list_deployments,
        "List the deployments of a workspace",
        {200: Answer("All of them, the newest first.", Page[DeploymentShown])},
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        _PATH,
        DeploymentHandlers.create_deployment,
        "Make a deployment and its first release",
        {201: Answer("The deployment, which is being prepared.", DeploymentShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewDeployment),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
    Route(
        "GET",
        _ONE,
        DeploymentHandlers.show_deployment,
        "Show a deployment",
        _SHOWN,
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "PATCH",
        _ONE,
        DeploymentHandlers.change_deployment,
        "Change the pool of a deployment",
        _SHOWN,
        (400, 404, 413, 422),
        body=Body(DeploymentChange),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
    Route(
        "DELETE",
        _ONE,
        DeploymentHandlers.delete_deployment,
        "Delete a deployment",
        {204: Answer("It is deleted.")},
        (404,),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
    *(
        Route("POST", f"{_ONE}/{verb}", handler, summary, _SHOWN, (404,), access=Access.MEMBER, right=Right.RUN)
        for verb, handler, summary in (
            ("stop", DeploymentHandlers.stop_deployment, "Have a deployment take no more jobs"),
            ("start", DeploymentHandlers.start_deployment, "Make a stopped deployment ready again"),
        )
    ),
    Route(
        "GET",
        f"{_ONE}/releases",
        DeploymentHandlers.list_releases,
        "List the releases of a deployment",
        {200: Answer("All of them, the newest first.", Page[ReleaseShown])},
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        f"{_ONE}/releases",
        DeploymentHandlers.publish_release,
        "Publish a release of a deployment",
        {201: Answer("The release, which serves once it is prepared.", ReleaseShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewRelease),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
)
