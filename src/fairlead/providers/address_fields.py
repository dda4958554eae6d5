"""Fields of a body that a partner takes in the address: as parts of the path, or as query parameters."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import jiter
import msgspec

from fairlead.domain.faults import InvalidInput
from fairlead.domain.pointers import text_of
from fairlead.domain.runs.outcomes import Failed, Reached
from fairlead.providers.spec import Call

_STEPS: Final = frozenset({"", ".", ".."})
"""Parts of a path that would lead to another one."""


class Addressed(msgspec.Struct, frozen=True):
    """A body without its fields of the address, and these: `path` by name, `query` in the order of the file."""

    body: bytes
    path: Mapping[str, str] = msgspec.field(default_factory=dict)
    query: Sequence[tuple[str, str]] = ()


def address_fields(call: Call, body: bytes) -> Addressed | Failed:
    """Take the fields that a call has in its address out of a body; a failure where one is missing or unusable."""
    document: dict[str, object] = jiter.from_json(body)
    path: dict[str, str] = {}
    query: list[tuple[str, str]] = []
    for name in call.in_path:
        text = text_of(document.pop(name, None))
        if text is None or text in _STEPS:
            return _unusable(name, "it must be a text or a number, and is part of the provider's address")
        path[name] = text
    for name in call.in_query:
        value = document.pop(name, None)
        texts = [] if value is None else [text_of(one) for one in (value if isinstance(value, list) else [value])]
        if None in texts:
            return _unusable(name, "it must be a scalar or an array of scalars")
        query.extend((name, text) for text in texts if text is not None)
    return Addressed(msgspec.json.encode(document), path, query)


def with_query(path: str, query: Sequence[tuple[str, str]]) -> str:
    """A path with query parameters, after those it has already."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def _unusable(name: str, reason: str) -> Failed:
    return Failed(InvalidInput(f"The field {name} cannot be used: {reason}."), None, Reached.NOTHING)
