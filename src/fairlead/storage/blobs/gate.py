"""Whether a server's store is the one that the installation has recorded.

Servers that share a database must share a store. A server with another one would remove blobs that it does not know,
and write blobs that no other server finds. So nothing is written to a store, and nothing removed from it, before it is
known to be the installation's; and a blob that such a store lacks is not missing, because the right one may have it.
"""

import enum

from fairlead.storage.blobs.errors import BlobMissingError, BlobsUnavailableError, StoreUnprovenError


class StoreState(enum.StrEnum):
    """Whether a store is the installation's."""

    UNKNOWN = "unknown"
    """It could not be reached yet."""
    OURS = "ours"
    """It has the marker that the database names."""
    UNMARKED = "unmarked"
    """It has no marker: an empty folder, or another bucket than the one that was recorded."""
    FOREIGN = "foreign"
    """It has the marker of another installation."""


class StoreGate:
    """The known state of one store, which is checked before it is changed, and before a blob is reported missing."""

    def __init__(self, state: StoreState = StoreState.UNKNOWN, reason: str = "it was not looked at yet") -> None:
        self._state = state
        self._reason = reason

    @property
    def state(self) -> StoreState:
        """Whether the store is the installation's, as far as is known."""
        return self._state

    @property
    def reason(self) -> str:
        """Why it is not known to be; empty where it is."""
        return self._reason

    def learn(self, state: StoreState, reason: str = "") -> None:
        """Record the state."""
        self._state = state
        self._reason = reason

    def check(self) -> None:
        """Return where the store may be changed; StoreUnprovenError."""
        if self._state is not StoreState.OURS:
            raise StoreUnprovenError(self._reason)

    def missing(self, name: str) -> BlobMissingError | BlobsUnavailableError:
        """The error of a blob that the store does not have."""
        if self._state is StoreState.OURS:
            return BlobMissingError(name)
        return StoreUnprovenError(f"{name} is not here: {self._reason}")


def open_gate() -> StoreGate:
    """The gate of a store that need not be proven, such as one that a command only reads."""
    return StoreGate(StoreState.OURS, "")
