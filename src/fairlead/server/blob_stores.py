"""The store for files that the settings name, opened for a server or for a command."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead.clock import Clock
from fairlead.identity.bucket_links import BucketKey, BucketLinks
from fairlead.operations.assets.results import StoreLinks
from fairlead.server.installation import DataDirectoryError
from fairlead.server.settings import LINKS_DIRECT, BadSettingError, Settings
from fairlead.storage.blobs.errors import BlobLostError
from fairlead.storage.blobs.gate import StoreGate
from fairlead.storage.blobs.opening import Bucket, bucket_blobs, existing_blobs, local_blobs, open_bucket
from fairlead.storage.blobs.store import StoredBlobs, blob_path

_S3: Final = "s3://"


def bucket_of(settings: Settings) -> Bucket | None:
    """The bucket that files are kept in; None where they are in a folder. BadSettingError for half a credential."""
    if settings.blobs is None or not settings.blobs.startswith(_S3):
        if settings.blobs_links == LINKS_DIRECT:
            raise BadSettingError("FAIRLEAD_BLOBS_LINKS: direct links need FAIRLEAD_BLOBS=s3://bucket/prefix")
        return None
    if (settings.blobs_access_key is None) is not (settings.blobs_secret_key is None):
        raise BadSettingError("FAIRLEAD_BLOBS_ACCESS_KEY and FAIRLEAD_BLOBS_SECRET_KEY: each needs the other")
    name, _, prefix = settings.blobs.removeprefix(_S3).partition("/")
    return Bucket(
        name,
        prefix.strip("/"),
        settings.blobs_endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),
        settings.blobs_region,
        settings.blobs_access_key,
        settings.blobs_secret_key,
    )


def files_folder(settings: Settings) -> Path:
    """The folder of this machine that files are in: all of them, or copies of those in a bucket."""
    if bucket_of(settings) is not None:
        return (settings.data / "blob-copies").resolve()
    return (Path(settings.blobs) if settings.blobs else settings.data / "blobs").resolve()


def shown_place(settings: Settings) -> str:
    """The place of the files, in words for an operator."""
    bucket = bucket_of(settings)
    if bucket is None:
        return str(files_folder(settings))
    return f"{bucket}" + (f" at {bucket.endpoint}" if bucket.endpoint else "")


def spool_folder(settings: Settings) -> Path:
    """The folder of files that are being written; on the file system of the store, where that is a folder."""
    return files_folder(settings) / "spool"


def direct_links(settings: Settings, clock: Clock) -> StoreLinks | None:
    """What makes links straight to the bucket; None where links lead to this server. BadSettingError."""
    bucket = bucket_of(settings)
    if bucket is None or settings.blobs_links != LINKS_DIRECT:
        return None
    key = _bucket_key(bucket)
    region = bucket.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = settings.blobs_public_endpoint or bucket.endpoint or f"https://s3.{region}.amazonaws.com"
    links = BucketLinks(endpoint, region, bucket.name, bucket.prefix, key, clock.now_ns)
    return lambda blob, seconds, media_type, disposition: links.sign(blob_path(blob), seconds, media_type, disposition)


def _bucket_key(bucket: Bucket) -> BucketKey:
    """The credential that links are signed with; BadSettingError where the machine's identity is all there is."""
    if bucket.access_key is not None and bucket.secret_key is not None:
        return BucketKey(bucket.access_key, bucket.secret_key)
    known, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not known or not secret:
        raise BadSettingError(
            "FAIRLEAD_BLOBS_LINKS: direct links are signed with a key: set FAIRLEAD_BLOBS_ACCESS_KEY and "
            "FAIRLEAD_BLOBS_SECRET_KEY, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return BucketKey(known, secret, os.environ.get("AWS_SESSION_TOKEN") or None)


def ready_blobs(settings: Settings, report: Callable[[BlobLostError], None], gate: StoreGate) -> StoredBlobs:
    """The files of a server; DataDirectoryError, BadSettingError."""
    folder, bucket = files_folder(settings), bucket_of(settings)
    try:
        if bucket is None:
            return local_blobs(folder, report, gate)
        copies = settings.blobs_copies_mib * 2**20
        return bucket_blobs(bucket, folder, copies_bytes=copies, report=report, gate=gate)
    except OSError as error:
        raise DataDirectoryError(f"the folder for files {folder} cannot be used: {error}") from error
    except ValueError as error:
        raise BadSettingError(f"FAIRLEAD_BLOBS: {error}") from error


def stored_blobs(settings: Settings) -> StoredBlobs | None:
    """The stored files, for a command, which makes no folder. None where there is none here."""
    if (bucket := bucket_of(settings)) is not None:
        try:
            return open_bucket(bucket, Path(tempfile.gettempdir()))
        except ValueError as error:
            raise BadSettingError(f"FAIRLEAD_BLOBS: {error}") from error
    folder = files_folder(settings)
    return existing_blobs(folder) if settings.blobs or settings.data.is_dir() else None
