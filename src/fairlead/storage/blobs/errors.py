"""Why a blob cannot be written or read."""


class BlobTooLargeError(Exception):
    """More bytes were written than the writer's limit allows; nothing was kept."""


class BlobLostError(Exception):
    """The bytes of the blob `name` are lost; trying again does not help."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BlobMissingError(BlobLostError):
    """There is no blob of this name."""


class BlobDamagedError(BlobLostError):
    """The bytes stored under this name are not those that the name stands for."""


class BlobsUnavailableError(Exception):
    """The store cannot be read or written: the disk is full, or the store is away. Worth trying again."""


class StoreUnprovenError(BlobsUnavailableError):
    """The store is not known to be the installation's: nothing is written, and what it lacks may be in another."""
