"""What is worth noting of engine hosts, as data, and what their callers are told when nothing comes of a call.

Who assembles the server decides what to log and to count.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from fairlead.engine.hosts.service import PackReport


class EngineUnavailableError(Exception):
    """No engine host does what was asked of one right now; the words say why."""


class HostStarted(msgspec.Struct, frozen=True):
    """An engine process takes work: how long it took to start (seconds), what it is for, the packs it has loaded.

    `kind` is `template`, or what a host does: `check`, `render` or `execute`.
    """

    pid: int
    seconds: float
    kind: str
    packs: Sequence[str] = ()


class PackProbed(msgspec.Struct, frozen=True):
    """A node pack was tried: how it fared."""

    report: PackReport


class ClassesShadowed(msgspec.Struct, frozen=True):
    """A node pack has classes whose names are those of another pack, `owner`, which is loaded first and gives them."""

    pack: str
    owner: str
    classes: Sequence[str]


class HostEnded(msgspec.Struct, frozen=True):
    """An engine process has ended: why we ended it, or None where it ended by itself; as `died` words it."""

    pid: int
    reason: str | None
    died: str


class HostNotStarted(msgspec.Struct, frozen=True):
    """An engine process could not be started: why, and the end of what it has said about it."""

    why: str
    last_words: str


class AnswerFailed(msgspec.Struct, frozen=True):
    """A callback raised an unexpected error; the node was told no detail of it."""

    question: str
    error: BaseException


HostNote: TypeAlias = HostStarted | PackProbed | ClassesShadowed | HostEnded | HostNotStarted | AnswerFailed
TakeNote: TypeAlias = Callable[[HostNote], None]
