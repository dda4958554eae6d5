"""Re-rates of runs: which card prices a run again, what it then costs, and why some run cannot be priced again."""

import datetime
import enum
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

import msgspec

from fairlead.domain.ledger.corrections import REFUND_PHASE
from fairlead.domain.ledger.markups import NO_MARKUP
from fairlead.domain.ledger.price_facts import UnknownFactsError, price_again
from fairlead.domain.ledger.rates import RateCard, card_in_force, card_named
from fairlead.domain.pointers import Captured

RERATES_MAX: Final = 16
"""How often a run may be re-rated."""
FIRST_RERATE_PHASE: Final = REFUND_PHASE - 1
"""The phase of the first re-rate among the entries of its run; each further one is one less."""
_MARKUP: Final = re.compile(r"([+-][0-9]{1,4}(?:\.[0-9]{1,2})?)%$")


class RerateObstacle(enum.StrEnum):
    """Why a run cannot be re-rated."""

    LIVE = "live"
    """It has not ended, so that nothing was charged yet."""
    OWN_KEY = "own_key"
    """It was made with the workspace's own provider key, and is free."""
    FAILED = "failed"
    NO_CARD = "no_card"
    """The model has no such card at the provider of the run."""
    ARCHIVING = "archiving"
    """`fairlead archive` has written it into a file that is not finished."""
    TOO_OFTEN = "too_often"
    NOT_KEPT = "not_kept"
    """Nothing is known of what its price was made of: it ended on an earlier version, or had too much of it."""
    NOT_KNOWN = "not_known"
    """The card depends on something of the body or the answer that the card of before did not, so it was not kept."""
    RAISE = "raise"
    """It would cost more, which was not allowed."""
    BALANCE = "balance"
    """It would cost more than the workspace can pay."""


class NotRerateableError(Exception):
    """A run cannot be re-rated; `obstacle` says why."""

    def __init__(self, obstacle: RerateObstacle) -> None:
        super().__init__(_WORDS[obstacle])
        self.obstacle = obstacle


_WORDS: Final = {
    RerateObstacle.LIVE: "it has not ended, and nothing is charged yet",
    RerateObstacle.OWN_KEY: "it was made with the workspace's own provider key, and is free",
    RerateObstacle.FAILED: "it has failed",
    RerateObstacle.NO_CARD: "its model has no such rate card at its provider",
    RerateObstacle.ARCHIVING: "it is being archived",
    RerateObstacle.TOO_OFTEN: f"it was re-rated {RERATES_MAX} times",
    RerateObstacle.NOT_KEPT: "what its price was made of was not kept",
    RerateObstacle.NOT_KNOWN: "that rate card depends on something that was not kept of it",
    RerateObstacle.RAISE: "it would cost more, which was not allowed",
    RerateObstacle.BALANCE: "it would cost more than its workspace can pay",
}


class RerateOrder(msgspec.Struct, frozen=True):
    """Why runs are re-rated (up to 200 characters), and by which version of a card; None is the one in force.

    `may_raise`: also where a run then costs more.
    """

    reason: str
    to_version: str | None = None
    may_raise: bool = False


class RatedRun(msgspec.Struct, frozen=True):
    """What decides on the re-rate of a run; money in 10^-8 dollars, `charge` None while it is live.

    `refunded` is how much of its charge was given back, `facts` what its price was made of, None where unknown, and
    `rerates` how often it was re-rated.
    """

    id: str
    charge: int | None
    hold: int
    refunded: int
    has_succeeded: bool
    is_byok: bool
    facts: Captured | None
    rerates: int
    is_archiving: bool


class Rerate(msgspec.Struct, frozen=True):
    """A re-rate: the charge of a run before and after it, the card (as the ledger names it), and the time (ms).

    Where the run had that card before (`is_new` false), nothing was changed.
    """

    run_id: str
    workspace_id: str
    workspace: str
    before: int
    charge: int
    rate_version: str
    at: int
    is_new: bool = True


def card_for(cards: Sequence[RateCard], charged_by: str, version: str | None, today: datetime.date) -> RateCard | None:
    """The card by which a run that was charged by one (as the ledger names it) is priced again, with its markup.

    `version` None is the card in force today. None where there is no such card.
    """
    named = (card for card in cards if card.version == version)
    found = card_in_force(cards, today) if version is None else next(named, None)
    return None if found is None else replace(found, markup=_markup_of(cards, charged_by))


def _markup_of(cards: Sequence[RateCard], label: str) -> Decimal:
    """The markup in the name of a card that may have been removed."""
    if (known := card_named(cards, label)) is not None:
        return known.markup
    written = _MARKUP.search(label)
    return NO_MARKUP if written is None else Decimal(written[1])


def refuse_rerate(run: RatedRun) -> None:
    """NotRerateableError where a run is not re-rated by any card."""
    if run.charge is None:
        raise NotRerateableError(RerateObstacle.LIVE)
    if run.is_byok:
        raise NotRerateableError(RerateObstacle.OWN_KEY)
    if not run.has_succeeded:
        raise NotRerateableError(RerateObstacle.FAILED)


def charge_by(run: RatedRun, card: RateCard, order: RerateOrder) -> int:
    """What a run is charged by a card, in 10^-8 dollars, at most its hold; NotRerateableError.

    What was refunded stays refunded: the new charge is the new price less that, and never less than nothing.
    """
    if run.is_archiving:
        raise NotRerateableError(RerateObstacle.ARCHIVING)
    if run.rerates >= RERATES_MAX:
        raise NotRerateableError(RerateObstacle.TOO_OFTEN)
    if run.facts is None:
        raise NotRerateableError(RerateObstacle.NOT_KEPT)
    try:
        price = price_again(run.facts, card)
    except UnknownFactsError as error:
        raise NotRerateableError(RerateObstacle.NOT_KNOWN) from error
    charge = max(0, min(price, run.hold) - run.refunded)
    if charge > (run.charge or 0) and not order.may_raise:
        raise NotRerateableError(RerateObstacle.RAISE)
    return charge
