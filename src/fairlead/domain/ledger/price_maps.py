"""Rate cards beside a price map: a list of what models cost, as LLM gateways keep one.

A map has figures such as `input_cost_per_token` for each model, in dollars for one token, picture, second or character.
A card prices the same quantities in units of its own, which people named: the table below says which are meant.
"""

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from fairlead.domain.ledger.rates import Case, Component, RateCard

_TOLERANCE: Final = Decimal("0.001")
"""How far two prices may differ, relative to the larger: maps round what is sold by the hour to a second."""
_DOLLAR: Final = Decimal(10**8)


class Verdict(enum.StrEnum):
    """What the comparison of a card with an entry of a map has shown."""

    DIFFERS = "differs"
    EQUAL = "equal"
    NOT_COMPARABLE = "not comparable"
    """They have no quantity in common."""
    MISSING = "missing"
    """The map has no entry."""


class ComparedFigure(msgspec.Struct, frozen=True):
    """A price of the map and ours for the same: dollars for each `unit` of the card. Ours may depend on the body."""

    figure: str
    unit: str
    theirs: Decimal
    ours: tuple[Decimal, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the map's price is one of ours."""
        return any(abs(self.theirs - one) <= _TOLERANCE * max(self.theirs, one) for one in self.ours)


class Comparison(msgspec.Struct, frozen=True):
    """What a card and an entry say of the same; `left_out` are figures of the entry that no line of the card prices."""

    verdict: Verdict
    figures: tuple[ComparedFigure, ...] = ()
    left_out: tuple[str, ...] = ()
    reason: str | None = None


class MapEntry(msgspec.Struct, frozen=True):
    """What a map says of one model: its figures in dollars, and the kind of work, such as `image_generation`."""

    key: str
    figures: Mapping[str, Decimal]
    mode: str | None = None


class _Quantity(msgspec.Struct, frozen=True):
    """How a card names a quantity: by the units of its components, and for some by the unit of a part of them."""

    unit: re.Pattern[str]
    part: re.Pattern[str] | None = None


def _quantity(unit: str, part: str | None = None) -> _Quantity:
    return _Quantity(re.compile(unit), None if part is None else re.compile(part))


_TEXT_IN: Final = r"(1M|1,000) (?:text )?tokens in\b"
_IMAGE_IN: Final = r"(1M|1,000) image tokens in\b"
_READ: Final = r"(?:cached|(?:read )?from the cache)$"
_IMAGE: Final = _quantity(r"image\b")
_GIVEN_IMAGE: Final = _quantity(r"(?:input image|first frame|picture given|reference picture|reference)\b")
_SECOND: Final = _quantity(r"(second|minute|hour)\b(?!.*\b(?:given|changed)\b)")
_QUANTITIES: Final[Mapping[str, _Quantity]] = {
    "input_cost_per_token": _quantity(_TEXT_IN),
    "output_cost_per_token": _quantity(r"(1M|1,000) (?:text )?tokens out\b"),
    "cache_read_input_token_cost": _quantity(_TEXT_IN, _READ),
    "cache_creation_input_token_cost": _quantity(_TEXT_IN, r"written to the cache(?: for 5 minutes)?$"),
    "cache_creation_input_token_cost_above_1hr": _quantity(_TEXT_IN, r"written to the cache for 1 hour$"),
    "input_cost_per_image_token": _quantity(_IMAGE_IN),
    "cache_read_input_image_token_cost": _quantity(_IMAGE_IN, _READ),
    "output_cost_per_image_token": _quantity(r"(1M|1,000) image tokens out\b"),
    "output_cost_per_image": _IMAGE,
    "input_cost_per_image": _GIVEN_IMAGE,
    "output_cost_per_second": _SECOND,
    "output_cost_per_video_per_second": _SECOND,
    "input_cost_per_second": _SECOND,
    "input_cost_per_character": _quantity(r"(1M|1,000) characters\b"),
}
_SCALES: Final[Mapping[str, int]] = {"1M": 10**6, "1,000": 1000, "minute": 60, "hour": 3600}
_SIZE: Final = r"[0-9]{3,4}p|[0-9.]{1,3}[kK]"
_FIGURE: Final = re.compile(
    rf"(?P<base>{'|'.join(sorted(_QUANTITIES, key=len, reverse=True))})"
    rf"(?:_above_(?P<above>[0-9]+)k_tokens)?(?:_(?P<tier>priority|flex))?(?:_(?P<size>{_SIZE}))?"
)
_SIZE_OF_UNIT: Final = re.compile(rf"\b({_SIZE})\b", re.IGNORECASE)
_MAKING_IMAGES: Final = ("image_generation", "image_edit")


def compare_card(card: RateCard, entry: MapEntry) -> Comparison:
    """Compare the list prices of a card with an entry of a price map; the card's markup is not part of them."""
    compared: list[ComparedFigure] = []
    left_out: list[str] = []
    for name, price in entry.figures.items():
        found = tuple(_compare_figure(card, entry, name, price))
        compared += found
        if not found:
            left_out.append(name)
    if not compared:
        units = ", ".join(dict.fromkeys(component.unit for component in card.components))
        theirs = ", ".join(left_out[:3]) or "no price"
        reason = f"the map has {theirs}, the card prices {units}"
        return Comparison(Verdict.NOT_COMPARABLE, (), tuple(left_out), reason)
    is_equal = all(one.is_equal for one in compared)
    return Comparison(Verdict.EQUAL if is_equal else Verdict.DIFFERS, tuple(compared), tuple(left_out))


def _compare_figure(card: RateCard, entry: MapEntry, name: str, price: Decimal) -> Iterator[ComparedFigure]:
    """The figure beside our prices of the same quantity, for each unit in which a card has it."""
    read = _FIGURE.fullmatch(name)
    if read is None:
        return
    quantity = _QUANTITIES[read["base"]]
    if read["base"] == "input_cost_per_image" and entry.mode in _MAKING_IMAGES and not _has_image_made(entry):
        quantity = _IMAGE
    names = _multiplier_names(read["above"], read["tier"])
    ours: dict[tuple[str, int], list[Decimal]] = {}
    for component in card.components:
        unit = quantity.unit.match(component.unit)
        times = _multiplied(component, names)
        if unit is None or times is None or _is_of_another_size(component, read["size"]):
            continue
        written = unit[1] if unit.re.groups else ""
        for amount in _prices(component, quantity, read["size"]):
            ours.setdefault((component.unit, _SCALES.get(written, 1)), []).append(amount * times / _DOLLAR)
    scales = {scale for _, scale in ours}
    for scale in sorted(scales):
        units = [unit for unit, of_it in ours if of_it == scale]
        amounts = dict.fromkeys(amount for unit in units for amount in ours[unit, scale])
        yield ComparedFigure(name, units[0], price * scale, tuple(sorted(amounts)))


def _has_image_made(entry: MapEntry) -> bool:
    """Whether an entry prices pictures that are made; many old ones say `input_cost_per_image` and mean those."""
    return any(name.startswith("output_cost_per_image") for name in entry.figures)


def _multiplier_names(above: str | None, tier: str | None) -> Sequence[str]:
    beyond = () if above is None else (f"beyond {int(above) * 1000:,} tokens",)
    return beyond if tier is None else (*beyond, f"at the {tier} tier")


def _multiplied(component: Component, names: Sequence[str]) -> Decimal | None:
    """The product of a component's multipliers of these names; None where it has none of a name."""
    times = {one.name: one.times for one in component.multipliers}
    product = Decimal(1)
    for name in names:
        if name not in times:
            return None
        product *= times[name]
    return product


def _is_of_another_size(component: Component, size: str | None) -> bool:
    """Whether a component names a size of its own, as `second of 1080P` does, and the figure is not of that size."""
    named = _SIZE_OF_UNIT.search(component.unit)
    return named is not None and (size is None or named[1].lower() != size.lower())


def _prices(component: Component, quantity: _Quantity, size: str | None) -> Iterator[int]:
    """Our prices (10^-8 dollars) of a unit: of a part of it, of a size, or whatever a body may ask for."""
    if quantity.part is not None:
        yield from (part.price for part in component.parts if quantity.part.match(part.unit))
        return
    of_size = [case.price for case in component.cases if size is not None and size.lower() in _sizes_of(case)]
    if of_size:
        yield from of_size
        return
    yield component.price
    yield from (case.price for case in component.cases if size is None or not _sizes_of(case))


def _sizes_of(case: Case) -> frozenset[str]:
    """The sizes, such as 720p, for which a price applies."""
    wanted = (value for condition in case.when for value in condition.equals or ())
    return frozenset(value.lower() for value in wanted if re.fullmatch(_SIZE, value.lower()))
