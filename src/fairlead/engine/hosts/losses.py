"""The end of a job whose host did not tell one: as a node's failure, with the cause in the words of C-12."""

from collections.abc import Sequence
from typing import Final

from fairlead.domain.jobs.events import Failed, Failure, Place
from fairlead.processes.exits import Exit

_CRASH: Final = "EngineCrashError"
_OUT_OF_MEMORY: Final = "OOMError"
_LINES_MAX: Final = 100


def loss_fault(loss: Exit, place: Place, node_type: str, executed: Sequence[str]) -> Failed:
    """What the loss of its host is to a job: a kill that was not ours is the system's, which is out of memory."""
    lines = loss.last_words.splitlines()[:_LINES_MAX]
    if loss.reason is not None:
        return fault(place, node_type, _CRASH, f"the engine process was ended: {loss.reason}", executed, lines)
    if loss.is_out_of_memory:
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
