"""The folders packs know: a private one each for input, output and temp, and the models next to the packs.

Packs read and write files by path. A file that a caller names is linked to where packs look for it; a file that a pack
writes and displays is handed to the job, under the job's name for it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.engine.nodes.node_context import NodeContext

KINDS: Final = ("input", "output", "temp")
_NUMBERED: Final = re.compile(r"(?P<prefix>.+)_\d{5,9}_")
_UNUSUAL: Final = re.compile(r"[^\w. -]")
_NAME_LENGTH_MAX: Final = 100
_DEPTH_MAX: Final = 16


class PackFolders:
    """The folders of one host.

    They are made when one is first needed, below `scratch` or the system's temporary folder.
    """

    def __init__(self, scratch: str | None, models: Sequence[Path]) -> None:
        self._scratch = scratch
        self._root: Path | None = None
        self.models: Final = models

    def path(self, kind: str) -> Path:
        """The folder of a kind. ValueError for an unknown kind."""
        if kind not in KINDS:
            raise ValueError(f"there is no folder {kind!r}; there are {', '.join(KINDS)}")
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="packs-", dir=self._scratch)).resolve()
        folder = self._root / kind
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def stage(self, name: str, context: NodeContext) -> Path:
        """The path at which a pack finds a named file; NoSuchFileError where it does not exist."""
        found = context.input_file(name)
        kind, bare = self.parse_name(name)
        parts = [_UNUSUAL.sub("_", part)[-_NAME_LENGTH_MAX:] for part in bare.split("/") if part.strip(". ")]
        target = self.path(kind).joinpath(*parts or ["file"])
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(found)
        fresh.replace(target)
        return target

    def parse_name(self, name: str) -> tuple[str, str]:
        """The kind and the bare name that a text such as `picture.png [output]` means."""
        for kind in KINDS:
            if name.endswith(f"[{kind}]"):
                return kind, name.removesuffix(f"[{kind}]").rstrip()
        return "input", name

    def keep(self, ui: Mapping[str, object], context: NodeContext) -> Mapping[str, object]:
        """Pass every displayed file to the job, once each; the displayed output then has the job's names."""
        kept: dict[Path, Mapping[str, str]] = {}
        return {key: self._keep(value, context, kept, 0) for key, value in ui.items()}

    def _keep(self, value: Any, context: NodeContext, kept: dict[Path, Mapping[str, str]], depth: int) -> object:
        if depth > _DEPTH_MAX:
            return value
        match value:
            case {"filename": str(filename), "type": "output" | "temp" as kind}:
                path = self._find_written(kind, str(value.get("subfolder") or ""), filename)
                if path is not None and path not in kept:
                    kept[path] = self._hand_over(path, kind, context)
                return {**value, **(kept[path] if path is not None else {})}
            case list() | tuple():
                return [self._keep(item, context, kept, depth + 1) for item in value]
            case Mapping():
                return {key: self._keep(item, context, kept, depth + 1) for key, item in value.items()}
            case _:
                return value

    def _find_written(self, kind: str, subfolder: str, filename: str) -> Path | None:
        """A file that the pack itself wrote; None for others, which the job has already."""
        if self._root is None:
            return None
        folder = self.path(kind)
        path = Path(os.path.normpath(folder / subfolder / filename))
        is_own = path.is_relative_to(folder) and path.is_file() and path.resolve() == path
        return path if is_own else None

    def _hand_over(self, path: Path, kind: str, context: NodeContext) -> Mapping[str, str]:
        """A numbered file gets the job's next number, as packs count only the files they see."""
        name = path.relative_to(self.path(kind))
        numbered = _NUMBERED.fullmatch(path.stem)
        if numbered and path.suffix:
            prefix = (name.parent / numbered["prefix"]).as_posix()
            place, saved = context.new_file(prefix, path.suffix, kind)
        else:
            place, saved = context.named_file(name.as_posix(), kind)
        shutil.move(path, place)
        return saved.as_ui()
