"""The quantities of a caller's body that prices are multiplied by: numbers, counts, lengths of texts and files.

How long a file is that a body names, is known where it was measured before (operations/runs/given_files.py).
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Final

import msgspec

from fairlead.domain.pointers import Condition, Pointer, find_all

_ONE: Final = Decimal(1)


class Reading(enum.StrEnum):
    """How a factor is read at its place in a body."""

    VALUE = "value"
    """The number at that place."""
    COUNT = "count"
    """How many values are at that place."""
    LENGTH = "length"
    """How many characters the texts at that place have."""
    BYTES = "bytes"
    """The size of the whole body: no text in it has more tokens than that."""
    SECONDS = "seconds"
    """The length of the clips and sounds named at that place, all together."""
    LONGEST = "longest"
    """The length of the longest of them, in seconds."""
    FRAMES = "frames"
    """How many pictures the clips named at that place have, all together."""
    PIXELS = "pixels"
    """The area of the pictures, or of a frame of the clips, named at that place, all together."""


MEASURES: Final = {
    Reading.SECONDS: "longest",
    Reading.LONGEST: "longest",
    Reading.FRAMES: "frames",
    Reading.PIXELS: "pixels",
}
"""The property of a file (operations/assets/measuring.py) that a reading of it adds up."""


class Factor(msgspec.Struct, frozen=True):
    """A number in the caller's body: read at `at`, `otherwise` where it is absent; `values` maps texts to numbers.

    Of files `otherwise` is the size of each one that could not be measured.
    `or_at` are further places for a body that has nothing at `at`; the first that has something counts.
    """

    at: Pointer = ()
    reading: Reading = Reading.VALUE
    values: Mapping[str, Decimal] = msgspec.field(default_factory=dict)
    otherwise: Decimal | None = None
    or_at: tuple[Pointer, ...] = ()


class Requested(msgspec.Struct, frozen=True):
    """A quantity in the caller's body: the product of some factors, scaled; unknown when any of `unless` holds.

    `plus` are further products that are added. `is_bound`: it is only an upper bound, such as a limit on output tokens.
    """

    product: tuple[Factor, ...]
    scale: Decimal = _ONE
    unless: tuple[Condition, ...] = ()
    is_bound: bool = False
    plus: tuple["Requested", ...] = ()


class Pricing(msgspec.Struct, frozen=True):
    """What a price depends on before the partner is asked: the body, its size in bytes, and its operation.

    `defaults` are the model's own for top-level fields the caller left out. `is_strict`: the body is in the provider's
    own form, which has no such defaults, and is read with the strict pointers of a card.
    """

    body: Mapping[str, object]
    defaults: Mapping[str, object] = msgspec.field(default_factory=dict)
    size: int = 0
    operation: str | None = None
    is_strict: bool = False
    given: Mapping[Pointer, Mapping[str, str]] = msgspec.field(default_factory=dict)


def files_in(wanted: Requested) -> Iterator[Pointer]:
    """The places whose files a quantity depends on."""
    for one in (wanted, *wanted.plus):
        yield from (factor.at for factor in one.product if factor.reading in MEASURES)


def count_of(factor: Factor, asked: Pricing) -> Decimal | int | None:
    """How much is at the place of a factor that is no value; None where that is not known."""
    match factor.reading:
        case Reading.BYTES:
            return asked.size
        case Reading.COUNT:
            return sum(1 for _ in find_all(asked.body, factor.at))
        case Reading.LENGTH:
            return sum(len(text) for _, text in find_all(asked.body, factor.at) if isinstance(text, str))
        case _:
            return _size_of_files(factor, asked)


def _size_of_files(factor: Factor, asked: Pricing) -> Decimal | None:
    """How large the files at a place are, 0 where there are none.

    One that could not be measured counts as `otherwise`; None where the factor has none. Seconds are rounded up to the
    next whole one: vendors count a frame more, or round.
    """
    sizes, unknown = [], []
    for place, _ in find_all(asked.body, factor.at):
        said = asked.given.get(place, {}).get(MEASURES[factor.reading])
        if said is not None:
            sizes.append(Decimal(said))
        elif factor.otherwise is not None:
            unknown.append(factor.otherwise)
        else:
            return None
    total = _longest if factor.reading is Reading.LONGEST else _sum
    size = total(sizes)
    if sizes and MEASURES[factor.reading] == "longest":
        size = size.to_integral_value(ROUND_FLOOR) + 1
    return total([size, *unknown])


def _sum(sizes: Sequence[Decimal]) -> Decimal:
    return sum(sizes, Decimal(0))


def _longest(sizes: Sequence[Decimal]) -> Decimal:
    return max(sizes, default=Decimal(0))
