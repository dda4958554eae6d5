"""Copies of node packs, by content: the packs of a release stay unchanged, whatever happens to the originals.

A copy is in a folder of the server's, under the pack's name and a part of the digest of its files, `name@digest`: two
releases with the same files share one.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from fairlead.domain.deployments import COPY_DIGITS
from fairlead.engine.packs.finding import Pack

_FILES_MAX: Final = 20_000
_BYTES_MAX: Final = 2 * 2**30
_NAME_BYTES_MAX: Final = 200
_LEFT_OUT: Final = frozenset({"__pycache__", ".git"})
_CHUNK: Final = 2**20
_FORGOTTEN_AFTER: Final = 3600.0
"""The age in seconds at which an unused copy is removed: a new one is about to be used."""


class NotCopiedError(Exception):
    """A pack cannot be copied; the message says why."""


def copy_pack(pack: Pack, folder: Path) -> str:
    """Keep a copy of a pack in a folder, unless there is one already, and return its name; NotCopiedError."""
    if len(os.fsencode(pack.name)) > _NAME_BYTES_MAX:
        raise NotCopiedError(f"a node pack of a release has a name of at most {_NAME_BYTES_MAX} bytes")
    source = pack.path.parent if pack.path.name == "__init__.py" else pack.path
    try:
        files = _files(source)
        name = f"{pack.name}@{_digest(source, files)}"
        target = folder / (name if source.is_dir() else f"{name}.py")
        if target.exists():
            os.utime(target)
        else:
            _place(source, files, target)
    except OSError as error:
        raise NotCopiedError(f"the node pack {pack.name} cannot be copied: {error.strerror}") from error
    return name


def forget_copies(folder: Path, needed: Collection[str]) -> int:
    """Remove the copies in a folder that no release names any more, and return how many; OSError."""
    before, gone = time.time() - _FORGOTTEN_AFTER, 0
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.removesuffix(".py") in needed or path.stat().st_mtime > before:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        gone += 1
    return gone


def _files(source: Path) -> Sequence[Path]:
    """The files of a pack, in one order; OSError, or NotCopiedError for more than there may be."""
    found: list[Path] = []
    size = 0
    for path in [source] if source.is_file() else _walk(source):
        size += path.stat().st_size
        found.append(path)
        if len(found) > _FILES_MAX or size > _BYTES_MAX:
            raise NotCopiedError(f"a node pack may have {_FILES_MAX} files and {_BYTES_MAX // 2**30} GiB")
    return found


def _walk(source: Path) -> Iterator[Path]:
    """The files below a folder. Links to files are followed, and those to folders not: a loop would never end."""
    for parent, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        yield from (path for name in sorted(files) if (path := Path(parent, name)).is_file())


def _digest(source: Path, files: Sequence[Path]) -> str:
    """A part of the digest of the names and the bytes of a pack's files."""
    digest = hashlib.sha256()
    for path in files:
        name = os.fsencode(path.relative_to(source.parent))
        digest.update(b"%d:%b%d:" % (len(name), name, path.stat().st_size))
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:COPY_DIGITS]


def _place(source: Path, files: Sequence[Path], target: Path) -> None:
    """Copy a pack next to its place first, so that half a copy is never found."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copying-", dir=target.parent) as scratch:
        made = Path(scratch, target.name)
        for path in files:
            place = made if path == source else made / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        try:
            made.rename(target)
        except OSError:
            if not target.exists():  # otherwise another process was faster, with the same bytes
                raise
