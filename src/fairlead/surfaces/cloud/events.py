"""What befell a job, as far as its history tells it: how it began, what was known already, and how it ended."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.callers import Caller
from fairlead.domain.jobs.events import Cached, Event, Failed, Interrupted, Started, Succeeded
from fairlead.domain.jobs.jobs import Job
from fairlead.operations.jobs.read import JobReader

_TOLD: Final = frozenset(kind.__name__ for kind in (Started, Cached, Succeeded, Failed, Interrupted))
_events: Final = msgspec.json.Decoder(Event)


async def told_events(reader: JobReader, caller: Caller, job: Job) -> Sequence[tuple[Event, int]]:
    """The events of a job that its history tells, with their times in ms. FaultError."""
    kept = await reader.events(caller, job)
    return [(_events.decode(event.data), event.at) for event in kept if event.kind in _TOLD]
