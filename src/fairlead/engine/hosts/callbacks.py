"""What an engine host may ask of its server while it executes a job: it sends events, and asks for files and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fairlead.domain.jobs.events import Event
from fairlead.engine.hosts.protocol import Previewed, Said


class DeclinedError(Exception):
    """A question that has no good answer; becomes the error of the node that asked.

    `exception_type` is one of C-12 (`ImageDownloadError`, `InsufficientFundsError` …) or the name of another error.
    """

    def __init__(self, exception_type: str, message: str) -> None:
        super().__init__(message)
        self.exception_type = exception_type
        self.message = message


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a partner's model gave: JSON, and where the files lie that it names, with their types, by link."""

    body: bytes
    files: Mapping[str, Path] = field(default_factory=dict)
    content_types: Mapping[str, str] = field(default_factory=dict)


class HostCallbacks(Protocol):
    """The server's side of an order. Each method but the first three may raise DeclinedError."""

    def tell(self, events: Sequence[Event]) -> None:
        """Take note of what has happened, in order; never the ending. Must not raise."""
        ...

    def show(self, shown: Previewed | Said) -> None:
        """Show something to who watches right now. Must not raise."""
        ...

    async def caught_up(self) -> None:
        """Return when there is room for more events; after a flood of them nothing is read of the host until then."""
        ...

    async def find_file(self, name: str) -> Path:
        """Where a file lies that the workflow names."""
        ...

    async def list_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs."""
        ...

    async def name_file(self, name: str, extension: str, kind: str, *, exact: bool) -> str:
        """What a new file will be called."""
        ...

    async def keep_file(self, made: Path | bytes, filename: str, kind: str) -> None:
        """Keep a new file, or the bytes of one, under the name it was given; the file is taken away."""
        ...

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelAnswer:
        """Run a partner's model, in the partner's native JSON, paid by the key the job was submitted with."""
        ...
