"""Members over HTTP: operators make, change and delete them, and owners change their roles."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, workspace_of
from fairlead.api.admin.bodies import PAGE, after_of, answer, changes_of, flag_of, limit_of, page_of, read_body
from fairlead.api.admin.documents import (
    MemberChange,
    MemberDetail,
    MemberShown,
    NewMember,
    NewMembership,
    Page,
    RoleChange,
    WorkspaceMemberShown,
)
from fairlead.api.admin.people.personal_keys import own_or_operated, show_key
from fairlead.api.http.route import Access, Answer, Body, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Right, Role
from fairlead.operations.accounts import members as operations
from fairlead.operations.accounts.members import Member, NewPerson
from fairlead.operations.accounts.personal_keys import list_personal_keys
from fairlead.operations.outages import AnsweringDatabase

_ALL: Final = "members"
_CREATED: Final = 201
_DELETED: Final = 204


class MemberHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of members, and of their roles in workspaces."""

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
        found = await operations.find_member(self.database, own_or_operated(request))
        keys = await list_personal_keys(self.database, found.id)
        shown: MemberDetail = {**_show(found), "keys": [show_key(key) for key in keys]}
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
