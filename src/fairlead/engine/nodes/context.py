"""What a node can use while it runs: files, progress, models, and the check for interruption."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead.domain.jobs.errors import VALIDATION


class SavedFile(msgspec.Struct, frozen=True):
    """A reference to a file of a job."""

    filename: str
    subfolder: str
    type: str

    def as_ui(self) -> dict[str, str]:
        """The reference as watchers of the job see it."""
        return {"filename": self.filename, "subfolder": self.subfolder, "type": self.type}


class ModelReply(msgspec.Struct, frozen=True):
    """The answer of a partner's model: JSON, and the files that it names, with their content types, by link.

    Bytes without JSON have an empty `body`, and their file under the empty link. The files may be gone once the job
    has ended.
    """

    body: bytes
    files: Mapping[str, Path] = msgspec.field(default_factory=dict)
    content_types: Mapping[str, str] = msgspec.field(default_factory=dict)


class Context(Protocol):
    """The interface of a node to its job. Every method may be called from a thread."""

    @property
    def hidden(self) -> Mapping[str, object]:
        """The hidden inputs the node has declared: prompt, extra_pnginfo, unique_id …, by their declared names."""
        ...

    def progress(self, value: float, most: float) -> None:
        """Report the node's progress; InterruptedByCallerError when the job was interrupted."""
        ...

    def check(self) -> None:
        """InterruptedByCallerError when the job was interrupted."""
        ...

    def input_file(self, name: str) -> Path:
        """The file that a caller named, perhaps with its folder: `name [input]`, `[output]`, `[temp]`.

        NoSuchFileError for a missing file, or one outside its folder.
        """
        ...

    def input_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs and in the folders right below it, as `input_file` takes their names.

        In alphabetical order. NoSuchFileError for a missing folder, or one outside the inputs.
        """
        ...

    def new_file(self, prefix: str, extension: str, kind: str = "output", **sizes: int) -> tuple[Path, SavedFile]:
        """A path for a new file, which others see once the node has ended.

        `prefix` may hold folders and placeholders (%width%, %year% …), `kind` is output or temp.
        """
        ...

    def save(self, content: bytes, prefix: str, extension: str, kind: str = "output", **sizes: int) -> SavedFile:
        """Save bytes as a new file, named as by `new_file`; small ones are passed on without a file on disk."""
        ...

    def named_file(self, name: str, kind: str = "output") -> tuple[Path, SavedFile]:
        """A path for a file of exactly this name, which may have folders; it replaces a file of the same name.

        NoSuchFileError for a name that would lead elsewhere.
        """
        ...

    def preview(self, image_type: str, image: bytes) -> None:
        """Show a preview to everyone watching now: an `image/jpeg` or an `image/png`.

        ValueError for another type, or too many bytes.
        """
        ...

    def say(self, text: str) -> None:
        """Send a line of text about the progress to everyone watching now; a long one is cut."""
        ...

    async def run_model(self, model: str, body: bytes) -> ModelReply:
        """Run a partner's model with its native JSON, paid by the job's submitter.

        NamedFaultError when it cannot be run, or has failed.
        """
        ...


class NamedFaultError(Exception):
    """A fault by the name that clients know (C-12), such as ImageDownloadError or InsufficientFundsError.

    Any error with an `exception_type` is reported by that instead of the name of its class.
    """

    def __init__(self, exception_type: str, message: str) -> None:
        super().__init__(message)
        self.exception_type: Final = exception_type


class NoSuchFileError(Exception):
    """A named file does not exist: the workflow is at fault."""

    exception_type: Final = VALIDATION


class InterruptedByCallerError(Exception):
    """The job was interrupted."""
