"""Which credential a call shows (R-37): `X-API-Key` before `Authorization` before the cookie of a session.

A bearer value with our prefix is an API key. A session is of a member, so the call also names the workspace it is for:
in `X-Fairlead-Workspace`, or in the query as `workspace` where no header can be sent, as for pictures and sockets.
"""

from functools import partial
from typing import Final
from urllib.parse import parse_qs

import msgspec

from fairlead.api.http.asgi import Scope, header
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.sessions import SessionCookies, is_change
from fairlead.domain.faults import FaultError, InvalidInput, Unauthorized
from fairlead.operations.accounts.authenticate import ApiKey, Credential, Token, WorkspaceSession

CREDENTIAL_MAX: Final = 8 * 1024
_WORKSPACE: Final = b"x-fairlead-workspace"
_WORKSPACE_MAX: Final = 64
_FIELDS_MAX: Final = 100


class CredentialReader(msgspec.Struct, frozen=True):
    """Reads credentials. `key_prefix` is what API keys begin with. FaultError for what cannot be a credential."""

    key_prefix: str
    cookies: SessionCookies = SessionCookies(BaseUrls())

    def of_call(self, scope: Scope) -> Credential | None:
        """The credential of a call; None when it has none."""
        api_key = header(scope, b"x-api-key")  # first and here, as nearly every call has it
        if api_key is not None:
            return ApiKey(_text(api_key), partial(self.cookies.base_urls.caller_of, scope))
        return self._of_bearer(scope) or self._of_session(scope)

    def of_header(self, scope: Scope) -> ApiKey | Token | None:
        """The key or the token of a call; None when it has neither."""
        api_key = header(scope, b"x-api-key")
        return self._of_bearer(scope) if api_key is None else self.key_of(_text(api_key), scope)

    def _of_bearer(self, scope: Scope) -> ApiKey | Token | None:
        authorization = header(scope, b"authorization")
        text = None if authorization is None else _bearer(authorization)
        if text is None:
            return None
        return self.key_of(text, scope) if text.startswith(self.key_prefix) else Token(text)

    def key_of(self, text: str, scope: Scope) -> ApiKey:
        """An API key that a call shows, wherever it stands in it."""
        return ApiKey(text, partial(self.cookies.base_urls.caller_of, scope))

    def of_text(self, text: str | None, scope: Scope) -> ApiKey | Token | None:
        """The credential that the body of a call names; None where it names none."""
        if not text:
            return None
        known = _text(text.encode("utf-8", "replace"))
        return self.key_of(known, scope) if known.startswith(self.key_prefix) else Token(known)

    def token_only(self, scope: Scope) -> Credential | None:
        """The credential of a v1 call: a bearer token and nothing else (R-40)."""
        authorization = header(scope, b"authorization")
        text = None if authorization is None else _bearer(authorization)
        if text is None or text.startswith(self.key_prefix):
            raise FaultError(Unauthorized("v1 takes a JSON Web Token in Authorization; API keys belong to v2."))
        return Token(text)

    def _of_session(self, scope: Scope) -> WorkspaceSession | None:
        """The session of a call, for the workspace that it names."""
        cookie = self.cookies.read(scope)
        if cookie is None:
            return None
        named = header(scope, _WORKSPACE)
        workspace = _workspace_in_query(scope) if named is None else named.decode("latin-1")
        if not 0 < len(workspace) <= _WORKSPACE_MAX:
            raise FaultError(InvalidInput("Name the workspace in X-Fairlead-Workspace, or as workspace in the query."))
        return WorkspaceSession(cookie.text, workspace, is_change=is_change(scope))


def _workspace_in_query(scope: Scope) -> str:
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=_FIELDS_MAX)
    except ValueError:
        return ""
    named: list[str] = found.get("workspace", [""])
    return named[0]


def _bearer(value: bytes) -> str | None:
    scheme, _, rest = value.partition(b" ")
    return _text(rest.strip()) if scheme.lower() == b"bearer" and rest.strip() else None


def _text(value: bytes) -> str:
    if len(value) > CREDENTIAL_MAX:
        raise FaultError(Unauthorized("The credential is too long."))
    try:
        return value.decode("ascii")
    except UnicodeDecodeError as error:
        raise FaultError(Unauthorized("The credential has characters no credential has.")) from error
