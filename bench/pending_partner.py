"""A partner that accepts work and lets it wait: every poll is answered `pending`, until `/finish` is called.

`/waiting` says how much work was taken and how often it was asked for. `/pictures` and `/quick-pictures` answer at
once.
"""

import json
import sys
from pathlib import Path
from typing import Final

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import catalog
from bench.slow_partner import Connection, serve, whole

_SUBMITTED: Final = b"/submitted-pictures"
_PICTURE: Final = whole(catalog.compact(catalog.ANSWER).encode())
_PENDING: Final = whole(b'{"status":"pending"}')
_SUCCEEDED: Final = whole(catalog.compact({"status": "succeeded", **catalog.ANSWER}).encode())


class PendingPartner:
    """How much work it has, and whether it is done."""

    def __init__(self) -> None:
        self.taken = 0
        self.polls = 0
        self.is_done = False

    def act(self, connection: Connection, path: bytes) -> None:
        """Take work, tell how it stands, or do as a benchmark says."""
        if path == _SUBMITTED:
            self.taken += 1
            connection.answer(whole(b'{"id":"01890000-0000-7000-8000-%012d"}' % self.taken))
        elif path.startswith(_SUBMITTED):
            self.polls += 1
            connection.answer(_SUCCEEDED if self.is_done else _PENDING)
        elif path in (b"/waiting", b"/finish"):
            self.is_done = self.is_done or path == b"/finish"
            connection.answer(whole(json.dumps({"taken": self.taken, "polls": self.polls}).encode()))
        else:
            connection.answer(_PICTURE)


if __name__ == "__main__":
    uvloop.run(serve(PendingPartner()))
