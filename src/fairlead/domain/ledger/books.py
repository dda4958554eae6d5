"""The account book: a hold is posted or voided, never both, never twice (architecture: money moves in two phases).

Every entry changes two figures of its workspace at once, so that each can be proven by summing its entries:
`balance` (what was paid in less what was charged) and `held` (what live runs may still cost).
"""

import enum
from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import (
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    Fault,
    Forbidden,
    InsufficientCredits,
    QueueBacklogFull,
)
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR

UNLIMITED: Final = -1
COSTLY: Final = 5 * UNITS_PER_DOLLAR
"""A run that may cost this much is a costly one; costly runs share a quarter of the slots (decisions)."""


class EntryKind(enum.StrEnum):
    """Why an entry was written."""

    CREDIT = "credit"
    """Money paid in, or corrected by an operator when negative."""
    HOLD = "hold"
    """A run was admitted; its upper bound is set aside."""
    RAISE = "raise"
    """The hold of a run changes: it goes on at another provider, or its partner tells that more is due."""
    POST = "post"
    """A generation completed; its hold is released and its price charged."""
    VOID = "void"
    """A run ended without a generation to pay; its hold is released."""
    REFUND = "refund"
    """What a run was charged is given back, in part or whole; once for each run."""
    RERATE = "rerate"
    """A run is charged by another rate card: the balance changes by the difference."""


TOPPED_UP: Final = "the provider tells that more is due than is held"
"""The reason of a raise without another provider."""


