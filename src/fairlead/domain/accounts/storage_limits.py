"""How much a workspace may keep: bytes and files, by a setting for all and by a limit of its own (S-09)."""

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

_NONE: Final = 0


class StorageLimits(msgspec.Struct, frozen=True):
    """The most a workspace may keep; 0 means no limit."""

    bytes: int = _NONE
    files: int = _NONE


UNLIMITED: Final = StorageLimits()


class StorageUsage(msgspec.Struct, frozen=True):
    """What a workspace keeps, and its own limits; None where those of all workspaces apply."""

    bytes: int = 0
    files: int = 0
    bytes_limit: int | None = None
    files_limit: int | None = None

    def limits(self, usual: StorageLimits) -> StorageLimits:
        """The limits that apply to this workspace."""
        return StorageLimits(
            usual.bytes if self.bytes_limit is None else self.bytes_limit,
            usual.files if self.files_limit is None else self.files_limit,
        )

    def with_file(self, size: int) -> "StorageUsage":
        """What it would keep with one more file."""
        return replace(self, bytes=self.bytes + size, files=self.files + 1)

    def find_exceeded(self, usual: StorageLimits) -> tuple[Literal["bytes", "files"], int] | None:
        """What exceeds its limit, and that limit; None where nothing does."""
        limits = self.limits(usual)
        if limits.bytes != _NONE and self.bytes > limits.bytes:
            return "bytes", limits.bytes
        if limits.files != _NONE and self.files > limits.files:
            return "files", limits.files
        return None

    def find_used_up(self, usual: StorageLimits) -> tuple[Literal["bytes", "files"], int] | None:
        """What has reached its limit, and that limit; None where there is room for more."""
        limits = self.limits(usual)
        if limits.bytes != _NONE and self.bytes >= limits.bytes:
            return "bytes", limits.bytes
        if limits.files != _NONE and self.files >= limits.files:
            return "files", limits.files
        return None
