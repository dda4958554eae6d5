"""Rate cards: what a run is held for before it starts, and what it costs once the partner has answered.

A card is a list of components; each prices one quantity. The quantity *requested* is read from the caller's body, the
quantity *measured* from the partner's answer. What cannot be read is taken at its upper bound (`at_most`), and a
measured quantity never passes the one held for, so a charge can never exceed its hold.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec

from fairlead.domain.money import times
from fairlead.domain.pointers import MISSING, Pointer, find

_ONE: Final = Decimal(1)
_DIGITS_MAX: Final = 30
_PLAIN_MAX: Final = 10**18
"""A number of more digits is read as unknown: arithmetic with it could overflow, and no `at_most` is as large."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A quantity in the caller's body: the product of some fields, scaled; unknown when `unless` is present."""

    product: tuple[Pointer, ...]
    scale: Decimal = _ONE
    unless: Pointer | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity in the partner's answer: a place in its JSON or one of its headers, scaled."""

    answer: Pointer | None = None
    header: str | None = None
    scale: Decimal = _ONE


@dataclass(frozen=True, slots=True)
class Component:
    """One line of a card: `price` (10^-8 dollars) for each unit of a quantity of at most `at_most` units."""

    unit: str
    price: int
    at_most: Decimal = _ONE
    requested: Requested | None = None
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class RateCard:
    """The prices of one model on one provider from a date on; charges keep the version they were made with."""

    version: str
    effective: datetime.date
    components: tuple[Component, ...]


class Quote(msgspec.Struct, frozen=True):
    """What a run is held for: the card, the quantity held for each component, and their sum in 10^-8 dollars."""

    card: RateCard
    quantities: tuple[Decimal, ...]
    amount: int


def card_in_force(cards: Sequence[RateCard], today: datetime.date) -> RateCard | None:
    """Pick the newest card whose date has come, or None when none has."""
    return max((card for card in cards if card.effective <= today), key=lambda card: card.effective, default=None)


def quote(card: RateCard, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> Quote:
    """Price a body before it is sent. `defaults` are the model's own for top-level fields the caller left out."""
    quantities = tuple(_requested(component, body, defaults) for component in card.components)
    return Quote(card, quantities, _total(card, quantities))


def charge(held: Quote, answer: Any, headers: Mapping[str, str]) -> int:
    """Price a completed generation from what the partner reports (R-28, R-29), in 10^-8 dollars, never above the hold.

    `answer` is the partner's decoded JSON, or None where it answered bytes; `headers` are asked for lower-case names.
    """
    quantities = tuple(
        min(upper, _measured(component.measured, answer, headers, upper))
        for component, upper in zip(held.card.components, held.quantities, strict=True)
    )
    return _total(held.card, quantities)


def _total(card: RateCard, quantities: tuple[Decimal, ...]) -> int:
    amount = 0
    for component, quantity in zip(card.components, quantities, strict=True):
        amount += component.price if quantity == 1 else times(component.price, quantity)
    return amount


def _requested(component: Component, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> Decimal:
    wanted = component.requested
    if wanted is None or (wanted.unless is not None and find(body, wanted.unless) is not MISSING):
        return component.at_most
    quantity = wanted.scale
    for pointer in wanted.product:
        factor = find(body, pointer)
        if factor is MISSING:
            factor = find(defaults, pointer)
        number = _number(factor)
        if number is None:
            return component.at_most
        quantity *= number
    return min(quantity, component.at_most)


def _measured(measured: Measured | None, answer: Any, headers: Mapping[str, str], otherwise: Decimal) -> Decimal:
    if measured is None:
        return otherwise
    found = find(answer, measured.answer) if measured.answer is not None else headers.get(measured.header or "")
    number = _number(found)
    return otherwise if number is None else number * measured.scale


def _number(value: Any) -> Decimal | int | None:
    """Read a non-negative finite number out of JSON or a header; None for anything else, booleans included."""
    if type(value) is int and 0 <= value < _PLAIN_MAX:
        return value  # most quantities are, and a Decimal multiplies with them as they are
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() and number >= 0 and number.adjusted() < _DIGITS_MAX else None
