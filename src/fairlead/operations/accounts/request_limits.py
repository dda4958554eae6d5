"""How often a caller without a workspace may send requests: a member, or an address from which people sign in.

Each server counts by itself. The number of remembered callers is bounded: beyond it the one whose last request is
oldest is forgotten, so a flood of addresses costs a fixed amount of memory.
"""

from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

from fairlead.clock import Clock
from fairlead.domain.accounts.rate_windows import Meter, Quota
from fairlead.domain.faults import FaultError

_REMEMBERED_MAX: Final = 10_000
_HOUSEHOLD_BITS: Final = 64
"""An IPv6 customer is given a network of at least this prefix, and could use another address for every attempt."""


class RequestLimits:
    """Counts requests by a name; all names have the same quotas."""

    def __init__(self, quotas: Sequence[Quota], clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._meters: OrderedDict[str, Meter] = OrderedDict()

    def count(self, name: str) -> None:
        """Count a request; FaultError(RateLimited) if a quota of the name is spent."""
        if not self._quotas:
            return
        meter = self._meters.pop(name, None) or Meter(name, self._quotas)
        self._meters[name] = meter
        if len(self._meters) > _REMEMBERED_MAX:
            self._meters.popitem(last=False)
        fault = meter.count(self._clock.now_ms())
        if fault is not None:
            raise FaultError(fault)


def household(address: IPv4Address | IPv6Address | None) -> str:
    """The name under which an address is counted; callers with an unknown address share one."""
    match address:
        case None:
            return "unknown"
        case IPv6Address():
            return str(IPv6Network((address, _HOUSEHOLD_BITS), strict=False))
        case IPv4Address():
            return str(address)
