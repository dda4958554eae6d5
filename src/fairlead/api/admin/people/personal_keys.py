"""Personal keys over HTTP: one's own, and for operators those of anybody."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, principal_of
from fairlead.api.admin.bodies import FieldError, answer, read_body
from fairlead.api.admin.documents import IssuedSecret, NewPersonalKey, PersonalKeyShown, Rotation
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time, optional_time
from fairlead.clock import Clock
from fairlead.domain.accounts.key_terms import PersonalTerms, Scope, end_of, read_networks
from fairlead.domain.accounts.rights import Right
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts import personal_keys as operations
from fairlead.operations.accounts.keys import IssuedKey
from fairlead.operations.accounts.personal_keys import PersonalKey
from fairlead.operations.accounts.workspaces import UnknownWorkspaceError, find_workspace_name
from fairlead.operations.outages import AnsweringDatabase

_CREATED: Final = 201
_DELETED: Final = 204
_SELF: Final = "me"


class PersonalKeyHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of members' keys."""

    database: AnsweringDatabase
    clock: Clock

    async def create_personal_key(self, request: Request) -> Response:
        """`POST /members/{member_id}/keys`: a key, shown this once; one's own, or as an operator anybody's."""
        member_id, body = own_or_operated(request), await read_body(request, NewPersonalKey)
        issued = await operations.issue_personal_key(
            self.database,
            member_id,
            body.label,
            actor_of(request),
            self.clock,
            await self._terms(body),
            principal_of(request),
        )
        return answer(_secret(issued), _CREATED)

    async def rotate_personal_key(self, request: Request) -> Response:
        """`POST /members/{member_id}/keys/{key_id}/rotate`: another secret; the old one is good for the overlap."""
        member_id, body = own_or_operated(request), await read_body(request, Rotation)
        issued = await operations.rotate_personal_key(
            self.database,
            member_id,
            request.path_params["key_id"],
            body.overlap_hours,
            actor_of(request),
            self.clock,
            principal_of(request),
        )
        return answer(_secret(issued))

    async def revoke_personal_key(self, request: Request) -> Response:
        """`DELETE /members/{member_id}/keys/{key_id}`: for good, and its sessions with it."""
        member_id, key_id = own_or_operated(request), request.path_params["key_id"]
        await operations.delete_personal_key(self.database, member_id, key_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)

    async def _terms(self, body: NewPersonalKey) -> PersonalTerms:
        """The terms that a body asks for; FieldError, BadTermsError."""
        scopes = None if body.scopes is None else tuple(sorted({Scope(name) for name in body.scopes}))
        return PersonalTerms(
            end_of(body.expires_in_days, self.clock.now_ms()),
            read_networks(body.networks),
            scopes,
            None if body.workspace is None else await self._workspace(body.workspace),
        )

    async def _workspace(self, named: str) -> str:
        """The id of the only workspace that a key is for; FieldError."""
        try:
            return (await find_workspace_name(self.database, named)).id
        except UnknownWorkspaceError as error:
            raise FieldError("workspace", f"There is no workspace {named}.") from error


def own_or_operated(request: Request) -> str:
    """The member that a path names, where it is the caller (`me` too) or the caller is an operator; FaultError."""
    principal, member_id = principal_of(request), str(request.path_params["member_id"])
    if member_id in (_SELF, principal.id):
        return principal.id
    if not principal.is_operator:
        raise FaultError(Forbidden("Other members are for operators."))
    return member_id


def show_key(key: PersonalKey) -> PersonalKeyShown:
    """A personal key as its member sees it."""
    return {
        "id": key.id,
        "label": key.label,
        "hint": key.hint,
        "scopes": None if key.terms.scopes is None else [one.value for one in key.terms.scopes],
        "workspace": key.workspace,
        "networks": list(map(str, key.terms.networks)),
        "is_of_session": key.is_of_session,
        "created_at": as_time(key.created_at),
        "used_at": optional_time(key.used_at),
        "expires_at": optional_time(key.terms.expires_at),
        "previous_until": optional_time(key.previous_until),
    }


def _secret(issued: IssuedKey) -> IssuedSecret:
    """A key as it is shown, this once."""
    return {"id": issued.id, "secret": issued.text}


ROUTES: Final = (
    Route(
        "POST",
        "/members/{member_id}/keys",
        PersonalKeyHandlers.create_personal_key,
        "Create a personal key",
        {201: Answer("The key, shown this once.", IssuedSecret)},
        (400, 404, 409, 413, 422),
        body=Body(NewPersonalKey),
        access=Access.MEMBER,
        description="`me` is the caller; those of other members are for operators.",
        right=Right.PERSON,
    ),
    Route(
        "POST",
        "/members/{member_id}/keys/{key_id}/rotate",
        PersonalKeyHandlers.rotate_personal_key,
        "Give a personal key another secret",
        {200: Answer("The key with its new secret, shown this once.", IssuedSecret)},
        (400, 404, 413, 422),
        body=Body(Rotation),
        access=Access.MEMBER,
        right=Right.PERSON,
    ),
    Route(
        "DELETE",
        "/members/{member_id}/keys/{key_id}",
        PersonalKeyHandlers.revoke_personal_key,
        "Revoke a personal key, and end its sessions",
        {204: Answer("It is revoked.")},
        (404, 409),
        access=Access.MEMBER,
        right=Right.PERSON,
    ),
)
