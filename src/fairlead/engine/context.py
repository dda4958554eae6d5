"""What a node may ask of the world while it runs: its files, its progress, whether it is still wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a job, as others may refer to it."""

    filename: str
    subfolder: str
    type: str

    def as_ui(self) -> dict[str, str]:
        """The reference as it is shown to who watches the job."""
        return {"filename": self.filename, "subfolder": self.subfolder, "type": self.type}


class Context(Protocol):
    """The hand a node is given. Every method may be called from a thread."""

    @property
    def hidden(self) -> Mapping[str, Any]:
        """The hidden inputs the node has declared: prompt, extra_pnginfo, unique_id …, by their declared names."""
        ...

    def progress(self, value: float, most: float) -> None:
        """Say how far the node is; InterruptedByCallerError when it is not wanted any more."""
        ...

    def check(self) -> None:
        """InterruptedByCallerError when the job is not wanted any more."""
        ...

    def input_file(self, name: str) -> Path:
        """The file a caller named, which may say its folder: `name [input]`, `[output]`, `[temp]`.

        NoSuchFileError for one there is not, or that would lie elsewhere.
        """
        ...

    def input_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs and in the folders right below it, as `input_file` takes their names.

        In alphabetical order. NoSuchFileError for a folder there is not, or that would lie elsewhere.
        """
        ...

    def new_file(self, prefix: str, extension: str, kind: str = "output", **sizes: int) -> tuple[Path, SavedFile]:
        """A place for a new file, which is there for others once the node has ended.

        `prefix` may hold folders and placeholders (%width%, %year% …), `kind` is output or temp.
        """
        ...

    def named_file(self, name: str, kind: str = "output") -> tuple[Path, SavedFile]:
        """A place for a file of exactly this name, which may hold folders; it replaces one of the same name.

        NoSuchFileError for a name that would lead elsewhere.
        """
        ...


class NoSuchFileError(Exception):
    """A caller named a file that there is not."""


class InterruptedByCallerError(Exception):
    """The job is not wanted any more."""
