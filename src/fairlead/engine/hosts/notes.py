"""What is worth noting of engine hosts, as data, and what their callers are told when nothing comes of a call.

Who assembles the server decides what to log and to count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fairlead.engine.hosts.service import PackReport


class EngineUnavailableError(Exception):
    """No engine host does what was asked of one right now; the words say why."""


@dataclass(frozen=True, slots=True)
class HostStarted:
    """An engine process takes work: how long it took to start (seconds), what it is for, the packs it has loaded.

    `kind` is `template`, or what a host does: `check`, `render` or `execute`.
    """

    pid: int
    seconds: float
    kind: str
    packs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PackProbed:
    """A node pack was tried: how it fared."""

    report: PackReport


@dataclass(frozen=True, slots=True)
class ClassesShadowed:
    """A node pack has classes whose names are those of another pack, `owner`, which is loaded first and gives them."""

    pack: str
    owner: str
    classes: Sequence[str]


@dataclass(frozen=True, slots=True)
class HostEnded:
    """An engine process has ended: why we ended it, or None where it ended by itself; as `died` words it."""

    pid: int
    reason: str | None
    died: str


@dataclass(frozen=True, slots=True)
class HostNotStarted:
    """An engine process could not be started: why, and the end of what it has said about it."""

    why: str
    last_words: str


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """A callback raised an unexpected error; the node was told no detail of it."""

    question: str
    error: BaseException


HostNote: TypeAlias = HostStarted | PackProbed | ClassesShadowed | HostEnded | HostNotStarted | AnswerFailed
TakeNote: TypeAlias = Callable[[HostNote], None]
