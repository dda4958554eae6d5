"""Lists of jobs, read a few at a time: what one answer holds in memory has a bound, whatever the jobs have in them.

The history of a job is shown as far as it is kept: how it began, what was cached, and how it ended.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.jobs.events import Cached, Event, Failed, Interrupted, Started, Succeeded
from fairlead.domain.jobs.jobs import Job, JobQuery
from fairlead.operations.jobs.read import JobReader

_AT_ONCE: Final = 16
_BYTES_MAX: Final = 64 * 2**20


async def read_jobs(reader: JobReader, caller: Caller, query: JobQuery) -> Sequence[Job]:
    """The jobs a query asks for; fewer where they have too much in them to be told at once. FaultError."""
    found: list[Job] = []
    size = 0
    while len(found) < query.limit and size <= _BYTES_MAX:
        asked = min(_AT_ONCE, query.limit - len(found))
        page = await reader.jobs(caller, _further(query, found, asked))
        for job in page:
            whole = await reader.with_documents(job)
            found.append(whole)
            size += sum(len(part) for part in (whole.workflow, whole.extra, whole.outputs) if part)
            if size > _BYTES_MAX:
                break
        if len(page) < asked:
            break
    return found


def _further(query: JobQuery, found: Sequence[Job], limit: int) -> JobQuery:
    if not found:
        return msgspec.structs.replace(query, limit=limit)
    return msgspec.structs.replace(query, limit=limit, offset=0, after=found[-1].number)


_TOLD: Final = frozenset(kind.__name__ for kind in (Started, Cached, Succeeded, Failed, Interrupted))
_events: Final = msgspec.json.Decoder(Event)


async def told_events(reader: JobReader, caller: Caller, job: Job) -> Sequence[tuple[Event, int]]:
    """The events of a job that its history tells, with their times in ms. FaultError."""
    kept = await reader.events(caller, job)
    return [(_events.decode(event.data), event.at) for event in kept if event.kind in _TOLD]
