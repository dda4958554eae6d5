"""The account book: a hold is posted or voided, never both, never twice (architecture: money moves in two phases).

Every entry changes two figures of its workspace at once, so that each can be proven by summing its entries:
`balance` (what was paid in less what was charged) and `held` (what live runs may still cost).
"""

import enum

import msgspec

from fairlead.domain.callers import Billing
from fairlead.domain.faults import ConcurrencyLimitExceeded, Fault, Forbidden, InsufficientCredits

UNLIMITED = -1


class EntryKind(enum.StrEnum):
    """Why an entry was written."""

    CREDIT = "credit"
    """Money paid in, or corrected by an operator when negative."""
    HOLD = "hold"
    """A run was admitted; its upper bound is set aside."""
    POST = "post"
    """A generation completed; its hold is released and its price charged."""
    VOID = "void"
    """A run ended without a generation to pay; its hold is released."""


class Funds(msgspec.Struct, frozen=True):
    """The figures of a workspace an admission is decided on; amounts in 10^-8 dollars."""

    billing: Billing
    balance: int
    held: int
    cap: int
    in_flight: int
    in_flight_limit: int

    def available(self) -> int:
        """What a further run may be held for: the free balance, and for postpaid workspaces what is under the cap."""
        overdraft = self.cap if self.billing is Billing.POSTPAID else 0
        return self.balance - self.held + overdraft

    def with_hold(self, amount: int) -> "Funds":
        """The figures after one more run was admitted."""
        return Funds(self.billing, self.balance, self.held + amount, self.cap, self.in_flight + 1, self.in_flight_limit)

    def after_settlement(self, hold: int, charged: int) -> "Funds":
        """The figures after a run ended."""
        return Funds(
            self.billing, self.balance - charged, self.held - hold, self.cap, self.in_flight - 1, self.in_flight_limit
        )


def refuse_admission(funds: Funds, hold: int) -> Fault | None:
    """Say why a run may not be admitted, or None: the slot first (R-23), then the money."""
    if funds.in_flight_limit == 0:
        return Forbidden("Runs are blocked for this workspace.")
    if funds.in_flight_limit != UNLIMITED and funds.in_flight >= funds.in_flight_limit:
        return ConcurrencyLimitExceeded(limit=funds.in_flight_limit, current=funds.in_flight)
    if hold > funds.available():
        return InsufficientCredits(available=max(0, funds.available()), needed=hold)
    return None
