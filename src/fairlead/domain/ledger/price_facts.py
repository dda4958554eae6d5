"""What the price of a run was made of, kept with its end, so that another card can price it again.

Kept is what the components of its card read of the body and of the answer, place by place: quantities, sizes, modes
(`Capture`). Prompts are not: of a text only its length is kept, or whether it is there. A card that reads more than was
kept cannot price the run; nothing is guessed.

To price again, the places of a card are exchanged for the names of what was captured there, and the result is priced as
every card is (rates.py, strict_rates.py). So there is one arithmetic, and the card of before comes to the charge of
before.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import msgspec
from msgspec.structs import replace as changed

from fairlead.domain.ledger.quantities import MEASURES, Factor, Pricing, Reading, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    Multiplier,
    Part,
    Quote,
    RateCard,
    Report,
    StrictPointers,
    StrictQuantity,
    charge,
    quote,
)
from fairlead.domain.ledger.strict_rates import quote_strict
from fairlead.domain.pointers import Capture, Captured, CaptureKind, Condition, Pointer, is_plural

FACTS_MAX: Final = 4_000
"""Bytes of what is kept of a run; where it is more, nothing is."""

_BODY, _DEFAULTS, _ANSWER, _HEADERS, _TOLD, _MADE = "body", "defaults", "answer", "headers", "told", "made"
"""The fields of `Pricing` and `Report`, which together are the document of which is captured."""
_OF_EVERY_RUN: Final = ("size", "operation", "is_strict", _ANSWER)
_READINGS: Final = {
    Reading.VALUE: (CaptureKind.VALUE, "0"),
    Reading.COUNT: (CaptureKind.COUNT, "*"),
    Reading.LENGTH: (CaptureKind.LENGTH, "*"),
}


class UnknownFactsError(Exception):
    """A card depends on what was not kept; the text names it."""


class _Exchange(msgspec.Struct):
    """The places of components, exchanged for the names of what is captured there: `captures`."""

    captures: dict[str, Capture] = {}

    def component(self, one: Component) -> Component:
        """A component that prices what was captured."""
        return replace(
            one,
            requested=None if one.requested is None else self._requested(one.requested),
            measured=None if one.measured is None else self._measured(one.measured),
            cases=self._cases(one.cases),
            strict=None if one.strict is None else self._strict(one.strict),
            parts=tuple(self._part(part) for part in one.parts),
            multipliers=tuple(self._multiplier(multiplier) for multiplier in one.multipliers),
            fewest=None,  # which is for estimates
        )

    def add(self, one: Capture, index: str = "0") -> Pointer:
        """The place of what is captured: the first of it, or with `*` each."""
        name = one.name
        self.captures[name] = one
        return name, index

    def of(self, source: str) -> list[Capture]:
        """What is captured of a field of the document."""
        return [one for one in self.captures.values() if one.at[0] == source]

    def _value(self, source: str, at: Pointer) -> Pointer:
        return self.add(Capture(CaptureKind.VALUE, (source, *at)))

    def _requested(self, one: Requested) -> Requested:
        return changed(
            one,
            product=tuple(map(self._factor, one.product)),
            unless=self._conditions(_BODY, one.unless),
            plus=tuple(map(self._requested, one.plus)),
        )

    def _factor(self, one: Factor) -> Factor:
        if one.reading is Reading.BYTES:
            return one
        if (measure := MEASURES.get(one.reading)) is not None:
            return changed(one, at=self.add(Capture(CaptureKind.GIVEN, (_BODY, *one.at), (measure,)), "*"))
        kind, index = _READINGS[one.reading]
        if one.reading is Reading.VALUE:
            self._value(_DEFAULTS, one.at)
        at, *or_at = (self.add(Capture(kind, (_BODY, *place)), index) for place in (one.at, *one.or_at))
        return changed(one, at=at, or_at=tuple(or_at))

    def _measured(self, one: Measured) -> Measured:
        for source, name in ((_HEADERS, one.header), (_TOLD, one.told), (_MADE, one.result)):
            if name is not None:
                self._value(source, (name,))
        kind, index = (CaptureKind.COUNT, "*") if one.is_counted else (CaptureKind.VALUE, "0")
        return changed(
            one,
            answer=tuple(self.add(Capture(kind, (_ANSWER, *at)), index) for at in one.answer),
            plus=tuple(self._value(_ANSWER, at) for at in one.plus),
            each=None if one.each is None else self._requested(one.each),
        )

    def _cases(self, cases: Iterable[Case]) -> tuple[Case, ...]:
        return tuple(changed(one, when=self._conditions(_BODY, one.when)) for one in cases)

    def _strict(self, one: StrictPointers) -> StrictPointers:
        def quantity(found: StrictQuantity) -> StrictQuantity:
            when = self._conditions(_BODY, found.when)
            return changed(found, requested=self._requested(found.requested), when=when)

        return changed(one, quantities=tuple(map(quantity, one.quantities)), cases=self._cases(one.cases))

    def _part(self, one: Part) -> Part:
        answer = tuple(self._value(_ANSWER, at) for at in one.answer)
        return changed(one, answer=answer, when_any=self._conditions(_BODY, one.when_any))

    def _multiplier(self, one: Multiplier) -> Multiplier:
        when, answered = self._conditions(_BODY, one.when), self._conditions(_ANSWER, one.answered)
        return changed(one, when=when, answered=answered)

    def _conditions(self, source: str, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        return tuple(self._condition(source, one) for one in conditions)

    def _condition(self, source: str, one: Condition) -> Condition:
        """A condition on what was captured: whether a text contains words, or is there, was found out before."""
        at = source, *one.at
        if one.contains is not None:
            found = Capture(CaptureKind.CONTAINS, at, one.contains)
        elif one.equals is None and one.above is None and one.area_above is None:
            found = Capture(CaptureKind.PRESENT, at)
        else:
            return changed(one, at=self.add(Capture(CaptureKind.VALUE, at), "*" if is_plural(at) else "0"))
        return Condition(self.add(found), is_present=one.is_present)


def captures_of(components: Iterable[Component]) -> dict[str, Capture]:
    """What is captured of every run that is priced by some components, by name, of a `Pricing` and its `Report`."""
    exchange = _Exchange()
    for name in _OF_EVERY_RUN:
        exchange.add(Capture(CaptureKind.VALUE, (name,)))
    for one in components:
        exchange.component(one)
    return exchange.captures


def price_again(facts: Captured, card: RateCard) -> int:
    """What a completed run costs by a card, in 10^-8 dollars, by what was captured of it; UnknownFactsError."""
    exchange = _Exchange()
    components = tuple(map(exchange.component, card.components))
    wanted = [*map(_name, _OF_EVERY_RUN), *exchange.captures]
    if unknown := next((name for name in wanted if name not in facts), None):
        raise UnknownFactsError(unknown)
    captured: dict[str, object] = {name: _values(one.kind, facts[name]) for name, one in exchange.captures.items()}
    files = (one for one in exchange.captures.values() if one.kind is CaptureKind.GIVEN)
    size, operation, is_strict, answer = (facts[_name(name)][0] for name in _OF_EVERY_RUN)
    asked = Pricing(
        body=captured,
        defaults={_name(_BODY, *one.at[1:]): facts[one.name] for one in exchange.of(_DEFAULTS)},
        size=size if isinstance(size, int) else 0,
        operation=operation if isinstance(operation, str) else None,
        is_strict=is_strict is True,
        given={
            (one.name, str(number)): {one.words[0]: str(size)}
            for one in files
            for number, size in enumerate(facts[one.name])
            if size is not None
        },
    )
    figures = [_figures(exchange.of(source), facts) for source in (_HEADERS, _TOLD, _MADE)]
    report = Report(None if answer is None else captured, *figures)
    price: Callable[[RateCard, Pricing], Quote] = quote_strict if asked.is_strict else quote
    return charge(price(replace(card, components=components), asked), report).amount


def _name(*at: str) -> str:
    return Capture(CaptureKind.VALUE, at).name


def _figures(captures: Iterable[Capture], facts: Captured) -> dict[str, str]:
    """Figures by their own names, such as those of a partner's headers."""
    found = {one.at[1]: facts[one.name] for one in captures}
    return {name: values[0] for name, values in found.items() if values and isinstance(values[0], str)}


def _values(kind: CaptureKind, found: list[object]) -> list[object]:
    """Values that are priced as those of before: as many, and texts of that length."""
    match kind, found:
        case CaptureKind.COUNT, [int(count)]:
            return [0] * count
        case CaptureKind.LENGTH, [int(total), *others]:
            return ["x" * total, *others]
        case _:
            return found
