"""Prices of bodies in a provider's own form (S-01): read by pointers of their own, and never too low.

Such a body is not checked against a schema, so a number counts only where every partner would read the same value:
a whole number above zero, or one of the `values` where a file lists them. Whatever cannot be read so is held at
`at_most`, and a price that no case settles is the dearest of its component.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from fairlead.domain.faults import Violation
from fairlead.domain.ledger.quantities import Factor, Pricing, Reading, Requested
from fairlead.domain.ledger.rates import (
    Component,
    Quote,
    RateCard,
    StrictPointers,
    StrictQuantity,
    billable,
    line_of,
    quote_of,
)
from fairlead.domain.pointers import MISSING, Condition, Pointer, exact_text_of, find_all, first

_WHOLE: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_WHOLE_MAX: Final = 10**18
"""A larger number counts as this one, which is more than any `at_most`."""


def quote_strict(card: RateCard, asked: Pricing) -> Quote:
    """Price a body in the provider's own form before it is sent."""
    lines = []
    for component in card.components:
        found = quantity_strictly(component, asked)
        quantity = component.most_strictly if found is None else min(found, component.most_strictly)
        lines.append(line_of(card, component, quantity, price_strictly(component, asked), asked))
    return quote_of(card, lines)


def price_strictly(component: Component, asked: Pricing) -> int:
    """The price of a unit: that of the first case that certainly applies, otherwise the highest."""
    for case in () if component.strict is None else component.strict.cases:
        if _is_for(case.operations, asked) and all(_surely_holds(one, asked.body) for one in case.when):
            return case.price
    return component.dearest


def quantity_strictly(component: Component, asked: Pricing) -> Decimal | None:
    """The quantity a body asks for, which may pass `at_most`; None where it cannot be read."""
    wanted = _requested_quantity(component, asked)
    if wanted is None or any(one.holds(asked.body) for one in wanted.unless):
        return None
    product: Decimal | int = 1
    for factor in wanted.product:
        number = _factor(factor, asked)
        if number is None:
            return None
        product *= number
    return billable(component, product * wanted.scale)


def beyond_card(card: RateCard, asked: Pricing) -> tuple[Violation, ...]:
    """The quantities of a body that pass what the card prices: a run can be charged for `at_most` and no more."""
    return tuple(
        Violation(
            ("body", *(int(part) if part.isdecimal() else part for part in _place(component, asked))),
            f"This asks for more than the {component.most_strictly} of {component.unit!r} a run can be charged for.",
            "less_than_equal",
            {"le": float(component.most_strictly)},
        )
        for component in card.components
        if (quantity := quantity_strictly(component, asked)) is not None and quantity > component.most_strictly
    )


def _place(component: Component, asked: Pricing) -> Pointer:
    """The place of a component's quantity in a body."""
    wanted = _requested_quantity(component, asked)
    factors = () if wanted is None else wanted.product
    return next((place for factor in factors for place, _ in find_all(asked.body, factor.at)), ())


def _requested_quantity(component: Component, asked: Pricing) -> Requested | None:
    if component.strict is None:
        return None
    return next((one.requested for one in component.strict.quantities if _applies(one, asked)), None)


def _applies(quantity: StrictQuantity, asked: Pricing) -> bool:
    return _is_for(quantity.operations, asked) and all(_surely_holds(one, asked.body) for one in quantity.when)


def _is_for(operations: frozenset[str] | None, asked: Pricing) -> bool:
    return operations is None or asked.operation in operations


def _surely_holds(condition: Condition, body: object) -> bool:
    """Whether a condition holds however a partner reads the body: every value matches, also by type."""
    if condition.equals is None:
        return condition.holds(body)
    found = [exact_text_of(value) for _, value in find_all(body, condition.at)]
    return bool(found) and all(text in condition.equals for text in found)


def _factor(factor: Factor, asked: Pricing) -> Decimal | int | None:
    match factor.reading:
        case Reading.BYTES:
            return asked.size
        case Reading.COUNT:
            return sum(1 for _ in find_all(asked.body, factor.at))
        case Reading.LENGTH:
            return _length(factor, asked.body)
        case Reading.VALUE:
            found = first(asked.body, factor.at)
            if found is MISSING or found is None:
                return factor.otherwise
            return factor.values.get(exact_text_of(found) or "") if factor.values else _whole_number(found)
        case _:
            return None  # the files of such a body are not measured


def _length(factor: Factor, body: object) -> int | None:
    """How many characters the texts at a place have; None where something else is there."""
    found = [value for _, value in find_all(body, factor.at)]
    return sum(map(len, found)) if all(isinstance(value, str) for value in found) else None


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    if isinstance(value, float) and not value.is_integer():
        return None
    return min(int(value), _WHOLE_MAX) if isinstance(value, int | float) and value > 0 else None


def pointers_of(strict: StrictPointers) -> Iterator[Pointer]:
    """Every place of a body that a strict price looks at."""
    for quantity in strict.quantities:
        yield from (factor.at for factor in quantity.requested.product if factor.at)
        yield from (one.at for one in quantity.requested.unless)
        yield from (one.at for one in quantity.when)
    for case in strict.cases:
        yield from (one.at for one in case.when)
