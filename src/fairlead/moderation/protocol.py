"""What a server asks of a moderator, one question at a time (processes/rpc.py)."""

from typing import Final, Protocol

import msgspec

from fairlead.processes.rpc import Definition, methods_of

FRAME_BYTES_MAX: Final = 64 * 1024
WORDS_CHARACTERS_MAX: Final = 500
"""How much of a reason or of an error is passed on."""


class Question(msgspec.Struct, frozen=True):
    """Bytes that want to be kept: where they lie, how many they are, and their BLAKE3 in hexadecimal."""

    path: str
    size: int
    hash: str


class Content(msgspec.Struct, frozen=True):
    """What the callable is given. `content_type` is found from the bytes: what a caller says of them is not believed.

    The file at `path` is to be read and left as it is; `size` is in bytes, `hash` is the BLAKE3 in hexadecimal.
    """

    path: str
    content_type: str
    size: int
    hash: str


class Verdict(msgspec.Struct, frozen=True, tag=True):
    """Whether the bytes are blocked; the reason is for the log."""

    is_blocked: bool
    reason: str | None = None


class Failure(msgspec.Struct, frozen=True, tag=True):
    """There is no verdict, and why: the callable could not be loaded, has raised, or returned something else."""

    why: str


class Moderator(Definition, Protocol):
    """A process that has an operator's callable judge bytes."""

    async def load(self, source: str, /) -> Failure | None:
        """Load the callable, which is asked from then on; why it could not be."""
        ...

    async def judge(self, question: Question, /) -> Verdict | Failure:
        """Have bytes judged."""
        ...


MODERATOR: Final = methods_of(Moderator)
