"""Who calls, and sessions: signing in by a key, listing and ending one's own sessions."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, principal_of
from fairlead.api.admin.bodies import answer, flag_of, page_of, read_body
from fairlead.api.admin.documents import (
    LoginMethods,
    Me,
    MembershipShown,
    OidcMethod,
    Page,
    SessionShown,
    SignedIn,
    SignIn,
)
from fairlead.api.admin.people.personal_keys import own_or_operated
from fairlead.api.http.route import Access, Answer, Body, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.api.http.sessions import SessionCookies
from fairlead.domain.accounts.rights import Principal, Right
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts.members import find_member
from fairlead.operations.accounts.request_limits import RequestLimits, household
from fairlead.operations.accounts.sessions import (
    BegunSession,
    NoSessionError,
    Origin,
    PersonalKey,
    Session,
    Sessions,
    csrf_token,
)
from fairlead.operations.accounts.workspaces import list_workspace_names
from fairlead.operations.outages import AnsweringDatabase

_CURRENT: Final = "current"
_OPERATED_MAX: Final = 200
_CREATED: Final = 201
_DELETED: Final = 204


class SessionHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked before and after signing in; `logins` bounds how often an address may try to.

    A key begins sessions where it `takes_keys`.
    """

    database: AnsweringDatabase
    sessions: Sessions
    cookies: SessionCookies
    logins: RequestLimits
    oidc: OidcMethod | None
    takes_keys: bool = True

    async def list_login_methods(self, _request: Request) -> Response:
        """`GET /login-methods`: how members may sign in, for everybody."""
        methods: LoginMethods = {"key": self.takes_keys, "oidc": self.oidc}
        return answer(methods)

    async def sign_in(self, request: Request) -> Response:
        """`POST /sessions`: begin a session by a personal key."""
        self.cookies.check_origin(request.scope)
        self.logins.count(household(self.cookies.base_urls.caller_of(request.scope)))
        body = await read_body(request, SignIn)
        if not self.takes_keys:
            raise FaultError(Forbidden("Members sign in at the OpenID Connect provider here, and not by a key."))
        key = PersonalKey(body.key, self.cookies.base_urls.caller_of(request.scope))
        begun = await self.sessions.begin(key, origin_of(request, self.cookies))
        signed_in = await show_session(self.database, begun)
        return answer(signed_in, _CREATED, {"Set-Cookie": self.cookies.set(request.scope, begun.cookie)})

    async def show_me(self, request: Request) -> Response:
        """`GET /me`: who calls, and their rights in each workspace."""
        principal = principal_of(request)
        me = await _me(self.database, principal)
        cookie = None if principal.session_id is None else self.cookies.read(request.scope)
        return answer(me if cookie is None else {**me, "csrf_token": csrf_token(cookie.text)})

    async def list_sessions(self, request: Request) -> Response:
        """`GET /sessions`: the caller's own, the newest first; there are at most fifty."""
        principal = principal_of(request)
        found = await self.sessions.list_all(principal.id)
        return answer(page_of([_show(one, principal) for one in found], "sessions", None))

    async def end_session(self, request: Request) -> Response:
        """`DELETE /sessions/{session_id}`: end one of the caller's own, or this one as `current`."""
        principal = principal_of(request)
        named: str = request.path_params["session_id"]
        ended = principal.session_id if named == _CURRENT else named
        if ended is None:
            raise NoSessionError
        await self.sessions.end(principal.id, ended, actor_of(request))
        is_current = ended == principal.session_id
        headers = {"Set-Cookie": self.cookies.clear(request.scope)} if is_current else None
        return Response(status_code=_DELETED, headers=headers)

    async def list_member_sessions(self, request: Request) -> Response:
        """`GET /members/{member_id}/sessions`: those of a member, the newest first."""
        member = await find_member(self.database, request.path_params["member_id"])
        found = await self.sessions.list_all(member.id)
        return answer(page_of([_show(one, principal_of(request)) for one in found], "sessions", None))

    async def end_member_sessions(self, request: Request) -> Response:
        """`DELETE /members/{member_id}/sessions`: sign a member out everywhere, and revoke keys made in sessions."""
        member = await find_member(self.database, own_or_operated(request))
        await self.sessions.end_all(member, actor_of(request), keeps_keys=flag_of(request, "keep_keys"))
        is_own = member.id == principal_of(request).id
        headers = {"Set-Cookie": self.cookies.clear(request.scope)} if is_own else None
        return Response(status_code=_DELETED, headers=headers)


