"""JSON Pointers (RFC 6901): how provider files, rate cards and translations name a place in a document.

Beyond the RFC, a part `*` means every item of an array, and `*[role=first_frame]` every item that is an object whose
`role` is that text; `*[role=]` those without one. Such a pointer leads to many places: `find_all`.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Pointer: TypeAlias = tuple[str, ...]

_INDEX: Final = re.compile(r"[0-9]{1,9}")
_FILTER: Final = re.compile(r"\*(?:\[(?P<name>[^=\]]+)=(?P<value>[^\]]*)\])?")


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
    """Whether a pointer may lead to many places; remembered, as files write pointers and every run follows some."""
    return any(part.startswith("*") for part in pointer)


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
    """Every place a pointer leads to, in the order of the document: where, and what stands there."""
    for depth, part in enumerate(pointer):
        if (wanted := _FILTER.fullmatch(part)) and isinstance(document, list):
            for index, item in enumerate(document):
                if _passes(item, wanted):
                    yield from find_all(item, pointer[depth + 1 :], (*above, *pointer[:depth], str(index)))
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
    """Set a place in a document, making the objects and array items on the way; a number grows an array.

    ValueError where the way is blocked by something that is neither, or would leave a hole in an array.
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
