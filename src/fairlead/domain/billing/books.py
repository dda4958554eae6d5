"""The account book: a hold is posted or voided, never both, never twice (architecture: money moves in two phases).

Every entry changes two figures of its workspace at once, so that each can be proven by summing its entries:
`balance` (what was paid in less what was charged) and `held` (what live runs may still cost).
"""

import enum
from typing import Final

import msgspec

from fairlead.domain.callers import Billing
from fairlead.domain.faults import (
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    Fault,
    Forbidden,
    InsufficientCredits,
)
from fairlead.domain.money import UNITS_PER_DOLLAR

UNLIMITED: Final = -1
COSTLY: Final = 5 * UNITS_PER_DOLLAR
"""A run that may cost this much counts among the costly ones, which share a quarter of the slots (decisions)."""


class EntryKind(enum.StrEnum):
    """Why an entry was written."""

    CREDIT = "credit"
    """Money paid in, or corrected by an operator when negative."""
    HOLD = "hold"
    """A run was admitted; its upper bound is set aside."""
    RAISE = "raise"
    """A run goes on at another provider, which may cost more: the hold grows by the difference."""
    POST = "post"
    """A generation completed; its hold is released and its price charged."""
    VOID = "void"
    """A run ended without a generation to pay; its hold is released."""


class Funds(msgspec.Struct, frozen=True):
    """The figures of a workspace an admission is decided on; amounts in 10^-8 dollars.

    `held` is also what runs in flight are committed to; `commitment_limit` None means no cap on it.
    """

    billing: Billing
    balance: int
    held: int
    cap: int
    in_flight: int
    in_flight_limit: int
    costly_in_flight: int = 0
    commitment_limit: int | None = None

    def available(self) -> int:
        """What a further run may be held for: the free balance, and for postpaid workspaces what is under the cap."""
        overdraft = self.cap if self.billing is Billing.POSTPAID else 0
        return self.balance - self.held + overdraft

    def with_hold(self, amount: int) -> "Funds":
        """The figures after one more run was admitted."""
        return self._moved(0, amount, 1, int(is_costly(amount)))

    def after_settlement(self, hold: int, charged: int) -> "Funds":
        """The figures after a run ended."""
        return self._moved(-charged, -hold, -1, -int(is_costly(hold)))

    def with_raise(self, held: int, wanted: int) -> "Funds":
        """The figures after the hold of a run grew."""
        return self._moved(0, wanted - held, 0, int(is_costly(wanted)) - int(is_costly(held)))

    def _moved(self, balance: int, held: int, slots: int, costly: int) -> "Funds":
        return Funds(
            self.billing,
            self.balance + balance,
            self.held + held,
            self.cap,
            self.in_flight + slots,
            self.in_flight_limit,
            self.costly_in_flight + costly,
            self.commitment_limit,
        )


def is_costly(hold: int) -> bool:
    """Whether a run counts among those that share a quarter of the slots."""
    return hold >= COSTLY


def refuse_admission(funds: Funds, hold: int) -> Fault | None:
    """Say why a run may not be admitted, or None: the slot first, then what is committed (R-23), then the money."""
    limit = funds.in_flight_limit
    if limit == 0:
        return Forbidden("Runs are blocked for this workspace.")
    if limit != UNLIMITED:
        if funds.in_flight >= limit:
            return ConcurrencyLimitExceeded(limit=limit, current=funds.in_flight)
        quarter = max(1, limit // 4)
        if is_costly(hold) and funds.costly_in_flight >= quarter:
            return ConcurrencyLimitExceeded(limit=quarter, current=funds.costly_in_flight, costly=True)
    return refuse_hold(funds, hold)


def refuse_hold(funds: Funds, more: int) -> Fault | None:
    """Say why a workspace may not be held for so much more, or None."""
    if funds.commitment_limit is not None and funds.held + more > funds.commitment_limit:
        return CommittedSpendExceeded(funds.commitment_limit, funds.held)
    if more > funds.available():
        return InsufficientCredits(available=max(0, funds.available()), needed=more)
    return None
