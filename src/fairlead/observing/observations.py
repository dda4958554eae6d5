"""The closed list of observations. Rules and operations make them; logs, metrics and traces choose from them.

An observation carries data, never prose and never a secret: no keys, no bodies, no partner's words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from fairlead.observing.blobs import (
    AssetsSwept,
    BlobDamaged,
    BlobMissing,
    BlobStoreProven,
    BlobStoreUnproven,
    BlobTrouble,
)
from fairlead.observing.deliveries import Delivery


class RunEnded(msgspec.Struct, frozen=True):
    """A run reached its end and its books are closed. Times in seconds, money in 10^-8 dollars."""

    run_id: str
    workspace: str
    model_id: str
    provider: str
    result: str
    charge: int
    upstream_status: int | None
    started_at_ns: int
    seconds: float
    partner_seconds: float
    caller_left: bool
    attempt: int
    traceparent: str | None


class FaultAnswered(msgspec.Struct, frozen=True):
    """A call was answered with a fault."""

    request_id: str
    path: str
    result: str


class DeadlinePassed(msgspec.Struct, frozen=True):
    """A caller was asked to come back; its run goes on."""

    run_id: str


class RunRedirected(msgspec.Struct, frozen=True):
    """A run goes on at another provider, after the first has certainly not taken it."""

    run_id: str
    model_id: str
    from_provider: str
    to_provider: str


class RunPostponed(msgspec.Struct, frozen=True):
    """A queued run went back to wait for its provider, for at least so many seconds."""

    run_id: str
    model_id: str
    provider: str
    seconds: float


class AnswerLeftRaw(msgspec.Struct, frozen=True):
    """A provider's answer could not be translated back, and went out as it was (R-12)."""

    run_id: str
    model_id: str
    provider: str


class PartnerReportedMore(msgspec.Struct, frozen=True):
    """A partner reports more than was held; the charge stays at the hold, and the operator bears the rest (S-01).

    `charged` is what the run costs, `reported` what it would cost at the reported quantities (10^-8 dollars).
    """

    run_id: str
    model_id: str
    provider: str
    charged: int
    reported: int

    @property
    def excess(self) -> int:
        """What the run would have cost beyond its charge."""
        return self.reported - self.charged


class CallRepeated(msgspec.Struct, frozen=True):
    """A call that a provider did not take is sent again: the number of the try, and the pause before it (seconds)."""

    provider: str
    number: int
    pause: float


class CredentialHealth(msgspec.Struct, frozen=True):
    """A credential of a provider has failed too often and cools down, is tried again, or works again.

    `health` is that for all; it cools down for as many `workspaces`, the last of them for the `reason`.
    """

    provider: str
    label: str
    health: str
    workspaces: int = 0
    reason: str = ""


class SettingUnknown(msgspec.Struct, frozen=True):
    """A variable is named like a setting but is not one; `meant` is the setting with the most similar name."""

    variable: str
    meant: str | None


class MarkupUnknown(msgspec.Struct, frozen=True):
    """A markup is set for what is neither a model nor a provider; `meant` is the most similar name."""

    name: str
    meant: str | None


class SignInFailed(msgspec.Struct, frozen=True):
    """Somebody could not sign in at the OpenID Connect provider; `reason` has nothing secret in it."""

    reason: str


class CredentialRefused(msgspec.Struct, frozen=True):
    """A provider refused a credential of ours: it is wrong, not allowed, or not paid for."""

    provider: str
    label: str
    status: int


class ProviderNotConfigured(msgspec.Struct, frozen=True):
    """A run asked for a provider that cannot be called; `settings` names what an operator must set."""

    provider: str
    settings: tuple[str, ...]


class RunTakenOver(msgspec.Struct, frozen=True):
    """An unfinished run of a server that fell silent was claimed."""

    run_id: str
    model_id: str
    attempt: int


class RunClaimed(msgspec.Struct, frozen=True):
    """A worker has taken a queued run; `waited` is how long it was in the queue (seconds)."""

    run_id: str
    model_id: str
    waited: float


