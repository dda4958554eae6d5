"""Heartbeats: a silent child is ended in time, and never for a delay of the server's own."""

import asyncio
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from fairlead.processes.heartbeats import BEATS, Pulse, keep_beating


class _Patient:
    """A child that never answers; counts the beats it is charged with."""

    def __init__(self) -> None:
        self.beats: list[bool] = []
        self.charged = asyncio.Event()

    def beat(self, *, counts: bool) -> None:
        """Take note."""
        self.beats.append(counts)
        if counts:
            self.charged.set()


@pytest.mark.req("S-07")
def test_delay_of_the_server_is_not_counted(run: Run) -> None:
    """A beat for which the event loop was late counts for nobody; the next does."""

    async def check() -> None:
        patient = _Patient()
        beating = asyncio.ensure_future(keep_beating([patient], 0.4))
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 -- the loop is held up on purpose
        await asyncio.wait_for(patient.charged.wait(), 20)
        assert patient.beats[0] is False
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating

    run(check())


@pytest.mark.req("S-07")
@given(st.lists(st.sampled_from(["ask", "hear", "miss"]), max_size=60))
def test_child_is_given_up_only_after_all_its_missed_beats_in_a_row(told: list[str]) -> None:
    """Whatever happens before, an answer clears what was missed."""
    pulse, missed = Pulse(), 0
    for what in told:
        if what == "miss" and pulse.is_awaited:
            missed += 1
            assert pulse.miss() == (missed >= BEATS)
        elif what == "ask" and not pulse.is_awaited:
            pulse.ask()
            missed = 0
        elif what == "hear":
            pulse.hear()
