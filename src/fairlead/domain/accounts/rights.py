"""Who may do what over the administration API: people with roles in workspaces, operators, and workspaces' own keys.

A route requires a right (`Route.right`), a role has rights in one workspace, and an operator has every right in all of
them. The audit log records the actor of each change.
"""

import enum
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

PERSONAL_KEY_PREFIX: Final = "flp_"
"""What personal keys begin with. Not a setting, because it distinguishes them from API keys, whose prefix is one."""
SESSION_LASTS_MS: Final = 12 * 3_600_000
SESSION_IDLE_MS: Final = 3_600_000
"""How long an unused session lasts."""
NAME_MAX: Final = 100
EMAIL_MAX: Final = 254
_EMAIL: Final = re.compile(r"[^\s@<>\"(),:;\\]{1,64}@[^\s@<>\"(),:;\\]{1,189}")


class Role(enum.StrEnum):
    """A role in a workspace."""

    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"
    CALLER = "caller"
    """An API key of the workspace; no person has this role."""


GrantableRole: TypeAlias = Literal["owner", "member", "viewer"]


class Right(enum.Enum):
    """What a route requires. All but the first two and the last are rights in a workspace."""

    KNOWN = "any credential that is good"
    PERSON = "a member, not an API key"
    SEE = "seeing a workspace's balance, runs and usage"
    READ = "seeing everything of a workspace"
    RUN = "running models and workflows"
    MANAGE = "changing a workspace's keys, members, budgets and provider keys"
    OPERATE = "operating the installation"

    @property
    def is_in_workspace(self) -> bool:
        """Whether it is had in one workspace, and perhaps not in another."""
        return self not in (Right.KNOWN, Right.PERSON, Right.OPERATE)


_VIEWER: Final = frozenset({Right.SEE, Right.READ})
_RIGHTS: Final[Mapping[Role, frozenset[Right]]] = MappingProxyType(
    {
        Role.CALLER: frozenset({Right.SEE}),
        Role.VIEWER: _VIEWER,
        Role.MEMBER: _VIEWER | {Right.RUN},
        Role.OWNER: _VIEWER | {Right.RUN, Right.MANAGE},
    }
)


def has_right(role: Role, right: Right) -> bool:
    """Whether a role has a right in its workspace."""
    return right in _RIGHTS[role]


def is_more(role: Role, before: Role) -> bool:
    """Whether a role has rights that the one before it has not."""
    return not _RIGHTS[role] <= _RIGHTS[before]


class ActorKind(enum.StrEnum):
    """The kind of an actor."""

    MEMBER = "member"
    KEY = "key"
    COMMAND = "command"
    """A person at a shell of the server's machine."""
    SERVER = "server"


class Actor(msgspec.Struct, frozen=True):
    """The actor of a change, as the audit log has it. `address` is the caller's; None where no network is involved."""

    kind: ActorKind
    id: str | None
    name: str
    address: str | None = None


SERVER: Final = Actor(ActorKind.SERVER, None, "server")
"""The server itself, as for the first workspace."""


class Membership(msgspec.Struct, frozen=True):
    """A workspace, and a member's role in it."""

    workspace_id: str
    workspace: str
    role: Role


class Principal(msgspec.Struct, frozen=True):
    """The one who calls the administration API: a member with all memberships, or an API key in its one workspace.

    `session_id` is that of the session that was shown, `key_id` that of a personal key. `rights` are those that the key
    leaves to its member, None for all. `is_of_session` is a credential that somebody has only by a session.
    """

    kind: Literal["member", "key"]
    id: str
    name: str
    email: str | None
    is_operator: bool
    memberships: tuple[Membership, ...] = ()
    session_id: str | None = None
    key_id: str | None = None
    rights: frozenset[Right] | None = None
    is_of_session: bool = False

    def leaves(self, right: Right) -> bool:
        """Whether the credential that was shown leaves a right to its member, who may not have it."""
        return self.rights is None or right in self.rights

    @property
    def is_person(self) -> bool:
        """Whether it is a member, not an API key."""
        return self.kind == "member"

    def actor(self, address: str | None) -> Actor:
        """The principal as an actor, from an address."""
        return Actor(ActorKind(self.kind), self.id, self.name, address)

    def membership(self, name_or_id: str) -> Membership | None:
        """The membership in a workspace, by the workspace's id or name."""
        by_id = next((one for one in self.memberships if one.workspace_id == name_or_id), None)
        return by_id or next((one for one in self.memberships if one.workspace == name_or_id), None)


def is_email(text: str) -> bool:
    """Whether a text has the form of an e-mail address; whether it exists is not checked."""
    return len(text) <= EMAIL_MAX and _EMAIL.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether a text may name a member: 1 to 100 visible characters, with single spaces between words."""
    return 0 < len(text) <= NAME_MAX and text.isprintable() and " ".join(text.split()) == text
