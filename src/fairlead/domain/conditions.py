"""Conditions on a document: how files say when an operation is meant, a price applies, an answer is a failure."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated

import msgspec

from fairlead.domain.pointers import MISSING, Pointer, find, find_all, is_plural, parse_pointer

PointerText = Annotated[str, msgspec.Meta(pattern=r"^(/.*)?$", max_length=256)]


class ConditionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition as a file writes it: `at`, and at most one of the others; `at` alone asks for presence."""

    at: PointerText
    equals: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    contains: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    above: Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,12}(\.[0-9]{1,12})?$")] | None = None
    present: bool | None = None

    def problem(self) -> str | None:
        """What is wrong with it, if anything."""
        said = [name for name in ("equals", "contains", "above", "present") if getattr(self, name) is not None]
        return f"a condition says one thing, not {' and '.join(said)}" if len(said) > 1 else None


class Condition(msgspec.Struct, frozen=True):
    """What must be so at a place of a document. With several places, one that is so is enough.

    `equals`: one of these texts (numbers and booleans are compared as JSON writes them). `contains`: one of these
    texts occurs, whatever its case. `above`: a number greater than this. `present`: something other than null, an
    empty text or an empty container stands there, or does not.
    """

    at: Pointer
    equals: frozenset[str] | None = None
    contains: tuple[str, ...] | None = None
    above: Decimal | None = None
    present: bool = True

    def holds(self, document: object) -> bool:
        """Whether it is so in a document."""
        if is_plural(self.at):
            return any(self._is_so(value) for _, value in find_all(document, self.at)) is self.present
        found = find(document, self.at)
        return (found is not MISSING and self._is_so(found)) is self.present

    def _is_so(self, value: object) -> bool:
        if self.equals is not None:
            return text_of(value) in self.equals
        if self.contains is not None:
            return isinstance(value, str) and any(map(value.lower().__contains__, self.contains))
        if self.above is not None:
            return _is_number(value) and Decimal(str(value)) > self.above
        return value not in (None, "", [], {})


def condition(read: ConditionFile) -> Condition:
    """The condition a file wrote."""
    return Condition(
        at=parse_pointer(read.at),
        equals=None if read.equals is None else frozenset(read.equals),
        contains=None if read.contains is None else tuple(part.lower() for part in read.contains),
        above=None if read.above is None else Decimal(read.above),
        present=read.present is not False,
    )


def conditions(read: Sequence[ConditionFile]) -> tuple[Condition, ...]:
    """The conditions a file wrote, all of which must hold."""
    return tuple(condition(entry) for entry in read)


def all_hold(wanted: Iterable[Condition], document: object) -> bool:
    """Whether every one of some conditions is so in a document."""
    for one in wanted:  # noqa: SIM110 -- every answer of a partner passes here, and a generator takes as long again
        if not one.holds(document):
            return False
    return True


def text_of(value: object) -> str | None:
    """A scalar as JSON writes it, a text as it is; None for everything else.

    A whole number is written without its decimals: to a schema and to a partner `10.0` is `10`, so it costs the same.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else None


def exact_text_of(value: object) -> str | None:
    """The same, but None for a text that spells a boolean: some partners take the text "false" for true."""
    return None if isinstance(value, str) and value.lower() in ("true", "false") else text_of(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
