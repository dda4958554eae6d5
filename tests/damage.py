"""Damage to stored blobs, as a disk or a stranger does it: bytes are changed where they lie."""

from pathlib import Path
from typing import Final

_WRITABLE: Final = 0o600


def blob_files(folder: Path) -> list[Path]:
    """List the files of all blobs of a store, without what is being written, and what says whose the store is."""
    others = {"spool", "installation"}
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name not in others)


def blob_file(folder: Path, name: str) -> Path:
    """Return the file of a blob."""
    return folder / name[:2] / name[2:4] / name


def flip(path: Path, place: int = 0) -> None:
    """Change one byte of a file, in place."""
    path.chmod(_WRITABLE)
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 0x20]))
