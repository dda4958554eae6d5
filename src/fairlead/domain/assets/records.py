"""The record of an asset, and what a caller may say of one: its hash, its tags, how long it is kept (J-14)."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

TAGS_MAX: Final = 16
TAG_MAX: Final = 64
"""How many tags an asset may have, and how many characters each."""
EXPIRES_MIN: Final = 60
EXPIRES_MAX: Final = 604_800
"""The range of seconds for which an asset may be kept, where it expires."""
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HASH: Final = re.compile(r"blake3:(?P<digest>[0-9a-f]{64})")


class BadAssetError(ValueError):
    """The fields of an asset cannot be stored; the message says why."""


class NewAsset(msgspec.Struct, frozen=True):
    """The fields that a caller gives an asset: its path, its tags, and how many seconds it is kept, None for good."""

    file_path: str | None = None
    content_type: str | None = None
    tags: Sequence[str] = ()
    expires_in: int | None = None

    def __post_init__(self) -> None:
        if len(self.tags) > TAGS_MAX:
            raise BadAssetError(f"An asset may have {TAGS_MAX} tags.")
        if not all(1 <= len(tag) <= TAG_MAX and tag.isprintable() for tag in self.tags):
            raise BadAssetError(f"A tag must have 1 to {TAG_MAX} characters that can be printed.")
        if self.expires_in is not None and not EXPIRES_MIN <= self.expires_in <= EXPIRES_MAX:
            raise BadAssetError(f"expires_in must be {EXPIRES_MIN} to {EXPIRES_MAX} seconds.")


class Asset(msgspec.Struct, frozen=True):
    """An asset of a workspace; times in ms since 1970, `expires_at` is None for one that stays.

    `name` is what a workflow may call it, `path` what its sender does; `blob` is the BLAKE3 of its bytes. `link` is
    path and query of a signed link to them. `job_id` is the public id of the job that has made it.
    """

    id: str
    name: str
    blob: str
    size: int
    content_type: str
    created_at: int
    link: str
    link_expires_at: int
    expires_at: int | None = None
    job_id: str | None = None
    path: str | None = None
    tags: Sequence[str] = ()


class AddedAsset(msgspec.Struct, frozen=True):
    """An asset that was added: `is_new` unless it existed, `is_known` where its bytes were stored already."""

    asset: Asset
    is_new: bool
    is_known: bool


def is_asset_id(text: str) -> bool:
    """Whether a text can be the id of an asset."""
    return _ID.fullmatch(text) is not None


def read_hash(text: str) -> str | None:
    """The digest of a hash such as `blake3:…`, 64 digits of lower-case hexadecimal; None for any other text."""
    found = _HASH.fullmatch(text)
    return None if found is None else found["digest"]
