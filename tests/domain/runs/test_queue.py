"""The queue as callers see it: its three statuses, the waits that are asked of them, the throughput of a workspace."""

import uuid
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.runs.queue import (
    WAITING_MAX,
    WORKING_MAX,
    QueueStatus,
    Throughput,
    interval_between,
    is_request_id,
    retry_after_waiting,
    retry_after_working,
    status_of,
)
from fairlead.domain.runs.states import LIVE, RunState

NOW: Final = 1_767_225_600_000
POSITIONS: Final = st.integers(0, 10**400)
INTERVALS: Final = st.none() | st.floats(0, allow_nan=False)
GAPS: Final = st.lists(st.integers(-5_000, 300_000), max_size=40)


@pytest.mark.req("R-33")
@pytest.mark.parametrize(
    ("state", "status"),
    [
        (RunState.PARKED, "IN_QUEUE"),
        (RunState.RELEASED, "IN_QUEUE"),
        (RunState.DISPATCHED, "IN_PROGRESS"),
        (RunState.ACCEPTED, "IN_PROGRESS"),
        (RunState.SUCCEEDED, "COMPLETED"),
        (RunState.FAILED, "COMPLETED"),
        (RunState.LOST, "COMPLETED"),
    ],
)
def test_each_state_is_shown_as_its_status(state: RunState, status: str) -> None:
    """Waiting is IN_QUEUE, working is IN_PROGRESS, an end of any kind is COMPLETED."""
    assert status_of(state) == status


@pytest.mark.req("R-33")
def test_set_of_statuses_is_closed() -> None:
    """The set is closed, each of its statuses is reached, and only what has ended is COMPLETED."""
    assert {status_of(state) for state in RunState} == set(QueueStatus) == {"IN_QUEUE", "IN_PROGRESS", "COMPLETED"}
    assert {state for state in RunState if status_of(state) is not QueueStatus.COMPLETED} == LIVE


@pytest.mark.req("R-33")
@given(POSITIONS, INTERVALS)
def test_waiting_caller_is_told_1_to_60_seconds(position: int, interval_ms: float | None) -> None:
    """Whatever the interval between claims, 1 to 60 whole seconds; 1 to 5 where none is known."""
    wait = retry_after_waiting(position, interval_ms)
    assert isinstance(wait, int)
    assert 1 <= wait <= (5 if interval_ms is None else WAITING_MAX)


@given(POSITIONS, POSITIONS, INTERVALS)
def test_caller_further_back_waits_no_less(one: int, other: int, interval_ms: float | None) -> None:
    """The wait never falls with the position."""
    nearer, further = sorted((one, other))
    assert retry_after_waiting(nearer, interval_ms) <= retry_after_waiting(further, interval_ms)


@given(POSITIONS, st.floats(0, allow_nan=False), st.floats(0, allow_nan=False))
def test_slower_queue_is_asked_no_more_often(position: int, one: float, other: float) -> None:
    """The wait never falls with the time that each claim takes."""
    faster, slower = sorted((one, other))
    assert retry_after_waiting(position, faster) <= retry_after_waiting(position, slower)


@pytest.mark.parametrize(
    ("position", "interval_ms", "wait"),
    [
        (0, None, 1), (1, None, 2), (4, None, 5), (5, None, 5),
        (0, 0.0, 1), (0, 2000.0, 1), (0, 2001.0, 2), (0, 20_000.0, 10),
        (9, 2000.0, 10), (59, 2000.0, 60), (60, 2000.0, 60), (0, 120_000.0, 60), (0, 10**9, 60),
    ],
)  # fmt: skip
def test_wait_is_half_of_what_is_expected(position: int, interval_ms: float | None, wait: int) -> None:
    """The runs ahead and the run itself, times the interval between claims, halved."""
    assert retry_after_waiting(position, interval_ms) == wait


