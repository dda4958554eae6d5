"""The cookie of a session: how it is set and read, and how a page of another origin is kept from using it.

The cookie is never sent for a page of another site (SameSite=Strict). Over https its name begins with `__Host-`, so
that no neighbouring subdomain can set it. A page of this site at another origin is recognized by the headers that
browsers send (`Sec-Fetch-Site`, else `Origin`); and a change needs a token that only pages of this origin can read.
"""

import hmac
from typing import Final

import msgspec

from fairlead.api.http.asgi import Scope, header
from fairlead.api.http.forwarding import BaseUrls
from fairlead.domain.accounts.rights import SESSION_LASTS_MS
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts.sessions import SessionCookie, csrf_token

COOKIE: Final = "fairlead_session"
_HOST_PREFIX: Final = "__Host-"
_CSRF_HEADER: Final = b"x-csrf-token"
_COOKIES_MAX: Final = 16 * 1024
_COOKIE_MAX: Final = 128
_READING: Final = frozenset({"GET", "HEAD"})
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_FOREIGN: Final = Forbidden("A page of another origin may not use this session.")


class SessionCookies(msgspec.Struct, frozen=True):
    """Reads and writes the cookies of sessions for callers who have reached this server by `base_urls`."""

    base_urls: BaseUrls

    def read(self, scope: Scope) -> SessionCookie | None:
        """The session of a call; None where it shows none. FaultError(Forbidden) for what no page of ours has sent.

        A change must carry the token of its session in X-CSRF-Token. A page cannot set headers of a socket, so for
        sockets the origin is checked, which browsers always send.
        """
        sent = header(scope, b"cookie")
        text = None if sent is None else _value_of(sent, self.name_of(COOKIE, scope))
        if text is None:
            return None
        self.check_origin(scope)
        if scope["type"] == "websocket":
            if header(scope, b"origin") is None:
                raise FaultError(_FOREIGN)
        elif is_change(scope):
            sent = header(scope, _CSRF_HEADER) or b""
            if not hmac.compare_digest(sent, csrf_token(text).encode()):
                raise FaultError(Forbidden("A change in a session needs its token in X-CSRF-Token; /me tells it."))
        return SessionCookie(text)

    def check_origin(self, scope: Scope) -> None:
        """Refuse what a browser sends for a page of another origin: FaultError(Forbidden)."""
        site = header(scope, b"sec-fetch-site")
        origin = header(scope, b"origin")
        if site is not None and site not in _OWN_SITES:
            raise FaultError(_FOREIGN)
        if origin is not None and site is None and not self._is_own(origin, scope):
            raise FaultError(_FOREIGN)

    def set(self, scope: Scope, text: str) -> str:
        """The header that gives a browser its cookie."""
        return f"{self.name_of(COOKIE, scope)}={text}; Max-Age={SESSION_LASTS_MS // 1000}; {self._attributes(scope)}"

    def clear(self, scope: Scope) -> str:
        """The header that takes the cookie away again."""
        return f"{self.name_of(COOKIE, scope)}=; Max-Age=0; {self._attributes(scope)}"

    def name_of(self, name: str, scope: Scope) -> str:
        """The name of a cookie: by https one that browsers take from this very host alone, and no neighbour can set."""
        return f"{_HOST_PREFIX}{name}" if self.is_secure(scope) else name

    def _attributes(self, scope: Scope) -> str:
        secure = "; Secure" if self.is_secure(scope) else ""
        return f"Path=/; HttpOnly; SameSite=Strict{secure}"

    def is_secure(self, scope: Scope) -> bool:
        """Whether the caller has reached this server by https."""
        return self.base_urls.of(scope).startswith("https://")

    def _is_own(self, origin: bytes, scope: Scope) -> bool:
        """Whether an origin is the one by which this server was reached."""
        host = origin.partition(b"://")[2].decode("latin-1").lower()
        named = self.base_urls.find_host(scope)
        return bool(host) and (self.base_urls.is_public(host) or (named is not None and host == named.lower()))


def is_change(scope: Scope) -> bool:
    """Whether a call may change something; a socket never does."""
    return scope["type"] != "websocket" and scope["method"] not in _READING


def _value_of(sent: bytes, wanted: str) -> str | None:
    """The text of a session's cookie, by its name; None where it cannot be one."""
    if len(sent) > _COOKIES_MAX:
        return None
    for part in sent.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value if 0 < len(value) <= _COOKIE_MAX and value.isascii() else None
    return None