def origin_of(request: Request, cookies: SessionCookies) -> Origin:
    """Where a person signs in from."""
    address = cookies.base_urls.caller_of(request.scope)
    return Origin(None if address is None else str(address), request.headers.get("user-agent"))


async def show_session(database: AnsweringDatabase, begun: BegunSession) -> SignedIn:
    """A session that has just begun, as its page is told."""
    token = csrf_token(begun.cookie)
    return {"csrf_token": token, "me": {**await _me(database, begun.principal), "csrf_token": token}}


async def _me(database: AnsweringDatabase, principal: Principal) -> Me:
    """Who calls; an operator sees some workspaces here, and all of them in the list of workspaces."""
    found: list[MembershipShown] = [
        {"id": one.workspace_id, "name": one.workspace, "role": one.role.value} for one in principal.memberships
    ]
    if principal.is_operator:
        known = {one["id"] for one in found}
        others = await list_workspace_names(database, _OPERATED_MAX)
        found += [{"id": one.id, "name": one.name, "role": "operator"} for one in others if one.id not in known]
    return {
        "kind": principal.kind,
        "id": principal.id,
        "name": principal.name,
        "email": principal.email,
        "is_operator": principal.is_operator,
        "workspaces": found,
    }


def _show(session: Session, principal: Principal) -> SessionShown:
    return {
        "id": session.id,
        "is_current": session.id == principal.session_id,
        "address": session.address,
        "agent": session.agent,
        "created_at": as_time(session.created_at),
        "seen_at": as_time(session.seen_at),
    }


ROUTES: Final = (
    Route(
        "GET",
        "/login-methods",
        SessionHandlers.list_login_methods,
        "List how members may sign in",
        {200: Answer("The ways.", LoginMethods)},
        access=Access.NOTHING,
    ),
    Route(
        "POST",
        "/sessions",
        SessionHandlers.sign_in,
        "Sign in by a personal key",
        {201: Answer("A session, whose cookie is set.", SignedIn)},
        (400, 401, 403, 413, 422, 429),
        body=Body(SignIn),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/sessions",
        SessionHandlers.list_sessions,
        "List one's own sessions",
        {200: Answer("The sessions.", Page[SessionShown])},
        access=Access.MEMBER,
        right=Right.PERSON,
    ),
    Route(
        "DELETE",
        "/sessions/{session_id}",
        SessionHandlers.end_session,
        "End one of one's own sessions",
        {204: Answer("It has ended.")},
        (404,),
        access=Access.MEMBER,
        right=Right.PERSON,
    ),
    Route(
        "GET",
        "/members/{member_id}/sessions",
        SessionHandlers.list_member_sessions,
        "List the sessions of a member",
        {200: Answer("The sessions.", Page[SessionShown])},
        (404,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "DELETE",
        "/members/{member_id}/sessions",
        SessionHandlers.end_member_sessions,
        "Sign a member out everywhere",
        {204: Answer("They have ended, and the keys that were made in sessions are revoked.")},
        (404, 409, 422),
        (Parameter("keep_keys", "Leave the keys: `true`.", bool),),
        access=Access.MEMBER,
        description="`me` is the caller; other members are for operators.",
        right=Right.PERSON,
    ),
    Route(
        "GET",
        "/me",
        SessionHandlers.show_me,
        "Show who calls",
        {200: Answer("The caller.", Me)},
        access=Access.MEMBER,
        right=Right.KNOWN,
    ),
)
