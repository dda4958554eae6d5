"""The reasons why a request about assets fails, as data (J-14).

Faults that assets share with other files (no bytes, too many) are in `domain/jobs/faults.py`.
"""

from typing import TypeAlias

import msgspec


class AssetNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such asset; one of another workspace looks like one that never existed."""


class BlobNotFound(msgspec.Struct, frozen=True):
    """The workspace has no file with these bytes; another workspace may."""


class HashMismatch(msgspec.Struct, frozen=True):
    """The bytes that came are not those that were announced: `actual` is their BLAKE3."""

    actual: str


class ContentBlocked(msgspec.Struct, frozen=True):
    """The bytes are on the list of blocked content."""


class AssetInUse(msgspec.Struct, frozen=True):
    """A job that has not ended needs the asset."""


AssetFault: TypeAlias = AssetNotFound | BlobNotFound | HashMismatch | ContentBlocked | AssetInUse


class AssetFaultError(Exception):
    """Carries a fault to the API that answers it."""

    def __init__(self, fault: AssetFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault
