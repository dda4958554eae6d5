"""Where a list of jobs goes on: opaque to callers, and a position, no matter who made it (J-03).

A cursor is a version and the number of a job, in nine bytes: twelve characters, none of which has a bit to spare. So
one that was cut, padded or written in another way is not well-formed.
"""

import base64
import re
import struct
from typing import Final

from fairlead.domain.jobs.faults import BadCursor, JobFaultError
from fairlead.domain.jobs.listing import NUMBER_MAX

_LAYOUT: Final = struct.Struct(">BQ")
_VERSION: Final = 1
_SPELLED: Final = re.compile(r"[A-Za-z0-9_-]{12}")


def make_cursor(number: int) -> str:
    """A cursor behind the job of a number."""
    return base64.urlsafe_b64encode(_LAYOUT.pack(_VERSION, number)).decode("ascii")


def read_cursor(text: str) -> int:
    """The number behind which a cursor goes on; JobFaultError(BadCursor) for what is not well-formed."""
    if _SPELLED.fullmatch(text) is None:
        raise JobFaultError(BadCursor())
    version, number = _LAYOUT.unpack(base64.urlsafe_b64decode(text))
    if version != _VERSION or not 1 <= number <= NUMBER_MAX:
        raise JobFaultError(BadCursor())
    return int(number)
