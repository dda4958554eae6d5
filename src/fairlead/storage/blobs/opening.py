"""Opening a store of blobs: a folder of this machine, or a bucket of an S3-compatible store."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from obstore.store import LocalStore, MemoryStore, S3Store

from fairlead.storage.blobs.errors import BlobLostError
from fairlead.storage.blobs.gate import StoreGate
from fairlead.storage.blobs.local_copies import LocalCopies
from fairlead.storage.blobs.store import StoredBlobs

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 20
_REQUEST_SECONDS: Final = 120
"""The time limit of one request: a part of an upload or of a download, of 8 MiB at most."""
_RETRIES: Final = 3
_RETRY_SECONDS: Final = 15


class Bucket(msgspec.Struct, frozen=True):
    """The address of a bucket, and the credential.

    What is None comes from the standard variables (`AWS_…`) or the machine.
    """

    name: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None

    def __repr__(self) -> str:
        return f"s3://{self.name}/{self.prefix}"


def bucket_store(bucket: Bucket) -> S3Store:
    """The objects of a bucket below its prefix; ValueError for a malformed one. No request is made yet."""
    given: dict[str, Any] = {
        "endpoint": bucket.endpoint,
        "region": bucket.region,
        "access_key_id": bucket.access_key,
        "secret_access_key": bucket.secret_key,
    }
    return S3Store(
        bucket.name,
        prefix=bucket.prefix or None,
        client_options={
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=_READ_SECONDS),
            "timeout": timedelta(seconds=_REQUEST_SECONDS),
            "allow_http": (bucket.endpoint or "").startswith("http://"),
        },
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        **{name: value for name, value in given.items() if value is not None},
    )


def bucket_blobs(
    bucket: Bucket,
    folder: Path,
    *,
    copies_bytes: int,
    report: Callable[[BlobLostError], None] = lambda _: None,
    gate: StoreGate | None = None,
) -> StoredBlobs:
    """Blobs in a bucket. `folder` is on this machine, for uploads under way, and for copies of up to `copies_bytes`.

    OSError where the folder cannot be made; ValueError for a bucket that cannot be one.
    """
    spool = folder / "spool"
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    copies = LocalCopies(folder / "copies", copies_bytes)
    return StoredBlobs(bucket_store(bucket), spool, copies=copies, report=report, gate=gate)


def open_bucket(bucket: Bucket, spool: Path) -> StoredBlobs:
    """Blobs in a bucket, for those that only read; ValueError for a bucket that cannot be one."""
    return StoredBlobs(bucket_store(bucket), spool)


def local_blobs(
    folder: Path, report: Callable[[BlobLostError], None] = lambda _: None, gate: StoreGate | None = None
) -> StoredBlobs:
    """Blobs in a folder of this machine, made for its owner alone; OSError when it cannot be.

    `report` is called with every blob that was asked for and is lost; `gate` says whether the folder is the
    installation's.
    """
    spool = folder / "spool"
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return StoredBlobs(LocalStore(folder), spool, report=report, gate=gate)


def existing_blobs(folder: Path) -> StoredBlobs:
    """Blobs in a folder of this machine, for those that only read; a missing folder has none."""
    return StoredBlobs(LocalStore(folder) if folder.is_dir() else MemoryStore(), folder / "spool")
