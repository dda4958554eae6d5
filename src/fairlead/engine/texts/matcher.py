"""The program behind patterns.py: regular expressions, a line of JSON in, a line of JSON out.

Python's matcher can run practically forever on a pattern of twenty characters, and nothing in the same process can stop
it. So it runs in this program: the system ends it when a question takes more processor time or memory than allowed. It
imports nothing of Fairlead, and starts in a few milliseconds.
"""

import contextlib
import json
import re
import resource
import signal
import sys
from collections.abc import Iterator
from typing import TypedDict

_MOST_BYTES = 1 << 30


class Question(TypedDict):
    """A line of the input; it has `group`, `count` and `replacement` where the kind of question needs them."""

    ask: str
    pattern: str
    flags: int
    text: str
    seconds: float
    most: int
    group: int | None
    count: int
    replacement: str


def main() -> None:
    """Answer until the input ends."""
    # An interrupt at the terminal is for the process that started us; we end when it does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # not every system can bound memory
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    for line in sys.stdin:
        question: Question = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, question["seconds"])
        answer = _answer(question)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answer(question: Question) -> dict[str, object]:
    try:
        pattern = re.compile(question["pattern"], question["flags"])
    except (re.error, OverflowError, RecursionError) as reason:
        return {"faulty": str(reason)}
    except MemoryError:
        return {"faulty": "it needs too much memory"}
    try:
        return _match(pattern, question)
    except (re.error, IndexError) as reason:
        return {"faulty": str(reason)}
    except MemoryError:
        return {"long": True}


def _match(pattern: re.Pattern[str], question: Question) -> dict[str, object]:
    text, most = question["text"], question["most"]
    match question["ask"]:
        case "search":
            return {"answer": pattern.search(text) is not None}
        case "find":
            return _bound(_find(pattern, text, question["group"]), question["count"], most)
        case _:
            replaced = pattern.sub(question["replacement"], text, count=question["count"])
            return {"answer": replaced} if len(replaced) <= most else {"long": True}


def _find(pattern: re.Pattern[str], text: str, group: int | None) -> Iterator[str]:
    """The text of each match: of the named group, otherwise of the first group, as `findall` has it."""
    if group is None:
        group = min(pattern.groups, 1)
    if group > pattern.groups:
        return
    for match in pattern.finditer(text):
        yield match[group] or ""


def _bound(found: Iterator[str], count: int, most: int) -> dict[str, object]:
    pieces, length = [], 0
    for piece in found:
        pieces.append(piece)
        length += len(piece) + 1
        if length > most:
            return {"long": True}
        if len(pieces) == count:
            break
    return {"answer": pieces}


if __name__ == "__main__":
    main()
