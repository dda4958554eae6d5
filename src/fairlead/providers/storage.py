"""Storage of an operator's into which a partner writes what it makes, and answers with places in it (R-36).

A call names the operator's place, with a folder for each run; what the partner reports to have written there is read
with our credential, and nothing outside it is.
"""

from typing import Final
from urllib.parse import quote

import msgspec

from fairlead.domain.pointers import Pointer
from fairlead.providers.spec import Storage

_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


def with_storage(storage: Storage, body: bytes, run_id: str) -> bytes:
    """A body that names the place where its result is to be written; as it is where the caller has named another."""
    if storage.place is None:
        return body
    try:
        return _with_text(body, storage.at, f"{storage.place}/{run_id}/")
    except msgspec.DecodeError:  # it has another value in the place's position, which the partner will report
        return body


def address_of(storage: Storage, place: str) -> str | None:
    """The address for reading what was written at a place; None where the place is not the operator's."""
    if storage.place is None or not place.startswith(f"{storage.place}/"):
        return None
    return f"{storage.read_from}/{quote(place.removeprefix(f'{storage.scheme}://'))}"


def _with_text(document: bytes, at: Pointer, text: str) -> bytes:
    first, *rest = at
    members = _decode(document)
    if rest:
        inner = bytes(members.get(first, b"{}"))
        members[first] = msgspec.Raw(_with_text(inner, tuple(rest), text))
    elif first in members:
        return document
    else:
        members[first] = msgspec.Raw(_encode(text))
    return _encode(members)
