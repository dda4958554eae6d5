"""How settings are declared and read: each reader takes a text and raises ValueError with what is wrong."""

import os
import re
from collections.abc import Callable
from dataclasses import field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from fairlead.domain.assets.records import read_hash

T = TypeVar("T", int, float)
V = TypeVar("V")
_NETWORKS_MAX: Final = 100
_BASE_URL_MAX: Final = 1000
_CALLABLE: Final = re.compile(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*|.+\.py):[A-Za-z_]\w*")
_STATIC_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,1000}")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}(/[A-Za-z0-9._/-]{0,400})?")
_HOST: Final = re.compile(r"[a-z0-9_.-]{1,253}")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"(?=.{{1,189}}\Z){_LABEL}(?:\.{_LABEL})*")
"""A domain with room for a label before it (RFC 1035, 2.3.4)."""


def option(default: V, /, sentence: str, read: Callable[[str], object] = str, *, shown: bool = True) -> V:
    """An option of a server, as a field of a dataclass: its default, its sentence, and how its text is read.

    One that is not `shown` may be a secret.
    """
    return field(default=default, metadata={"sentence": sentence, "read": read}, repr=shown)


def boolean(text: str) -> bool:
    """Read true or false, in the words people use."""
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError("must be true or false")
    return known[text.lower()]


def _within(parse: Callable[[str], T], what: str, low: float, high: float) -> Callable[[str], T]:
    def read(text: str) -> T:
        try:
            value = parse(text)
        except ValueError:
            raise ValueError(f"must be {what}, not {text!r}") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    """A reader of numbers within bounds."""
    return _within(float, "a number", low, high)


def integer(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""
    return _within(int, "a whole number", low, high)


quota: Final = integer(0, 1_000_000_000)
"""A reader of a number of requests."""


def integers(low: int, high: int) -> Callable[[str], tuple[int, ...]]:
    """A reader of whole numbers with commas between them."""
    one = integer(low, high)

    def read(text: str) -> tuple[int, ...]:
        return tuple(one(part) for part in text.split(","))

    return read


def choice(*values: str) -> Callable[[str], str]:
    """A reader of one of some words."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return read


def names(text: str) -> frozenset[str]:
    """Read names with commas between them."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def blob_place(text: str) -> str:
    """Read a folder, or a bucket with the beginning of its objects' names."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "s3":
        raise ValueError(f"must be a folder or s3://bucket/prefix, not {scheme}://")
    if separator and not _BUCKET.fullmatch(rest):
        raise ValueError("must be s3://bucket or s3://bucket/prefix, without query and credentials")
    return text.rstrip("/") or text


def paths(text: str) -> tuple[Path, ...]:
    """Read absolute paths with colons between them."""
    paths = tuple(Path(part) for part in text.split(os.pathsep) if part)
    if not all(path.is_absolute() for path in paths):
        raise ValueError("must be absolute paths, with colons between them")
    return paths


def base_url(text: str) -> str:
    """Read an address that others continue."""
    if len(text) > _BASE_URL_MAX or not re.fullmatch(r"https?://[^\s?#]+", text):
        raise ValueError(f"must be an http or https URL without query, of at most {_BASE_URL_MAX} characters")
    return text.rstrip("/")


def networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Read addresses and networks with commas between them."""
    parts = text.split(",")
    if len(parts) > _NETWORKS_MAX:
        raise ValueError(f"must be at most {_NETWORKS_MAX} addresses and networks")
    return tuple(ip_network(part.strip()) for part in parts)


def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None if ":" not in text else isinstance(ip_address(text), IPv6Address)


def host(text: str) -> str:
    """Read the name or the address of a host."""
    if not _is_host(text.lower()):
        raise ValueError("must be a name or an address, without scheme and port")
    return text


def sender(text: str) -> str:
    """Read the address of a sender of e-mail."""
    if not re.fullmatch(r"[!-~]{1,64}@[A-Za-z0-9.-]{1,253}", text):
        raise ValueError("must be an address such as fairlead@example.com")
    return text


def hosts(text: str) -> frozenset[str]:
    """Read names of hosts with commas between them."""
    hosts = frozenset(part.strip().lower() for part in text.split(","))
    if len(hosts) > _NETWORKS_MAX or not all(map(_is_host, hosts)):
        raise ValueError(f"must be at most {_NETWORKS_MAX} names or addresses, without scheme and port")
    return hosts


def hashes(text: str) -> frozenset[str]:
    """Read hashes of bytes with commas between them."""
    hashes = [part.strip() for part in text.split(",")]
    digests = [read_hash(part) for part in hashes]
    if None in digests:
        raise ValueError("must be hashes such as blake3:… of 64 digits, with commas between them")
    return frozenset(digest for digest in digests if digest is not None)


def callable_name(text: str) -> str:
    """A callable by its name; the name of a file is made absolute, because its caller has another working directory."""
    if not _CALLABLE.fullmatch(text):
        raise ValueError("must be module:function or path.py:function")
    where, _, name = text.rpartition(":")
    return f"{Path(where).resolve()}:{name}" if where.endswith(".py") else text


def domain(text: str) -> str:
    """Read a domain that has room for a label before it."""
    name = text.lower().rstrip(".")
    if _DOMAIN.fullmatch(name) is None:
        raise ValueError("a domain such as deployments.example.com is needed")
    return name


def static_token(text: str) -> str:
    """Read a token that a person has chosen."""
    if not _STATIC_TOKEN.fullmatch(text):
        raise ValueError("must be 16 to 1000 letters, digits and any of . _ ~ + / = -")
    return text


def nats_servers(text: str) -> tuple[str, ...]:
    """Read the URLs of NATS servers with commas between them, which all have one scheme and one user, or none."""
    urls = tuple(part.strip() for part in text.split(","))
    for url in urls:
        if not re.fullmatch(r"(nats|tls)://[^\s/?#]+/?", url):
            raise ValueError("must be nats://HOST:PORT or tls://HOST:PORT, with commas between several")
    try:
        parts = [urlsplit(url) for url in urls]
        hosts = [part.hostname for part in parts if part.port != 0]
    except ValueError:  # an error message may hold a part of the password
        raise ValueError(
            "has a port that is not a number; in a password, write characters such as / : @ and # as %2F %3A %40 %23"
        ) from None
    if len(urls) > _NETWORKS_MAX or not all(hosts) or len({part.scheme for part in parts}) > 1:
        raise ValueError(f"must be at most {_NETWORKS_MAX} servers, all with one scheme and each with a host")
    if len({(part.username, part.password) for part in parts} - {(None, None)}) > 1:
        raise ValueError("must name one user for all servers")
    return urls


def database_url(text: str) -> str:
    """Read where the database is."""
    if not text.startswith(("sqlite:///", "postgresql://")):
        raise ValueError("must be sqlite:///PATH or postgresql://…")
    try:
        urlsplit(text).port  # noqa: B018 -- reading it checks it
    except ValueError:  # a driver's error message may hold a part of the password
        raise ValueError(
            "has a port that is not a number; in a password, write characters such as / : @ and # as %2F %3A %40 %23"
        ) from None
    return text
