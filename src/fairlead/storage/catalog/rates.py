"""Rate cards in model files (docs/catalog-files.md): their fields as msgspec reads them, and the domain's records."""

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from math import prod
from typing import Annotated, Final, Literal

import msgspec

from fairlead.domain.ledger.money import UNITS_PER_DOLLAR, Tier, from_dollars
from fairlead.domain.ledger.price_facts import captures_of
from fairlead.domain.ledger.quantities import Factor, Reading, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    Multiplier,
    Part,
    RateCard,
    StrictPointers,
    StrictQuantity,
)
from fairlead.domain.pointers import Condition, ConditionFile, Pointer, conditions, parse_pointer

VERSION_MAX: Final = 56
"""Characters of a version: a markup of eight more, such as `+999.99%`, is in the ledger with it."""
_CHARGE_MAX: Final = 1_000_000 * UNITS_PER_DOLLAR
"""The most that one run may cost, so that a price with a misplaced decimal point is refused when it is loaded."""
_OF_PLACES: Final = "count|length|seconds|longest|frames|pixels"
_READ: Final = re.compile(rf"(?P<reading>{_OF_PLACES}|bytes)\((?P<at>(/.*)?)\)")

_PLACE_MAX: Final = 256
_PointerText = Annotated[str, msgspec.Meta(pattern=r"^/.+$", max_length=256)]
_FactorText = Annotated[
    str, msgspec.Meta(pattern=r"^(/.+|(count|length|seconds|longest|frames|pixels)\(/.+\)|bytes\(\))$", max_length=256)
]
_Places = str | Annotated[list[str], msgspec.Meta(min_length=2, max_length=8)]
"""A place, or several of which the first with a number counts."""
_UnitText = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_PriceText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,8})?$")]
_NumberText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]
_RangeText = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?(\.\.[0-9]{1,12}(\.[0-9]{1,12})?)?$", max_length=64)
]
"""A number, or the least and the most of what the vendor may choose, such as `2..12`."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]


class MistakeError(Exception):
    """Something in a model file contradicts something else; `steps` lead to where."""

    def __init__(self, steps: Sequence[str], reason: str) -> None:
        super().__init__(reason)
        self.steps = list(steps)
        self.reason = reason


class _FactorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    # Plain texts, for the reason given in storage/catalog/files.py.
    at: str | Annotated[list[str], msgspec.Meta(min_length=2, max_length=8)]
    values: dict[str, _RangeText] = {}
    otherwise: _RangeText | None = None

    @property
    def has_range(self) -> bool:
        return any(".." in text for text in (*self.values.values(), self.otherwise or ""))


class _ProductFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: Annotated[list[_FactorText | _FactorFile], msgspec.Meta(min_length=1)]
    scale: _NumberText = "1"
    unless: _PointerText | list[ConditionFile] = []


class _RequestedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: Annotated[list[_FactorText | _FactorFile], msgspec.Meta(min_length=1)]
    scale: _NumberText = "1"
    unless: _PointerText | list[ConditionFile] = []
    bound: bool = False
    plus: Annotated[list[_ProductFile], msgspec.Meta(max_length=8)] = []


class _MeasuredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: _Places | None = None
    header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]+$")] | None = None
    told: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    result: Literal["seconds", "frames", "pixels", "bytes"] | None = None
    count: _PointerText | None = None
    scale: _NumberText = "1"
    each: _ProductFile | None = None
    nonzero: bool = False
    plus: Annotated[list[_PointerText], msgspec.Meta(max_length=8)] = []


class _CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: _PriceText
    operations: Annotated[list[Name], msgspec.Meta(min_length=1)] | None = None
    when: list[ConditionFile] = []


class _PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: _UnitText
    answer: _Places
    price: _PriceText
    when_any: list[ConditionFile] = []


class _MultiplierFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _UnitText
    times: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,6})?$")]
    when: list[ConditionFile] = []
    size_above: Annotated[int, msgspec.Meta(ge=0)] | None = None
    answered: list[ConditionFile] = []


class _StrictQuantityFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: Annotated[list[_FactorText | _FactorFile], msgspec.Meta(min_length=1)]
    scale: _NumberText = "1"
    unless: _PointerText | list[ConditionFile] = []
    operations: Annotated[list[Name], msgspec.Meta(min_length=1)] | None = None
    when: list[ConditionFile] = []


class _StrictPointersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    requested: Annotated[list[_StrictQuantityFile], msgspec.Meta(max_length=16)] = []
    cases: Annotated[list[_CaseFile], msgspec.Meta(max_length=64)] = []
    at_most: _NumberText | None = None


class _TierFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    up_to: _NumberText
    price: _PriceText


class _ComponentFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: _UnitText
    price: _PriceText
    at_most: _NumberText | None = None
    beyond: _NumberText = "0"
    whole: bool = False
    requested: _RequestedFile | None = None
    measured: _MeasuredFile | None = None
    cases: Annotated[list[_CaseFile], msgspec.Meta(max_length=64)] = []
    strict: _StrictPointersFile | None = None
    at_least: _NumberText | None = None
    typical: _NumberText | None = None
    tiers: Annotated[list[_TierFile], msgspec.Meta(max_length=16)] = []
    parts: Annotated[list[_PartFile], msgspec.Meta(max_length=8)] = []
    multipliers: Annotated[list[_MultiplierFile], msgspec.Meta(max_length=8)] = []


class RateCardFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rate card of a leg."""

    version: Annotated[str, msgspec.Meta(min_length=1, max_length=VERSION_MAX)]
    effective: datetime.date
    components: Annotated[list[_ComponentFile], msgspec.Meta(min_length=1, max_length=32)]
    stale_after: datetime.date | None = None
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"^[^\n|]+$")] | None = None
    checked: datetime.date | None = None
    check_by: datetime.date | None = None
    derived: bool = False
    multipliers: Annotated[list[_MultiplierFile], msgspec.Meta(max_length=8)] = []


