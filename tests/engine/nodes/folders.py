"""What nodes are given in tests: a context over a folder, with inputs and outputs in it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.engine.nodes.context import ModelReply, NoSuchFileError, SavedFile


class FolderContext:
    """The context of a node, over the folders `input`, `output` and `temp` of one."""

    def __init__(self, root: Path, hidden: Mapping[str, Any] | None = None) -> None:
        self.root = root
        self.checks = 0
        self._hidden = hidden or {}
        for kind in ("input", "output", "temp"):
            (root / kind).mkdir(exist_ok=True)

    @property
    def hidden(self) -> Mapping[str, Any]:
        """The hidden inputs the test has given."""
        return self._hidden

    def progress(self, value: float, most: float) -> None:
        """Nobody watches."""

    def check(self) -> None:
        """Count how often a node asked."""
        self.checks += 1

    def input_file(self, name: str) -> Path:
        """A file by its annotated name."""
        annotated = re.fullmatch(r"(.*) \[(input|output|temp)\]", name)
        path = self.root / (annotated[2] if annotated else "input") / (annotated[1] if annotated else name)
        if not path.is_file():
            raise NoSuchFileError
        return path

    def input_files(self, folder: str) -> Sequence[str]:
        """The files in a folder and in those right below it."""
        root = self.root / "input"
        if not (root / folder).is_dir():
            raise NoSuchFileError
        below = (*(root / folder).glob("*"), *(root / folder).glob("*/*"))
        return sorted(path.relative_to(root).as_posix() for path in below if path.is_file())

    def new_file(self, prefix: str, extension: str, kind: str = "output", **sizes: int) -> tuple[Path, SavedFile]:
        """The next free number of a prefix."""
        for name, size in sizes.items():
            prefix = prefix.replace(f"%{name}%", str(size))
        number = 1
        while (place := self.root / kind / f"{prefix}_{number:05}_.{extension}").exists():
            number += 1
        return self._place(place, kind)

    def save(self, content: bytes, prefix: str, extension: str, kind: str = "output", **sizes: int) -> SavedFile:
        """Write a file."""
        path, saved = self.new_file(prefix, extension, kind, **sizes)
        path.write_bytes(content)
        return saved

    def named_file(self, name: str, kind: str = "output") -> tuple[Path, SavedFile]:
        """A file of this name."""
        return self._place(self.root / kind / name, kind)

    def preview(self, image_type: str, image: bytes) -> None:
        """Nobody watches."""

    def say(self, text: str) -> None:
        """Nobody listens."""

    async def run_model(self, model: str, body: bytes) -> ModelReply:
        """There are no partners."""
        raise NotImplementedError

    def _place(self, path: Path, kind: str) -> tuple[Path, SavedFile]:
        path.parent.mkdir(parents=True, exist_ok=True)
        subfolder = path.parent.relative_to(self.root / kind).as_posix()
        return path, SavedFile(path.name, "" if subfolder == "." else subfolder, kind)
