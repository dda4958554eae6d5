"""Resolves host names, and decides which addresses may be called.

An answer of a partner, or a caller, may name any host. A guarded request therefore goes only to an address that is
public, and to the very address that was checked: between a check by name and a connection by name, the name may change.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain, zip_longest
from typing import Final, TypeAlias

from fairlead.http_client.outcomes import UnreachableError
from fairlead.http_client.targets import Target, read_origin

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_ANSWER_SECONDS: Final = 10.0
_REMEMBERED_SECONDS: Final = 10.0
_REMEMBERED_MOST: Final = 256
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is assigned to hosts of the internet; nothing outside of it is public."""
_SPECIAL_V4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by the customers of a provider
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # no entry of the registry: the host of a virtual machine (Azure's WireServer)
            "169.254.0.0/16",  # link-local
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; clouds have metadata services in it
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4, given up
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and the broadcast address
        ),
    )
)
_SPECIAL_V6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, identifiers that are no addresses
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
"""What is not public, of the registries of special-purpose addresses (IANA, RFC 6890 and later), within global unicast.

They are ours because those of Python depend on its version.
"""


def is_public(address: IPAddress) -> bool:
    """Whether an address is public: not loopback, private, link-local or multicast, nor mapped to such a one."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    within = _embedded_ipv4(address)
    if within is not None:
        return is_public(within)
    return address in _GLOBAL_UNICAST and not any(address in network for network in _SPECIAL_V6)


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that is really called: mapped, behind 6to4, or behind NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a name; OSError when it knows none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class AddressBook:
    """Names and their addresses, each cached for ten seconds, and the rule which of them may be called."""

    def __init__(self, resolver: Resolver, allows: Callable[[IPAddress], bool], trusted: Iterable[str]) -> None:
        self._resolver = resolver
        self._allows = allows
        self._trusted = frozenset(read_origin(url)[1:] for url in trusted)
        self._known: dict[tuple[str, int], tuple[float, Sequence[str]]] = {}
        self._asked: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}

    def trusts(self, target: Target) -> bool:
        """Whether an operator named this host and port, wherever its address may be."""
        return target.origin[1:] in self._trusted

    async def look_up(self, target: Target, *, guarded: bool) -> Sequence[str]:
        """The addresses to try, in order.

        UnreachableError when a guarded target has any address that may not be called; OSError or UnicodeError when the
        name has none.
        """
        found = await self._addresses(target.host, target.port)
        if guarded:
            for text in found:
                if not self._allows(ipaddress.ip_address(text)):
                    raise UnreachableError(f"refused address: {target.host} is {text}, which is not public")
        return found

    def forget(self, target: Target) -> None:
        """Look the name up again next time, because no known address answered."""
        self._known.pop(target.origin[1:], None)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass  # a name
        name = (host, port)
        until, addresses = self._known.get(name, (0.0, ()))
        if asyncio.get_running_loop().time() < until:
            return addresses
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = asyncio.ensure_future(self._ask(name))
            asked.add_done_callback(_retrieve)
        return await asyncio.shield(asked)  # a caller who gives up must not cancel the lookup for the others

    async def _ask(self, name: tuple[str, int]) -> Sequence[str]:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # a lookup without an end would block all others
                found = _interleave(await self._resolver(*name))
        finally:
            del self._asked[name]
        if not found:
            raise OSError("the name has no address")
        while len(self._known) >= _REMEMBERED_MOST:
            del self._known[next(iter(self._known))]
        self._known[name] = (asyncio.get_running_loop().time() + _REMEMBERED_SECONDS, found)
        return found


def _retrieve(asked: "asyncio.Task[Sequence[str]]") -> None:
    """Retrieve a failure, so that one for which nobody waits any more is not logged as never retrieved."""
    if not asked.cancelled():
        asked.exception()


def _interleave(addresses: Sequence[str]) -> Sequence[str]:
    """Each address once, alternating between the two families, so that one that leads nowhere costs one attempt."""
    unique = list(dict.fromkeys(addresses))
    preferred = [one for one in unique if (":" in one) is (":" in unique[0])]
    others = [one for one in unique if one not in preferred]
    return [one for one in chain.from_iterable(zip_longest(preferred, others)) if one is not None]
