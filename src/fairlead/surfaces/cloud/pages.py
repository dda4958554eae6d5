"""Lists of jobs, read a few at a time: what one answer holds in memory has a bound, whatever the jobs have in them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.callers import Caller
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
