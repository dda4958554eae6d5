"""How a caller reached this server, for absolute links: as the operator says, as a trusted proxy says, or as it looks.

Forwarded headers are believed from trusted peers only, because anybody can send them; and only a valid scheme, host and
path prefix of them get into a link (docs/reverse-proxy.md).
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import msgspec

from fairlead.api.http.asgi import HOST_MAX, Scope, base_url_of, header, is_host, named_host
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Actor

PREFIX_MAX: Final = 128
BASE_URL_MAX: Final = len("https://") + HOST_MAX + PREFIX_MAX
"""The longest base URL that is made of headers."""

_HEADER_MAX: Final = 2048
_SCHEMES: Final = frozenset({"http", "https"})
_SEGMENT: Final = r"/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+"
_PREFIX: Final = re.compile(rf"(?:{_SEGMENT})+")
# A value that is not a token must be quoted (RFC 7239 section 4), but an address with its port often comes as it is.
_PAIR: Final = re.compile(
    r"[ \t]*(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)="
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[A-Za-z0-9!#$%&\'*+.^_`|~:\[\]-]+))'
    r"[ \t]*(?P<end>[;,]|\Z)"
)


class BaseUrls(msgspec.Struct, frozen=True):
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
        if not self.trusted or not self._is_trusted(scope):
            return base_url_of(scope)
        told = _read_forwarded(scope)
        return base_url_of(scope, told.scheme, told.host) + told.prefix

    def host_of(self, scope: Scope) -> str:
        """The host a caller has named, perhaps with a port, whatever links are to begin with."""
        told = _read_forwarded(scope).host if self._is_trusted(scope) else None
        return base_url_of(scope, host=told).partition("://")[2]

    def find_host(self, scope: Scope) -> str | None:
        """The host a call names, or a trusted proxy for it; None where it names none."""
        told = _read_forwarded(scope).host if self._is_trusted(scope) else None
        return told or named_host(scope)

    def is_public(self, host: str) -> bool:
        """Whether a host is the one by which the operator says that callers reach us."""
        return self.public is not None and self.public.partition("://")[2].partition("/")[0].lower() == host.lower()

    def actor_of(self, scope: Scope, caller: Caller) -> Actor:
        """A caller as who changes something, with the address that the call came from, for the audit log."""
        address = self.caller_of(scope)
        return msgspec.structs.replace(caller.actor, address=None if address is None else str(address))

    def caller_of(self, scope: Scope) -> IPv4Address | IPv6Address | None:
        """The address of the caller, behind the proxies that are trusted; None where it cannot be known.

        Each proxy adds the address that it was called from, so the last one that is not our proxy is the caller's.
        """
        client = scope.get("client")
        address = None if client is None else address_of(client[0])
        if not self._is_trusted(scope):
            return address
        for told in reversed(_callers(scope)):
            address = address_of(told)
            if not self._is_proxy(address):
                break
        else:
            return None
        return address

    def _is_trusted(self, scope: Scope) -> bool:
        client = scope.get("client")
        if not self.trusted or client is None:  # a unix socket has no address that could be trusted
            return False
        return self._is_proxy(address_of(client[0]))  # None is a test's client, or a server that names peers otherwise

    def _is_proxy(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self.trusted)


class _Told(msgspec.Struct, frozen=True):
    """What a proxy says about the caller's request, as far as it can be believed."""

    scheme: str | None
    host: str | None
    prefix: str = ""


def _read_forwarded(scope: Scope) -> _Told:
    """Read `Forwarded` (RFC 7239), or X-Forwarded-* where it has neither scheme nor host; the two are never mixed."""
    element, _ = _element(_value(scope, b"forwarded"), 0)
    told = _Told(_scheme(element.get("proto", "")), _host(element.get("host", "")))
    if told.scheme or told.host:
        return told
    return _Told(
        _scheme(_first(scope, b"x-forwarded-proto")),
        _host(_first(scope, b"x-forwarded-host")),
        _prefix(_first(scope, b"x-forwarded-prefix")),
    )


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """An address from its text, as IPv4 where it is an IPv4 address within IPv6; None for what is not an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _callers(scope: Scope) -> list[str]:
    """The addresses a proxy says a call came by, the caller's first: X-Forwarded-For, or Forwarded where that is all.

    All headers of that name are one list (RFC 9110 section 5.3).
    """
    told = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for").decode("latin-1")
    if told:
        return [part.strip(" \t") for part in told.split(",")]
    told = b",".join(value for name, value in scope["headers"] if name == b"forwarded").decode("latin-1")
    elements = _elements(told) if 0 < len(told) <= _HEADER_MAX else []
    # An element without an address stands for an unknown caller: leaving it out would make another one the last.
    return [_node(element.get("for", "")) for element in elements]


def _value(scope: Scope, name: bytes) -> str:
    value = header(scope, name)
    return "" if value is None or len(value) > _HEADER_MAX else value.decode("latin-1")


def _first(scope: Scope, name: bytes) -> str:
    """The first of the values of a header, which is what the proxy nearest to the caller said."""
    return _value(scope, name).partition(",")[0].strip(" \t")


def _elements(value: str) -> list[dict[str, str]]:
    """The parameters of each element of `Forwarded`; none where it is not well-formed to its end."""
    elements: list[dict[str, str]] = []
    at: int | None = 0
    while at is not None:
        element, at = _element(value, at)
        elements.append(element)
    return elements if all(elements) else []


def _element(value: str, at: int) -> tuple[dict[str, str], int | None]:
    """The parameters of an element of `Forwarded`, names in lower case, and where the next one begins, if there is one.

    There are none where it is not well-formed.
    """
    found: dict[str, str] = {}
    while (pair := _PAIR.match(value, at)) and (name := pair["name"].lower()) not in found:
        quoted = pair["quoted"]
        found[name] = pair["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = pair.end()
        if pair["end"] != ";":
            return found, at if pair["end"] == "," else None
    return {}, None


def _node(text: str) -> str:
    """The address in a `for` of `Forwarded`, without its port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _scheme(text: str) -> str | None:
    scheme = text.lower()
    return scheme if scheme in _SCHEMES else None


def _host(text: str) -> str | None:
    return text if is_host(text) else None


def _prefix(text: str) -> str:
    path = text.removesuffix("/")
    return path if len(path) <= PREFIX_MAX and _PREFIX.fullmatch(path) else ""
