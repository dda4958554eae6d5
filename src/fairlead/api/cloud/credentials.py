"""Who is calling the cloud API, and how often.

A key in `X-API-Key`, a key or a token as bearer, or either in a socket's address.
"""

from typing import Final

import msgspec
from starlette.requests import HTTPConnection

from fairlead.api.http.asgi import is_read
from fairlead.api.http.credentials import CREDENTIAL_MAX, CredentialReader
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, Unauthorized
from fairlead.operations.accounts.authenticate import Authenticator, Token
from fairlead.operations.accounts.rate_windows import RateWindows

_DOTS_OF_A_TOKEN: Final = 2


class CloudCallers(msgspec.Struct, frozen=True):
    """Finds out who calls, and counts the call towards the quotas of its workspace (S-09).

    Every method raises FaultError: Unauthorized, Forbidden or ServiceUnavailable.
    """

    authenticator: Authenticator
    windows: RateWindows
    credentials: CredentialReader

    async def caller(self, request: HTTPConnection) -> Caller:
        """The caller of a request, by its headers, whose call is counted. FaultError(RateLimited)."""
        caller = await self._by_headers(request)
        self.windows.count(caller.workspace_id, caller.rate_limits, is_read=is_read(request.scope))
        return caller

    async def watcher(self, connection: HTTPConnection) -> Caller:
        """The caller of a socket, by the `token` of its address or else its headers, counted like any other call."""
        caller = await self.known_watcher(connection)
        self.windows.count(caller.workspace_id, caller.rate_limits)
        return caller

    async def known_watcher(self, connection: HTTPConnection) -> Caller:
        """The caller of an open socket, which was counted when it was opened."""
        token = connection.query_params.get("token")
        return await (self._by_headers(connection) if token is None else self._by_token(token, connection))

    async def _by_headers(self, request: HTTPConnection) -> Caller:
        credential = self.credentials.of_call(request.scope)
        return self.authenticator.recall(credential) or await self.authenticator.authenticate(credential)

    async def _by_token(self, text: str, connection: HTTPConnection) -> Caller:
        """The caller behind the `token` of a socket's address (C-08): a browser cannot send headers there."""
        if not text:
            raise FaultError(Unauthorized("Name an API key as token in the query."))
        if len(text) > CREDENTIAL_MAX or not text.isascii():
            raise FaultError(Unauthorized("The token is not a credential."))
        is_token = text.count(".") == _DOTS_OF_A_TOKEN and not text.startswith(self.credentials.key_prefix)
        credential = Token(text) if is_token else self.credentials.key_of(text, connection.scope)
        return self.authenticator.recall(credential) or await self.authenticator.authenticate(credential)
