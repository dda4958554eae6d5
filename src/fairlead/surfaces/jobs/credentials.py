"""Who is calling the jobs API: a key or a token as bearer, or a key in `X-API-Key`; and how often (J-11)."""

from dataclasses import dataclass

from starlette.requests import Request

from fairlead.domain.callers import Caller
from fairlead.operations.authenticate import Authenticator
from fairlead.operations.rate_windows import RateWindows
from fairlead.surfaces.credentials import key_or_token


@dataclass(frozen=True, slots=True)
class JobCallers:
    """Finds out who calls, and counts the call."""

    authenticator: Authenticator
    windows: RateWindows
    key_prefix: str

    async def caller(self, request: Request) -> Caller:
        """The caller of a request, by its headers. FaultError: Unauthorized, Forbidden, RateLimited and others."""
        credential = key_or_token(request.scope, self.key_prefix)
        caller = self.authenticator.remembered(credential) or await self.authenticator.authenticate(credential)
        self.windows.count(caller.workspace_id)
        return caller
