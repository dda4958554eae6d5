"""Rate windows (R-23): how many requests a workspace may make in a minute and in a day, and how many reads of jobs.

Windows are aligned to the clock: a minute begins when its seconds are zero, a day at midnight (UTC). A meter counts for
one server; what several servers count is added up elsewhere and given to each meter. Times are milliseconds since 1970,
and given.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.domain.faults import RateLimited


class Span(enum.Enum):
    """What is counted for how long: its name in the table, its length in milliseconds, and both on the wire."""

    MINUTE = ("minute", 60_000, "requests", "minute")
    DAY = ("day", 86_400_000, "requests", "day")
    READS = ("reads", 60_000, "reads", "minute")
    """What only reads, of the APIs whose clients poll: so that watching work spends nothing of what submits it."""

    def __init__(self, title: str, length: int, counted: str, window: str) -> None:
        self.title = title
        self.length = length
        self.counted = counted
        self.window = window


class Quota(msgspec.Struct, frozen=True):
    """The most requests a workspace may make in each window of a span."""

    span: Span
    limit: int


class WindowKey(NamedTuple):
    """A window of a workspace, or of a limit of its own, as storage names it; `span` is the title of one."""

    meter_id: str
    span: str
    started_at: int


class Quotas(NamedTuple):
    """The quotas of a workspace: of its requests, and of those that only read jobs."""

    requests: Sequence[Quota] = ()
    reads: Sequence[Quota] = ()


def quotas_of(requests_per_minute: int, requests_per_day: int) -> tuple[Quota, ...]:
    """The quotas of two limits; a limit of 0 is none."""
    limits = ((Span.MINUTE, requests_per_minute), (Span.DAY, requests_per_day))
    return tuple(Quota(span, limit) for span, limit in limits if limit)


class Meter:
    """The requests of one workspace in the current windows.

    Between two updates of its windows it only counts down what is left, because every request passes through it.
    """

    __slots__ = ("_from", "_left", "_left_before", "_meter_id", "_until", "_windows")

    def __init__(self, meter_id: str, quotas: Sequence[Quota]) -> None:
        self._meter_id = meter_id
        self._windows = [_Window(quota) for quota in quotas]
        self._from = self._until = 0  # no window is open yet: the first request opens them
        self._left = self._left_before = 0

    def count(self, now: int) -> RateLimited | None:
        """Count one request; the spent window that turns last where it is refused, and so not counted."""
        if not self._from <= now < self._until:
            self._turn(now)
        if self._left > 0:
            self._left -= 1
            return None
        self._gather()
        spent = max((window for window in self._windows if window.left <= 0), key=lambda window: window.turns_at)
        span = spent.quota.span
        return RateLimited(span.window, spent.quota.limit, spent.turns_in(now), span.counted)

    def has_unwritten(self) -> bool:
        """Whether some counts are not in the shared counts yet."""
        return self._left != self._left_before or any(window.counted for window in self._windows)

    def unwritten(self) -> list[tuple[WindowKey, int]]:
        """The counts to be added to the shared ones, which are returned until `note_written` confirms them."""
        self._gather()
        for window in self._windows:
            window.sent = window.counted
        return [(self._key(window), window.sent) for window in self._windows if window.sent]

    def note_written(self, shared: Mapping[WindowKey, int]) -> None:
        """Take the shared counts, of which the counts returned last are part.

        Those of windows that have turned are ignored.
        """
        self._gather()
        for window in self._windows:
            total = shared.get(self._key(window))
            if total is not None:
                window.note_written(total)
        self._reckon()

    def is_over(self, now: int) -> bool:
        """Whether every window has turned, so that there is nothing to remember."""
        return not any(window.holds(now) for window in self._windows)

    def _turn(self, now: int) -> None:
        """Open a new window wherever the old one has turned; what it counted is of no further use."""
        self._gather()
        for window in self._windows:
            if not window.holds(now):
                window.open(now)
        self._from = max(window.holds_from for window in self._windows)
        self._until = min(window.turns_at for window in self._windows)
        self._reckon()

    def _gather(self) -> None:
        """Enter what was counted since the last look into each window."""
        taken = self._left_before - self._left
        self._left_before = self._left
        for window in self._windows:
            window.counted += taken

    def _reckon(self) -> None:
        self._left = self._left_before = max(0, min(window.left for window in self._windows))

    def _key(self, window: "_Window") -> WindowKey:
        return WindowKey(self._meter_id, window.quota.span.title, window.started_at)


class _Window:
    """One window: what all servers are known to have counted, and what this one counted beyond that."""

    __slots__ = ("counted", "quota", "sent", "shared", "started_at")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.open(0)

    @property
    def left(self) -> int:
        return self.quota.limit - self.shared - self.counted

    @property
    def turns_at(self) -> int:
        return self.started_at + self.quota.span.length

    @property
    def holds_from(self) -> int:
        """A clock that is set back by less than a window does not allow its requests a second time."""
        return self.started_at - self.quota.span.length

    def holds(self, now: int) -> bool:
        return self.holds_from <= now < self.turns_at

    def turns_in(self, now: int) -> int:
        """Whole seconds until the window turns, at least 1."""
        return -((now - self.turns_at) // 1000)

    def open(self, now: int) -> None:
        self.started_at = now - now % self.quota.span.length
        self.shared = self.counted = self.sent = 0

    def note_written(self, total: int) -> None:
        self.shared = total
        self.counted -= self.sent
        self.sent = 0
