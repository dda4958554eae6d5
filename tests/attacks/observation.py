"""Watches what a second workspace notices while something else goes on."""

import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_WITNESS: Final = Path(__file__).with_name("witness.py")
_STOP_SECONDS: Final = 130.0
_GOOD: Final = frozenset({"200"})


@dataclass(frozen=True, slots=True)
class Noticed:
    """The latencies of one kind of call in milliseconds, and how often each status was answered."""

    milliseconds: list[float]
    statuses: Mapping[str, int]

    @property
    def p50(self) -> float:
        """The median latency in milliseconds."""
        return statistics.median(self.milliseconds)

    @property
    def p99(self) -> float:
        """The latency in milliseconds that one call in a hundred exceeds."""
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]

    @property
    def failed(self) -> int:
        """How many calls were answered by anything but 200."""
        return sum(count for status, count in self.statuses.items() if status not in _GOOD)


@dataclass(slots=True)
class Observation:
    """What was noticed, by the kind of call; filled when the watching ends."""

    calls: dict[str, Noticed] = field(default_factory=dict)

    def add(self, other: "Observation") -> None:
        """Count in what was noticed another time."""
        for name, seen in other.calls.items():
            known = self.calls.setdefault(name, Noticed([], {}))
            statuses = Counter(known.statuses) + Counter(seen.statuses)
            self.calls[name] = Noticed(known.milliseconds + seen.milliseconds, statuses)


@contextmanager
def observe(url: str, key: str) -> Iterator[Observation]:
    """Have a witness call the server with this key while the block is executed."""
    process = subprocess.Popen(
        [sys.executable, str(_WITNESS), url, key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the session of an attacker may have to give way
    )
    observation = Observation()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield observation
        output, _ = process.communicate(timeout=_STOP_SECONDS)
        observation.calls |= {
            name: Noticed(milliseconds, statuses) for name, (milliseconds, statuses) in json.loads(output).items()
        }
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
