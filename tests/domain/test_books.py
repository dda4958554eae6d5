"""Whether a run may be admitted: the slot first, then the money."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.billing.books import UNLIMITED, Funds, refuse_admission
from fairlead.domain.callers import Billing
from fairlead.domain.faults import ConcurrencyLimitExceeded, Forbidden, InsufficientCredits

BLOCKED = Forbidden("Runs are blocked for this workspace.")


def funds(**changes: Any) -> Funds:
    """Return a prepaid workspace with 100 units and no limit."""
    usual = {"billing": Billing.PREPAID, "balance": 100, "held": 0, "cap": 0, "in_flight": 0}
    return Funds(**{**usual, "in_flight_limit": UNLIMITED, **changes})


@pytest.mark.parametrize(
    ("has", "hold", "refusal"),
    [
        ({}, 100, None),
        ({}, 101, InsufficientCredits(available=100, needed=101)),
        ({"held": 1}, 100, InsufficientCredits(available=99, needed=100)),
        ({"balance": -5}, 1, InsufficientCredits(available=0, needed=1)),
        ({"balance": 0}, 0, None),
        ({"balance": -1}, 0, InsufficientCredits(available=0, needed=0)),
        ({"cap": 50}, 101, InsufficientCredits(available=100, needed=101)),
        ({"billing": Billing.POSTPAID, "cap": 50}, 150, None),
        ({"billing": Billing.POSTPAID, "cap": 50}, 151, InsufficientCredits(available=150, needed=151)),
        ({"billing": Billing.POSTPAID, "cap": 50, "balance": -50}, 1, InsufficientCredits(available=0, needed=1)),
        ({"in_flight_limit": 2, "in_flight": 1}, 1, None),
        ({"in_flight_limit": 2, "in_flight": 2}, 1, ConcurrencyLimitExceeded(limit=2, current=2)),
        ({"in_flight_limit": 2, "in_flight": 3}, 1, ConcurrencyLimitExceeded(limit=2, current=3)),
        ({"in_flight_limit": 2, "in_flight": 2}, 999, ConcurrencyLimitExceeded(limit=2, current=2)),
        ({"in_flight_limit": UNLIMITED, "in_flight": 10**6}, 1, None),
        ({"in_flight_limit": 0}, 0, BLOCKED),
        ({"in_flight_limit": 0, "in_flight": 5}, 999, BLOCKED),
    ],
)
def test_an_admission_is_decided_wrongly(has: dict[str, Any], hold: int, refusal: object) -> None:
    """The table of what may be admitted on which figures."""
    assert refuse_admission(funds(**has), hold) == refusal


@given(st.integers(0, 100), st.integers(0, 100))
def test_figures_do_not_come_back_after_a_run(hold: int, charged: int) -> None:
    """A hold and its settlement leave the balance less the charge, and nothing held."""
    after = funds(in_flight_limit=5).with_hold(hold).after_settlement(hold, charged)
    assert (after.balance, after.held, after.in_flight) == (100 - charged, 0, 0)
    assert after.available() == 100 - charged
