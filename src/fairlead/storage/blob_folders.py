"""The folders of a local store of blobs: where finished files are moved, and which folders are durable already."""

import os
from pathlib import Path
from typing import Final

_MODE: Final = 0o400
"""Of a blob's file. Its folder is its owner's alone, and an engine host is kept from writing there by its sandbox."""
_REMEMBERED_MAX: Final = 10_000


class BlobFolders:
    """Moves files into folders, two below the store's own, which are made as they are needed."""

    def __init__(self) -> None:
        self._durable: set[Path] = set()
        """Folders whose names in the folders above them are durable: those need no fsync for them again."""

    def move(self, spooled: Path, target: Path) -> None:
        """Move a finished file to its place, where nobody opens it for writing by mistake; make the move durable.

        OSError. May be called by several threads at once.
        """
        folders = (target.parent.parent, target.parent)
        spooled.chmod(_MODE)
        for folder in folders:
            if folder not in self._durable:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            spooled.replace(target)
        except FileNotFoundError:  # somebody has removed an empty folder
            self._durable.difference_update(folders)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            spooled.replace(target)
        _sync(target.parent)
        for folder in reversed(folders):
            if folder not in self._durable:
                _sync(folder.parent)
        if len(self._durable) > _REMEMBERED_MAX:
            self._durable.clear()
        self._durable.update(folders)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
