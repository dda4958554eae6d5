"""Signing in at an OpenID Connect provider: the two addresses that a browser is sent to on its way."""

from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairlead.api.admin.people.sessions import origin_of
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.sessions import SessionCookies
from fairlead.domain.faults import FaultError, RequestNotFound
from fairlead.operations.accounts.request_limits import RequestLimits, household
from fairlead.operations.accounts.single_sign_on import WAITS_MS, SignInRefusedError, SingleSignOn

START: Final = "/oidc/start"
_CALLBACK: Final = "/oidc/callback"
_COOKIE: Final = "fairlead_sign_in"
_HOME: Final = "/"
_RETURN_MAX: Final = 500
_TEXT_MAX: Final = 4096
_SEE_OTHER: Final = 303


class OidcHandlers(msgspec.Struct, frozen=True):
    """Answers both; `prefix` is what their paths begin with, `logins` bounds how often an address may try."""

    single_sign_on: SingleSignOn | None
    cookies: SessionCookies
    logins: RequestLimits
    prefix: str

    async def start_oidc(self, request: Request) -> Response:
        """`GET /oidc/start`: send the browser to the provider."""
        provider = self._provider()
        self.logins.count(household(self.cookies.base_urls.caller_of(request.scope)))
        try:
            leaving = await provider.start(self._redirect_uri(request), _return_to(request))
        except SignInRefusedError as error:
            return _refuse(error)
        # Lax, because it must come back with the browser, which another site sends.
        kept = f"{self._name(request)}={leaving.kept}; Max-Age={WAITS_MS // 1000}; {self._attributes(request)}"
        return RedirectResponse(leaving.url, _SEE_OTHER, {"Set-Cookie": kept, "Cache-Control": "no-store"})

    async def finish_oidc(self, request: Request) -> Response:
        """`GET /oidc/callback`: begin a session for the browser that is back."""
        provider, query = self._provider(), request.query_params
        origin = origin_of(request, self.cookies)
        code, state, issuer, kept = (
            _usable_text(text)
            for text in (*map(query.get, ("code", "state", "iss")), request.cookies.get(self._name(request)))
        )
        try:
            begun, return_to = await provider.finish(code, state, issuer, kept, self._redirect_uri(request), origin)
        except SignInRefusedError as error:
            return _refuse(error)
        response = RedirectResponse(return_to, _SEE_OTHER, {"Cache-Control": "no-store"})
        response.headers.append("Set-Cookie", self.cookies.set(request.scope, begun.cookie))
        response.headers.append("Set-Cookie", f"{self._name(request)}=; Max-Age=0; {self._attributes(request)}")
        return response

    def _provider(self) -> SingleSignOn:
        if self.single_sign_on is None:
            raise FaultError(RequestNotFound(detail="Members sign in by key here; no provider is configured."))
        return self.single_sign_on

    def _redirect_uri(self, request: Request) -> str:
        return self.cookies.base_urls.of(request.scope) + self.prefix + _CALLBACK

    def _attributes(self, request: Request) -> str:
        secure = "; Secure" if self.cookies.is_secure(request.scope) else ""
        return f"Path=/; HttpOnly; SameSite=Lax{secure}"

    def _name(self, request: Request) -> str:
        return self.cookies.name_of(_COOKIE, request.scope)


def _refuse(error: SignInRefusedError) -> Response:
    """Send the browser back to the console, which says why nobody was signed in."""
    address = f"{_HOME}?{urlencode({'sign_in_error': str(error)})}"
    return RedirectResponse(address, _SEE_OTHER, {"Cache-Control": "no-store"})


def _return_to(request: Request) -> str:
    """The path on this server to come back to; anything else could lead a browser to another site."""
    path = request.query_params.get("return_to", _HOME)
    is_ours = path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable()
    return path if is_ours and "\\" not in path and len(path) <= _RETURN_MAX else _HOME


def _usable_text(text: str | None) -> str | None:
    return text if text is not None and 0 < len(text) <= _TEXT_MAX and text.isascii() else None


_LEADS: Final = "A browser is sent on; where nobody could be signed in, to `/?sign_in_error=` and why."
ROUTES: Final = (
    Route(
        "GET",
        START,
        OidcHandlers.start_oidc,
        "Go to the OpenID Connect provider to sign in",
        {303: Answer(_LEADS, headers=("location!", "cache-control!"))},
        (404, 429),
        (Parameter("return_to", "The path to come back to."),),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        _CALLBACK,
        OidcHandlers.finish_oidc,
        "Come back from the OpenID Connect provider",
        {303: Answer(_LEADS, headers=("location!", "cache-control!"))},
        (404,),
        (
            Parameter("code", "What the provider has sent the browser back with."),
            Parameter("state", "What it was sent there with."),
            Parameter("iss", "The provider that has sent it back."),
        ),
        access=Access.NOTHING,
    ),
)
