"""Regular expressions with a time limit: they run in a separate process, which is killed when one takes too long.

The process is started with the first pattern and kept; each question costs two lines through a pipe. It inherits no
environment, ends when we do, and is replaced when it was ended.
"""

import atexit
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from fairlead.engine.texts import matcher
from fairlead.engine.texts.bounds import MOST_CHARACTERS

_LONGEST_PATTERN: Final = 10_000
_LONGEST_TEXT: Final = 1_000_000


class FaultyPatternError(ValueError):
    """The pattern or the replacement is invalid."""


class Pattern(msgspec.Struct, frozen=True):
    """A regular expression in Python's language.

    Each method raises FaultyPatternError for an invalid pattern, and ValueError for texts that are too long and
    patterns that take more than `seconds` of processor time.
    """

    source: str
    ignores_case: bool = False
    is_multiline: bool = False
    dot_is_all: bool = False
    seconds: float = 5.0

    def is_in(self, text: str) -> bool:
        """Whether it matches somewhere."""
        return bool(self._ask("search", text))

    def find_in(self, text: str, group: int | None = None, count: int = 0) -> list[str]:
        """The text of each match: of a group (0 is the whole), by default of the first group, if there is one.

        A group that took no part is empty; a group the pattern does not have gives nothing. `count` bounds the matches,
        0 does not.
        """
        found = self._ask("find", text, group=group, count=count)
        return found if isinstance(found, list) else []

    def replace_in(self, text: str, replacement: str, count: int = 0) -> str:
        r"""The text with its matches replaced; `\1` and `\g<name>` in the replacement stand for groups."""
        if len(replacement) > _LONGEST_TEXT:
            raise ValueError(f"The replacement has {len(replacement):,} characters, and {_LONGEST_TEXT:,} is the most.")
        return str(self._ask("replace", text, replacement=replacement, count=count))

    def _ask(self, ask: str, text: str, **details: object) -> object:
        if len(self.source) > _LONGEST_PATTERN:
            raise ValueError(f"The pattern has {len(self.source):,} characters, and {_LONGEST_PATTERN:,} is the most.")
        if len(text) > _LONGEST_TEXT:
            raise ValueError(f"The text has {len(text):,} characters, and {_LONGEST_TEXT:,} is the most for a pattern.")
        answer = _MATCHER.ask(
            {
                "ask": ask, "pattern": self.source, "flags": self._flags(), "text": text, "seconds": self.seconds,
                "most": MOST_CHARACTERS, **details,
            }
        )  # fmt: skip
        match answer:
            case {"answer": value}:
                return value
            case {"faulty": reason}:
                raise FaultyPatternError(f"The pattern cannot be used: {reason}.")
            case {"long": True}:
                raise ValueError(f"The pattern gives more than {MOST_CHARACTERS:,} characters.")
            case _:
                raise ValueError(f"The pattern takes more than {self.seconds:g} s; simplify it, or shorten the text.")

    def _flags(self) -> int:
        flags = re.IGNORECASE if self.ignores_case else re.NOFLAG
        flags |= re.MULTILINE if self.is_multiline else re.NOFLAG
        flags |= re.DOTALL if self.dot_is_all else re.NOFLAG
        return int(flags)


class _Matcher:
    """The process that tries patterns, one question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, object]) -> object:
        """The answer, or None when the question took too long and the process was ended for it."""
        line = json.dumps(question) + "\n"
        with self._lock:
            # The first attempt finds that a process has ended on its own; the second uses a new one.
            for _ in range(2):
                answer, ended_by = self._attempt(line)
                if answer:
                    return json.loads(answer)
                if ended_by == -signal.SIGPROF:
                    return None
        raise RuntimeError("The process that tries patterns ends before it answers.")

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._end()

    def _attempt(self, line: str) -> tuple[str, int]:
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 -- it was started with pipes
        assert process.stdout is not None  # noqa: S101 -- same
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return (answer, 0) if answer else ("", self._end())

    def _start(self) -> subprocess.Popen[str]:
        program = [sys.executable, "-I", "-S", str(Path(matcher.__file__))]
        self._process = subprocess.Popen(  # noqa: S603 -- our own program, by its path
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            encoding="ascii",
        )
        atexit.register(self.close)
        return self._process

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        atexit.unregister(self.close)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return process.wait()


_MATCHER: Final = _Matcher()
