"""The folder in which a server's hosts have their folders; it is removed however the server ends."""

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BEGINNING: Final = "hosts-"
_LOCK: Final = "lock"


class ScratchFolders:
    """A locked folder with folders below it: other servers that share the root leave it alone until this one ends."""

    def __init__(self, root: Path) -> None:
        """Make a folder below the root, and remove those of servers that have ended. OSError when that fails."""
        root = root.resolve()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _hold(root / _LOCK):  # so that a folder that is being made is not taken for one that was left behind
            for folder in root.glob(f"{_BEGINNING}*"):
                _remove_if_left(folder)
            self.folder: Final = Path(tempfile.mkdtemp(prefix=_BEGINNING, dir=root))
            self._lock = _open(self.folder / _LOCK)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._numbers: Final = itertools.count()

    def next(self) -> Path:
        """The path of a folder that does not exist; it is not made."""
        return self.folder / str(next(self._numbers))

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose lock is free, because its owner has ended."""
    try:
        lock = _open(folder / _LOCK)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


@contextmanager
def _hold(path: Path) -> Iterator[None]:
    lock = _open(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
