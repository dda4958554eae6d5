"""Rate cards: what a run is held for before it starts, and what it costs once the partner has answered.

A card is a list of components; each prices one quantity. The quantity *requested* is read from the caller's body, the
quantity *measured* from the partner's answer. What cannot be read is taken at its upper bound (`at_most`), and a
component is never charged more than was held for it, so a charge can never exceed its hold.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Final

import msgspec

from fairlead.domain.ledger.markups import NO_MARKUP
from fairlead.domain.ledger.money import Tier, price_in, times
from fairlead.domain.ledger.quantities import Factor, Pricing, Reading, Requested, count_of
from fairlead.domain.pointers import MISSING, Capture, Condition, Pointer, all_hold, find_all, first, number_of, text_of

_ONE: Final = Decimal(1)
_VALUE: Final = Reading.VALUE
_PERCENT: Final = re.compile(r"[+-][0-9]{1,4}(\.[0-9]{1,2})?%")


class Measured(msgspec.Struct, frozen=True):
    """A quantity in the partner's answer: a place in its JSON, one of its headers, or a figure it told before; scaled.

    Of several places in `answer` the first with a number counts. `told` names a figure of the call in the provider's
    file, from the answer to the submit or to a poll; `result` a property of the first stored file. `plus` are places of
    further numbers that are added where present. `is_counted`: the values at those places are counted, instead of
    reading a number; each has as many units as `each` finds in the body. `is_nonzero`: a zero is no report, such as the
    units of an account that pays by balance.
    """

    answer: tuple[Pointer, ...] = ()
    header: str | None = None
    told: str | None = None
    result: str | None = None
    scale: Decimal = _ONE
    is_counted: bool = False
    is_nonzero: bool = False
    plus: tuple[Pointer, ...] = ()
    each: Requested | None = None


class Case(msgspec.Struct, frozen=True):
    """Another price of a component, for some operations, or where conditions on the body hold."""

    price: int
    operations: frozenset[str] | None = None
    when: tuple[Condition, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """A part of a measured quantity that has a price of its own, such as tokens read from a cache; `unit` for people.

    It is found at `answer`, the first place of them with a number, in the units and with the scale of the whole. A body
    for which none of `when_any` holds has no such part, so nothing is held for it; where `when_any` is empty, any body
    may have it.
    """

    unit: str
    price: int
    answer: tuple[Pointer, ...]
    when_any: tuple[Condition, ...] = ()


class Multiplier(msgspec.Struct, frozen=True):
    """The factor of a price for a service tier, a long context or the like; several are multiplied together.

    `name` says for people when it applies. `when` are conditions on the body, which must have more than `size_above`
    bytes; `answered` are conditions on the answer: until it is known, the higher of the prices with and without it is
    held.
    """

    name: str
    times: Decimal
    when: tuple[Condition, ...] = ()
    size_above: int | None = None
    answered: tuple[Condition, ...] = ()


class StrictQuantity(msgspec.Struct, frozen=True):
    """Where a body in the provider's own form has a quantity, for some operations or where conditions hold."""

    requested: Requested
    operations: frozenset[str] | None = None
    when: tuple[Condition, ...] = ()


class StrictPointers(msgspec.Struct, frozen=True):
    """How a component is priced from a body in the provider's own form (S-01): the first quantity and case that apply.

    Where none applies, `at_most` is held, at the dearest price of the component.
    """

    quantities: tuple[StrictQuantity, ...]
    cases: tuple[Case, ...]
    at_most: Decimal


