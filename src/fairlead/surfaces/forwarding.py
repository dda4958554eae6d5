"""How a caller reached this server, for absolute links: as the operator says, as a trusted proxy says, or as it looks.

Forwarded headers are believed from trusted peers only, because anybody can send them; and nothing of them gets into a
link but a scheme, a host and a path prefix that are each just that (docs/reverse-proxy.md).
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from fairlead.surfaces.asgi import HOST_MAX, Scope, base_url_of, header, is_host

PREFIX_MAX: Final = 128
BASE_URL_MAX: Final = len("https://") + HOST_MAX + PREFIX_MAX
"""The longest base URL that is made of what callers and proxies say."""

_HEADER_MAX: Final = 2048
_SCHEMES: Final = frozenset({"http", "https"})
_SEGMENT: Final = r"/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+"
_PREFIX: Final = re.compile(rf"(?:{_SEGMENT})+")
# A value that is no token must be quoted (RFC 7239 section 4), but an address with its port often comes as it is.
_PAIR: Final = re.compile(
    r"[ \t]*(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)="
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[A-Za-z0-9!#$%&\'*+.^_`|~:\[\]-]+))'
    r"[ \t]*(?P<end>[;,]|\Z)"
)


@dataclass(frozen=True, slots=True)
class BaseUrls:
    """What absolute links begin with: scheme, host and perhaps a path, without a slash at the end.

    `public` is how the operator says that callers reach us, and always wins; `trusted` are the peers whose forwarded
    headers are believed.
    """

    public: str | None = None
    trusted: tuple[IPv4Network | IPv6Network, ...] = ()

    def of(self, scope: Scope) -> str:
        """The base URL for the links of one answer; where nothing else is said, at most BASE_URL_MAX characters."""
        if self.public:
            return self.public
        if not self._is_trusted(scope):
            return base_url_of(scope)
        told = _told(scope)
        return base_url_of(scope, told.scheme, told.host) + told.prefix

    def host_of(self, scope: Scope) -> str:
        """The host a caller has named, perhaps with a port, whatever links are to begin with."""
        told = _told(scope).host if self._is_trusted(scope) else None
        return base_url_of(scope, host=told).partition("://")[2]

    def is_public(self, host: str) -> bool:
        """Whether a host is the one by which the operator says that callers reach us."""
        return self.public is not None and self.public.partition("://")[2].partition("/")[0].lower() == host.lower()

    def _is_trusted(self, scope: Scope) -> bool:
        client = scope.get("client")
        if not self.trusted or client is None:  # a unix socket has no address, and nobody vouches for who is behind it
            return False
        try:
            peer = ip_address(client[0])
        except ValueError:  # a test's client, or a server that names its peers otherwise
            return False
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self.trusted)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a proxy says about the caller's request, as far as it can be believed."""

    scheme: str | None
    host: str | None
    prefix: str = ""


def _told(scope: Scope) -> _Told:
    """Read `Forwarded` (RFC 7239), or X-Forwarded-* where it says neither scheme nor host: never some of each."""
    element = _first_element(_value(scope, b"forwarded"))
    told = _Told(_scheme(element.get("proto", "")), _host(element.get("host", "")))
    if told.scheme or told.host:
        return told
    return _Told(
        _scheme(_first(scope, b"x-forwarded-proto")),
        _host(_first(scope, b"x-forwarded-host")),
        _prefix(_first(scope, b"x-forwarded-prefix")),
    )


def _value(scope: Scope, name: bytes) -> str:
    value = header(scope, name)
    return "" if value is None or len(value) > _HEADER_MAX else value.decode("latin-1")


def _first(scope: Scope, name: bytes) -> str:
    """The first of the values of a header, which is what the proxy nearest to the caller said."""
    return _value(scope, name).partition(",")[0].strip(" \t")


def _first_element(value: str) -> dict[str, str]:
    """The parameters of the first element of `Forwarded`, names in lower case; none where it is not well-formed."""
    found: dict[str, str] = {}
    at = 0
    while (pair := _PAIR.match(value, at)) and (name := pair["name"].lower()) not in found:
        quoted = pair["quoted"]
        found[name] = pair["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        if pair["end"] != ";":
            return found
        at = pair.end()
    return {}


def _scheme(text: str) -> str | None:
    scheme = text.lower()
    return scheme if scheme in _SCHEMES else None


def _host(text: str) -> str | None:
    return text if is_host(text) else None


def _prefix(text: str) -> str:
    path = text.removesuffix("/")
    return path if len(path) <= PREFIX_MAX and _PREFIX.fullmatch(path) else ""
