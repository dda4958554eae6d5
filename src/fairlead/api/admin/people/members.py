"""Members over HTTP: operators make, change and delete them, owners give them roles, and each has keys of their own."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, principal_of, workspace_of
from fairlead.api.admin.bodies import PAGE, after_of, answer, changes_of, flag_of, limit_of, page_of, read_body
from fairlead.api.admin.documents import (
    IssuedSecret,
    MemberChange,
    MemberDetail,
    MemberShown,
    NewMember,
    NewMembership,
    NewPersonalKey,
    Page,
    PersonalKeyShown,
    RoleChange,
    WorkspaceMemberShown,
)
from fairlead.api.http.route import Access, Answer, Body, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Right, Role
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts import members as operations
from fairlead.operations.accounts.keys import IssuedKey
from fairlead.operations.accounts.members import Member, NewPerson, PersonalKey
from fairlead.operations.outages import AnsweringDatabase

_ALL: Final = "members"
_CREATED: Final = 201
_DELETED: Final = 204
_SELF: Final = "me"


class MemberHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of members, of their keys, and of their roles in workspaces."""

    database: AnsweringDatabase
    clock: Clock

    async def list_members(self, request: Request) -> Response:
        """`GET /members`: all of them with their roles, by age, or those whose address nobody has proven."""
        limit, is_unproven = limit_of(request), flag_of(request, "unproven")
        which = f"unproven {_ALL}" if is_unproven else _ALL
        found = await operations.list_members(self.database, after_of(request, which), limit + 1, unproven=is_unproven)
        after = found[limit - 1].id if len(found) > limit else None
        return answer(page_of([_show(member) for member in found[:limit]], which, after))

    async def create_member(self, request: Request) -> Response:
        """`POST /members`: a member without roles and keys."""
        body = await read_body(request, NewMember)
        person = NewPerson(body.name, body.email, body.is_operator)
        made = await operations.create_member(
            self.database, person, actor_of(request), self.clock, unproven=body.unproven
        )
        return answer(_show(made), _CREATED)

    async def show_member(self, request: Request) -> Response:
        """`GET /members/{member_id}`: a member with roles and keys; oneself, or as an operator anybody."""
        member_id = _own_or_operated(request)
        found = await operations.find_member(self.database, member_id)
        keys = await operations.list_personal_keys(self.database, found.id)
        shown: MemberDetail = {**_show(found), "keys": [_shown_key(key) for key in keys]}
        return answer(shown)

    async def change_member(self, request: Request) -> Response:
        """`PATCH /members/{member_id}`: another name or address, or whether it is an operator."""
        changes = changes_of(await read_body(request, MemberChange))
        is_allowed = bool(changes.pop("unproven"))
        changed = await operations.change_member(
            self.database,
            request.path_params["member_id"],
            changes,
            actor_of(request),
            self.clock,
            unproven=is_allowed,
        )
        return answer(_show(changed))

    async def delete_member(self, request: Request) -> Response:
        """`DELETE /members/{member_id}`: a member with roles, keys and sessions."""
        member_id = request.path_params["member_id"]
        await operations.delete_member(self.database, member_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)

    async def create_personal_key(self, request: Request) -> Response:
        """`POST /members/{member_id}/keys`: a key, shown this once; one's own, or as an operator anybody's."""
        member_id, body = _own_or_operated(request), await read_body(request, NewPersonalKey)
        issued = await operations.issue_personal_key(
            self.database, member_id, body.label, actor_of(request), self.clock
        )
        return answer(_secret(issued), _CREATED)

    async def revoke_personal_key(self, request: Request) -> Response:
        """`DELETE /members/{member_id}/keys/{key_id}`: for good, and its sessions with it."""
        member_id, key_id = _own_or_operated(request), request.path_params["key_id"]
        await operations.delete_personal_key(self.database, member_id, key_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)

    async def list_workspace_members(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/members`: the members of a workspace, by age."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"members of {workspace.id}"
        found = await operations.list_workspace_members(
            self.database, workspace.id, after_of(request, which), limit + 1
        )
        after = found[limit - 1].member.id if len(found) > limit else None
        return answer(page_of([_shown_role(one.member, one.role) for one in found[:limit]], which, after))

    async def grant_role(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/members`: a role for a member at once, without an invitation."""
        body, workspace = await read_body(request, NewMembership), workspace_of(request)
        granted = await operations.grant_role(
            self.database,
            workspace.id,
            body.member,
            Role(body.role),
            actor_of(request),
            self.clock,
            unproven=body.unproven,
        )
        return answer(_shown_role(granted.member, granted.role), _CREATED)

    async def change_role(self, request: Request) -> Response:
        """`PATCH /workspaces/{workspace}/members/{member_id}`: another role in the workspace."""
        body, workspace = await read_body(request, RoleChange), workspace_of(request)
        member_id = request.path_params["member_id"]
        changed = await operations.change_role(
            self.database,
            workspace.id,
            member_id,
            Role(body.role),
            actor_of(request),
            self.clock,
            unproven=body.unproven,
        )
        return answer(_shown_role(changed.member, changed.role))

    async def remove_from_workspace(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/members/{member_id}`: no role in the workspace any more."""
        workspace, member_id = workspace_of(request), request.path_params["member_id"]
        await operations.remove_from_workspace(self.database, workspace.id, member_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)


def _own_or_operated(request: Request) -> str:
    """The member that a path names, where it is the caller (`me` too) or the caller is an operator; FaultError."""
    principal, member_id = principal_of(request), str(request.path_params["member_id"])
    if member_id in (_SELF, principal.id):
        return principal.id
    if not principal.is_operator:
        raise FaultError(Forbidden("Other members are for operators."))
    return member_id


def _show(member: Member) -> MemberShown:
    return {
        "id": member.id,
        "name": member.name,
        "email": member.email,
        "is_operator": member.is_operator,
        "has_single_sign_on": member.has_single_sign_on,
        "is_unproven": member.is_unproven,
        "created_at": as_time(member.created_at),
        "workspaces": [
            {"id": one.workspace_id, "name": one.workspace, "role": one.role.value} for one in member.memberships
        ],
    }


def _shown_key(key: PersonalKey) -> PersonalKeyShown:
    return {"id": key.id, "label": key.label, "hint": key.hint, "created_at": as_time(key.created_at)}


def _secret(issued: IssuedKey) -> IssuedSecret:
    """A key as it is shown, this once."""
    return {"id": issued.id, "secret": issued.text}


def _shown_role(member: Member, role: Role) -> WorkspaceMemberShown:
    return {
        "id": member.id,
        "name": member.name,
        "email": member.email,
        "is_unproven": member.is_unproven,
        "role": role.value,
    }


ROUTES: Final = (
    Route(
        "GET",
        "/members",
        MemberHandlers.list_members,
        "List members",
        {200: Answer("A page, by age.", Page[MemberShown])},
        (400, 422),
        (*PAGE, Parameter("unproven", "Only those whose address nobody has proven: `true`.", bool)),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/members",
        MemberHandlers.create_member,
        "Create a member",
        {201: Answer("The member.", MemberShown)},
        (400, 409, 413, 422),
        body=Body(NewMember),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/members/{member_id}",
        MemberHandlers.show_member,
        "Show a member with its keys",
        {200: Answer("The member.", MemberDetail)},
        (404,),
        access=Access.MEMBER,
        description="`me` is the caller; other members are for operators.",
        right=Right.PERSON,
    ),
    Route(
        "PATCH",
        "/members/{member_id}",
        MemberHandlers.change_member,
        "Change a member",
        {200: Answer("The member.", MemberShown)},
        (400, 404, 409, 413, 422),
        body=Body(MemberChange),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "DELETE",
        "/members/{member_id}",
        MemberHandlers.delete_member,
        "Delete a member with roles, keys and sessions",
        {204: Answer("It is deleted.")},
        (404, 409),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/members/{member_id}/keys",
        MemberHandlers.create_personal_key,
        "Create a personal key",
        {201: Answer("The key, shown this once.", IssuedSecret)},
        (400, 404, 409, 413, 422),
        body=Body(NewPersonalKey),
        access=Access.MEMBER,
        description="`me` is the caller; those of other members are for operators.",
        right=Right.PERSON,
    ),
    Route(
        "DELETE",
        "/members/{member_id}/keys/{key_id}",
        MemberHandlers.revoke_personal_key,
        "Revoke a personal key, and end its sessions",
        {204: Answer("It is revoked.")},
        (404,),
        access=Access.MEMBER,
        right=Right.PERSON,
    ),
    Route(
        "GET",
        "/workspaces/{workspace}/members",
        MemberHandlers.list_workspace_members,
        "List the members of a workspace",
        {200: Answer("A page, by age.", Page[WorkspaceMemberShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        "/workspaces/{workspace}/members",
        MemberHandlers.grant_role,
        "Give a member a role in a workspace at once",
        {201: Answer("The member.", WorkspaceMemberShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewMembership),
        access=Access.MEMBER,
        description="For operators; owners invite people, who accept.",
        right=Right.OPERATE,
    ),
    Route(
        "PATCH",
        "/workspaces/{workspace}/members/{member_id}",
        MemberHandlers.change_role,
        "Change the role of a member in a workspace",
        {200: Answer("The member.", WorkspaceMemberShown)},
        (400, 404, 409, 413, 422),
        body=Body(RoleChange),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        "/workspaces/{workspace}/members/{member_id}",
        MemberHandlers.remove_from_workspace,
        "Take a member's role in a workspace away",
        {204: Answer("It has none any more.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
)
