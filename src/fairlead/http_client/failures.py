"""The ways a request to a partner ends without an answer.

TransportError
├── UnreachableError    nothing was sent: the partner has certainly not begun
├── TooSlowError        time is up; whether the partner worked is unknown
└── BrokenOffError      the connection broke, or the answer was none; whether the partner worked is unknown
"""


class TransportError(Exception):
    """No usable answer came back; `status` is the partner's where at least the head of one did."""

    status: int | None = None


class UnreachableError(TransportError):
    """Nothing could be sent: the partner has certainly not begun to work."""


class TooSlowError(TransportError):
    """The partner did not answer in time; whether it worked is unknown."""


class BrokenOffError(TransportError):
    """The connection broke, or the answer was malformed or too large; whether the partner worked is unknown."""
