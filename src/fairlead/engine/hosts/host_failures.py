"""Failures of jobs whose host ended first: the node that failed, and the cause in the words of C-12."""

from collections.abc import Sequence
from typing import Final

from fairlead.domain.jobs.events import Failed, Failure, Place
from fairlead.processes.exits import Exit

_CRASH: Final = "EngineCrashError"
_OUT_OF_MEMORY: Final = "OOMError"
_LINES_MAX: Final = 100


def host_failure(exit_: Exit, place: Place, node_type: str, executed: Sequence[str]) -> Failed:
    """The failure of a job whose host ended. A kill by the system means that memory ran out."""
    lines = exit_.last_words.splitlines()[:_LINES_MAX]
    if exit_.reason is not None:
        return failed(place, node_type, _CRASH, f"the engine process was ended: {exit_.reason}", executed, lines)
    if exit_.is_out_of_memory:
        words = "the engine process was killed by the system, most likely because memory ran out"
        return failed(place, node_type, _OUT_OF_MEMORY, words, executed, lines)
    return failed(place, node_type, _CRASH, f"the engine process {exit_.words}", executed, lines)


def failed(
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
    return failed(Place("", ""), "", _CRASH, words)
