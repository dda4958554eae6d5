"""The target of a request, and its first lines. Nothing that could end a line early gets into them."""

import functools
import re
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from fairlead.http_client.outcomes import UnreachableError

Origin: TypeAlias = tuple[bool, str, int]

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_.])?|[0-9a-f:.]*:[0-9a-f:.]*")
_URL_MAX: Final = 16 * 1024


class Target(NamedTuple):
    """An address taken apart: whether TLS is spoken, the host and port, and the first lines of a request to it."""

    origin: Origin
    opening: str

    @property
    def is_secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.origin[0]

    @property
    def host(self) -> str:
        """The host in lower case: a name, or an address without brackets."""
        return self.origin[1]

    @property
    def port(self) -> int:
        """The port, named or implied."""
        return self.origin[2]


@functools.lru_cache(maxsize=512)
def read_target(method: str, url: str) -> Target:
    """Read an absolute address, whose path and query go out as they are.

    UnreachableError for what is not a plain http or https address: user names, spaces, control characters,
    characters outside ASCII, more than 16 KiB.
    """
    if method not in _METHODS:
        raise UnreachableError("not a method we send")
    if len(url) > _URL_MAX or not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        raise UnreachableError("not an address: too long, or with characters that no address has")
    try:
        parts = urlsplit(url)
        origin = _origin(parts)
    except ValueError as error:
        raise UnreachableError(f"not an address: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (f"{method} {path} HTTP/1.1", f"Host: {_authority(origin)}", "Accept-Encoding: identity")
    return Target(origin, "\r\n".join(lines))


def read_origin(url: str) -> Origin:
    """The origin of an absolute address; UnreachableError as `read_target` raises it."""
    return read_target("GET", url).origin


def _origin(parts: SplitResult) -> Origin:
    if parts.scheme not in _PORTS:
        raise ValueError("neither http nor https")
    if "@" in parts.netloc:
        raise ValueError("it names a user")
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise ValueError("it names no host")
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0:
        raise ValueError("port 0")
    return parts.scheme == "https", host, port


def _authority(origin: Origin) -> str:
    secure, host, port = origin
    named = f"[{host}]" if ":" in host else host
    return named if port == _PORTS["https" if secure else "http"] else f"{named}:{port}"
