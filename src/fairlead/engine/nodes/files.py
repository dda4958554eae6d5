"""A job's files in folders of this machine: one of inputs, one of outputs, one of previews.

A name never leads out of its folder, neither by dots and slashes nor by links. A new file is written under a hidden
name and renamed when its node has ended, so that nobody finds half a file.
"""

import datetime
import os
import re
import threading
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fairlead.engine.nodes.context import NoSuchFileError, SavedFile

_ANNOTATED: Final = re.compile(r"(?P<name>.*?)\s*\[(?P<kind>input|output|temp)\]", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"%(\w{1,20})%")
_EXTENSION: Final = re.compile(r"\.?([A-Za-z0-9]{1,10})")
_COUNTER: Final = re.compile(r"_(\d{1,9})(?=[_.]|$)")
_NAME_BYTES_MAX: Final = 200
"""The longest beginning of a new name, which also gets a number, an extension and, while it is written, a prefix."""
_FOUND_BYTES_MAX: Final = 255
_PREFIX_LENGTH_MAX: Final = 1_000
_PARTIAL: Final = ".partial-"
_NEW_KINDS: Final = frozenset({"output", "temp"})
_LISTED_MAX: Final = 100_000


class Folders:
    """The files of a job. Counters continue from the highest in the folder, as in `prefix_00001_.png`."""

    def __init__(self, inputs: Path, outputs: Path, previews: Path) -> None:
        self._roots: Final[Mapping[str, Path]] = MappingProxyType(
            {"input": inputs.resolve(), "output": outputs.resolve(), "temp": previews.resolve()}
        )
        self._lock = threading.Lock()
        self._counters: dict[tuple[Path, str], int] = {}
        self._reserved: set[Path] = set()
        self._new: dict[Path, SavedFile] = {}
        self._kept: dict[Path, SavedFile] = {}

    def input_file(self, name: str) -> Path:
        """The file of a name, which may have its folder at the end, as in `picture.png [output]`."""
        annotated = _ANNOTATED.fullmatch(name[:_PREFIX_LENGTH_MAX])
        kind = annotated["kind"] if annotated else "input"
        path = self._within(kind, annotated["name"] if annotated and len(name) <= _PREFIX_LENGTH_MAX else name)
        if path is None or not path.is_file():
            raise NoSuchFileError(f"there is no file {_show(name)} in the {kind} folder")
        return path

    def new_file(self, prefix: str, extension: str, kind: str, sizes: Mapping[str, int]) -> tuple[Path, SavedFile]:
        """The path to write a new file to, and its later name. ValueError for a prefix that cannot be used."""
        if kind not in _NEW_KINDS:
            raise ValueError(f"there is no folder for new files of the kind {_show(kind)}")
        suffix = extension_of(extension)
        subfolder, name = _parts(fill_prefix(prefix, sizes))
        folder = self._within(kind, subfolder)
        if folder is None:
            raise ValueError(f"the prefix {_show(prefix)} leads out of the folder for files")
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            filename = self._next(folder, name, suffix)
            self._reserved.add(folder / filename)
        return self._stage(folder / filename, SavedFile(filename, subfolder, kind))

    def input_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs and in the folders right below it, in alphabetical order."""
        root, path = self._roots["input"], self._within("input", folder)
        if path is None or not path.is_dir():
            raise NoSuchFileError(f"there is no folder {_show(folder)} in the input folder")
        found = [file.relative_to(root).as_posix() for file in _files_below(path)]
        return sorted(name for name in found if self._within("input", name) is not None)

    def named_file(self, name: str, kind: str) -> tuple[Path, SavedFile]:
        """The path to write a file of exactly this name to. NoSuchFileError for a name that cannot be used."""
        path = self._within(kind, name) if kind in _NEW_KINDS else None
        if path is None or path == self._roots[kind] or not _can_be_named(path.name) or path.is_dir():
            raise NoSuchFileError(f"{_show(name)} is not a name for a file in the {kind} folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        subfolder = path.parent.relative_to(self._roots[kind]).as_posix()
        return self._stage(path, SavedFile(path.name, "" if subfolder == "." else subfolder, kind))

    def write(self, path: Path, content: bytes) -> None:
        """Write the bytes of a new file."""
        path.write_bytes(content)

    def keep(self, path: Path) -> None:
        """Rename a new file to its final name; one that was never written leaves nothing."""
        final = _final(path)
        if path.exists():
            path.replace(final)
            self._reserved.discard(final)
            self._kept[final] = self._new.pop(path)
        else:
            self._give_back(final)

    def new_files(self) -> Sequence[tuple[SavedFile, Path]]:
        """The new files that were given their final names, with their paths."""
        return [(saved, path) for path, saved in self._kept.items()]

    def discard(self, path: Path) -> None:
        """Remove a new file and free its name."""
        path.unlink(missing_ok=True)
        self._new.pop(path, None)
        self._give_back(_final(path))

    def _give_back(self, final: Path) -> None:
        """The name is reserved by an empty file, unless the node chose it: then an older file may exist."""
        if final in self._reserved:
            self._reserved.discard(final)
            final.unlink(missing_ok=True)

    def _stage(self, final: Path, saved: SavedFile) -> tuple[Path, SavedFile]:
        path = final.with_name(f"{_PARTIAL}{final.name}")
        self._new[path] = saved
        return path, saved

    def _within(self, kind: str, name: str) -> Path | None:
        """The path of a name in a folder; None when it would be outside the folder or is not a valid name."""
        root = self._roots[kind]
        if len(name) > _PREFIX_LENGTH_MAX or Path(name).is_absolute():
            return None
        if not all(_can_be_named(part, _FOUND_BYTES_MAX) for part in Path(name).parts):
            return None
        try:
            path = (root / name).resolve()
        except OSError:
            return None
        return path if path.is_relative_to(root) else None

    def _next(self, folder: Path, name: str, extension: str) -> str:
        """Take the next free name by making an empty file, so others that count in this folder see it."""
        number = self._counters.get((folder, name))
        number = _highest(folder, name) if number is None else number
        while True:
            number += 1
            filename = f"{name}_{number:05}_.{extension}"
            try:
                os.close(os.open(folder / filename, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            except FileExistsError:
                continue
            self._counters[folder, name] = number
            return filename


def fill_prefix(prefix: str, sizes: Mapping[str, int]) -> str:
    """The prefix with its placeholders filled in; unknown ones stay."""
    if len(prefix) > _PREFIX_LENGTH_MAX:
        raise ValueError(f"the prefix of a file has at most {_PREFIX_LENGTH_MAX} characters")
    now = datetime.datetime.now().astimezone()
    known = {
        "year": str(now.year),
        "month": f"{now.month:02}",
        "day": f"{now.day:02}",
        "hour": f"{now.hour:02}",
        "minute": f"{now.minute:02}",
        "second": f"{now.second:02}",
        **{name: str(size) for name, size in sizes.items()},
    }
    return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), prefix)


def extension_of(extension: str) -> str:
    """An extension without its dot. ValueError for anything but letters and digits."""
    found = _EXTENSION.fullmatch(extension)
    if found is None:
        raise ValueError(f"{_show(extension)} is not an extension of a file")
    return found[1]


def _parts(prefix: str) -> tuple[str, str]:
    """The folder and the beginning of the name."""
    normal = os.path.normpath(prefix) if prefix else ""
    subfolder, name = os.path.split(normal)
    if name in {".", ".."} or not _can_be_named(name):
        raise ValueError(f"the prefix {_show(prefix)} cannot begin the name of a file")
    return subfolder, name


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder and of its direct subfolders. NoSuchFileError where there are too many."""
    listed = islice(chain(folder.glob("*"), folder.glob("*/*")), _LISTED_MAX + 1)
    found = [path for path in listed if path.is_file() and not path.name.startswith(_PARTIAL)]
    if len(found) > _LISTED_MAX:
        raise NoSuchFileError(f"the folder holds more than {_LISTED_MAX} files")
    return found


def _highest(folder: Path, name: str) -> int:
    """The highest counter of the files whose names begin so, whatever their extension."""
    highest = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f"{name}_"):
                counter = _COUNTER.match(entry.name, len(name))
                highest = max(highest, int(counter[1]) if counter else 0)
    return highest


def _can_be_named(name: str, bytes_max: int = _NAME_BYTES_MAX) -> bool:
    """Whether a file system accepts a name: not too long, no control characters, no lone surrogates."""
    is_text = all(character >= " " and not "\ud800" <= character <= "\udfff" for character in name)
    return is_text and len(name.encode()) <= bytes_max


def _final(path: Path) -> Path:
    return path.with_name(path.name.removeprefix(_PARTIAL))


def _show(text: str) -> str:
    return repr(text if len(text) <= _NAME_BYTES_MAX else f"{text[:_NAME_BYTES_MAX]}…")
