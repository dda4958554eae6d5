"""How operations store jobs: their journal, and their large workflows.

A workflow and the data sent with it are in the row of its job, or together in a blob where they are large.
"""

from typing import Final, TypeAlias

import msgspec

from fairlead.domain.jobs.entries import JobEntry, JobVerdict
from fairlead.domain.jobs.jobs import Job, JobDocuments
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments

JobStore: TypeAlias = WorkStore[JobEntry, JobVerdict]
REFUSAL: Final = "Jobs cannot be recorded right now."
"""The error for callers meanwhile."""


async def keep_documents(stored: StoredDocuments, job_id: str, workflow: bytes, extra: bytes) -> JobDocuments | None:
    """The blob in which the documents of a new job were stored; None for small ones, which are in its row.

    FaultError(ServiceUnavailable) where the store is away.
    """
    if len(workflow) + len(extra) <= stored.inline_bytes:
        return None
    return JobDocuments(await stored.keep(job_id, workflow, extra), len(workflow))


async def with_documents(stored: StoredDocuments, job: Job) -> Job:
    """A job with its documents, as far as they were asked for; DocumentLostError, or FaultError."""
    if job.documents is None:
        return job
    workflow, extra = await stored.read_parts(job.id, job.documents.blob, job.documents.workflow_size)
    return msgspec.structs.replace(job, workflow=workflow, extra=extra)
