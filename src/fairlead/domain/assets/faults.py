"""Why something that was asked about assets cannot be done, as data (J-14).

Faults that assets share with other files (no bytes, too many of them) are those of `faults.py` beside this.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class AssetNotFound:
    """The workspace has no such asset; one of another workspace cannot be told from one there never was."""


@dataclass(frozen=True, slots=True)
class BlobNotFound:
    """The workspace has no file with these bytes, no matter who else may have one."""


@dataclass(frozen=True, slots=True)
class HashMismatch:
    """The bytes that came are not those that were announced: `actual` is the BLAKE3 of what came."""

    actual: str


@dataclass(frozen=True, slots=True)
class ContentBlocked:
    """The bytes are on the list of those that are not taken in."""


@dataclass(frozen=True, slots=True)
class AssetInUse:
    """A job that has not ended needs the asset."""


AssetFault: TypeAlias = AssetNotFound | BlobNotFound | HashMismatch | ContentBlocked | AssetInUse


class AssetFaultError(Exception):
    """Carries a fault to the API that answers it."""

    def __init__(self, fault: AssetFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault
