"""Invitations over HTTP: owners make, list and withdraw them; whoever has a link looks at it and accepts."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import PERSON_WANTED, AdminAccess, actor_of, workspace_of
from fairlead.api.admin.bodies import PAGE, after_of, answer, limit_of, page_of, read_body
from fairlead.api.admin.documents import (
    AcceptedInvitation,
    InvitationAnswer,
    InvitationShown,
    InvitationToken,
    IssuedInvitation,
    NewInvitation,
    OfferShown,
    Page,
)
from fairlead.api.admin.people.sessions import origin_of, show_session
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time
from fairlead.api.http.sessions import SessionCookies
from fairlead.domain.accounts.rights import Principal, Right, Role
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts.invitations import AcceptingInvitations, InvitationRecord, Invitations
from fairlead.operations.accounts.request_limits import RequestLimits, household
from fairlead.operations.outages import AnsweringDatabase

_CREATED: Final = 201
_DELETED: Final = 204


class InvitationHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of invitations.

    `logins` bounds how often an address may try links, `letters` how often a workspace may invite.
    """

    database: AnsweringDatabase
    invitations: Invitations
    accepting: AcceptingInvitations
    access: AdminAccess
    cookies: SessionCookies
    logins: RequestLimits
    letters: RequestLimits

    async def invite(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/invitations`: a link for an address, which is mailed where that is possible."""
        workspace = workspace_of(request)
        body = await read_body(request, NewInvitation)
        self.letters.count(workspace.id)
        issued = await self.invitations.invite(
            (workspace.id, workspace.name),
            body.email,
            Role(body.role),
            actor_of(request),
            base_url=self.cookies.base_urls.of(request.scope),
            by_hand=body.by_hand,
        )
        told: IssuedInvitation = {**_show(issued.record), "link": issued.link}
        return answer(told, _CREATED)

    async def list_invitations(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/invitations`: those that can be accepted, by age."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"invitations of {workspace.id}"
        found = await self.invitations.list_open(workspace.id, after_of(request, which), limit + 1)
        after = found[limit - 1].id if len(found) > limit else None
        return answer(page_of([_show(one) for one in found[:limit]], which, after))

    async def withdraw_invitation(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/invitations/{invitation_id}`: its link leads nowhere from now on."""
        workspace, invitation_id = workspace_of(request), request.path_params["invitation_id"]
        await self.invitations.withdraw(workspace.id, invitation_id, actor_of(request))
        return Response(status_code=_DELETED)

    async def show_invitation(self, request: Request) -> Response:
        """`POST /invitations/show`: what the holder of a link is offered."""
        self._count(request)
        offer = await self.accepting.show((await read_body(request, InvitationToken)).token)
        told: OfferShown = {
            "workspace": offer.workspace,
            "role": offer.invitation.role.value,
            "email": offer.invitation.email,
            "inviter": offer.invitation.inviter,
            "expires_at": as_time(offer.invitation.expires_at),
            "needs_sign_in": offer.needs_sign_in,
        }
        return answer(told)

    async def accept_invitation(self, request: Request) -> Response:
        """`POST /invitations/accept`: the role, for the member who has signed in or for a new one."""
        self._count(request)
        principal = await self._principal(request)
        body = await read_body(request, InvitationAnswer)
        origin = origin_of(request, self.cookies)
        done = await self.accepting.accept(body.token, body.name, principal, origin)
        session = None if done.session is None else await show_session(self.database, done.session)
        told: AcceptedInvitation = {
            "workspace": done.offer.workspace,
            "role": done.offer.invitation.role.value,
            "session": session,
        }
        cookie = None if done.session is None else self.cookies.set(request.scope, done.session.cookie)
        return answer(told, _CREATED, None if cookie is None else {"Set-Cookie": cookie})

    def _count(self, request: Request) -> None:
        """Bound what strangers may ask for, and refuse pages of other origins; FaultError."""
        self.cookies.check_origin(request.scope)
        self.logins.count(household(self.cookies.base_urls.caller_of(request.scope)))

    async def _principal(self, request: Request) -> Principal | None:
        """The member who accepts; None for a call that shows no credential, or a cookie without the page's token.

        FaultError for a credential that is not good.
        """
        shows_header = {"x-api-key", "authorization"} & set(request.headers)
        if not shows_header and not request.headers.get("x-csrf-token"):
            return None
        principal = await self.access.identify(request)
        if not principal.is_person or not principal.leaves(Right.PERSON):
            raise FaultError(Forbidden(PERSON_WANTED))
        return principal


def _show(one: InvitationRecord) -> InvitationShown:
    return {
        "id": one.id,
        "email": one.email,
        "role": one.role.value,
        "is_mailed": one.is_mailed,
        "inviter": one.inviter,
        "created_at": as_time(one.created_at),
        "expires_at": as_time(one.expires_at),
    }


ROUTES: Final = (
    Route(
        "GET",
        "/workspaces/{workspace}/invitations",
        InvitationHandlers.list_invitations,
        "List the open invitations to a workspace",
        {200: Answer("A page, by age.", Page[InvitationShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        "/workspaces/{workspace}/invitations",
        InvitationHandlers.invite,
        "Invite a person to a workspace",
        {201: Answer("The invitation, and its link where it is not mailed.", IssuedInvitation)},
        (400, 404, 409, 413, 422),
        body=Body(NewInvitation),
        access=Access.MEMBER,
        description="It takes the place of an open one for the same address.",
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        "/workspaces/{workspace}/invitations/{invitation_id}",
        InvitationHandlers.withdraw_invitation,
        "Withdraw an invitation",
        {204: Answer("Its link leads nowhere any more.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        "/invitations/show",
        InvitationHandlers.show_invitation,
        "Show what the link of an invitation offers",
        {200: Answer("The offer.", OfferShown)},
        (400, 403, 404, 413, 422, 429),
        body=Body(InvitationToken),
        access=Access.NOTHING,
    ),
    Route(
        "POST",
        "/invitations/accept",
        InvitationHandlers.accept_invitation,
        "Accept an invitation",
        {201: Answer("The role.", AcceptedInvitation)},
        (400, 401, 403, 404, 409, 413, 422, 429),
        body=Body(InvitationAnswer),
        access=Access.NOTHING,
        description="A member shows a credential, as elsewhere; who is none yet becomes one.",
    ),
)
