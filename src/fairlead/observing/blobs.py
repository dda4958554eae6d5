"""What is observed of the store of blobs, and of the blobs in it."""

import msgspec


class BlobTrouble(msgspec.Struct, frozen=True):
    """The store of blobs could not be read or written."""

    doing: str
    error: str


class BlobDamaged(msgspec.Struct, frozen=True):
    """A blob was asked for whose bytes are not those that its name stands for; they were not handed out."""

    blob: str


class BlobMissing(msgspec.Struct, frozen=True):
    """A blob was asked for that the database names and the store does not have."""

    blob: str


class BlobStoreProven(msgspec.Struct, frozen=True):
    """This server's store was found to be the one that the installation has recorded. `was_marked` where it is new."""

    was_marked: bool


class BlobStoreUnproven(msgspec.Struct, frozen=True):
    """This server's store is not known to be the installation's: nothing is written to it. Its state, and why."""

    state: str
    reason: str


class AssetsSwept(msgspec.Struct, frozen=True):
    """Assets expired; blobs nobody named, and spooled files nobody wrote any more, were removed."""

    expired: int
    blobs: int
    spooled: int
