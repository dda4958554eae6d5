"""The two generations of the router's API, and everything in which they differ."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.requests import Request

from fairlead.api.http.asgi import Scope
from fairlead.api.http.credentials import CredentialReader
from fairlead.domain.accounts.callers import Caller
from fairlead.operations.accounts.authenticate import Authenticator, Credential
from fairlead.operations.accounts.rate_windows import RateWindows

_FOLDED_IN_V1: Final = MappingProxyType(
    {
        "cancelled": "internal_error",
        "queue_timeout": "internal_error",
        "request_not_found": "model_not_found",
        "queue_backlog_full": "rate_limited",
    }
)


class Generation(msgspec.Struct, frozen=True):
    """One generation: its path prefix, the credentials it takes, and the buckets it does not know.

    `has_controls` says whether it knows the parameters of the run route and idempotency keys; a generation without them
    ignores them like any unknown name (R-40).
    """

    prefix: str
    credential: Callable[[CredentialReader, Scope], Credential | None]
    folded: Mapping[str, str]
    has_controls: bool

    def bucket(self, name: str) -> str:
        """The bucket as this generation names it (R-19, decisions: v1)."""
        return self.folded.get(name, name)


V1: Final = Generation("/v1", CredentialReader.token_only, _FOLDED_IN_V1, has_controls=False)
V2: Final = Generation("/v2", CredentialReader.of_call, MappingProxyType({}), has_controls=True)


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
