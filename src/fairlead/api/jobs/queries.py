"""What a list of jobs is asked for (J-02 to J-04), read from the query as it was sent.

Filters are read from the raw query, because in a decoded one a `;` or a broken escape can no longer be seen. Unknown
parameters are ignored (J-16), also one of these in other letters: names are case-sensitive. A cursor is opaque to
callers; it is a position, and valid no matter who made it (J-03).
"""

import base64
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs.faults import BadCursor, BadFilter, JobFaultError
from fairlead.domain.jobs.listing import (
    FILTERS_MAX,
    NUMBER_MAX,
    PAGE_MAX,
    LabelFilter,
    ListQuery,
    is_label_key,
    is_label_text,
)

_LAYOUT: Final = struct.Struct(">BQ")
_VERSION: Final = 1
_SPELLED: Final = re.compile(r"[A-Za-z0-9_-]{12}")


def make_cursor(number: int) -> str:
    """A cursor after the job of a number."""
    return base64.urlsafe_b64encode(_LAYOUT.pack(_VERSION, number)).decode("ascii")


def read_cursor(text: str) -> int:
    """The number after which a cursor goes on; JobFaultError(BadCursor) for what is not well-formed."""
    if _SPELLED.fullmatch(text) is None:
        raise JobFaultError(BadCursor())
    version, number = _LAYOUT.unpack(base64.urlsafe_b64decode(text))
    if version != _VERSION or not 1 <= number <= NUMBER_MAX:
        raise JobFaultError(BadCursor())
    return int(number)


_FILTER_NAME: Final = re.compile(r"metadata\[(?P<key>[^\[\]]*)\]")
_BROKEN_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_DIGITS: Final = re.compile(r"0*(?P<digits>[0-9]+)")
_SHORT: Final = 6


def read_list_query(query: bytes) -> ListQuery:
    """Read the query of a list; FaultError(InvalidInput) for a bad limit, JobFaultError for anything else."""
    limit, before = PAGE_MAX, None
    filters: list[tuple[bytes, bytes]] = []
    for name, value in _pairs(query):
        match _lenient(name).partition("["):
            case ("metadata", _, _):
                filters.append((name, value))
            case ("limit", "", _):
                limit = _limit(_lenient(value))
            case ("cursor", "", _):
                before = read_cursor(_lenient(value))
            case _:
                pass  # somebody else's
    return ListQuery(limit, before, _filters(filters))


def _pairs(query: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The parameters of a query, undecoded."""
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        yield name, value


def _limit(text: str) -> int:
    """The size of a page: a positive integer; what is above the maximum stands for the maximum."""
    found = _DIGITS.fullmatch(text) if text.isascii() else None
    if found is None or found["digits"] == "0":
        raise FaultError(InvalidInput("limit must be a positive integer."))
    return PAGE_MAX if len(found["digits"]) >= _SHORT else min(int(found["digits"]), PAGE_MAX)


def _filters(sent: Sequence[tuple[bytes, bytes]]) -> Sequence[LabelFilter]:
    if len(sent) > FILTERS_MAX:
        raise _bad(f"A list may have {FILTERS_MAX} filters by metadata.")
    filters = [_filter(name, value) for name, value in sent]
    if len({one.key for one in filters}) < len(filters):
        raise _bad("A key of metadata may be filtered by once.")
    return filters


def _filter(name: bytes, value: bytes) -> LabelFilter:
    found = _FILTER_NAME.fullmatch(_decode(name))
    if found is None or not is_label_key(found["key"]):
        raise _bad("A filter is written metadata[key]=value; a key has 1 to 40 letters, digits, _ . and -.")
    text = _decode(value)
    if not is_label_text(text):
        raise _bad("The value of a filter has a character that no label has.")
    return LabelFilter(found["key"], text)


def _decode(sent: bytes) -> str:
    if b";" in sent or _BROKEN_ESCAPE.search(sent):
        raise _bad("Filters must be URL-encoded: there is a raw ; or a broken escape.")
    try:
        return unquote_to_bytes(sent.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise _bad("The value of a filter is not text in UTF-8.") from error


def _lenient(sent: bytes) -> str:
    return unquote_to_bytes(sent.replace(b"+", b" ")).decode("utf-8", "replace")


def _bad(detail: str) -> JobFaultError:
    return JobFaultError(BadFilter(detail))
