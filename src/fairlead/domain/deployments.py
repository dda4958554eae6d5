"""Deployments: addresses that a workspace's workflows are sent to, each with node packs of its own (J-10, J-15).

The releases of a deployment say which packs it has; they are numbered from 1. A release is prepared before it takes a
job: engine hosts are started with its packs. Until a newer one is prepared, the one before it serves.

    DeploymentFault   DeploymentNotFound  DeploymentNotReady  DeploymentUnavailable  DeploymentStopped
                      BadDeployment  TooManyDeployments
"""

import enum
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.faults import Unauthorized
from fairlead.domain.work.pools import read_pool

NAME_MAX: Final = 40
ID_MAX: Final = 63
"""The longest label of a domain name (RFC 1035, 2.3.4)."""
DEPLOYMENTS_MAX: Final = 100
"""How many deployments a workspace may have."""
RELEASES_MAX: Final = 500
"""How many releases a deployment may have."""
PACKS_MAX: Final = 100
PACK_NAME_MAX: Final = 255
REASON_MAX: Final = 500
NAME_PATTERN: Final = "^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$"
_NAME: Final = re.compile(NAME_PATTERN)
_WAIT_SECONDS: Final = 5

PackSet: TypeAlias = tuple[str, ...] | None
"""The names of node packs, sorted; None stands for all packs, and `()` for none."""
TokenKinds: TypeAlias = tuple[TokenKind, ...] | None
"""Kinds of tokens, sorted; None stands for all kinds, and `()` for none."""


COPY_DIGITS: Final = 32
"""How many digits of a digest distinguish the copies of a node pack."""
_COPY: Final = re.compile(r"(?P<title>.+)@[0-9a-f]{32}", re.DOTALL)


def title_of(pack: str) -> str:
    """The name of a node pack, from its own name or that of a copy (engine/packs/copies.py)."""
    found = _COPY.fullmatch(pack)
    return pack if found is None else found["title"]


def is_copy(pack: str) -> bool:
    """Whether a name is that of a copy of a node pack."""
    return _COPY.fullmatch(pack) is not None


class DeploymentState(enum.StrEnum):
    """The state of a deployment."""

    NOT_READY = "not_ready"
    """A release is being prepared, and none serves yet."""
    READY = "ready"
    """A release serves: jobs are taken in."""
    UNAVAILABLE = "unavailable"
    """A release serves, but no engine host with its packs takes work right now."""
    STOPPED = "stopped"
    """It takes no jobs until somebody intervenes."""


class DeploymentEvent(enum.StrEnum):
    """What can happen to a deployment."""

    PREPARE = "prepare"
    LOSE = "lose"
    FAIL = "fail"
    STOP = "stop"
    START = "start"


class ReleaseState(enum.StrEnum):
    """The state of a release."""

    PREPARING = "preparing"
    """Engine hosts are to be started with its packs."""
    PREPARED = "prepared"
    """It can take jobs; the newest of these serves."""
    FAILED = "failed"
    """It cannot be used."""


TRANSITIONS: Final[Mapping[tuple[DeploymentState, DeploymentEvent], DeploymentState]] = MappingProxyType(
    {
        (DeploymentState.NOT_READY, DeploymentEvent.PREPARE): DeploymentState.READY,
        (DeploymentState.NOT_READY, DeploymentEvent.FAIL): DeploymentState.STOPPED,
        (DeploymentState.NOT_READY, DeploymentEvent.STOP): DeploymentState.STOPPED,
        (DeploymentState.READY, DeploymentEvent.LOSE): DeploymentState.UNAVAILABLE,
        (DeploymentState.READY, DeploymentEvent.STOP): DeploymentState.STOPPED,
        (DeploymentState.UNAVAILABLE, DeploymentEvent.PREPARE): DeploymentState.READY,
        (DeploymentState.UNAVAILABLE, DeploymentEvent.STOP): DeploymentState.STOPPED,
        (DeploymentState.STOPPED, DeploymentEvent.START): DeploymentState.NOT_READY,
    }
)
"""The transitions of a deployment. An event without a row changes nothing: stopping a stopped one is no mistake."""


def after(state: DeploymentState, event: DeploymentEvent) -> DeploymentState:
    """The state in which an event leaves a deployment."""
    return TRANSITIONS.get((state, event), state)


class Placement(msgspec.Struct, frozen=True):
    """Where a job is to be executed: the deployment it was sent to, and the release that serves there.

    `pool` is the deployment's own, None where it has none.
    """

    deployment_id: str
    release_version: int
    packs: PackSet
    pool: str | None = None


