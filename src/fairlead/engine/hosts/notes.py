"""Events of engine hosts, as data, and the error of a call that cannot be made.

The wiring of the server decides what is logged and counted.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from fairlead.engine.hosts.service import PackReport


class EngineUnavailableError(Exception):
    """No engine host can do this now; the message says why."""


class HostStarted(msgspec.Struct, frozen=True):
    """An engine process takes work: how long it took to start (seconds), what it is for, the packs it has loaded.

    `kind` is `template`, `probe`, or what a host does: `check`, `render` or `execute`.
    """

    pid: int
    seconds: float
    kind: str
    packs: Sequence[str] = ()


class PackProbed(msgspec.Struct, frozen=True):
    """The result of probing a node pack."""

    report: PackReport


class ClassesShadowed(msgspec.Struct, frozen=True):
    """A node pack has classes with the names of another pack's: `owner`, which is loaded first and provides them."""

    pack: str
    owner: str
    classes: Sequence[str]


class HostEnded(msgspec.Struct, frozen=True):
    """An engine process has ended: why we ended it, or None where it ended by itself; `died` describes its end."""

    pid: int
    reason: str | None
    died: str


class HostNotStarted(msgspec.Struct, frozen=True):
    """An engine process could not be started: why, and the last lines of its output."""

    why: str
    last_words: str


class AnswerFailed(msgspec.Struct, frozen=True):
    """A callback raised an unexpected error, of which the node learned nothing."""

    question: str
    error: BaseException


HostNote: TypeAlias = HostStarted | PackProbed | ClassesShadowed | HostEnded | HostNotStarted | AnswerFailed
TakeNote: TypeAlias = Callable[[HostNote], None]
