"""The two generations of the router's API, and everything in which they differ."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from starlette.requests import Request

from fairlead.api.http.asgi import Scope
from fairlead.api.http.credentials import CredentialReader
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Bucket
from fairlead.operations.accounts.authenticate import Authenticator, Credential
from fairlead.operations.accounts.rate_windows import RateWindows

BucketOfV1: TypeAlias = Literal[
    "invalid_input", "content_policy_violation", "provider_error", "provider_timeout", "insufficient_credits",
    "model_not_found", "unauthorized", "forbidden", "not_enabled", "concurrency_limit_exceeded", "rate_limited",
    "client_disconnected", "internal_error", "deadline_exceeded", "service_unavailable",
]  # fmt: skip
"""The fifteen names of the older generation (decisions: v1), to which no bucket is added."""


def fold_into_v1(name: Bucket) -> BucketOfV1:
    """The bucket as the older generation names it: the type checker refuses a new one that is left out here."""
    match name:
        case "cancelled" | "queue_timeout":
            return "internal_error"
        case "request_not_found":
            return "model_not_found"
        case "queue_backlog_full":
            return "rate_limited"
        case _:
            return name


class Generation(msgspec.Struct, frozen=True):
    """One generation: its path prefix, the credentials it takes, and how it names a bucket (R-19).

    `has_controls` says whether it knows the parameters of the run route and idempotency keys; a generation without them
    ignores them like any unknown name (R-40).
    """

    prefix: str
    credential: Callable[[CredentialReader, Scope], Credential | None]
    bucket: Callable[[Bucket], Bucket]
    has_controls: bool


V1: Final = Generation("/v1", CredentialReader.token_only, fold_into_v1, has_controls=False)
V2: Final = Generation("/v2", CredentialReader.of_call, lambda name: name, has_controls=True)


def generation_of(scope: Scope) -> Generation:
    """The generation that a call was made to."""
    return V1 if scope["path"].startswith("/v1/") else V2


class RouterCallers(msgspec.Struct, frozen=True):
    """Finds out who calls the router, and counts the call towards the quotas of its workspace."""

    authenticator: Authenticator
    windows: RateWindows
    credentials: CredentialReader

    async def caller(self, request: Request) -> Caller:
        """The caller of a request, by the headers that its generation takes; FaultError."""
        credential = generation_of(request.scope).credential(self.credentials, request.scope)
        caller = await self.authenticator.authenticate(credential)
        self.windows.count(caller.workspace_id, caller.rate_limits)
        return caller