class Funds(msgspec.Struct, frozen=True):
    """The figures of a workspace on which an admission is decided; amounts in 10^-8 dollars.

    `held` is for every run that has not ended; `commitment_limit` caps the holds of those in flight; None means no cap.
    `waiting` counts the queued runs that no worker has claimed, `parked` those of them without a slot, for which
    `parked_held` is held; `last_place` is the newest number given out in the queue. `budgets` is how many budgets its
    runs may count against: with none, none is looked up.
    """

    billing: Billing
    balance: int
    held: int
    cap: int
    in_flight: int
    in_flight_limit: int
    costly_in_flight: int = 0
    commitment_limit: int | None = None
    waiting: int = 0
    parked: int = 0
    parked_held: int = 0
    last_place: int = 0
    budgets: int = 0

    @property
    def committed(self) -> int:
        """The holds of the runs in flight (R-23); parked runs are not in flight."""
        return self.held - self.parked_held

    @property
    def free_slots(self) -> int:
        """How many more runs may be in flight; UNLIMITED where there is no limit."""
        return UNLIMITED if self.in_flight_limit == UNLIMITED else max(0, self.in_flight_limit - self.in_flight)

    @property
    def costly_limit(self) -> int:
        """How many costly runs may be in flight, where there is a limit."""
        return max(1, self.in_flight_limit // 4)

    def available(self) -> int:
        """The largest hold of a further run: the free balance; for postpaid workspaces also what the cap leaves."""
        overdraft = self.cap if self.billing is Billing.POSTPAID else 0
        return self.balance - self.held + overdraft

    def changes_since(self, before: "Funds") -> tuple[int, ...]:
        """By how much the figures have changed, in the order of the statement that writes them."""
        return (
            self.balance - before.balance,
            self.held - before.held,
            self.in_flight - before.in_flight,
            self.costly_in_flight - before.costly_in_flight,
            self.waiting - before.waiting,
            self.parked - before.parked,
            self.parked_held - before.parked_held,
            self.last_place - before.last_place,
        )

    def with_hold(self, amount: int) -> "Funds":
        """The figures after one more run was admitted and has a slot."""
        costly = self.costly_in_flight + (amount >= COSTLY)
        return replace(self, held=self.held + amount, in_flight=self.in_flight + 1, costly_in_flight=costly)

    def with_raise(self, held: int, wanted: int) -> "Funds":
        """The figures after the hold of a run grew."""
        costly = self.costly_in_flight + (wanted >= COSTLY) - (held >= COSTLY)
        return replace(self, held=self.held + wanted - held, costly_in_flight=costly)

    def with_queued(self, amount: int) -> "Funds":
        """The figures after one more run was admitted to the queue, without a slot."""
        return replace(
            self,
            held=self.held + amount,
            waiting=self.waiting + 1,
            parked=self.parked + 1,
            parked_held=self.parked_held + amount,
            last_place=self.last_place + 1,
        )

    def with_release(self, hold: int) -> "Funds":
        """The figures after a parked run got a slot."""
        return replace(
            self,
            in_flight=self.in_flight + 1,
            costly_in_flight=self.costly_in_flight + (hold >= COSTLY),
            parked=self.parked - 1,
            parked_held=self.parked_held - hold,
        )

    def with_claim(self) -> "Funds":
        """The figures after a worker claimed a released run."""
        return replace(self, waiting=self.waiting - 1)

    def after_postponement(self, hold: int) -> "Funds":
        """The figures after a claimed run went back to wait without a slot."""
        return replace(
            self,
            in_flight=self.in_flight - 1,
            costly_in_flight=self.costly_in_flight - (hold >= COSTLY),
            waiting=self.waiting + 1,
            parked=self.parked + 1,
            parked_held=self.parked_held + hold,
        )

    def after_settlement(self, hold: int, charged: int) -> "Funds":
        """The figures after a run ended."""
        return replace(
            self,
            balance=self.balance - charged,
            held=self.held - hold,
            in_flight=self.in_flight - 1,
            costly_in_flight=self.costly_in_flight - (hold >= COSTLY),
        )

    def after_withdrawal(self, hold: int, *, was_parked: bool) -> "Funds":
        """The figures after a run ended that no worker had claimed."""
        # A parked run has no slot: giving it one first lets one formula end both kinds.
        released = self if not was_parked else self.with_release(hold)
        return released.after_settlement(hold, 0).with_claim()


def refuse_slot(funds: Funds, hold: int) -> Fault | None:
    """The fault of a run with this hold that may not have a slot, or None."""
    limit = funds.in_flight_limit
    if limit == 0:
        return _blocked_fault()
    if limit != UNLIMITED:
        if funds.in_flight >= limit:
            return ConcurrencyLimitExceeded(limit=limit, current=funds.in_flight)
        if hold >= COSTLY and funds.costly_in_flight >= funds.costly_limit:
            return ConcurrencyLimitExceeded(limit=funds.costly_limit, current=funds.costly_in_flight, costly=True)
    return None


def refuse_commitment(funds: Funds, more: int) -> Fault | None:
    """The fault where this hold would pass the cap on committed spend (R-23), or None."""
    if funds.commitment_limit is not None and funds.committed + more > funds.commitment_limit:
        return _too_much(funds, funds.commitment_limit, more)
    return None


def refuse_hold(funds: Funds, more: int) -> Fault | None:
    """The fault where a workspace cannot pay this hold, or None."""
    if funds.commitment_limit is not None and (fault := refuse_commitment(funds, more)):
        return fault
    return None if more <= funds.available() else _lacks_money(funds, more)


def refuse_queueing(funds: Funds, hold: int, backlog: int) -> Fault | None:
    """The fault of a run that may not wait for a slot (R-32), or None.

    Its money is held while it waits, so that a run that was taken in can be paid when its turn comes. One that could
    never be in flight is refused at once.
    """
    if funds.in_flight_limit == 0:
        return _blocked_fault()
    if funds.waiting >= backlog:
        return QueueBacklogFull(backlog)
    if funds.commitment_limit is not None and hold > funds.commitment_limit:
        return _too_much(funds, funds.commitment_limit, hold)
    return None if hold <= funds.available() else _lacks_money(funds, hold)


def _too_much(funds: Funds, limit: int, more: int) -> Fault:
    return CommittedSpendExceeded(limit, funds.committed, more if more > limit else None)


def _lacks_money(funds: Funds, more: int) -> Fault:
    return InsufficientCredits(available=max(0, funds.available()), needed=more)


def _blocked_fault() -> Fault:
    return Forbidden("Runs are blocked for this workspace.")
