"""Which installations count: anybody may install a node, without a credential, and each one that counts is a write."""

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final

from fairlead.operations.clock import Clock

COUNTED_PER_HOUR: Final = 60
"""Installations that an address may count in an hour, on each server."""
ADDRESSES_MAX: Final = 10_000
"""Addresses whose installations are counted in an hour; those that come later count no more until the next one."""
_HOUR_MS: Final = 3_600_000
_HOST_NETWORK_BITS: Final = 64


class InstallLimits:
    """Says of each installation whether it may still count; hours are those of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hour = 0
        self._counted: dict[str, int] = {}

    def may_count(self, address: IPv4Address | IPv6Address | None) -> bool:
        """Whether an installation from an address counts; None where the address is not known.

        Addresses of IPv6 are taken by the network of 64 bits that a subscriber is given.
        """
        hour = self._clock.now_ms() // _HOUR_MS
        if hour != self._hour:
            self._hour, self._counted = hour, {}
        key = _key(address)
        counted = self._counted.get(key, 0)
        if counted >= COUNTED_PER_HOUR or (not counted and len(self._counted) >= ADDRESSES_MAX):
            return False
        self._counted[key] = counted + 1
        return True


def _key(address: IPv4Address | IPv6Address | None) -> str:
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _HOST_NETWORK_BITS), strict=False))
    return str(address)