@dataclass(frozen=True, slots=True)
class Component:
    """One line of a card: `price` (10^-8 dollars) for each unit of a quantity of at most `at_most` units.

    The first of the `cases` that applies replaces the price. `beyond` units are free, and what is left is rounded up to
    whole units if it `is_whole`. `at_least` is the fewest units a run with an answer that is measured has, whatever the
    body asks for; None where it cannot be known before. `fewest` is `requested` with the least of every range in it;
    None where it has no ranges. `typical` is how many units a run usually has where its body does not fix that, if it
    is known. With `tiers` the quantity has one price, which is due once; `price` beyond the last of them. `parts` of
    the measured quantity have prices of their own.
    """

    unit: str
    price: int
    at_most: Decimal = _ONE
    requested: Requested | None = None
    measured: Measured | None = None
    cases: tuple[Case, ...] = ()
    beyond: Decimal = Decimal(0)
    is_whole: bool = False
    strict: StrictPointers | None = None
    at_least: Decimal | None = None
    parts: tuple[Part, ...] = ()
    multipliers: tuple[Multiplier, ...] = ()
    fewest: Requested | None = None
    tiers: tuple[Tier, ...] = ()
    typical: Decimal | None = None
    is_settled_before: bool = field(init=False)
    """Whether the charge equals the hold, because nothing depends on the answer."""
    is_plain: bool = field(init=False)
    """Whether the hold is the price times the quantity, before a markup."""

    def __post_init__(self) -> None:
        depends = self.measured is not None or any(one.answered for one in self.multipliers)
        object.__setattr__(self, "is_settled_before", not depends)
        has_each = self.measured is not None and self.measured.each is not None
        object.__setattr__(self, "is_plain", not (self.parts or self.multipliers or self.tiers or has_each))

    @property
    def dearest(self) -> int:
        """The highest price of a unit, whatever a body says, before multipliers."""
        cases = self.cases if self.strict is None else (*self.cases, *self.strict.cases)
        others = [one.price for one in cases] + [one.price for one in self.parts] + [one.price for one in self.tiers]
        return max(self.price, *others, 0)

    @property
    def most_strictly(self) -> Decimal:
        """The most units that a run in the provider's own form can be charged for."""
        return self.at_most if self.strict is None else self.strict.at_most


@dataclass(frozen=True, slots=True)
class RateCard:
    """The prices of one model on one provider from a date on; charges keep the version they were made with.

    From `stale_after` on nothing is quoted by it, because its prices must be checked again (R-31). `source` is where
    the vendor publishes them, `checked` the day on which they were last compared with it; `check_by` is the day by
    which somebody should do so again, where the vendor's list could not be read. `is_derived`: the prices were worked
    out from a reseller's, so nothing is exact by them (X-02). `markup` is what the operator adds, in percent.
    `captures` are what is kept of a run, by name, to price it again (price_facts.py).
    """

    version: str
    effective: datetime.date
    components: tuple[Component, ...]
    stale_after: datetime.date | None = None
    source: str | None = None
    checked: datetime.date | None = None
    markup: Decimal = NO_MARKUP
    check_by: datetime.date | None = None
    is_derived: bool = False
    captures: Mapping[str, Capture] = field(default_factory=dict)
    label: str = field(init=False)
    """Its name in the ledger: the version, and the markup where there is one, such as `v2+7.5%` or `v2-10%`."""

    def __post_init__(self) -> None:
        label = f"{self.version}{self.markup:+f}%" if self.markup else self.version
        object.__setattr__(self, "label", label)


class Line(msgspec.Struct, frozen=True):
    """The hold of one component: its quantity, the price of a unit (10^-8 dollars), and their product.

    `factor` combines the markup and the multipliers that are known before the answer; `open` are those that the answer
    decides. `each` is how many units one thing that is counted in the answer has.
    """

    component: Component
    quantity: Decimal
    price: int
    held: int
    factor: Decimal = _ONE
    open: tuple[Multiplier, ...] = ()
    each: Decimal = _ONE


class Quote(msgspec.Struct, frozen=True):
    """The hold of a run: the card, its lines, and their sum (10^-8 dollars).

    `least` is paid whatever the partner reports.
    """

    card: RateCard
    lines: tuple[Line, ...]
    amount: int
    least: int


class Report(msgspec.Struct, frozen=True):
    """What a partner reports of a completed generation.

    `answer` is its decoded JSON, or None where it answered bytes; `headers` are asked for lower-case names; `told` are
    figures by name that it told before its answer, `made` properties of the first file that was stored.
    """

    answer: object
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    told: Mapping[str, str] = msgspec.field(default_factory=dict)
    made: Mapping[str, str] = msgspec.field(default_factory=dict)