class Deployment(msgspec.Struct, frozen=True):
    """A deployment as it is kept. Times in ms since 1970.

    `serving` is the version of the release that takes jobs and `packs` are its node packs, of which it has copies; None
    before there is one. `last_release` is the version of the newest release, `reason` says why it does not serve.
    `token_kinds` are the kinds of tokens it takes, None for all; API keys are taken everywhere. `pool` is where its
    jobs are executed, None where the rules of the installation choose it.
    """

    id: str
    workspace_id: str
    name: str
    state: DeploymentState
    reason: str | None
    serving: int | None
    packs: PackSet
    last_release: int
    created_at: int
    updated_at: int
    token_kinds: TokenKinds = None
    pool: str | None = None

    def refuse_token(self, kind: TokenKind | None) -> Unauthorized | None:
        """Why a token of a kind does not open this deployment; None with a key, or a token that does (J-09)."""
        if kind is None or self.token_kinds is None or kind in self.token_kinds:
            return None
        what = f"{kind} tokens" if self.token_kinds else "tokens"
        return Unauthorized(f"This deployment takes no {what}; use an API key.")


class Release(msgspec.Struct, frozen=True):
    """A release as it is stored. `nodes` is how many classes its packs add, once it is prepared."""

    deployment_id: str
    version: int
    state: ReleaseState
    packs: PackSet
    nodes: int | None
    reason: str | None
    created_at: int
    settled_at: int | None


class DeploymentNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such deployment; one of another workspace looks like one that never existed."""

    deployment_id: str


class DeploymentNotReady(msgspec.Struct, frozen=True):
    """Its first release is being prepared; asking again later may help."""

    retry_after: int = _WAIT_SECONDS


class DeploymentUnavailable(msgspec.Struct, frozen=True):
    """It is ready, but no engine host takes its work right now; asking again later may help."""

    retry_after: int = _WAIT_SECONDS


class DeploymentStopped(msgspec.Struct, frozen=True):
    """It takes no jobs, and asking again does not help; `reason` where its owner has not stopped it."""

    reason: str | None = None


class BadDeployment(msgspec.Struct, frozen=True):
    """A deployment or a release is not valid; `field` is the field that is wrong, where it is one."""

    detail: str
    field: Literal["name", "packs", "pool"] | None = None


class TooManyDeployments(msgspec.Struct, frozen=True):
    """The workspace has as many deployments, or the deployment as many releases, as it may."""

    what: str
    limit: int


DeploymentFault: TypeAlias = (
    DeploymentNotFound
    | DeploymentNotReady
    | DeploymentUnavailable
    | DeploymentStopped
    | BadDeployment
    | TooManyDeployments
)


class DeploymentFaultError(Exception):
    """Carries a fault to the API that answers it."""

    def __init__(self, fault: DeploymentFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault


def refuse_job(state: DeploymentState, reason: str | None) -> DeploymentFault | None:
    """Why a deployment in a state takes no job; None where it does (J-15)."""
    match state:
        case DeploymentState.READY:
            return None
        case DeploymentState.NOT_READY:
            return DeploymentNotReady()
        case DeploymentState.UNAVAILABLE:
            return DeploymentUnavailable()
        case DeploymentState.STOPPED:
            return DeploymentStopped(reason)


def placement_in(deployment: Deployment) -> Placement:
    """Where a deployment has jobs executed; DeploymentFaultError where it takes none right now."""
    if (refusal := refuse_job(deployment.state, deployment.reason)) is not None:
        raise DeploymentFaultError(refusal)
    if deployment.serving is None:
        raise AssertionError(f"{deployment.id} is ready without a release")
    return Placement(deployment.id, deployment.serving, deployment.packs, deployment.pool)


def refuse_name(name: str) -> BadDeployment | None:
    """Why a text cannot name a deployment; None where it can."""
    if len(name) <= NAME_MAX and _NAME.fullmatch(name):
        return None
    return BadDeployment(
        f"A name has 1 to {NAME_MAX} characters out of a-z, 0-9 and -, and neither begins nor ends with a -.",
        "name",
    )


def refuse_pool(pool: str | None) -> BadDeployment | None:
    """Why a text cannot name a deployment's own pool; None where it can, or where it has none."""
    try:
        if pool is not None:
            read_pool(pool)
    except ValueError as error:
        return BadDeployment(f"A pool {error}.", "pool")
    return None


def is_deployment_id(text: str) -> bool:
    """Whether a text can be the id of a deployment: a label of a domain name, in lower case."""
    return len(text) <= ID_MAX and _NAME.fullmatch(text) is not None


def pack_set(names: Sequence[str] | None) -> PackSet:
    """The set of some names of packs."""
    return None if names is None else tuple(sorted(set(names)))