class QueueDepth(msgspec.Struct, frozen=True):
    """How many queued runs wait in all workspaces, and of them those that wait for a slot; seen every second."""

    waiting: int
    parked: int


class RunWithdrawn(msgspec.Struct, frozen=True):
    """A queued run ended without having been dispatched: cancelled, or too long in the queue."""

    run_id: str
    reason: str


class CancelPassedOn(msgspec.Struct, frozen=True):
    """A provider was asked to cancel the work of a run; `is_heard` where it agreed."""

    run_id: str
    provider: str
    is_heard: bool


class RunSuperseded(msgspec.Struct, frozen=True):
    """A write named an attempt that is no longer the run's: another server has it by now."""

    run_id: str


class DatabaseTrouble(msgspec.Struct, frozen=True):
    """The database could not be written; the write waits or was refused."""

    doing: str
    error: str


class ClockCompared(msgspec.Struct, frozen=True):
    """The machine's clock was compared with the database's, by which leases are renewed: `ahead` in seconds."""

    ahead: float


class JournalSplit(msgspec.Struct, frozen=True):
    """A batch failed for one of its entries and is being written in parts."""

    entries: int
    error: str


class CatalogLoaded(msgspec.Struct, frozen=True):
    """A catalog took effect."""

    build: str
    models: int


class CatalogRefused(msgspec.Struct, frozen=True):
    """Changed catalog files cannot be used; the catalog before them stays."""

    error: str


class PartnerStarted(msgspec.Struct, frozen=True):
    """The built-in partner was called and is being started."""

    pid: int


class PartnerStopped(msgspec.Struct, frozen=True):
    """The built-in partner ended by itself, and how; the next call starts it again."""

    code: int | None
    died: str


class BodyReaderFailed(msgspec.Struct, frozen=True):
    """A process that reads large documents ended, took too long or could not be started; its document was not read."""

    reason: str


class AssetCopied(msgspec.Struct, frozen=True):
    """An asset of a result was copied to our storage; its size in bytes."""

    run_id: str
    provider: str
    content_type: str
    size: int


class AssetCopyFailed(msgspec.Struct, frozen=True):
    """An asset could not be copied, and its result keeps the partner's link. `url` is without its query."""

    run_id: str
    provider: str
    url: str
    reason: str


class ContentRefused(msgspec.Struct, frozen=True):
    """Bytes were not stored, because they are blocked: by the operator's callable, or by the list of hashes."""

    workspace_id: str
    hash: str
    reason: str | None


class ModerationFailed(msgspec.Struct, frozen=True):
    """The operator's callable gave no verdict on some bytes, and they were not stored."""

    workspace_id: str
    hash: str
    reason: str


class JobEnded(msgspec.Struct, frozen=True):
    """A job, known to callers by its `public_id`, ended: its state, and the kind of its error. Times in seconds."""

    job_id: str
    public_id: str
    workspace_id: str
    state: str
    exception_type: str | None
    nodes: int
    waited: float
    seconds: float
    attempt: int


class JobTakenOver(msgspec.Struct, frozen=True):
    """The server that executed a job fell silent; the job waits for another, or was ended."""

    job_id: str
    public_id: str
    attempt: int
    state: str


class JobsUnderWay(msgspec.Struct, frozen=True):
    """How many jobs are executed by this process."""

    jobs: int


class EngineHostStarted(msgspec.Struct, frozen=True):
    """An engine process takes work: what it is for, the node packs it has, and how long its start took.

    `kind` is `template`, `probe` of a node pack, or what a host does: `check`, `render` or `execute`.
    """

    pid: int
    kind: str
    packs: Sequence[str]
    seconds: float


class EngineHostStopped(msgspec.Struct, frozen=True):
    """An engine host has ended: why, and whether it did so by itself."""

    pid: int
    reason: str
    by_itself: bool


class EngineHostFailed(msgspec.Struct, frozen=True):
    """An engine host could not be started, and why."""

    reason: str


