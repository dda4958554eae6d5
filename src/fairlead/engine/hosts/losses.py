"""The end of a job whose host did not tell one: as a node's failure, with the cause in the words of C-12."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.events import Failed, Failure, Place
from fairlead.engine.hosts.child import Loss

_CRASH: Final = "EngineCrashError"
_OUT_OF_MEMORY: Final = "OOMError"
_KILLED: Final = "SIGKILL"
_LINES_MAX: Final = 100


class _Classed(msgspec.Struct):
    class_type: str = ""


def loss_fault(loss: Loss, place: Place, node_type: str, executed: Sequence[str]) -> Failed:
    """What the loss of its host is to a job: a kill that was not ours is the system's, which is out of memory."""
    lines = loss.last_words.splitlines()[:_LINES_MAX]
    if loss.reason is not None:
        return fault(place, node_type, _CRASH, f"the engine process was ended: {loss.reason}", executed, lines)
    if loss.signal == _KILLED:
        words = "the engine process was killed by the system, most likely because memory ran out"
        return fault(place, node_type, _OUT_OF_MEMORY, words, executed, lines)
    return fault(place, node_type, _CRASH, f"the engine process {loss.words}", executed, lines)


def fault(
    place: Place,
    node_type: str,
    exception_type: str,
    words: str,
    executed: Sequence[str] = (),
    traceback: Sequence[str] = (),
) -> Failed:
    """A failure in our words."""
    return Failed(Failure(place, node_type, exception_type, words, list(traceback), {}, list(executed)))


def not_started(words: str) -> Failed:
    """The end of a job for which no host could be started."""
    return fault(Place("", ""), "", _CRASH, words)


def class_of(workflow: bytes, node: str) -> str:
    """The class of a node of a workflow; an empty one when it says none. Takes long for a large one."""
    try:
        found = msgspec.json.decode(workflow, type=dict[str, _Classed]).get(node)
    except msgspec.MsgspecError:
        return ""
    return "" if found is None else found.class_type
