"""Installations that count at the registry: each is a write that needs no credential, so each address has a bound."""

from ipaddress import ip_address

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.operations.registry import publishing
from fairlead.operations.registry.publishing import COUNTED_PER_HOUR, InstallLimits, Registry
from fairlead.storage.db.database import Database
from operations.registry.test_publishing import LAB, node, publisher, version
from storage.bookings import NOW, Books

_HOUR_NS = 3_600 * 10**9
_HERE = ip_address("192.0.2.1")


class _Time:
    now_ns = 5 * _HOUR_NS

    def __call__(self) -> int:
        return self.now_ns


def _count(limits: InstallLimits, address: str | None, calls: int) -> int:
    return sum(limits.may_count(None if address is None else ip_address(address)) for _ in range(calls))


@pytest.mark.req("K-08")
def test_address_counts_so_many_installations_an_hour() -> None:
    """Another address has a bound of its own, and a network of IPv6 has one; the next hour begins at none."""
    time = _Time()
    limits = InstallLimits(Clock(time))
    assert _count(limits, "192.0.2.1", COUNTED_PER_HOUR + 5) == COUNTED_PER_HOUR
    assert _count(limits, "192.0.2.2", 3) == 3
    assert _count(limits, None, 3) == 3
    assert _count(limits, "2001:db8::1", COUNTED_PER_HOUR - 1) == COUNTED_PER_HOUR - 1
    assert _count(limits, "2001:db8::2", 5) == 1
    assert _count(limits, "2001:db8:0:1::1", 2) == 2
    time.now_ns += _HOUR_NS
    assert _count(limits, "192.0.2.1", 2) == 2


def test_number_of_addresses_that_count_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are known count on; the others wait for the next hour."""
    monkeypatch.setattr(publishing, "ADDRESSES_MAX", 2)
    limits = InstallLimits(Clock(_Time()))
    assert [_count(limits, f"192.0.2.{last}", 1) for last in (1, 2, 3, 1)] == [1, 1, 0, 1]


@pytest.mark.req("K-08")
def test_installation_beyond_the_bound_is_answered_and_not_counted(
    run: Run, database: Database, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller gets its version all the same."""
    monkeypatch.setattr(publishing, "COUNTED_PER_HOUR", 2)
    books.open()
    registry = Registry(database, Clock(lambda: NOW * 1_000_000))
    run(registry.create_publisher(LAB, publisher()))
    run(registry.create_node(LAB, "acme", node()))
    run(registry.publish_version(LAB, "acme", "blur", version()))
    assert [run(registry.install("blur", None, _HERE)).version for _ in range(4)] == ["1.0.0"] * 4
    assert run(registry.node("blur")).installs == 2