class NodePackLoaded(msgspec.Struct, frozen=True):
    """A node pack was probed: its classes of nodes, why it is not used or not complete, and the time it took."""

    name: str
    nodes: int
    error: str | None
    seconds: float = 0.0


class NodeClassesShadowed(msgspec.Struct, frozen=True):
    """A node pack has classes that are never used: the pack `owner`, which is loaded first, has the same names."""

    name: str
    owner: str
    classes: list[str]


class EngineConfined(msgspec.Struct, frozen=True):
    """How the engine's processes are confined: the mechanisms that hold, with their details, and the missing ones."""

    mode: str
    held: Mapping[str, str]
    missing: Sequence[str]


class ConfinementMissing(msgspec.Struct, frozen=True):
    """A mechanism of confinement does not hold on this machine, and why."""

    mechanism: str
    reason: str


class SubscriptionBeyondHosts(msgspec.Struct, frozen=True):
    """A tier promises more parallel jobs than this server has engine hosts."""

    subscription: str
    jobs: int
    hosts: int


class NodePacksRefused(msgspec.Struct, frozen=True):
    """No node pack is loaded, because its code could not be confined as the settings require."""

    reason: str


class ReleaseSettled(msgspec.Struct, frozen=True):
    """A release of a deployment was prepared; or why it cannot be."""

    deployment_id: str
    version: int
    error: str | None


class DeploymentMoved(msgspec.Struct, frozen=True):
    """A deployment takes jobs from now on, or does not, and why."""

    deployment_id: str
    state: str
    reason: str | None


class UnexpectedError(msgspec.Struct, frozen=True):
    """A bug: the caller learned nothing of it, the log has everything."""

    doing: str
    error: BaseException


class ServerReady(msgspec.Struct, frozen=True):
    """The server answers at `url`; a worker may have none, and executes what is queued in its `pools`."""

    url: str | None
    pools: tuple[str, ...] = ()


Observation: TypeAlias = (
    RunEnded
    | FaultAnswered
    | DeadlinePassed
    | RunRedirected
    | RunPostponed
    | AnswerLeftRaw
    | PartnerReportedMore
    | CallRepeated
    | CredentialHealth
    | SettingUnknown
    | MarkupUnknown
    | SignInFailed
    | CredentialRefused
    | ProviderNotConfigured
    | RunTakenOver
    | RunClaimed
    | QueueDepth
    | RunWithdrawn
    | CancelPassedOn
    | RunSuperseded
    | DatabaseTrouble
    | ClockCompared
    | JournalSplit
    | CatalogLoaded
    | CatalogRefused
    | PartnerStarted
    | PartnerStopped
    | BodyReaderFailed
    | AssetCopied
    | AssetCopyFailed
    | AssetsSwept
    | BlobTrouble
    | BlobDamaged
    | BlobMissing
    | BlobStoreProven
    | BlobStoreUnproven
    | ContentRefused
    | ModerationFailed
    | JobEnded
    | JobTakenOver
    | JobsUnderWay
    | EngineHostStarted
    | EngineHostStopped
    | EngineHostFailed
    | NodePackLoaded
    | NodeClassesShadowed
    | EngineConfined
    | ConfinementMissing
    | SubscriptionBeyondHosts
    | NodePacksRefused
    | ReleaseSettled
    | DeploymentMoved
    | Delivery
    | UnexpectedError
    | ServerReady
)

Observer: TypeAlias = Callable[[Observation], None]


def all_of(observers: Sequence[Observer]) -> Observer:
    """An observer that calls several others, in order."""

    def observe(observation: Observation) -> None:
        for observer in observers:
            observer(observation)

    return observe


def by_type(observers: Mapping[type[object], Callable[[Any], None]]) -> Observer:
    """An observer that calls the listener for the type of an observation, where there is one."""

    def observe(observation: Observation) -> None:
        if (observer := observers.get(type(observation))) is not None:
            observer(observation)

    return observe
