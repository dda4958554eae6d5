"""Deployments as the jobs API has them: made, changed, released, stopped, started, deleted (J-10, J-15)."""

from typing import Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import read_small_json
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import caller_of
from fairlead.api.http.schemas import as_time
from fairlead.api.jobs.addresses import PREFIX, Address, address_of, base_of, port_of
from fairlead.api.jobs.documents import (
    API_KEY,
    CredentialKind,
    DeploymentChange,
    DeploymentList,
    DeploymentShown,
    NewDeployment,
    NewRelease,
    ReleaseList,
    ReleaseShown,
)
from fairlead.api.jobs.errors import NoDeploymentsError
from fairlead.api.jobs.wire import answer
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.deployments import BadDeployment, Deployment, DeploymentFaultError, Release, ReleaseState
from fairlead.operations.deployments import Deployments

_BODY_MAX: Final = 64 * 1024
_UNCACHED: Final = {"Cache-Control": "no-store"}
_NOT_FOUND: Final = 404
_BAD_BODY: Final = (
    'The body must be JSON such as {"name": "pictures", "node_packs": ["a-pack"]}; a release has no name, '
    'and a change is {"pool": "gpu"}.'
)
_deployments: Final = msgspec.json.Decoder(NewDeployment)
_changes: Final = msgspec.json.Decoder(DeploymentChange)
_releases: Final = msgspec.json.Decoder(NewRelease)
T = TypeVar("T")


class DeploymentHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/v2/deployments` at the workspace's own address. Where there are no `deployments`, with 501.

    `domain` is the one whose subdomains they are, if there is one.
    """

    deployments: Deployments | None
    base_urls: BaseUrls
    domain: str | None

    async def create_deployment(self, request: Request) -> Response:
        """`POST /deployments`: make a deployment and its first release, which is then prepared."""
        workspace_id, deployments = await self._admit(request)
        new = await _body(request, _deployments)
        kinds = new.credential_kinds
        token_kinds = None if kinds is None else tuple(TokenKind(kind) for kind in kinds if kind != API_KEY)
        by = self._actor(request)
        made = await deployments.create(workspace_id, new.name, new.node_packs, by, token_kinds, new.pool)
        return answer(self._document(request, made), 201)

    async def list_deployments(self, request: Request) -> Response:
        """`GET /deployments`: all of the workspace's, the newest first."""
        workspace_id, deployments = await self._admit(request)
        found = await deployments.all(workspace_id)
        document: DeploymentList = {"deployments": [self._document(request, one) for one in found]}
        return answer(document)

    async def show_deployment(self, request: Request) -> Response:
        """`GET /deployments/{id}`: a deployment with its state."""
        workspace_id, deployments = await self._admit(request)
        return answer(self._document(request, await deployments.one(workspace_id, _id(request))))

    async def change_deployment(self, request: Request) -> Response:
        """`PATCH /deployments/{id}`: another pool for the jobs that it takes from now on."""
        workspace_id, deployments = await self._admit(request)
        change = await _body(request, _changes)
        changed = await deployments.change_pool(workspace_id, _id(request), change.pool, self._actor(request))
        return answer(self._document(request, changed))

    async def delete_deployment(self, request: Request) -> Response:
        """`DELETE /deployments/{id}`: 204; its jobs are ended soon after."""
        workspace_id, deployments = await self._admit(request)
        await deployments.delete(workspace_id, _id(request), self._actor(request))
        return Response(status_code=204, headers=_UNCACHED)

    async def stop_deployment(self, request: Request) -> Response:
        """`POST /deployments/{id}/stop`: it takes no further jobs; those it has go on."""
        workspace_id, deployments = await self._admit(request)
        stopped = await deployments.stop(workspace_id, _id(request), self._actor(request))
        return answer(self._document(request, stopped))

    async def start_deployment(self, request: Request) -> Response:
        """`POST /deployments/{id}/start`: make a stopped one ready again."""
        workspace_id, deployments = await self._admit(request)
        started = await deployments.start(workspace_id, _id(request), self._actor(request))
        return answer(self._document(request, started))

    async def publish_release(self, request: Request) -> Response:
        """`POST /deployments/{id}/releases`: another release, which serves once it is prepared."""
        workspace_id, deployments = await self._admit(request)
        new = await _body(request, _releases)
        by = self._actor(request)
        made = await deployments.publish(workspace_id, _id(request), new.node_packs, by)
        return answer(release_document(made), 201)

    async def list_releases(self, request: Request) -> Response:
        """`GET /deployments/{id}/releases`: all of a deployment's, the newest first."""
        workspace_id, deployments = await self._admit(request)
        found = await deployments.releases(workspace_id, _id(request))
        document: ReleaseList = {"releases": [release_document(one) for one in found]}
        return answer(document)

    async def _admit(self, request: Request) -> tuple[str, Deployments]:
        """The caller whose deployments a call is about. These routes are not served at the address of a deployment."""
        caller = caller_of(request)
        if address_of(request.scope) is not None:
            raise HTTPException(_NOT_FOUND)
        if self.deployments is None:
            raise NoDeploymentsError
        return caller.workspace_id, self.deployments

    def _actor(self, request: Request) -> Actor:
        return self.base_urls.actor_of(request.scope, caller_of(request))

    def _document(self, request: Request, deployment: Deployment) -> DeploymentShown:
        base = self.base_urls.of(request.scope)
        url = f"{base}{PREFIX}/deployments/{deployment.id}"
        host = None if self.domain is None else f"{deployment.id}.{self.domain}{port_of(base)}"
        return {
            "id": deployment.id,
            "name": deployment.name,
            "status": deployment.state.value,
            "reason": deployment.reason,
            "release_version": deployment.serving,
            "latest_release_version": deployment.last_release,
            "credential_kinds": _credential_kinds(deployment),
            "pool": deployment.pool,
            "created_at": as_time(deployment.created_at),
            "updated_at": as_time(deployment.updated_at),
            "address": base_of(base, Address(deployment.id, host)),
            "urls": {
                "self": url,
                "releases": f"{url}/releases",
                "stop": f"{url}/stop",
                "start": f"{url}/start",
                "jobs": f"{base_of(base, Address(deployment.id))}{PREFIX}/jobs",
            },
        }


def _credential_kinds(deployment: Deployment) -> list[CredentialKind]:
    """The kinds of credentials that open a deployment, as this API names them."""
    kinds = tuple(TokenKind) if deployment.token_kinds is None else deployment.token_kinds
    return [API_KEY, *(kind.value for kind in kinds)]


def release_document(release: Release) -> ReleaseShown:
    """A release as it is sent."""
    return {
        "version": release.version,
        "status": release.state.value,
        "node_packs": release.packs,
        "nodes": release.nodes if release.state is ReleaseState.PREPARED else None,
        "reason": release.reason,
        "created_at": as_time(release.created_at),
        "settled_at": None if release.settled_at is None else as_time(release.settled_at),
    }


def _id(request: Request) -> str:
    deployment_id: str = request.path_params["deployment_id"]
    return deployment_id


async def _body(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    content = await read_small_json(request, _BODY_MAX)
    try:
        content.decode()
        return decoder.decode(content or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DeploymentFaultError(BadDeployment(_BAD_BODY)) from error