def test_caller_that_waits_by_halves_asks_a_few_times_and_arrives() -> None:
    """Twenty runs at one every ten seconds are two hundred seconds: asked about five times or so, not two hundred."""
    now, asked, interval_ms = 0, 0, 10_000
    while now < 200:
        now += retry_after_waiting(max(0, 19 - now // 10), interval_ms)
        asked += 1
    assert asked <= 12
    assert now <= 205


@pytest.mark.req("R-33")
@given(st.integers(-(10**15), 10**15))
def test_working_caller_is_told_1_to_15_seconds(elapsed_ms: int) -> None:
    """1 to 15 whole seconds, and past the first four at most a quarter of what has passed; also by a clock behind."""
    wait = retry_after_working(elapsed_ms)
    assert isinstance(wait, int)
    assert 1 <= wait <= WORKING_MAX
    assert wait == 1 or wait * 1000 <= elapsed_ms / 4


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_older_run_is_asked_about_no_more_often(one: int, other: int) -> None:
    """The wait never falls with the time that the run has taken."""
    younger, older = sorted((one, other))
    assert retry_after_working(younger) <= retry_after_working(older)


@pytest.mark.parametrize(
    ("claims", "interval"), [((), None), ((5,), None), ((0, 1000), 1000), ((0, 1000, 3000), 1200), ((9, 4), 0)]
)
def test_later_claims_count_more(claims: Sequence[int], interval: float | None) -> None:
    """Two claims are an interval; each later one moves the mean a fifth of the way, and a clock set back by nothing."""
    assert interval_between(claims) == interval


def test_throughput_needs_two_claims_of_a_workspace() -> None:
    """An interval has two ends, and each workspace has its own."""
    throughput = Throughput()
    assert throughput.interval_ms("lab") is None
    throughput.note("lab", NOW)
    throughput.note("studio", NOW + 10)
    assert throughput.interval_ms("lab") is None
    throughput.note("lab", NOW + 3000)
    assert (throughput.interval_ms("lab"), throughput.interval_ms("studio")) == (3000, None)


def test_throughput_follows_recent_claims() -> None:
    """The younger an interval the more it counts: ten claims later, most of what was before is forgotten."""
    throughput, now = Throughput(), NOW
    for gap in [0, *[1000] * 10, *[9000] * 10]:
        now += gap
        throughput.note("lab", now)
    interval = throughput.interval_ms("lab")
    assert interval is not None
    assert 8000 < interval < 9000


@given(GAPS)
def test_throughput_lies_between_the_shortest_and_longest_interval(gaps: list[int]) -> None:
    """It lies between the shortest and the longest interval, as far as those are between nothing and two minutes."""
    throughput, now = Throughput(), NOW
    throughput.note("lab", now)
    for gap in gaps:
        now += gap
        throughput.note("lab", now)
    interval = throughput.interval_ms("lab")
    if interval is None:
        assert gaps == []
    else:
        counted = [max(0, min(120_000, gap)) for gap in gaps]
        assert min(counted) - 1e-6 <= interval <= max(counted) + 1e-6


def test_idle_night_does_not_make_a_queue_look_slow() -> None:
    """An idle time counts as two minutes at most, so a few claims in the morning tell the throughput again."""
    throughput = Throughput()
    throughput.note("lab", NOW)
    for number in range(12):
        throughput.note("lab", NOW + 40_000_000 + number * 1000)
    assert retry_after_waiting(0, throughput.interval_ms("lab")) <= 6


def test_throughput_is_remembered_for_a_bounded_number_of_workspaces() -> None:
    """The number of workspaces is bounded; who was noted or asked about longest ago is forgotten first."""
    throughput = Throughput(workspaces_max=3)
    for gap in (0, 500):
        for name in ("a", "b", "c"):
            throughput.note(name, NOW + gap)
    throughput.note("b", NOW + 1000)
    assert throughput.interval_ms("a") == 500
    throughput.note("d", NOW + 1000)
    assert len(throughput) == 3
    assert [throughput.interval_ms(name) for name in ("a", "b", "c", "d")] == [500, 500, None, None]


@pytest.mark.req("R-33")
@given(st.uuids())
def test_lower_case_uuid_is_a_request_id(value: uuid.UUID) -> None:
    """Any UUID in lower case is one; the same in upper case only where it has no letters."""
    text = str(value)
    assert is_request_id(text)
    assert is_request_id(text.upper()) == (text == text.upper())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00000000000040008000000000000000",
        "00000000-0000-4000-8000-00000000000",
        "00000000-0000-4000-8000-0000000000000",
        "00000000-0000-4000-8000-000000000000\n",
        "{0000000-0000-4000-8000-00000000000}",
        "0000000g-0000-4000-8000-000000000000",
        "\u0661" * 8 + "-0000-4000-8000-000000000000",
        "a" * 100_000,
    ],
)
def test_anything_else_is_no_request_id(text: str) -> None:
    """Other lengths, other letters, other digits, a line's end."""
    assert not is_request_id(text)