def rate_cards_of(read: Sequence[RateCardFile], steps: Sequence[str]) -> tuple[RateCard, ...]:
    """The rate cards of a leg; MistakeError. `steps` lead to the leg."""
    return tuple(_rate_card(card, [*steps, "rate_cards", str(number)]) for number, card in enumerate(read))


def _rate_card(read: RateCardFile, steps: Sequence[str]) -> RateCard:
    components = []
    for number, part in enumerate(read.components):
        try:
            components.append(_component(part, read.multipliers))
        except ValueError as error:
            raise MistakeError([*steps, "components", str(number)], str(error)) from error
    most = sum(
        one.dearest * max(one.at_most, one.most_strictly) * prod(max(by.times, Decimal(1)) for by in one.multipliers)
        for one in components
    )
    if most > _CHARGE_MAX:
        reason = f"the card {read.version!r} could charge more than {_CHARGE_MAX // UNITS_PER_DOLLAR} dollars"
        raise MistakeError(steps, reason)
    if read.checked is not None and read.source is None:
        raise MistakeError(steps, "'checked' says when the prices were compared with their 'source', which is missing")
    if read.check_by is not None and (read.checked is None or read.check_by <= read.checked):
        raise MistakeError(steps, "'check_by' is a day after 'checked', by which the prices are to be compared again")
    return RateCard(
        read.version,
        read.effective,
        tuple(components),
        read.stale_after,
        read.source,
        read.checked,
        check_by=read.check_by,
        is_derived=read.derived,
        captures=captures_of(components),
    )


def _component(read: _ComponentFile, of_card: Sequence[_MultiplierFile]) -> Component:
    if read.parts and (read.measured is None or read.measured.answer is None or read.whole or read.beyond != "0"):
        raise ValueError("'parts' are of a number at 'answer' in 'measured', and without 'whole' and 'beyond'")
    bounds = [Decimal(one.up_to) for one in read.tiers]
    if bounds != sorted(set(bounds)) or (read.tiers and read.parts):
        raise ValueError("'tiers' go up from one 'up_to' to the next, and have no 'parts'")
    is_one = read.requested is None and read.at_most is None
    least = "1" if read.at_least is None and is_one else read.at_least
    at_most = read.at_most or "1"
    return Component(
        unit=read.unit,
        price=from_dollars(read.price),
        at_most=Decimal(at_most),
        requested=None if read.requested is None else _read_requested(read.requested),
        measured=None if read.measured is None else _read_measured(read.measured),
        cases=tuple(_case(case) for case in read.cases),
        beyond=Decimal(read.beyond),
        is_whole=read.whole,
        strict=None if read.strict is None else _strict(read.strict, at_most),
        at_least=None if least is None else Decimal(least),
        parts=tuple(_part(one) for one in read.parts),
        multipliers=tuple(_multiplier(one) for one in (*of_card, *read.multipliers)),
        fewest=_fewest(read.requested),
        tiers=tuple(Tier(Decimal(one.up_to), from_dollars(one.price)) for one in read.tiers),
        typical=None if read.typical is None else _typical(read, read.typical, least, at_most),
    )


def _typical(read: _ComponentFile, typical: str, least: str | None, at_most: str) -> Decimal:
    """The usual quantity; ValueError where it contradicts the bounds, or nothing leaves the quantity open."""
    if not max(Decimal(0), Decimal(least or 0)) <= Decimal(typical) <= Decimal(at_most) or not Decimal(typical):
        raise ValueError("'typical' is above 0, at least 'at_least' and at most 'at_most'")
    if read.measured is None:
        raise ValueError("'typical' is of a quantity that is 'measured': any other is charged as it is held")
    if least == at_most or (read.requested is not None and _is_fixed(read.requested)):
        raise ValueError("'typical' is of a quantity that the body, or the card, does not fix")
    return Decimal(typical)


