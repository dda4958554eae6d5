"""Some members of a JSON document, as bytes, without decoding the others."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

_REASON_MAX: Final = 300
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Wanted(msgspec.Struct, frozen=True):
    """What is wanted of a document: members by their `names`, and whether a list stands at each of some places.

    A place is the name of a member that is wanted and a name in it.
    """

    names: tuple[str, ...]
    lists: tuple[tuple[str, str], ...] = ()


class Members(NamedTuple):
    """The members that were found, as JSON, and the places where a list stands."""

    values: Mapping[str, bytes]
    lists: frozenset[tuple[str, str]] = frozenset()


class BadDocumentError(Exception):
    """A document is not a well-formed JSON object; `reason` says what is wrong with it."""

    def __init__(self, reason: str, *, is_too_deep: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_too_deep = is_too_deep


def members_of(content: bytes, wanted: Wanted) -> Members:
    """Find some members of a document; BadDocumentError. Of several with one name, the last counts."""
    try:
        if not content.isascii():
            content.decode()  # skipped text is not checked, and would be passed on unchanged
        members = _fields.decode(content)
        values = {name: bytes(members[name]) for name in wanted.names if name in members}
        return Members(values, frozenset(place for place in wanted.lists if _has_list(values, place)))
    except RecursionError as error:
        raise BadDocumentError("it is nested too deeply", is_too_deep=True) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadDocumentError(str(error)[:_REASON_MAX]) from error


def _has_list(values: Mapping[str, bytes], place: tuple[str, str]) -> bool:
    owner, name = place
    value = values.get(owner, b"")
    if not value.startswith(b"{") or b'"%b"' % name.encode() not in value:
        return False
    return bytes(_fields.decode(value).get(name, b"")).startswith(b"[")
