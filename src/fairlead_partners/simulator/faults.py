"""Scripted faults: found as words in a request, or ordered beforehand for the next calls of a vendor."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

ORDERS_MAX = 1000
FAULTS_PER_CALL_MAX = 8
LATENCY_SECONDS_MAX = 600.0

TRANSPORT: Final = frozenset(
    {"latency", "hang", "rate-limited", "server-error", "half-body", "malformed", "html", "unauthorized", "invalid"}
)
"""Faults of one exchange, the same for every vendor but for the words."""

WORK: Final = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})
"""Faults of a piece of work, for which every vendor has an answer of its own."""

NAMES: Final = TRANSPORT | WORK

_WORDS = re.compile(rb"\[\[fault:([a-z-]{1,32})(?::([^\]\"\\]{0,100}))?\]\]")


class Order(msgspec.Struct):
    """A fault ordered for the next `times` calls of a provider, those whose path holds `path`."""

    provider: str
    fault: str
    argument: str
    times: int
    path: str

    def document(self) -> dict[str, object]:
        """Describe it as it was ordered."""
        return {
            "provider": self.provider,
            "fault": self.fault,
            "argument": self.argument,
            "times": self.times,
            "path": self.path,
        }


class Orders:
    """The faults ordered and not yet used up."""

    def __init__(self) -> None:
        """Begin with none."""
        self._orders: list[Order] = []

    def add(self, order: Order) -> None:
        """Add one; ValueError when there are too many."""
        if len(self._orders) >= ORDERS_MAX:
            raise ValueError(f"There are {ORDERS_MAX} orders already; DELETE them first.")
        self._orders.append(order)

    def clear(self, provider: str | None = None) -> None:
        """Forget all, or those of one provider."""
        self._orders = [order for order in self._orders if provider not in (None, order.provider)]

    def documents(self) -> list[dict[str, object]]:
        """Describe those that are left."""
        return [order.document() for order in self._orders]

    def take(self, provider: str, path: str, *, creates: bool) -> dict[str, str]:
        """Use up the oldest order that this call meets; faults of work wait for a call that begins some."""
        for order in self._orders:
            if order.provider == provider and order.path in path and (creates or order.fault in TRANSPORT):
                order.times -= 1
                if order.times <= 0:
                    self._orders.remove(order)
                return {order.fault: order.argument}
        return {}


def in_words(body: bytes) -> dict[str, str]:
    """Find the faults named in a body as `[[fault:NAME]]` or `[[fault:NAME:ARGUMENT]]`; unknown names are ignored."""
    found: dict[str, str] = {}
    for match in _WORDS.finditer(body):
        name = match[1].decode()
        if name in NAMES and len(found) < FAULTS_PER_CALL_MAX:
            found.setdefault(name, (match[2] or b"").decode("utf-8", "replace"))
    return found


def settle(found: Mapping[str, str], supports: frozenset[str]) -> dict[str, str]:
    """Replace the faults of work that a vendor has no answer for by the nearest it has.

    A refused output becomes a refused input, a failure a server error, a task that never ends a hanging call;
    expired links and doubled webhooks fall away where there are none.
    """
    instead = {"refused-output": "refused", "failed": "server-error", "stuck": "hang"}
    settled: dict[str, str] = {}
    for name, argument in found.items():
        if name in TRANSPORT or name in supports:
            settled[name] = argument
        elif name in instead:
            settled[instead[name]] = argument
    return settled


def seconds(argument: str, default: float) -> float:
    """Read a number of seconds out of an argument, within bounds."""
    try:
        value = float(argument)
    except ValueError:
        return default
    return min(max(value, 0.0), LATENCY_SECONDS_MAX)


def status(argument: str, default: int) -> int:
    """Read a 5xx status out of an argument."""
    return int(argument) if re.fullmatch(r"5\d\d", argument) else default
