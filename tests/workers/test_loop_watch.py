"""The event loop's delays are measured: what holds it up is seen, and forgotten after a minute."""

import asyncio
import time
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from conftest import Run
from fairlead.observing.loop_meter import LoopMeter
from fairlead.workers.periodic import watch_loop


@pytest.mark.req("S-02")
def test_delay_of_the_event_loop_is_recorded(run: Run) -> None:
    """Something that holds the event loop for 0.3 s shows as a delay of nearly as much."""
    delays: list[float] = []

    async def scenario() -> None:
        watching = asyncio.create_task(watch_loop(lambda _, late: delays.append(late)))
        await asyncio.sleep(0.05)
        time.sleep(0.3)  # noqa: ASYNC251 -- it is what holds the event loop
        await asyncio.sleep(0.05)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    run(scenario())
    assert max(delays) >= 0.27
    assert len(delays) >= 2


@pytest.mark.req("S-02")
def test_longest_delay_is_that_of_the_last_minute() -> None:
    """A long delay is told for a minute, then the longest of those since."""
    registry = CollectorRegistry()
    meter = LoopMeter(registry)
    for now, late in ((0.0, 0.1), (1.0, 2.0), (2.0, 0.5), (30.0, 0.7), (40.0, 0.2)):
        meter.record(now, late)
    assert meter.longest() == 2.0
    assert registry.get_sample_value("fairlead_event_loop_lag_max_seconds") == 2.0
    meter.record(61.5, 0.01)
    assert meter.longest() == 0.7
    meter.record(200.0, 0.02)
    assert meter.longest() == 0.02
    assert registry.get_sample_value("fairlead_event_loop_lag_seconds_count") == 7
    assert registry.get_sample_value("fairlead_event_loop_lag_seconds_bucket", {"le": "0.1"}) == 3