class Charge(msgspec.Struct, frozen=True):
    """What a completed generation costs, and what it would cost at the quantities the partner reports.

    Both are 10^-8 dollars. `reported` is more than `amount` only where the partner reports more than was held for.
    """

    amount: int
    reported: int


def card_in_force(cards: Sequence[RateCard], today: datetime.date, own: Decimal | None = None) -> RateCard | None:
    """Pick the newest card whose date has come, with a workspace's `own` markup in place of its; None if none has."""
    found: RateCard | None = None
    for card in cards:
        if card.effective <= today and (found is None or card.effective > found.effective):
            found = card
    return found if own is None or found is None else replace(found, markup=own)


def card_named(cards: Sequence[RateCard], label: str) -> RateCard | None:
    """The card with a name from the ledger, with the markup it had then; None when it was removed."""
    for card in cards:
        if label in (card.version, card.label):
            return card if label == card.label else replace(card, markup=NO_MARKUP)
        added = label.removeprefix(card.version)
        if added != label and _PERCENT.fullmatch(added):
            return replace(card, markup=Decimal(added[:-1]))
    return None


def quote(card: RateCard, asked: Pricing) -> Quote:
    """Price a body before it is sent."""
    lines = []
    for component in card.components:
        price = price_of(component, asked) if component.cases else component.price
        wanted = component.requested
        quantity = None if wanted is None else quantity_asked(component, wanted, asked)
        if quantity is None:  # the body does not say
            quantity = component.at_most
        lines.append(line_of(card, component, quantity, price, asked))
    return quote_of(card, lines)


def line_of(card: RateCard, component: Component, quantity: Decimal, price: int, asked: Pricing) -> Line:
    """The hold of a component at a quantity and a price: the most that the answer can make of it."""
    if component.is_plain and not card.markup:  # the usual case
        return Line(component, quantity, price, price if quantity is _ONE else round(price * quantity))
    factor, most, undecided = _ONE + card.markup / 100, _ONE, []
    for one in component.multipliers:
        if not _is_possible(one, asked):
            continue
        if one.answered:
            undecided.append(one)
            most *= max(one.times, _ONE)
        else:
            factor *= one.times
    dearest = max(price, *(part.price for part in component.parts if _may_occur(part, asked)), 0)
    units = quantity
    if component.tiers and price:
        dearest, units = price_in(component.tiers, quantity, price), _ONE
    held = times(dearest, units * factor * most)
    return Line(component, quantity, price, held, factor, tuple(undecided), _each_of(component, asked))


def _each_of(component: Component, asked: Pricing) -> Decimal:
    """How many units one thing counted in the answer has; `at_most` of them where the body does not say."""
    wanted = None if component.measured is None else component.measured.each
    if wanted is None:
        return _ONE
    found = None if asked.is_strict else quantity_asked(component, wanted, asked)
    return component.at_most if found is None else found


def quote_of(card: RateCard, lines: Sequence[Line]) -> Quote:
    """Add lines up."""
    amount = least = 0
    for line in lines:
        amount += line.held
        if line.component.is_settled_before:
            least += line.held
    return Quote(card, tuple(lines), amount, least)


def charge(held: Quote, report: Report) -> Charge:
    """Price a completed generation from what the partner reports (R-28, R-29), never above the hold.

    The hold in the ledger may be less than that of the lines (holds.py), which is for the caller to mind.
    """
    amount, beyond = held.least, 0
    for line in held.lines:
        component = line.component
        if component.is_settled_before:
            continue
        due = _due(line, report)
        amount += min(due, line.held)
        beyond += max(due - line.held, 0)
    return Charge(amount, amount + beyond)


