"""Every way a call can fail, as data (R-19).

    Fault
    ├── request-level    InvalidInput  BodyTooLarge  TooManyValues  KeyConflict  InputRejected
    │                    ContentPolicyViolation  ProviderError  ProviderTimeout  InsufficientCredits
    │                    BudgetExceeded  ModelNotFound
    └── transport-level  Unauthorized  Forbidden  ConcurrencyLimitExceeded  CommittedSpendExceeded  StillRunning
                         ClientDisconnected  InternalError  DeadlineExceeded  NotEnabled  ServiceUnavailable
                         RateLimited  Cancelled  QueueTimeout  RequestNotFound  QueueBacklogFull

A fault carries what happened, never a status code or an envelope: those belong to the API that answers
(`api/http/faults.py`, `api/<api>/errors.py`). Several faults may share a bucket; each bucket has a fault.
"""

from typing import Any, Final, Literal, TypeAlias, TypeGuard, get_args

import msgspec

from fairlead.domain.time_zones import UTC

REFUSAL_SUBJECTS: Final = frozenset(
    {"input", "output"}
    | {f"{side}_{kind}" for side in ("input", "output") for kind in ("text", "image", "video", "audio")}
)
"""The closed vocabulary of the content that a partner may have refused (R-20)."""


class Upstream(msgspec.Struct, frozen=True):
    """The partner's own answer: its HTTP status, and its reason where one may be shown (R-20, R-22)."""

    status: int | None = None
    detail: str | None = None


class InvalidInput(msgspec.Struct, frozen=True):
    """The request was malformed, conflicting, or refused by the model; `detail` says how to correct it."""

    detail: str
    upstream: Upstream = Upstream()


class BodyTooLarge(msgspec.Struct, frozen=True):
    """The request body passed the cap, in bytes."""

    limit: int


class TooManyValues(msgspec.Struct, frozen=True):
    """The request body is JSON with more values than it may have."""

    limit: int


class KeyConflict(msgspec.Struct, frozen=True):
    """The idempotency key belongs to another call, or its result can no longer be replayed (R-18)."""

    detail: str


class Violation(msgspec.Struct, frozen=True):
    """One failing field (R-21): its path outermost first, a sentence, a machine-readable kind, bounds and the value."""

    loc: tuple[str | int, ...]
    msg: str
    type: str
    ctx: dict[str, Any] | None = None
    input: object = None
    has_input: bool = False


class InputRejected(msgspec.Struct, frozen=True):
    """The body violates the model's schema, as found by us or reported by the partner."""

    violations: tuple[Violation, ...]
    upstream: Upstream = Upstream()


class ContentPolicyViolation(msgspec.Struct, frozen=True):
    """The partner refused on content grounds; `subject` is of the closed vocabulary of R-20, or unknown."""

    subject: str | None = None
    upstream: Upstream = Upstream()


class ProviderError(msgspec.Struct, frozen=True):
    """The partner failed, or answered something that cannot be read as a result (R-26)."""

    detail: str = "The provider reported a failure of its own."
    upstream: Upstream = Upstream()


class ProviderTimeout(msgspec.Struct, frozen=True):
    """The partner did not answer within its own deadline (R-24)."""

    upstream: Upstream = Upstream()


class InsufficientCredits(msgspec.Struct, frozen=True):
    """The workspace cannot pay the run at its upper bound; amounts in 10^-8 dollars."""

    available: int
    needed: int | None = None


class BudgetExceeded(msgspec.Struct, frozen=True):
    """A budget does not cover the run in its period (`day`, `week`, `month` or `total`); amounts in 10^-8 dollars.

    `scope` says whose budget: of the workspace, of a team, of the API key, of a model or of a label; `subject` which
    team, model or label. Its next period begins at `resets_at` (ms since 1970), None for never.
    """

    limit: int
    period: str
    spent: int
    held: int
    needed: int
    scope: str = "key"
    subject: str = ""
    resets_at: int | None = None
    time_zone: str = UTC

    @property
    def owner(self) -> str:
        """Whose budget it is, in words."""
        match self.scope:
            case "key":
                return "this API key"
            case "workspace":
                return "this workspace"
            case _:
                return f"the {self.scope} {self.subject}"


class ModelNotFound(msgspec.Struct, frozen=True):
    """No runnable model has this id; suggestions come from the models the caller may see (R-05, R-06).

    An unknown provider is one too, and then `detail` says so.
    """

    model_id: str
    suggestions: tuple[str, ...] = ()
    retired_on: str | None = None
    successor: str | None = None
    detail: str | None = None


class Unauthorized(msgspec.Struct, frozen=True):
    """No usable credential; `detail` says which kind was expected, never why one was refused in secret terms."""

    detail: str = "Send an API key in X-API-Key, or a bearer token in Authorization."


class Forbidden(msgspec.Struct, frozen=True):
    """A valid credential without entitlement to the model, the provider or the operation (R-38)."""

    detail: str


class NotEnabled(msgspec.Struct, frozen=True):
    """A feature that is not rolled out to this caller yet; terminal (R-38)."""

    detail: str


class ConcurrencyLimitExceeded(msgspec.Struct, frozen=True):
    """As many runs in flight as allowed (R-23); clears when one of the caller's own runs ends.

    `costly` where the limit is that of costly runs; `what` is in flight.
    """

    limit: int
    current: int
    costly: bool = False
    what: str = "runs"


