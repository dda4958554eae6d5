"""Finds node packs in their folders, without loading any.

A pack has the name of its folder, or of its file without `.py`, directly below one of the folders of packs. A requested
name is looked up among the names that are found, and never becomes a part of a path.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.domain.deployments import PackSet, title_of

_DISABLED: Final = ".disabled"
_NAMES_SHOWN_MAX: Final = 5
_SHOWN_LENGTH_MAX: Final = 100


class Pack(msgspec.Struct, frozen=True):
    """A pack that was found: its name, and the file that is executed to load it."""

    name: str
    path: Path

    @property
    def title(self) -> str:
        """The name for its nodes and its module: for a copy, the original pack's name."""
        return title_of(self.name)


class Found(msgspec.Struct, frozen=True):
    """The packs of some folders, folder by folder in alphabetical order, and why a folder could not be read."""

    packs: Sequence[Pack]
    unread: Sequence[tuple[str, str]]


def find_packs(folders: Iterable[Path]) -> Found:
    """Look for packs in folders. Raises nothing."""
    packs: list[Pack] = []
    unread: list[tuple[str, str]] = []
    for folder in folders:
        try:
            packs.extend(_packs(folder))
        except OSError as error:
            unread.append((str(folder), error.strerror or str(error)))
    return Found(packs, unread)


def absent(wanted: PackSet, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the wanted packs that are not among some names."""
    return tuple(sorted(set(wanted or ()).difference(names)))


def absence(names: Sequence[str]) -> str:
    """A message that packs of some names do not exist; many names are cut to some, long ones to their beginnings."""
    shown = [repr(title_of(name)[:_SHOWN_LENGTH_MAX]) for name in names[:_NAMES_SHOWN_MAX]]
    more = len(names) - len(shown)
    listed = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"there is no node pack {listed}" if len(names) == 1 else f"there are no node packs {listed}"


def _packs(folder: Path) -> Iterator[Pack]:
    """The packs of a folder, in alphabetical order. OSError when it cannot be read."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith((".", "_")) or path.name.endswith(_DISABLED):
            continue
        if path.is_dir() and (path / "__init__.py").is_file():
            yield Pack(_printable(path.name), path / "__init__.py")
        elif path.is_file() and path.suffix == ".py":
            yield Pack(_printable(path.stem), path)


def _printable(name: str) -> str:
    """A name that can be displayed: those of the system may hold bytes that are not text."""
    return name.encode("utf-8", "replace").decode()
