"""What is published may come from another server: all of it survives being encoded."""

from typing import Final, get_args

import msgspec
import pytest

from fairlead.domain.jobs.events import (
    Cached,
    Counted,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Interrupted,
    JobEvent,
    Notice,
    Place,
    Preview,
    Progress,
    ProgressText,
    QueueChanged,
    ShownValues,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.wakeups import Topic, Wakeup

PLACE: Final = Place("7", "7", None, "3")
EVENTS: Final[list[JobEvent]] = [
    Started(),
    Cached(["1", "2"]),
    Executing(PLACE),
    Progress(PLACE, 1, 4),
    Executed(PLACE, ShownValues.encode({"images": [{"filename": "a.png"}]})),
    Finished(PLACE),
    Stopped(PLACE, "Save", "No."),
    Succeeded(),
    Failed(Failure(PLACE, "Save", "Error", "It failed.", ["line"], {"x": [1]}, ["1"]), is_late=True),
    Interrupted(PLACE, "Save", ["1"]),
    QueueChanged(3),
    Notice("A sentence."),
    Preview(PLACE, "image/png", b"\x00\xff"),
    ProgressText(PLACE, "größer"),
    Counted(2),
]


def test_every_kind_of_event_can_be_told_from_the_others() -> None:
    """A decoder of envelopes knows each kind by its tag; one without a tag of its own would be refused here."""
    tags = {kind.__struct_config__.tag for kind in get_args(JobEvent)}
    assert len(tags) == len(get_args(JobEvent))
    assert None not in tags
    msgspec.msgpack.Decoder(EventEnvelope)


@pytest.mark.parametrize("event", EVENTS, ids=[type(event).__name__ for event in EVENTS])
def test_envelope_is_the_same_after_a_journey(event: JobEvent) -> None:
    """An envelope that is encoded and decoded is the same, with its workspace."""
    envelope = EventEnvelope("lab", "own-id", "public-id", 1, event)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(envelope), type=EventEnvelope) == envelope


@pytest.mark.parametrize("topic", Topic)
def test_wakeup_is_the_same_after_a_journey(topic: Topic) -> None:
    """A wake-up that is encoded and decoded is the same, with its workspace."""
    wakeup = Wakeup(topic, "lab", "id")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(wakeup), type=Wakeup) == wakeup


def test_change_of_a_run_is_the_same_after_a_journey() -> None:
    """A change that is encoded and decoded is the same, with its workspace."""
    change = RunChanged("lab", "run", has_ended=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(change), type=RunChanged) == change
