"""Who calls the administration API, and whether they have the right that a route asks for.

A route names its right (`Route.right`). A right in a workspace comes from the caller's role in the workspace that the
path or the query names; a workspace in which the caller has no role is answered like one that does not exist.
"""

from typing import Final

import msgspec
from starlette.requests import Request

from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.route import route_of
from fairlead.domain.accounts.key_terms import Address
from fairlead.domain.accounts.rights import PERSONAL_KEY_PREFIX, Actor, Principal, Right, has_right
from fairlead.domain.faults import FaultError, Forbidden, RequestNotFound, Unauthorized
from fairlead.operations.accounts.authenticate import ApiKey, Token
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.request_limits import RequestLimits
from fairlead.operations.accounts.sessions import AdminCredential, PersonalKey, Sessions
from fairlead.operations.accounts.workspaces import UnknownWorkspaceError, WorkspaceName, find_workspace_name
from fairlead.operations.outages import AnsweringDatabase

_PRINCIPAL: Final = "fairlead.admin.principal"
_ACTOR: Final = "fairlead.admin.actor"
_WORKSPACE: Final = "fairlead.admin.workspace"
_REACH: Final = "fairlead.admin.reach"
_NAME_MAX: Final = 64
_ROLE_WANTED: Final = "Your role does not allow {right}."
_OPERATOR_WANTED: Final = "This is for operators of the installation."
_WIDER_WANTED: Final = "This key is not for {right}."
PERSON_WANTED: Final = "This is for members; an API key sees its own workspace's balance, runs and usage."


class Reach(msgspec.Struct, frozen=True):
    """What a list may be read from: some workspaces, by id, or all (None); an API key's runs are its own only."""

    workspace_ids: tuple[str, ...] | None
    api_key_id: str | None = None


class AdminAccess(msgspec.Struct, frozen=True):
    """Finds out who calls, counts the call, and checks that the caller has the right that its route requires.

    `members` bounds how often a member may ask, `windows` how often a workspace's API keys may.
    """

    database: AnsweringDatabase
    sessions: Sessions
    credentials: CredentialReader
    windows: RateWindows
    members: RequestLimits

    async def authorize(self, request: Request) -> Principal:
        """Who calls; FaultError with Unauthorized, Forbidden, RateLimited, or RequestNotFound for a workspace."""
        principal = await self.identify(request)
        right = route_of(request).right or Right.OPERATE
        if not principal.leaves(right):
            raise FaultError(Forbidden(_WIDER_WANTED.format(right=right.value)))
        if right.is_in_workspace:
            await self._check_workspace(request, principal, right)
        elif right is Right.PERSON and not principal.is_person:
            raise FaultError(Forbidden(PERSON_WANTED))
        elif right is Right.OPERATE:
            if not principal.is_operator:
                raise FaultError(Forbidden(_OPERATOR_WANTED))
            if (named := request.path_params.get("workspace")) is not None:
                request.scope[_WORKSPACE] = await self._find(principal, str(named))
        return principal

    async def identify(self, request: Request) -> Principal:
        """Who calls, whatever the right of the route; FaultError with Unauthorized, Forbidden or RateLimited."""
        principal = await self.sessions.principal(self._credential(request))
        self._count(principal)
        address = self._address(request)
        request.scope[_PRINCIPAL] = principal
        request.scope[_ACTOR] = principal.actor(None if address is None else str(address))
        return principal

    def _credential(self, request: Request) -> AdminCredential:
        """What the call shows: a key in a header wins over the cookie of a session."""
        match self.credentials.of_header(request.scope):
            case None:
                cookie = self.credentials.cookies.read(request.scope)
                if cookie is None:
                    raise FaultError(Unauthorized("Sign in, or send a personal key in X-API-Key or as bearer."))
                return cookie
            case ApiKey(text) | Token(text) if text.startswith(PERSONAL_KEY_PREFIX):
                return PersonalKey(text, self._address(request))
            case ApiKey() as key:
                return key
            case Token():
                raise FaultError(Unauthorized("This API takes personal keys and API keys, and no tokens."))

    def _address(self, request: Request) -> Address | None:
        return self.credentials.cookies.base_urls.caller_of(request.scope)

    def _count(self, principal: Principal) -> None:
        if principal.is_person:
            self.members.count(principal.id)
        else:
            self.windows.count(principal.memberships[0].workspace_id)

    async def _check_workspace(self, request: Request, principal: Principal, right: Right) -> None:
        """Check the right in the workspace that is named, or find the workspaces in which the caller has it."""
        named = request.path_params.get("workspace") or request.query_params.get("workspace")
        key_id = None if principal.is_person else principal.id
        if named is not None:
            found = await self._find(principal, named)
            if not principal.is_operator:
                membership = principal.membership(found.id)
                if membership is None or not has_right(membership.role, right):
                    raise FaultError(Forbidden(_ROLE_WANTED.format(right=right.value)))
            request.scope[_WORKSPACE] = found
            request.scope[_REACH] = Reach((found.id,), key_id)
        elif principal.is_operator:
            request.scope[_REACH] = Reach(None)
        else:
            within = (one.workspace_id for one in principal.memberships if has_right(one.role, right))
            request.scope[_REACH] = Reach(tuple(within), key_id)
            if not principal.is_person and not request.scope[_REACH].workspace_ids:
                raise FaultError(Forbidden(PERSON_WANTED))

    async def _find(self, principal: Principal, named: str) -> WorkspaceName:
        """A workspace by name or id, if the caller may know of it; FaultError(RequestNotFound)."""
        membership = principal.membership(named)
        if membership is not None:
            return WorkspaceName(membership.workspace_id, membership.workspace)
        unknown = FaultError(RequestNotFound(detail=f"There is no workspace {named[:_NAME_MAX]}."))
        if not principal.is_operator:
            raise unknown
        try:
            return await find_workspace_name(self.database, named)
        except UnknownWorkspaceError as error:
            raise unknown from error


def principal_of(request: Request) -> Principal:
    """Who calls a route."""
    principal: Principal = request.scope[_PRINCIPAL]
    return principal


def actor_of(request: Request) -> Actor:
    """Who calls a route, and from where, for the audit log."""
    actor: Actor = request.scope[_ACTOR]
    return actor


def workspace_of(request: Request) -> WorkspaceName:
    """The workspace that the path of a route names, in which the caller has the route's right."""
    workspace: WorkspaceName = request.scope[_WORKSPACE]
    return workspace


def reach_of(request: Request) -> Reach:
    """The workspaces in which the caller has the route's right: the one that is named, or else all of them."""
    reach: Reach = request.scope[_REACH]
    return reach
