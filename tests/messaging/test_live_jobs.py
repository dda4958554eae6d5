"""What the local event hub remembers of jobs under way."""

import pytest

from conftest import Run
from fairlead.domain.jobs.events import EventEnvelope, Executing, Place, Started
from fairlead.messaging.local.event_hub import LocalEventHub

pytestmark = pytest.mark.req("C-08")


def test_number_of_remembered_jobs_is_bounded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many jobs under way are remembered, the newest."""

    async def scene() -> None:
        hub = LocalEventHub()
        for number in range(5):
            for event in (Started(), Executing(Place("1", "1"))):
                hub.publish(EventEnvelope("lab", f"job {number}", f"job {number}", 0, event))
        assert [one.job_id for one in hub.subscribe("lab").running] == ["job 3", "job 4"]

    monkeypatch.setattr("fairlead.messaging.local.live_jobs._JOBS_MAX", 2)
    run(scene())
