"""What an engine host may ask of its server: files, names for new ones, runs of models.

Each question is one method here, implemented in `operations/jobs/callbacks.py`. A host asks it by
`JobConnection.call(JobQuestions.find_file, name)`; how it travels, what is refused of it and its dispatch follow from
the signature.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead.domain.jobs.events import Event
from fairlead.engine.hosts.protocol import Previewed, Said
from fairlead.engine.hosts.rpc import methods_of

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=8_192)]
"""A name that a host may send; links may be long."""
NewKind: TypeAlias = Literal["output", "temp"]
"""The folder of a new file."""


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
    """What a partner's model gave: JSON, and where the files lie that it names, with their types, by link.

    An answer that is bytes has no `body`, and its file under the empty link.
    """

    body: bytes
    files: Mapping[str, Path] = field(default_factory=dict)
    content_types: Mapping[str, str] = field(default_factory=dict)


class CheckQuestions(Protocol):
    """What a host may ask while it checks a workflow. Each method may raise DeclinedError."""

    async def find_file(self, name: Name, /) -> Path:
        """Where a file lies that the workflow names. It may say its folder, `name [input]`, or be an http(s) link."""
        ...

    async def list_files(self, folder: Name, /) -> Sequence[str]:
        """The files in a folder of the inputs, by names that `find_file` takes."""
        ...


class JobQuestions(CheckQuestions, Protocol):
    """What a host may ask while it executes a job. Each method may raise DeclinedError."""

    async def name_file(self, name: Name, extension: Name, kind: NewKind, /, *, exact: bool) -> str:
        """What a new file will be called. `name` is its beginning, to be numbered, or its `exact` name."""
        ...

    async def keep_file(self, path: Path, filename: Name, kind: NewKind, /) -> None:
        """Keep a file that the host has written in its folder, under the name it was given; the file is taken away."""
        ...

    async def keep_bytes(self, content: bytes, filename: Name, kind: NewKind, /) -> None:
        """Keep a small new file, of which the host sends the content."""
        ...

    async def run_model(self, node: Name, turn: int, model: Name, body: bytes, /) -> ModelAnswer:
        """Run a partner's model, in the partner's native JSON, paid by the key the job was submitted with.

        `node` is its id in the graph, and `turn` counts its calls from 0: a job that is executed again asks for the
        same runs by them, and pays for none twice.
        """
        ...


class HostCallbacks(JobQuestions, Protocol):
    """The server's side of a job that is executed: it answers its questions, and records its events."""

    def tell(self, events: Sequence[Event]) -> None:
        """Record events, in order; never the ending. Must not raise."""
        ...

    def show(self, shown: Previewed | Said) -> None:
        """Show something to those who watch right now. Must not raise."""
        ...

    def caught_up(self) -> Awaitable[None]:
        """Return when there is room for more events; after a flood of them nothing is read of the host until then."""
        ...


CHECK_QUESTIONS: Final = methods_of(CheckQuestions)
JOB_QUESTIONS: Final = methods_of(JobQuestions)
