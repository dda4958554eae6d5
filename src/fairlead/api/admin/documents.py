"""The documents of the administration API, as types: what callers send, and what they are sent."""

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

import msgspec

from fairlead.api.http.schemas import AnyObject, Time, Uuid
from fairlead.domain.accounts.key_terms import DAYS_MAX, NETWORKS_MAX, OVERLAP_HOURS, OVERLAP_HOURS_MAX, Scope
from fairlead.domain.accounts.rights import EMAIL_MAX, NAME_MAX, ActorKind, GrantableRole, Role

T = TypeVar("T")

Dollars: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^-?[0-9]+([.][0-9]+)?$"})]
"""An amount of US dollars, as text."""
ErrorCode: TypeAlias = Literal[
    "body_too_large", "client_disconnected", "conflict", "forbidden", "internal_error", "invalid_input",
    "invalid_request", "method_not_allowed", "not_found", "rate_limited", "unauthorized", "unavailable",
]  # fmt: skip
PersonName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
Email: TypeAlias = Annotated[str, msgspec.Meta(min_length=3, max_length=EMAIL_MAX)]
Label: TypeAlias = Annotated[str, msgspec.Meta(max_length=100)]
WorkspaceRef: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
KeyText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


RoleName: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": ["operator", *(role.value for role in Role)]})
]
"""A role in a workspace; an operator without one has that of `operator`, an API key that of `caller`."""
ActorName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [kind.value for kind in ActorKind]})]


class ErrorShown(TypedDict):
    """Why a call has failed: a code from a closed list, a sentence, and the field that it is about."""

    code: ErrorCode
    message: str
    field: str | None
    request_id: str


class AdminError(TypedDict):
    """The envelope of every error."""

    error: ErrorShown


class Page(TypedDict, Generic[T]):
    """A page of a list; `next_cursor` is null on the last one."""

    items: Sequence[T]
    next_cursor: str | None


class MembershipShown(TypedDict):
    """A workspace, and the caller's role in it."""

    id: Uuid
    name: str
    role: RoleName


class Me(TypedDict):
    """Who calls. In a session `csrf_token` is what changes need in X-CSRF-Token."""

    kind: Literal["member", "key"]
    id: Uuid
    name: str
    email: str | None
    is_operator: bool
    csrf_token: NotRequired[str]
    workspaces: Sequence[MembershipShown]


class OidcMethod(TypedDict):
    """Signing in at an OpenID Connect provider: its name, and the address that the browser is sent to."""

    name: str
    start_url: str


class LoginMethods(TypedDict):
    """How members may sign in."""

    key: bool
    oidc: OidcMethod | None


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A personal key to sign in with."""

    key: KeyText


class SignedIn(TypedDict):
    """A session that was begun; its cookie is in `Set-Cookie`."""

    csrf_token: str
    me: Me


class SessionShown(TypedDict):
    """A session of the caller."""

    id: Uuid
    is_current: bool
    address: str | None
    agent: str | None
    created_at: Time
    seen_at: Time


ScopeName: TypeAlias = Literal["see", "read", "run", "manage", "operate"]
Days: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=DAYS_MAX)]
Networks: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=50)]], msgspec.Meta(max_length=NETWORKS_MAX)
]


class PersonalKeyShown(TypedDict):
    """What may be shown of a personal key; null of `scopes` and `workspace`, and no `networks`, do not limit it.

    The secret before a rotation is good until `previous_until`. One that `is_of_session` was made in a session, or with
    a key that was, and is revoked when its member is signed out everywhere.
    """

    id: Uuid
    label: str
    hint: str
    scopes: Sequence[ScopeName] | None
    workspace: str | None
    networks: Sequence[str]
    is_of_session: bool
    created_at: Time
    used_at: Time | None
    expires_at: Time | None
    previous_until: Time | None


class IssuedSecret(TypedDict):
    """A key that was just made; `secret` is never shown again."""

    id: Uuid
    secret: str


class NewPersonalKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A personal key to be made; what is left out does not limit it.

    One that is made in a session ends after 90 days unless another number of days, up to 366, is given.
    """

    label: Label = ""
    expires_in_days: Days | None = None
    networks: Networks = []
    scopes: Annotated[list[ScopeName], msgspec.Meta(min_length=1, max_length=len(Scope))] | None = None
    workspace: WorkspaceRef | None = None


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another secret of a key; the one before is good for some more hours."""

    overlap_hours: Annotated[int, msgspec.Meta(ge=0, le=OVERLAP_HOURS_MAX)] = OVERLAP_HOURS


class MemberShown(TypedDict):
    """A member, with the roles that the caller may see; `is_unproven` while nobody has proven to hold its address."""

    id: Uuid
    name: str
    email: str | None
    is_operator: bool
    has_single_sign_on: bool
    is_unproven: bool
    created_at: Time
    workspaces: Sequence[MembershipShown]


class MemberDetail(MemberShown):
    """A member with its keys."""

    keys: Sequence[PersonalKeyShown]


class NewMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member to be made; an operator only with `unproven`, because nobody has proven the address yet."""

    name: PersonName
    email: Email
    is_operator: bool = False
    unproven: bool = False


class MemberChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed of a member; what is left out stays.

    `unproven` allows to make an operator of one whose address nobody has proven.
    """

    name: PersonName | msgspec.UnsetType = msgspec.UNSET
    email: Email | msgspec.UnsetType = msgspec.UNSET
    is_operator: bool | msgspec.UnsetType = msgspec.UNSET
    unproven: bool = False


class NewMembership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member, by id or e-mail address, who is to have a role in a workspace at once.

    `unproven` allows it for one whose address nobody has proven.
    """

    member: Email
    role: GrantableRole
    unproven: bool = False


class RoleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another role; `unproven` allows more than before for a member whose address nobody has proven."""

    role: GrantableRole
    unproven: bool = False


class WorkspaceMemberShown(TypedDict):
    """A member of a workspace, with the role there; `is_unproven` while nobody has proven to hold its address."""

    id: Uuid
    name: str
    email: str | None
    is_unproven: bool
    role: RoleName


class NewInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address that is to be invited; `by_hand` answers the link also where it could be mailed."""

    email: Email
    role: GrantableRole
    by_hand: bool = False


class InvitationShown(TypedDict):
    """An invitation that can be accepted; `is_mailed` where only its address has been sent the link."""

    id: Uuid
    email: str
    role: RoleName
    is_mailed: bool
    inviter: str
    created_at: Time
    expires_at: Time


class IssuedInvitation(InvitationShown):
    """An invitation that was just made; `link` is shown this once, and null where it is mailed."""

    link: str | None


class InvitationToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands behind the `#` of an invitation's link."""

    token: KeyText


class OfferShown(TypedDict):
    """What the holder of a link is offered.

    `needs_sign_in` where a member has the address, and only that member may accept.
    """

    workspace: str
    role: RoleName
    email: str
    inviter: str
    expires_at: Time
    needs_sign_in: bool


class InvitationAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The acceptance of an invitation, and what somebody who is no member yet is to be called."""

    token: KeyText
    name: PersonName | None = None


class AcceptedInvitation(TypedDict):
    """A role that somebody has now; `session` where accepting has signed them in, whose cookie is in `Set-Cookie`."""

    workspace: str
    role: RoleName
    session: SignedIn | None


class ActorShown(TypedDict):
    """Who has done something; `id` is null for commands and for the server itself."""

    kind: ActorName
    id: str | None
    name: str


class AuditEntryShown(TypedDict):
    """An entry of the audit log."""

    id: int
    at: Time
    actor: ActorShown
    action: str
    workspace: str | None
    target: str | None
    detail: AnyObject
    address: str | None
