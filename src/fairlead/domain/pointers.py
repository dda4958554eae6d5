"""JSON Pointers (RFC 6901): how provider files and rate cards name a place in a document."""

from typing import Any, Final, TypeAlias

Pointer: TypeAlias = tuple[str, ...]


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


def find(document: Any, pointer: Pointer) -> Any:
    """Follow a pointer through objects and arrays; MISSING where the path ends early."""
    for part in pointer:
        if isinstance(document, dict):
            document = document.get(part, MISSING)
        elif isinstance(document, list) and part.isascii() and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return MISSING
    return document
