"""How a request to a partner ends: with an answer, or with an error.

TransportError
├── UnreachableError    nothing was sent: the partner has certainly not begun
├── TooSlowError        time is up; whether the partner worked is unknown
└── BrokenOffError      the connection broke, or the answer was none; whether the partner worked is unknown
"""

from collections.abc import Mapping
from typing import Final

import msgspec

SUCCESS: Final = range(200, 300)
"""The statuses of HTTP's class of success."""


class TransportError(Exception):
    """No usable answer came back; `status` is the partner's where at least the head of one did."""

    status: int | None = None


class UnreachableError(TransportError):
    """Nothing could be sent: the partner has certainly not begun to work."""


class TooSlowError(TransportError):
    """The partner did not answer in time; whether it worked is unknown."""


class BrokenOffError(TransportError):
    """The connection broke, or the answer was malformed or too large; whether the partner worked is unknown."""


class Reply(msgspec.Struct, frozen=True):
    """An HTTP answer of a partner; its headers are asked for lower-case names."""

    status: int
    headers: Mapping[str, str]
    content: bytes
