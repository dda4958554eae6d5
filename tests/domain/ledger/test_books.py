"""Whether a run may be admitted: the slot first, then the money."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import CommittedSpendExceeded, ConcurrencyLimitExceeded, Forbidden, InsufficientCredits
from fairlead.domain.ledger.books import COSTLY, UNLIMITED, Funds, refuse_hold, refuse_slot

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
        ({"commitment_limit": 50, "held": 20}, 30, None),
        ({"commitment_limit": 50, "held": 20}, 31, CommittedSpendExceeded(limit=50, committed=20)),
        ({"commitment_limit": 50, "held": 20}, 999, CommittedSpendExceeded(limit=50, committed=20, needed=999)),
        ({"commitment_limit": 0}, 1, CommittedSpendExceeded(limit=0, committed=0, needed=1)),
        ({"commitment_limit": 0}, 0, None),
        (
            {"commitment_limit": 0, "in_flight_limit": 2, "in_flight": 2},
            1,
            ConcurrencyLimitExceeded(limit=2, current=2),
        ),
        ({"in_flight_limit": 0, "commitment_limit": 0}, 1, BLOCKED),
    ],
)
def test_admission_follows_the_table_of_figures(has: dict[str, Any], hold: int, refusal: object) -> None:
    """The table of what may be admitted on which figures."""
    assert (refuse_slot(funds(**has), hold) or refuse_hold(funds(**has), hold)) == refusal


@given(st.integers(0, 100), st.integers(0, 100))
def test_settled_run_leaves_nothing_held_and_the_balance_less_its_charge(hold: int, charged: int) -> None:
    """A hold and its settlement leave the balance less the charge, and nothing held."""
    after = funds(in_flight_limit=5).with_hold(hold).after_settlement(hold, charged)
    assert (after.balance, after.held, after.in_flight) == (100 - charged, 0, 0)
    assert after.available() == 100 - charged


@pytest.mark.req("R-23")
@pytest.mark.parametrize(
    ("limit", "costly", "hold", "refusal"),
    [
        (8, 0, COSTLY, None),
        (8, 1, COSTLY, None),
        (8, 2, COSTLY, ConcurrencyLimitExceeded(limit=2, current=2, costly=True)),
        (8, 2, COSTLY - 1, None),
        (11, 2, COSTLY, ConcurrencyLimitExceeded(limit=2, current=2, costly=True)),
        (3, 0, COSTLY, None),
        (3, 1, COSTLY, ConcurrencyLimitExceeded(limit=1, current=1, costly=True)),
        (UNLIMITED, 999, COSTLY, None),
    ],
)
def test_costly_runs_share_a_quarter_of_the_slots(limit: int, costly: int, hold: int, refusal: object) -> None:
    """Runs that may cost five dollars share a quarter of the slots, at least one; others have all of them."""
    has = funds(
        balance=10 * COSTLY, in_flight=costly if limit != 3 else 1, in_flight_limit=limit, costly_in_flight=costly
    )
    assert (refuse_slot(has, hold) or refuse_hold(has, hold)) == refusal


@pytest.mark.req("R-23")
def test_raised_hold_needs_room_under_the_cap_and_then_money() -> None:
    """A hold that grows needs room under the cap, then the money, and no slot."""
    has = funds(held=60, commitment_limit=80, in_flight=1, in_flight_limit=1)
    assert refuse_hold(has, 20) is None
    assert refuse_hold(has, 21) == CommittedSpendExceeded(limit=80, committed=60)
    assert refuse_hold(funds(held=60), 41) == InsufficientCredits(available=40, needed=41)


AMOUNTS = st.integers(0, 2 * COSTLY)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_settled_raise_leaves_nothing_held_and_counts_costly_runs_right(hold: int, raised: int, charged: int) -> None:
    """A hold that grew or shrank is settled as it stands, and the costly runs are counted right throughout."""
    live = funds().with_hold(hold).with_raise(hold, raised)
    assert (live.held, live.in_flight, live.costly_in_flight) == (raised, 1, int(raised >= COSTLY))
    after = live.after_settlement(raised, charged)
    assert (after.balance, after.held, after.in_flight, after.costly_in_flight) == (100 - charged, 0, 0, 0)
