"""Who is calling, and what they may do (R-37, R-38)."""

import enum
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from fairlead.domain.accounts.key_terms import Network
from fairlead.domain.accounts.rights import NAME_MAX, Actor, ActorKind, Role
from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.faults import Fault, Forbidden, NotEnabled, ServiceUnavailable

ROUTER_GATE: Final = "router"
ESTIMATE_GATE: Final = "estimate"
MEMBER_SUBJECT: Final = "member "
"""What the subject of a caller in a session begins with; the rest is the member's id."""
ORGANIZATION_CHARACTERS_MAX: Final = 100
_WORKSPACE_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")


def is_workspace_name(text: str) -> bool:
    """Whether a text may name a workspace: up to 64 lower-case letters, digits, dots, dashes and underscores."""
    return _WORKSPACE_NAME.fullmatch(text) is not None


def is_organization_id(text: str) -> bool:
    """Whether a text may be an organization's id: 1 to 100 visible characters, whose meaning is the operator's."""
    return 0 < len(text) <= ORGANIZATION_CHARACTERS_MAX and text.isprintable() and " " not in text


class Billing(enum.StrEnum):
    """How a workspace pays: from a balance that is enforced, or later, up to a cap."""

    PREPAID = "prepaid"
    POSTPAID = "postpaid"


class Gate(enum.Enum):
    """A rollout switch as read for one caller; UNKNOWN when it could not be evaluated."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


EVERY_GATE: Final = "*"
"""Stands for all switches where none can be read; no switch has this name."""


class Patterns(msgspec.Struct, frozen=True):
    """A list of allowed names: exact, or ending in `*` to mean a prefix. `None` allows everything.

    One that is not `is_readable` allows nothing, and is no reason to refuse anything for good (R-38).
    """

    allowed: tuple[str, ...] | None = None
    is_readable: bool = True

    def allow(self, name: str) -> bool:
        """Whether a name is on the list."""
        if self.allowed is None:
            return True
        return any(
            name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in self.allowed
        )


class SingleSignOn(msgspec.Struct, frozen=True):
    """The single sign-on that an account must use, which takes no keys (J-11).

    `organization_id` is the organization that requires it; None where it is not known.
    """

    organization_id: str | None = None


class RateLimit(msgspec.Struct, frozen=True):
    """How many requests a minute an API key may make, or how many runs of a model its workspace may."""

    id: str
    per_minute: int
    model_id: str | None = None
    """None where it is the limit of the caller's key."""


class Caller(msgspec.Struct, frozen=True):
    """An authenticated caller: the workspace that pays, the credential that was used, and what both allow.

    `gates` holds only the switches that differ from ON; `is_exhausted` is a hint that a prepaid workspace had nothing
    left when it was read, to be confirmed before it is used; `own_keys` names the providers for which the workspace has
    stored a key of its own. `single_sign_on` is the rule for the key that was used; a token has passed it already.
    One that is `is_unproven` has shown no credential, and acts for its workspace because its API is open.
    `token_kind` is the kind of token that was used, None for a key. `role` is that of a member in a session; None for
    keys and tokens, which may do everything that callers may. One that `is_suspended` may begin nothing. `subscription`
    is the tier of the workspace.
    """

    workspace_id: str
    workspace: str
    key_id: str | None = None
    subject: str | None = None
    workspace_models: Patterns = Patterns()
    credential_models: Patterns = Patterns()
    providers: Patterns = Patterns()
    gates: Mapping[str, Gate] = msgspec.field(default_factory=dict)
    is_exhausted: bool = False
    own_keys: frozenset[str] = frozenset()
    single_sign_on: SingleSignOn | None = None
    is_unproven: bool = False
    token_kind: TokenKind | None = None
    role: Role | None = None
    is_suspended: bool = False
    subscription: str = ""
    rate_limits: tuple[RateLimit, ...] = ()
    """The limits of the key that was used, and of the models of the workspace."""
    networks: tuple[Network, ...] = ()
    """From where alone the key that was used may be used; none for anywhere."""
    markup: Decimal | None = None
    """What is added to list prices, in percent; None where the workspace has no markup of its own."""
    is_unrestricted: bool = False
    """Whether no rule of R-38 limits its models and providers, as for most; computed when it is made."""

    def __post_init__(self) -> None:
        patterns = (self.workspace_models, self.credential_models, self.providers)
        is_open = not self.gates and all(one.allowed is None and one.is_readable for one in patterns)
        msgspec.structs.force_setattr(self, "is_unrestricted", is_open)

    @property
    def actor(self) -> Actor:
        """The caller as the actor of a change, for the audit log."""
        if self.role is not None:
            subject = self.subject or ""
            return Actor(ActorKind.MEMBER, subject.removeprefix(MEMBER_SUBJECT), subject)
        name = f"API key of {self.workspace}" if self.subject is None else f"token of {self.subject}"
        return Actor(ActorKind.KEY, self.key_id, name[:NAME_MAX])

    @property
    def payer_id(self) -> str | None:
        """What pays for work that goes on later: the key, or the workspace where one of its tokens was shown.

        None without a credential, and for a token that is limited to some models, because the limit would not be
        remembered.
        """
        is_whole = not self.is_unproven and self.credential_models.allowed is None
        return self.key_id or (self.workspace_id if is_whole else None)

    def may_run(self, model_id: str) -> bool:
        """Whether workspace and credential are both entitled to a model; also what the catalog shows."""
        return self.workspace_models.allow(model_id) and self.credential_models.allow(model_id)


def provider_gate(provider: str) -> str:
    """Name the rollout switch of a provider."""
    return f"provider:{provider}"


def refuse_gate(caller: Caller, name: str, what: str) -> Fault | None:
    """Refuse a caller for whom a switch is off (403 `not_enabled`) or unreadable (503), else None."""
    match caller.gates.get(name, caller.gates.get(EVERY_GATE, Gate.ON)):
        case Gate.OFF:
            return NotEnabled(f"{what} is not enabled for this workspace yet.")
        case Gate.UNKNOWN:
            return ServiceUnavailable(f"Whether {what} is enabled for this workspace cannot be determined right now.")
        case Gate.ON:
            return None


def refuse_model(caller: Caller, model_id: str) -> Fault | None:
    """The fault of a caller who is not entitled to a model (R-38), or None."""
    if caller.may_run(model_id):
        return None
    if not (caller.workspace_models.is_readable and caller.credential_models.is_readable):
        return ServiceUnavailable("Which models this credential is entitled to cannot be determined right now.")
    return Forbidden(f"This credential is not entitled to {model_id}.")


def refuse_provider(caller: Caller, provider: str) -> Fault | None:
    """The fault of a workspace that may not use a provider (R-38), or None."""
    fault = refuse_gate(caller, provider_gate(provider), f"The provider {provider}")
    return refuse_policy(caller, provider) if fault is None else fault


def refuse_policy(caller: Caller, provider: str) -> Fault | None:
    """The fault where the policy of a workspace excludes a provider or cannot be read (R-38), or None."""
    if not caller.providers.is_readable:
        return ServiceUnavailable("Which providers this workspace may use cannot be determined right now.")
    if not caller.providers.allow(provider):
        return Forbidden(f"The policy of this workspace does not allow the provider {provider}.")
    return None
