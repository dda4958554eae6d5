"""Rate windows: what is counted, what is refused, and when a refused caller may come back."""

from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.accounts.rate_windows import Meter, Quota, Span, WindowKey, quotas_of
from fairlead.domain.faults import RateLimited

NOW: Final = 1_767_225_600_000
"""Midnight, and so the beginning of a minute and of a day."""
LIMITS: Final = st.integers(1, 4)
GAPS: Final = st.lists(st.one_of(st.integers(0, 1000), st.integers(0, 90_000), st.integers(0, 30_000_000)), max_size=60)


def _meter(per_minute: int = 0, per_day: int = 0) -> Meter:
    return Meter("lab", quotas_of(per_minute, per_day))


def _refusal_of(meter: Meter, now: int) -> RateLimited:
    fault = meter.count(now)
    assert fault is not None
    return fault


@pytest.mark.req("R-23")
@given(LIMITS, LIMITS, GAPS)
def test_window_admits_exactly_its_limit(per_minute: int, per_day: int, gaps: list[int]) -> None:
    """A request is admitted if and only if both its minute and its day have admitted fewer than allowed."""
    meter, admitted, now = _meter(per_minute, per_day), Counter[tuple[Span, int]](), NOW
    for gap in gaps:
        now += gap
        windows = [(span, now // span.length) for span in Span]
        is_free = admitted[windows[0]] < per_minute and admitted[windows[1]] < per_day
        assert (meter.count(now) is None) == is_free
        if is_free:
            admitted.update(windows)
    assert all(count <= (per_minute if span is Span.MINUTE else per_day) for (span, _), count in admitted.items())


@pytest.mark.req("R-23")
@given(LIMITS, LIMITS, GAPS)
def test_retry_after_leads_to_the_next_window(per_minute: int, per_day: int, gaps: list[int]) -> None:
    """`Retry-After` is at least 1 and lands in the first second of the window after the one that is named."""
    meter, now = _meter(per_minute, per_day), NOW
    for gap in gaps:
        now += gap
        fault = meter.count(now)
        if fault is not None:
            span = next(span for span in Span if span.title == fault.window)
            then = now + 1000 * fault.retry_after
            assert fault.retry_after >= 1
            assert fault.limit == (per_minute if span is Span.MINUTE else per_day)
            assert (then // span.length, then % span.length < 1000) == (now // span.length + 1, True)


@pytest.mark.req("R-23")
def test_spent_day_is_named_before_a_spent_minute() -> None:
    """When both quotas are spent the day is named: at the next minute the caller would be refused again."""
    meter = _meter(1, 1)
    assert meter.count(NOW) is None
    assert _refusal_of(meter, NOW) == RateLimited("day", 1, 86_400)


@pytest.mark.parametrize(("at", "wait"), [(0, 60), (1, 60), (999, 60), (1000, 59), (59_000, 1), (59_999, 1)])
def test_wait_is_rounded_up(at: int, wait: int) -> None:
    """A part of a second counts as a whole one, so that nobody comes back too early."""
    meter = _meter(1)
    meter.count(NOW)
    assert _refusal_of(meter, NOW + at).retry_after == wait


def test_limit_of_zero_is_no_quota() -> None:
    """Zero means that there is no quota of that span."""
    assert quotas_of(0, 0) == ()
    assert quotas_of(2, 0) == (Quota(Span.MINUTE, 2),)
    assert quotas_of(0, 3) == (Quota(Span.DAY, 3),)


def test_small_step_back_of_the_clock_gives_no_requests_away() -> None:
    """A step back of less than a window stays in the window; a larger one starts a new one instead of waiting."""
    meter = _meter(1)
    assert meter.count(NOW) is None
    assert _refusal_of(meter, NOW - 30_000).retry_after == 90
    assert meter.count(NOW - 120_000) is None


def test_meter_is_dropped_when_its_last_window_has_turned() -> None:
    """A meter can be dropped when its last window has turned, and not before."""
    meter = _meter(1, 1)
    meter.count(NOW)
    assert [meter.is_over(NOW + passed) for passed in (0, 60_000, 86_399_999, 86_400_000)] == [
        False,
        False,
        False,
        True,
    ]


class _Shared:
    """The shared counts, and two meters that add to them."""

    def __init__(self, limit: int) -> None:
        """Begin with nothing counted."""
        self.counts: Counter[WindowKey] = Counter()
        self.meters = (_meter(limit), _meter(limit))

    def share(self, which: int) -> None:
        """Write what a meter has counted, and read what both have."""
        meter = self.meters[which]
        handed_out = meter.unwritten()
        self.counts.update(dict(handed_out))
        meter.note_written({key: self.counts[key] for key, _ in handed_out})


@pytest.mark.req("R-23")
@given(st.integers(1, 9), st.lists(st.sampled_from(["a", "b", "share a", "share b", "lose a", "lose b"]), max_size=40))
def test_shared_count_is_what_was_admitted(limit: int, steps: list[str]) -> None:
    """However counting, sharing and failing to share interleave, the shared count is what was admitted."""
    shared, admitted = _Shared(limit), 0
    for step in steps:
        which = int(step.endswith("b"))
        meter = shared.meters[which]
        if step.startswith("share"):
            shared.share(which)
        elif step.startswith("lose"):
            meter.unwritten()  # handed out to a database that is away
        else:
            admitted += meter.count(NOW) is None
    for which in (0, 1):
        shared.share(which)
        assert not shared.meters[which].has_unwritten()
    assert shared.counts.total() == admitted
    assert admitted <= 2 * limit


def test_request_during_the_write_is_written_next() -> None:
    """What is counted between handing out and being told is handed out next."""
    meter = _meter(5)
    meter.count(NOW)
    ((key, first),) = meter.unwritten()
    meter.count(NOW)
    meter.note_written({key: 4})
    assert (first, meter.unwritten()) == (1, [(key, 1)])
    assert _refusal_of(meter, NOW).limit == 5


def test_late_count_of_a_past_window_is_ignored() -> None:
    """What comes back late says nothing about the window of now."""
    meter = _meter(1)
    meter.count(NOW)
    ((key, _),) = meter.unwritten()
    assert meter.count(NOW + 60_000) is None
    meter.note_written({key: 9})
    assert meter.unwritten() == [(WindowKey("lab", "minute", NOW + 60_000), 1)]


def test_quota_spent_by_all_servers_is_spent_here() -> None:
    """When all servers together have spent a quota it is spent here, too."""
    meter: Any = _meter(5)
    meter.count(NOW)
    ((key, _),) = meter.unwritten()
    meter.note_written({key: 5})
    assert _refusal_of(meter, NOW) == RateLimited("minute", 5, 60)
    assert meter.count(NOW + 60_000) is None
