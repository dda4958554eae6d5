"""What another workspace notices: it checks health, runs a model and submits a workflow, again and again, on a clock.

A process of its own, so that the attacker's work is not measured with it. It goes on until its standard input ends,
then prints one JSON object: for each kind of call the latencies in milliseconds and a count of every status.
"""

import http.client
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

GRAPH: Final = {
    "1": {"class_type": "PrimitiveString", "inputs": {"value": "a word of the witness"}},
    "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
}
"""What the witness submits. A pack that ever sees the words in it has seen another workspace's workflow."""
_MODEL: Final = "/v2/models/local/procedural-text-1"
_PROMPT: Final = {"prompt": "a harbour", "seed": 1}
_PATIENCE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of call, and how many seconds lie between the starts of two."""

    name: str
    method: str
    path: str
    every: float
    body: Any = None


CALLS: Final = (
    Call("healthz", "GET", "/healthz", 0.01),
    Call("run", "POST", _MODEL, 0.05, _PROMPT),
    Call("submit", "POST", "/api/prompt", 0.05, {"prompt": GRAPH}),
)


@dataclass(slots=True)
class Seen:
    """What came of one kind of call."""

    milliseconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


class Witness:
    """One thread and one connection for each kind of call, until `stop` is set."""

    def __init__(self, url: str, key: str, calls: Sequence[Call] = CALLS) -> None:
        self._address = urlsplit(url)
        self._headers = {"X-API-Key": key, "Content-Type": "application/json"}
        self._stop = threading.Event()
        self.seen: Mapping[str, Seen] = {call.name: Seen() for call in calls}
        self._threads = [threading.Thread(target=self._repeat, args=(call,)) for call in calls]

    def start(self) -> None:
        """Begin to call."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Make no further calls; returns when the last ones are answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, call: Call) -> None:
        connection = self._connect()
        body = None if call.body is None else json.dumps(call.body)
        seen = self.seen[call.name]
        while not self._stop.is_set():
            started = time.perf_counter()
            try:
                connection.request(call.method, call.path, body, self._headers)
                answer = connection.getresponse()
                answer.read()
                status = str(answer.status)
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
                connection.close()
                connection = self._connect()
            seconds = time.perf_counter() - started
            seen.milliseconds.append(seconds * 1000)
            seen.statuses[status] += 1
            self._stop.wait(max(0.0, call.every - seconds))
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=_PATIENCE_SECONDS)


def main() -> int:
    """Witness the server at the address given, with the key given, until standard input ends."""
    _, url, key = sys.argv
    witness = Witness(url, key)
    witness.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    witness.stop()
    json.dump({name: [seen.milliseconds, seen.statuses] for name, seen in witness.seen.items()}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
