"""JSON Pointers (RFC 6901): how provider files, rate cards and translations name a place in a document.

Beyond the RFC, a part `*` means every item of an array, and `*[role=first_frame]` every item that is an object whose
`role` is that text; `*[role=]` those without one; and `name*` means every member of an object whose name begins so,
the shorter names first. Such a pointer leads to many places: `find_all`. Conditions are about
values at such places: they say when an operation is meant, a price applies, or an answer is a failure.
"""

import enum
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec

Pointer: TypeAlias = tuple[str, ...]

_INDEX: Final = re.compile(r"[0-9]{1,9}")
_SIDES: Final = re.compile(r"([0-9]{1,6})[*xX]([0-9]{1,6})")
_FILTER: Final = re.compile(r"\*(?:\[(?P<name>[^=\]]+)=(?P<value>[^\]]*)\])?")


_DIGITS_MAX: Final = 30
_PLAIN_MAX: Final = 10**18
"""A number of more digits counts as unknown: arithmetic with it could overflow, and no `at_most` is as large."""


class _Missing:
    """The type of MISSING, so that `None` can be a value found."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def parse_pointer(text: str) -> Pointer:
    """Read a pointer such as `/usage/seconds`; ValueError when it neither is empty nor starts with a slash."""
    if text == "":
        return ()
    if not text.startswith("/"):
        raise ValueError(f"a pointer starts with '/': {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def as_text(pointer: Pointer) -> str:
    """Write a pointer as text."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in pointer)


@functools.lru_cache(maxsize=4096)
def is_plural(pointer: Pointer) -> bool:
    """Whether a pointer may lead to many places; cached, because every run follows pointers from files."""
    return any("*" in part for part in pointer)


def find(document: object, pointer: Pointer) -> object:
    """Follow a pointer through objects and arrays; MISSING where the path ends early."""
    for part in pointer:
        if isinstance(document, dict):
            document = document.get(part, MISSING)
        elif isinstance(document, list) and _INDEX.fullmatch(part) and int(part) < len(document):
            document = document[int(part)]
        else:
            return MISSING
    return document


def find_all(document: object, pointer: Pointer, above: Pointer = ()) -> Iterator[tuple[Pointer, Any]]:
    """Every place a pointer leads to, with its value, in the order of the document."""
    for depth, part in enumerate(pointer):
        if (wanted := _FILTER.fullmatch(part)) and isinstance(document, list):
            for index, item in enumerate(document):
                if _passes(item, wanted):
                    yield from find_all(item, pointer[depth + 1 :], (*above, *pointer[:depth], str(index)))
            return
        if part.endswith("*") and part != "*" and isinstance(document, dict):
            named = (name for name in document if name.startswith(part[:-1]))
            for name in sorted(named, key=lambda name: (len(name), name)):
                yield from find_all(document[name], pointer[depth + 1 :], (*above, *pointer[:depth], name))
            return
        document = find(document, (part,))
        if document is MISSING:
            return
    yield (*above, *pointer), document


def first(document: object, pointer: Pointer) -> object:
    """The first value a pointer leads to, MISSING where it leads nowhere."""
    found = find(document, pointer)
    if found is not MISSING or not is_plural(pointer):
        return found
    return next((value for _, value in find_all(document, pointer)), MISSING)


def _passes(item: object, wanted: re.Match[str]) -> bool:
    if wanted["name"] is None:
        return True
    return isinstance(item, dict) and item.get(wanted["name"], "") == wanted["value"]


def put(document: dict[str, Any], pointer: Pointer, value: object) -> None:
    """Set a value in a document, making the objects and array items on the path; a number extends an array.

    ValueError where a scalar is on the path, or a gap would be left in an array.
    """
    place: object = document
    for part, following in zip(pointer, (*pointer[1:], None), strict=True):
        fresh = value if following is None else ([] if _INDEX.fullmatch(following) else {})
        if isinstance(place, list) and _INDEX.fullmatch(part) and int(part) <= len(place):
            index = int(part)
            if index == len(place):
                place.append(fresh)
            elif following is None:
                place[index] = value
            place = place[index]
        elif isinstance(place, dict):
            if following is None or part not in place:
                place[part] = fresh
            place = place[part]
        else:
            raise ValueError(f"nothing can be put at {as_text(pointer)}")


PointerText = Annotated[str, msgspec.Meta(pattern=r"^(/.*)?$", max_length=256)]


class ConditionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition as a file writes it: `at`, and at most one of the others; `at` alone asks for presence."""

    at: PointerText
    equals: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    contains: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    above: Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,12}(\.[0-9]{1,12})?$")] | None = None
    area_above: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,12}$")] | None = None
    present: bool | None = None

    def problem(self) -> str | None:
        """What is wrong with it, or None."""
        words = "equals", "contains", "above", "area_above", "present"
        said = [name for name in words if getattr(self, name) is not None]
        return f"a condition says one thing, not {' and '.join(said)}" if len(said) > 1 else None


class Condition(msgspec.Struct, frozen=True):
    """A condition on the value at a place of a document. With several places, one that meets it is enough.

    `equals`: one of these texts (numbers and booleans are compared as JSON writes them). `contains`: one of these texts
    occurs, whatever its case. `above`: a number greater than this. `area_above`: a size of more pixels than this, such
    as `1280*720` or `1280x720`. `is_present`: a value other than null, an empty text or an empty container is there, or
    is not.
    """

    at: Pointer
    equals: frozenset[str] | None = None
    contains: tuple[str, ...] | None = None
    above: Decimal | None = None
    area_above: int | None = None
    is_present: bool = True

    def holds(self, document: object) -> bool:
        """Whether it holds for a document."""
        if is_plural(self.at):
            return any(self._is_so(value) for _, value in find_all(document, self.at)) is self.is_present
        found = find(document, self.at)
        return (found is not MISSING and self._is_so(found)) is self.is_present

    def _is_so(self, value: object) -> bool:
        if self.equals is not None:
            return text_of(value) in self.equals
        if self.contains is not None:
            return isinstance(value, str) and any(map(value.lower().__contains__, self.contains))
        if self.above is not None:
            return _is_number(value) and Decimal(str(value)) > self.above
        if self.area_above is not None:
            sides = _SIDES.fullmatch(value) if isinstance(value, str) else None
            return sides is not None and int(sides[1]) * int(sides[2]) > self.area_above
        return value not in (None, "", [], {})


def condition(read: ConditionFile) -> Condition:
    """The condition a file wrote."""
    return Condition(
        at=parse_pointer(read.at),
        equals=None if read.equals is None else frozenset(read.equals),
        contains=None if read.contains is None else tuple(part.lower() for part in read.contains),
        above=None if read.above is None else Decimal(read.above),
        area_above=None if read.area_above is None else int(read.area_above),
        is_present=read.present is not False,
    )


def conditions(read: Sequence[ConditionFile]) -> tuple[Condition, ...]:
    """The conditions a file wrote, all of which must hold."""
    return tuple(condition(entry) for entry in read)


def all_hold(wanted: Iterable[Condition], document: object) -> bool:
    """Whether all of some conditions hold for a document."""
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


def number_of(value: object) -> Decimal | int | None:
    """Read a non-negative finite number out of JSON or a header; None for anything else, booleans included."""
    if type(value) is int and 0 <= value < _PLAIN_MAX:
        return value  # most quantities are, and a Decimal multiplies with them as they are
    if type(value) is float and 0 <= value < _PLAIN_MAX:
        # By its text: the float itself has digits that nobody has written.
        return Decimal(repr(value))
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() and number >= 0 and number.adjusted() < _DIGITS_MAX else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TEXT_MAX: Final = 64
_COUNT_MAX: Final = 100_000
_LENGTH_MAX: Final = 10_000_000
_LONG_TEXT: Final = "…"
"""In place of a longer text: it is there, and is no number and none of the texts that a file lists."""

Captured: TypeAlias = dict[str, list[object]]
"""What was captured of a document, by the names of the captures."""


class CaptureKind(enum.StrEnum):
    """What is captured of the values at a place; each is the beginning of a name."""

    VALUE = ""
    """The values, but of a container only that it is one, and no text of more than 64 characters."""
    COUNT = "count:"
    LENGTH = "length:"
    """How many characters the texts have; a null follows where some value is no text."""
    PRESENT = "present:"
    """A number where something is there that is not empty."""
    CONTAINS = "contains:"
    """A number where some text contains one of the words."""
    GIVEN = "given:"
    """Of each file that is named there what was measured of it, by the one word; null where that is not known."""


class Capture(msgspec.Struct, frozen=True):
    """What is kept of the values at a place of a document that is not kept itself.

    `words` are those of CONTAINS, and the one of GIVEN.
    """

    kind: CaptureKind
    at: Pointer
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called; without a `*`, so that a pointer to the name leads to one place."""
        words = f"{'|'.join(self.words)}:" if self.words else ""
        return f"{self.kind}{words}{as_text(self.at)}".replace("*", "~2")

    def of(self, document: object) -> list[object]:
        """What is kept of a document; ValueError where it cannot be."""
        found = [value for _, value in find_all(document, self.at)]
        match self.kind:
            case CaptureKind.VALUE:
                return [_kept(value) for value in found]
            case CaptureKind.COUNT:
                return [_bounded(len(found), _COUNT_MAX)]
            case CaptureKind.LENGTH:
                total = _bounded(sum(len(one) for one in found if isinstance(one, str)), _LENGTH_MAX)
                return [total] if all(isinstance(one, str) for one in found) else [total, None]
            case CaptureKind.PRESENT:
                return [1] if Condition(self.at).holds(document) else []
            case CaptureKind.CONTAINS:
                return [1] if Condition(self.at, contains=self.words).holds(document) else []
            case CaptureKind.GIVEN:
                return _given(document, self.at, *self.words)


def _given(document: object, at: Pointer, word: str) -> list[object]:
    """What the field `given` of a document says of the files at a place, whose first part is that of the body."""
    given = first(document, ("given",))
    known = given if isinstance(given, Mapping) else {}
    return [known.get(place[1:], {}).get(word) for place, _ in find_all(document, at)]


def _kept(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else _LONG_TEXT
    if isinstance(value, dict | list):
        return {}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number of JSON")
    return value


def _bounded(number: int, most: int) -> int:
    if number > most:
        raise ValueError("too much to be kept")
    return number


_VALUE: Final = CaptureKind.VALUE
_PLAIN: Final = frozenset({int, bool, type(None)})
_UNREAD: Final = object()


def capture(captures: Mapping[str, Capture], document: Mapping[str, object], most: int) -> str | None:
    """What is kept of a document as JSON, by name (`Captured`); None where it cannot be, or has over `most` bytes."""
    kept: Captured = {}
    try:
        for name, one in captures.items():
            # Most are one plain value: every run passes here, so these pass no function of their own.
            value = find(document, one.at) if one.kind is _VALUE and not is_plural(one.at) else _UNREAD
            if value is MISSING:
                kept[name] = []
            elif type(value) in _PLAIN or (type(value) is str and len(value) <= _TEXT_MAX):
                kept[name] = [value]
            else:
                kept[name] = [{}] if type(value) is dict else one.of(document)
        text = msgspec.json.encode(kept)
    except (ValueError, OverflowError):
        return None
    return text.decode() if len(text) <= most else None
