"""Documents that editors keep for a workspace: settings, and small files such as workflows."""

import unicodedata
from typing import Final

import msgspec

NAME_MAX: Final = 200
"""The longest name of a setting or a file, in characters."""


class DocumentInfo(msgspec.Struct, frozen=True):
    """A document without its content; its size is in bytes, the time in ms since 1970."""

    name: str
    size: int
    changed_at: int


def is_setting(text: str) -> bool:
    """Whether a text may name a setting."""
    return 1 <= len(text) <= NAME_MAX and not _has_controls(text)


def is_file_path(text: str) -> bool:
    """Whether a text may name a file. It is a key of a table and no path on a disk, but may be copied to one."""
    is_odd = any(segment in {"", ".", ".."} for segment in text.split("/")) or "\\" in text
    return len(text) <= NAME_MAX and not is_odd and not _has_controls(text)


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(char) in {"Cc", "Cs"} for char in text)