class StillRunning(msgspec.Struct, frozen=True):
    """The run first called with this idempotency key has not ended (R-18): wait, and use the same key."""


class CommittedSpendExceeded(msgspec.Struct, frozen=True):
    """The runs in flight may already cost as much as allowed (R-23); amounts in 10^-8 dollars, without this run's.

    `needed` is what this run may cost, where that alone is too much.
    """

    limit: int
    committed: int
    needed: int | None = None


class RateLimited(msgspec.Struct, frozen=True):
    """A windowed quota of what is `counted` is spent; `window` names it and `retry_after` is in seconds."""

    window: str
    limit: int
    retry_after: int
    counted: str = "requests"


class ClientDisconnected(msgspec.Struct, frozen=True):
    """The caller left before its answer (R-25). Recorded, never delivered."""


class InternalError(msgspec.Struct, frozen=True):
    """The server failed. The caller learns only a `detail` that it may act on; the cause is in the log."""

    detail: str | None = None


class DeadlineExceeded(msgspec.Struct, frozen=True):
    """We stopped holding the connection; the run goes on (R-24)."""

    seconds: float
    upstream: Upstream = Upstream()


class ServiceUnavailable(msgspec.Struct, frozen=True):
    """A dependency is down. `retry_after` (seconds) is set only for lack of capacity (R-39)."""

    detail: str
    retry_after: int | None = None
    upstream: Upstream = Upstream()


class Cancelled(msgspec.Struct, frozen=True):
    """The caller cancelled the run."""


class QueueTimeout(msgspec.Struct, frozen=True):
    """The run waited in the queue longer than allowed and was never dispatched."""


class RequestNotFound(msgspec.Struct, frozen=True):
    """No such request for this caller, or its result has `expired`; `detail` where something else is missing.

    `is_lost` says that the result should be kept, but its bytes are missing from the store.
    """

    expired: bool = False
    detail: str = "There is no such request."
    is_lost: bool = False


class QueueBacklogFull(msgspec.Struct, frozen=True):
    """The workspace already has as many requests waiting as allowed."""

    limit: int


Fault: TypeAlias = (
    InvalidInput
    | BodyTooLarge
    | TooManyValues
    | KeyConflict
    | InputRejected
    | ContentPolicyViolation
    | ProviderError
    | ProviderTimeout
    | InsufficientCredits
    | BudgetExceeded
    | ModelNotFound
    | Unauthorized
    | Forbidden
    | NotEnabled
    | ConcurrencyLimitExceeded
    | CommittedSpendExceeded
    | StillRunning
    | RateLimited
    | ClientDisconnected
    | InternalError
    | DeadlineExceeded
    | ServiceUnavailable
    | Cancelled
    | QueueTimeout
    | RequestNotFound
    | QueueBacklogFull
)


_FAULTS: Final = get_args(Fault)


def is_fault(value: object) -> TypeGuard[Fault]:
    """Whether something is a fault."""
    return isinstance(value, _FAULTS)


class FaultError(Exception):
    """Carries a fault up to the API that answers it; `is_replay` says that a run's result is replayed (R-18)."""

    def __init__(self, fault: Fault, *, is_replay: bool = False) -> None:
        super().__init__(repr(fault))
        self.fault = fault
        self.is_replay = is_replay


Bucket: TypeAlias = Literal[
    "invalid_input", "content_policy_violation", "provider_error", "provider_timeout", "insufficient_credits",
    "model_not_found", "unauthorized", "forbidden", "not_enabled", "concurrency_limit_exceeded", "rate_limited",
    "client_disconnected", "internal_error", "deadline_exceeded", "service_unavailable", "cancelled",
    "queue_timeout", "request_not_found", "queue_backlog_full",
]  # fmt: skip
"""The nineteen names of R-19."""


def bucket(fault: Fault) -> Bucket:  # noqa: PLR0911, PLR0912, C901 -- one total table; splitting it would hide a missing row
    """Name the bucket of a fault: the nineteen values of R-19, spelled as on the wire and in the books."""
    match fault:
        case InvalidInput() | BodyTooLarge() | TooManyValues() | KeyConflict() | InputRejected():
            return "invalid_input"
        case ContentPolicyViolation():
            return "content_policy_violation"
        case ProviderError():
            return "provider_error"
        case ProviderTimeout():
            return "provider_timeout"
        case InsufficientCredits() | BudgetExceeded():
            return "insufficient_credits"
        case ModelNotFound():
            return "model_not_found"
        case Unauthorized():
            return "unauthorized"
        case Forbidden():
            return "forbidden"
        case NotEnabled():
            return "not_enabled"
        case ConcurrencyLimitExceeded() | CommittedSpendExceeded() | StillRunning():
            return "concurrency_limit_exceeded"
        case RateLimited():
            return "rate_limited"
        case ClientDisconnected():
            return "client_disconnected"
        case InternalError():
            return "internal_error"
        case DeadlineExceeded():
            return "deadline_exceeded"
        case ServiceUnavailable():
            return "service_unavailable"
        case Cancelled():
            return "cancelled"
        case QueueTimeout():
            return "queue_timeout"
        case RequestNotFound():
            return "request_not_found"
        case QueueBacklogFull():
            return "queue_backlog_full"
