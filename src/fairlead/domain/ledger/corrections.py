"""Refunds of runs: which runs they are for, how much they give back, and why some run has none."""

import enum

import msgspec

REFUND_PHASE = -1
"""The phase of a refund among the entries of its run: there is no second of any phase."""


class Obstacle(enum.StrEnum):
    """Why a run cannot be refunded."""

    LIVE = "live"
    """It has not ended, so that nothing was charged yet."""
    UNCHARGED = "uncharged"
    ARCHIVING = "archiving"
    """`fairlead archive` has written it into a file that is not finished."""
    TOO_MUCH = "too_much"
    """More is asked back than was charged."""


class NotRefundableError(Exception):
    """A run cannot be refunded; `obstacle` says why."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(_WORDS[obstacle])
        self.obstacle = obstacle


_WORDS = {
    Obstacle.LIVE: "it has not ended, and nothing is charged yet",
    Obstacle.UNCHARGED: "nothing was charged for it",
    Obstacle.ARCHIVING: "it is being archived",
    Obstacle.TOO_MUCH: "that is more than was charged for it",
}


class RunSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a model that were admitted from `since` and before `until` (ms), and ended with a charge.

    None does not narrow: `workspace_id`, the version of the rate card they were charged by, and how they ended
    (`outcome`, such as completed).
    """

    model_id: str
    since: int
    until: int | None = None
    workspace_id: str | None = None
    rate_version: str | None = None
    outcome: str | None = None


class RefundOrder(msgspec.Struct, frozen=True):
    """Why a refund is booked (up to 200 characters), and how much of each charge; None gives all of it back."""

    reason: str
    amount: int | None = None


class ChargedRun(msgspec.Struct, frozen=True):
    """What decides on the refund of a run; money in 10^-8 dollars, `charge` None while it is live."""

    id: str
    charge: int | None
    is_archiving: bool


class Refund(msgspec.Struct, frozen=True):
    """A refund: what it gave back of a run, what is left of the charge, and when it was booked (ms).

    Where it was booked before (`is_new` false), the figures are those of then and of now.
    """

    run_id: str
    workspace_id: str
    workspace: str
    amount: int
    charge: int
    at: int
    is_new: bool = True


def refund_of(run: ChargedRun, order: RefundOrder) -> int:
    """How much an order gives back of a run that has no refund yet, at most its charge; NotRefundableError."""
    if run.charge is None:
        raise NotRefundableError(Obstacle.LIVE)
    amount = run.charge if order.amount is None else order.amount
    if run.charge == 0:
        raise NotRefundableError(Obstacle.UNCHARGED)
    if amount > run.charge:
        raise NotRefundableError(Obstacle.TOO_MUCH)
    if run.is_archiving:
        raise NotRefundableError(Obstacle.ARCHIVING)
    return amount
