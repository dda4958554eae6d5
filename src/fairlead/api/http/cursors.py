"""Page cursors (R-03): opaque to callers, and invalid once the catalog they were made for is replaced."""

import base64
import binascii
import re
from typing import Final

import msgspec

from fairlead.domain.faults import FaultError, InvalidInput

CURSOR_MAX: Final = 512
_ALPHABET: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")


class _Position(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    build: str
    after: str


def make_cursor(build: str, after: str) -> str:
    """A cursor after an entry of one build of the catalog."""
    return base64.urlsafe_b64encode(msgspec.json.encode(_Position(build, after))).decode("ascii").rstrip("=")


def read_cursor(text: str) -> tuple[str, str]:
    """The build and the position of a cursor; FaultError(InvalidInput) for anything we did not make."""
    if not 1 <= len(text) <= CURSOR_MAX or _ALPHABET.fullmatch(text) is None:
        raise FaultError(InvalidInput("The cursor is malformed."))
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(decoded, type=_Position)
    except (binascii.Error, msgspec.DecodeError) as error:
        raise FaultError(InvalidInput("The cursor is malformed.")) from error
    if make_cursor(position.build, position.after) != text:
        raise FaultError(InvalidInput("The cursor is malformed."))
    return position.build, position.after
