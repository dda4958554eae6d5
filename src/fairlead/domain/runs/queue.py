"""The queue as callers see it (R-33): three statuses, and when to ask again.

Times are parameters, in milliseconds since 1970; waits are whole seconds, as in `Retry-After`.
"""

import enum
import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fairlead.domain.runs.states import WAITING, WORKING, RunState

WAITING_MAX: Final = 60
"""The longest wait before the caller of a waiting run asks again, in seconds."""
WORKING_MAX: Final = 15
"""The longest wait before the caller of a run under way asks again, in seconds."""

_UNPACED_MAX: Final = 5
_WORKSPACES_MAX: Final = 10_000
_WEIGHT: Final = 0.2
# Half of two minutes is the longest wait already, so a queue that stood empty for a day need not be remembered as slow.
_INTERVAL_MAX_MS: Final = 2 * WAITING_MAX * 1000
_REQUEST_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class QueueStatus(enum.StrEnum):
    """The public status of a queued run; a fourth value would break callers' loops (R-33)."""

    IN_QUEUE = "IN_QUEUE"
    """Waits for a slot or a worker."""
    IN_PROGRESS = "IN_PROGRESS"
    """A worker works on it."""
    COMPLETED = "COMPLETED"
    """Ended, with a result or without."""


def status_of(state: RunState) -> QueueStatus:
    """The public status of a run's state (R-33)."""
    if state in WAITING:
        return QueueStatus.IN_QUEUE
    return QueueStatus.IN_PROGRESS if state in WORKING else QueueStatus.COMPLETED


def is_request_id(text: str) -> bool:
    """Whether a text may name a queued run: a UUID in lower case (QueueRequestId)."""
    return _REQUEST_ID.fullmatch(text) is not None


def retry_after_waiting(position: int, interval_ms: float | None) -> int:
    """Seconds until the caller of a waiting run should ask again: 1 to 60 (R-33).

    It is half of the wait that is expected with `position` runs ahead and one claimed every `interval_ms`, so that a
    caller adapts to a queue that speeds up or slows down. Where the throughput is not known it is 1 to 5 seconds, by
    position.
    """
    if interval_ms is None:
        return max(1, min(_UNPACED_MAX, position + 1))
    ahead = min(position + 1, _INTERVAL_MAX_MS)  # at a claim a millisecond this is the longest wait
    return max(1, min(WAITING_MAX, math.ceil(min(ahead * interval_ms / 2000, WAITING_MAX))))


def retry_after_working(elapsed_ms: int) -> int:
    """Seconds until the caller of a run that was claimed `elapsed_ms` ago should ask again: 1 to 15 (R-33).

    It is a quarter of the time so far, so that the end of a run is noticed at most a quarter late.
    """
    return max(1, min(WORKING_MAX, elapsed_ms // 4000))


def interval_between(claims: Sequence[int]) -> float | None:
    """The mean time between claims of a workspace's runs, in milliseconds, in which newer claims weigh more.

    `claims` are the times of some, the oldest first; None where there are fewer than two.
    """
    interval_ms: float | None = None
    for before, after in pairwise(claims):
        interval_ms = _weigh(interval_ms, after - before)
    return interval_ms


def _weigh(interval_ms: float | None, passed_ms: int) -> float:
    passed = max(0, min(_INTERVAL_MAX_MS, passed_ms))  # the clock was set back
    return passed if interval_ms is None else interval_ms + _WEIGHT * (passed - interval_ms)


class _Claims(msgspec.Struct):
    """The throughput of a workspace: the time of its last claim, and the weighted mean of the time between claims."""

    last_ms: int
    interval_ms: float | None = None


class Throughput:
    """The time between this server's claims for each workspace, as `interval_between` weighs it.

    At most `workspaces_max` workspaces are remembered; the one noted or asked about longest ago goes first.
    """

    def __init__(self, workspaces_max: int = _WORKSPACES_MAX) -> None:
        self._workspaces_max = workspaces_max
        self._claims: OrderedDict[str, _Claims] = OrderedDict()

    def __len__(self) -> int:
        return len(self._claims)

    def note(self, workspace_id: str, now_ms: int) -> None:
        """Remember that a run of a workspace was claimed now."""
        claims = self._claims.get(workspace_id)
        if claims is None:
            self._claims[workspace_id] = _Claims(now_ms)
            if len(self._claims) > self._workspaces_max:
                self._claims.popitem(last=False)
            return
        self._claims.move_to_end(workspace_id)
        claims.interval_ms = _weigh(claims.interval_ms, now_ms - claims.last_ms)
        claims.last_ms = now_ms

    def interval_ms(self, workspace_id: str) -> float | None:
        """The time from one claim to the next, in milliseconds; None where fewer than two are remembered."""
        claims = self._claims.get(workspace_id)
        if claims is None:
            return None
        self._claims.move_to_end(workspace_id)
        return claims.interval_ms


class RunChanged(msgspec.Struct, frozen=True, tag=True):
    """A queued run was claimed, or has ended. Its state is in the database."""

    workspace_id: str
    run_id: str
    has_ended: bool