def _due(line: Line, report: Report) -> int:
    """What the partner's report of a component comes to; what was held where it reports nothing."""
    component, measured = line.component, line.component.measured
    answer = report.answer
    quantity = line.quantity if measured is None else _measured_quantity(line, measured, report)
    if quantity is None or (answer is None and (line.open or component.parts)):
        return line.held
    factor = line.factor
    if component.tiers:
        return round(price_in(component.tiers, Decimal(quantity), line.price) * factor) if line.price else 0
    if not component.parts and not line.open and factor is _ONE:  # the usual case
        return round(line.price * quantity)
    for one in line.open:
        if all_hold(one.answered, answer):
            factor *= one.times
    due, rest = Decimal(0), quantity
    for part in component.parts:
        share = min((_first_number(answer, part.answer) or 0) * (_ONE if measured is None else measured.scale), rest)
        due += share * part.price
        rest -= share
    return round((due + rest * line.price) * factor)


def _is_possible(multiplier: Multiplier, asked: Pricing) -> bool:
    """Whether a multiplier can apply to a body, as far as the body says."""
    if multiplier.size_above is not None and asked.size <= multiplier.size_above:
        return False
    return all_hold(multiplier.when, asked.body)


def _may_occur(part: Part, asked: Pricing) -> bool:
    return not part.when_any or any(one.holds(asked.body) for one in part.when_any)


def price_of(component: Component, asked: Pricing) -> int:
    """The price of a unit for what is asked, in 10^-8 dollars."""
    for case in component.cases:
        if (case.operations is None or asked.operation in case.operations) and all_hold(case.when, asked.body):
            return case.price
    return component.price


def quantity_asked(component: Component, wanted: Requested, asked: Pricing) -> Decimal | None:
    """The quantity a body asks for, at most `at_most`; None where it does not say."""
    total = Decimal(0)
    for one in (wanted, *wanted.plus):
        if one.unless and any(found.holds(asked.body) for found in one.unless):
            return None
        product: Decimal | int = 1
        for factor in one.product:
            # As most are a value; to name a member by its class takes longer than all the rest.
            number = _value(factor, asked) if factor.reading is _VALUE else count_of(factor, asked)
            if number is None:
                return None
            product *= number
        total += product * one.scale
    if component.beyond or component.is_whole:
        total = billable(component, total)
    return min(total, component.at_most)


def _value(factor: Factor, asked: Pricing) -> Decimal | int | None:
    found = first(asked.body, factor.at)
    if found is MISSING or found is None:
        for place in factor.or_at:
            found = first(asked.body, place)
            if found is not MISSING and found is not None:
                break
        else:
            found = first(asked.defaults, factor.at)
    if found is MISSING or found is None:
        return factor.otherwise
    if factor.values and (mapped := factor.values.get(text_of(found) or "")) is not None:
        return mapped
    return number_of(found)


def _measured_quantity(line: Line, measured: Measured, report: Report) -> Decimal | int | None:
    """The quantity the partner reports; None where it reports none."""
    component, answer = line.component, report.answer
    if measured.is_counted and answer is not None:
        count = sum(1 for place in measured.answer for _ in find_all(answer, place))
        return billable(component, count * measured.scale * line.each)
    elsewhere = report.headers, measured.header
    if measured.told is not None:
        elsewhere = report.told, measured.told
    elif measured.result is not None:
        elsewhere = report.made, measured.result
    number = number_of(elsewhere[0].get(elsewhere[1] or ""))
    for place in measured.answer:  # as every run passes here, without a function of its own
        number = number_of(first(answer, place))
        if number is not None:
            break
    if number is None or (measured.is_nonzero and not number):
        return None
    for place in measured.plus:
        number += number_of(first(answer, place)) or 0
    quantity = number * measured.scale
    return billable(component, quantity) if component.beyond or component.is_whole else quantity


def _first_number(answer: object, places: Sequence[Pointer]) -> Decimal | int | None:
    """The number at the first of some places that has one."""
    for place in places:
        number = number_of(first(answer, place))
        if number is not None:
            return number
    return None


def billable(component: Component, quantity: Decimal) -> Decimal:
    """The units of a quantity that are paid for."""
    left = max(quantity - component.beyond, Decimal(0)) if component.beyond else quantity
    return left.to_integral_value(ROUND_CEILING) if component.is_whole else left
