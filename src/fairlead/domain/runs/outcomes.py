"""The outcomes of an exchange with any partner."""

import enum
from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias, final

import msgspec

from fairlead.domain.faults import (
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InvalidInput,
    ProviderError,
    ProviderTimeout,
)

_SUCCESS: Final = range(200, 300)


class Outlined(Protocol):
    """A large answer, which is read without its long texts: its outline has marks in their places."""

    @property
    def outline(self) -> bytes:
        """The bytes of the answer with marks in place of its long texts."""
        ...

    def decode(self, outline: bytes) -> object:
        """The decoded outline, or a changed one, with the long texts."""
        ...

    def fill(self, written: bytes) -> bytes:
        """An encoded outline with the bytes of the long texts in place of their marks. May run in a thread."""
        ...


class Completed(msgspec.Struct, frozen=True):
    """A generation that completed: the bytes to forward untouched, and what pricing may read of them.

    The long texts of a `large` answer stay in its bytes: what is encoded of it must go through `fill`. `told` are
    figures by name that the partner told before the result, when it took the work or while it worked.
    """

    content: bytes
    content_type: str
    upstream_status: int
    answer: object = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    large: Outlined | None = None
    told: Mapping[str, str] = msgspec.field(default_factory=dict)


class Reached(enum.Enum):
    """How far an attempt came before it failed, which decides whether the work may be requested again (R-14)."""

    NOTHING = "nothing"
    """Nothing was sent: no connection, no credential."""
    REFUSED = "refused"
    """The partner answered that it did not do the work."""
    UNKNOWN = "unknown"
    """It was sent, and no answer tells whether the partner took it."""
    ACCEPTED = "accepted"
    """The partner took the work."""
    UNBILLED = "unbilled"
    """The partner took the work, and says that it ended without a result, which it does not bill."""
    UNDECIDED = "undecided"
    """The partner took the work, and its end is not known: it can be asked about again."""


TAKEN: Final = frozenset({Reached.ACCEPTED, Reached.UNBILLED, Reached.UNDECIDED})
"""The partner took the work, however it ended."""


@final
class Failed(msgspec.Struct, frozen=True):
    """No generation: the caller's fault, the partner's HTTP status where it answered, and how far the attempt came.

    `words` are the partner's own, bounded and without secrets: for operators, and for callers where `are_about_input`.
    """

    fault: Fault
    upstream_status: int | None = None
    reached: Reached = Reached.UNKNOWN
    words: str | None = None

    @property
    def summary(self) -> str:
        """How the attempt failed, in a few words for operators."""
        if self.upstream_status is not None:
            return f"answered {self.upstream_status}"
        return "not reached" if self.reached is Reached.NOTHING else "no whole answer in time"

    @property
    def are_about_input(self) -> bool:
        """Whether the partner's words are about what the caller sent: it was refused, or the work on it has failed."""
        if self.reached in TAKEN:  # another status may be about the poll
            return self.upstream_status in _SUCCESS
        return isinstance(self.fault, InvalidInput | InputRejected | ContentPolicyViolation)

    def in_doubt(self) -> "Failed":
        """The same failure, for work that an earlier attempt may have begun, so that nothing about it is certain."""
        if self.reached in (Reached.NOTHING, Reached.REFUSED):
            return msgspec.structs.replace(self, reached=Reached.UNKNOWN)
        return self

    def after(self, status: int | None) -> "Failed":
        """The same failure, where the partner had answered with `status` earlier in the same call (R-22).

        Only the caller's fault changes; `upstream_status`, on which other things are decided, stays as it was.
        """
        fault = self.fault
        if not isinstance(fault, ProviderError | ProviderTimeout) or fault.upstream.status is not None:
            return self
        told = msgspec.structs.replace(fault.upstream, status=status)
        return msgspec.structs.replace(self, fault=msgspec.structs.replace(fault, upstream=told))


class Work(msgspec.Struct, frozen=True):
    """Work that a partner has taken: its handle, the label of the credential it was taken under, and the status."""

    handle: str
    credential: str = ""
    status: int | None = None


Outcome: TypeAlias = Completed | Failed