def _is_fixed(read: _RequestedFile) -> bool:
    """Whether every body says a quantity: it is no bound and has no range, and each factor is there in any body."""
    if read.bound or read.unless or any(one.unless for one in read.plus):
        return False
    factors = [_FactorFile(one) if isinstance(one, str) else one for one in read.product]
    factors += [_FactorFile(one) if isinstance(one, str) else one for part in read.plus for one in part.product]
    return all(
        not one.has_range
        and (one.otherwise is not None or (isinstance(one.at, str) and _READ.fullmatch(one.at) is not None))
        for one in factors
    )


def _fewest(read: _RequestedFile | None) -> Requested | None:
    """A quantity with the least of its ranges; None where it has none."""
    if read is None:
        return None
    factors = [*read.product, *(one for part in read.plus for one in part.product)]
    if not any(isinstance(one, _FactorFile) and one.has_range for one in factors):
        return None
    return _read_requested(read, is_least=True)


def _part(read: _PartFile) -> Part:
    return Part(read.unit, from_dollars(read.price), _pointers(read.answer), _conditions(read.when_any))


def _multiplier(read: _MultiplierFile) -> Multiplier:
    if not (read.when or read.size_above is not None or read.answered):
        raise ValueError("a multiplier needs 'when', 'size_above' or 'answered'")
    return Multiplier(
        read.name, Decimal(read.times), _conditions(read.when), read.size_above, _conditions(read.answered)
    )


def _conditions(read: Sequence[ConditionFile]) -> tuple[Condition, ...]:
    if problem := next(filter(None, (one.problem() for one in read)), None):
        raise ValueError(problem)
    return conditions(read)


def _strict(read: _StrictPointersFile, at_most: str) -> StrictPointers:
    quantities = []
    for one in read.requested:
        operations = None if one.operations is None else frozenset(one.operations)
        quantities.append(StrictQuantity(_read_requested(one), operations, _conditions(one.when)))
    return StrictPointers(
        tuple(quantities), tuple(_case(case) for case in read.cases), Decimal(read.at_most or at_most)
    )


def _case(read: _CaseFile) -> Case:
    operations = None if read.operations is None else frozenset(read.operations)
    return Case(from_dollars(read.price), operations, _conditions(read.when))


def _read_requested(read: _RequestedFile | _StrictQuantityFile | _ProductFile, *, is_least: bool = False) -> Requested:
    return Requested(
        product=tuple(_factor(entry, is_least=is_least) for entry in read.product),
        scale=Decimal(read.scale),
        unless=_unless(read.unless),
        is_bound=isinstance(read, _RequestedFile) and read.bound,
        plus=tuple(_read_requested(one, is_least=is_least) for one in read.plus)
        if isinstance(read, _RequestedFile)
        else (),
    )


def _unless(read: str | Sequence[ConditionFile]) -> tuple[Condition, ...]:
    return (Condition(parse_pointer(read)),) if isinstance(read, str) else _conditions(read)


def _factor(read: str | _FactorFile, *, is_least: bool) -> Factor:
    """A factor as a file writes it: a pointer, `count(…)` or the like, or a table with more to say."""
    if isinstance(read, str):
        read = _FactorFile(at=read)
    at, *others = [read.at] if isinstance(read.at, str) else read.at
    called = _READ.fullmatch(at)
    if called is not None and others:
        raise ValueError("several places are those of a value")
    return Factor(
        at=() if called is not None and not called["at"] else _pointers(at if called is None else called["at"])[0],
        reading=Reading.VALUE if called is None else Reading(called["reading"]),
        values={text: _bound(number, is_least=is_least) for text, number in read.values.items()},
        otherwise=None if read.otherwise is None else _bound(read.otherwise, is_least=is_least),
        or_at=_pointers(others),
    )


def _bound(text: str, *, is_least: bool) -> Decimal:
    """The least or the most of a range; a number is both."""
    least, _, most = text.partition("..")
    if most and Decimal(least) > Decimal(most):
        raise ValueError(f"the range {text!r} ends before it begins")
    return Decimal(least if is_least else most or least)


def _read_measured(read: _MeasuredFile) -> Measured:
    if sum(found is not None for found in (read.answer, read.header, read.told, read.result, read.count)) != 1:
        raise ValueError("'measured' needs one of 'answer', 'count', 'header', 'told' and 'result'")
    if read.each is not None and read.count is None:
        raise ValueError("'each' is of what 'count' counts")
    return Measured(
        answer=_pointers(read.answer or read.count or []),
        header=None if read.header is None else read.header.lower(),
        told=read.told,
        result=read.result,
        scale=Decimal(read.scale),
        is_counted=read.count is not None,
        is_nonzero=read.nonzero,
        plus=tuple(parse_pointer(place) for place in read.plus),
        each=None if read.each is None else _read_requested(read.each),
    )


def _pointers(read: str | Sequence[str]) -> tuple[Pointer, ...]:
    texts = [read] if isinstance(read, str) else read
    if not all(text.startswith("/") and 1 < len(text) <= _PLACE_MAX for text in texts):
        raise ValueError(f"a place is written as /a/b, in at most {_PLACE_MAX} characters")
    return tuple(map(parse_pointer, texts))
