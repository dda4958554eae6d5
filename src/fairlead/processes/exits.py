"""How a process has ended, and the pause before the next start, which grows until a process has lasted."""

import signal
from typing import Final

import msgspec

_FIRST: Final = 0.1
_MOST: Final = 10.0
_STEADY: Final = 10.0


class Exit(msgspec.Struct, frozen=True):
    """The end of a process: the name of the `signal` that ended it, otherwise its exit `code`.

    Both are None where the end is unknown. `reason` says why we ended it, and is None where it ended by itself.
    `last_words` is the end of what it wrote to its standard error.
    """

    signal: str | None
    code: int | None
    reason: str | None = None
    last_words: str = ""
    is_out_of_memory: bool = False
    """Whether the system killed it because memory ran out: certain in a cgroup, likely for a foreign SIGKILL."""

    @property
    def words(self) -> str:
        """How it has ended, as the rest of a sentence."""
        if self.signal is not None:
            return f"was ended by {self.signal}"
        if self.code is None:
            return "ended, and nobody could tell how"
        return f"ended by itself with the code {self.code}"


def exit_of(
    status: int | None, reason: str | None = None, last_words: str = "", *, has_run_out_of_memory: bool = False
) -> Exit:
    """The end of a process by its status: a code, or a signal as a negative number."""
    name = None if status is None or status >= 0 else signal_name(-status)
    is_out_of_memory = reason is None and (has_run_out_of_memory or name == "SIGKILL")
    return Exit(name, status, reason, last_words, is_out_of_memory)


def signal_name(number: int) -> str:
    """The name of a signal; of one without a name its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Restarts:
    """The pauses between the starts of one child: none after one that has lasted for `steady` seconds."""

    def __init__(self, first: float = _FIRST, most: float = _MOST, steady: float = _STEADY) -> None:
        self._first: Final = first
        self._most: Final = most
        self._steady: Final = steady
        self._pause = 0.0

    def pause_after(self, lasted: float) -> float:
        """How many seconds to wait before the next start, given how long the last child has lasted."""
        self._pause = 0.0 if lasted > self._steady else min(max(2 * self._pause, self._first), self._most)
        return self._pause
