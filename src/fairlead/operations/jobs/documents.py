"""Workflows of jobs with what came beside them: in the rows of the jobs, or together in a blob where they are large."""

import msgspec

from fairlead.domain.jobs.jobs import Job, JobDocuments
from fairlead.operations.stored_documents import StoredDocuments


async def keep_documents(stored: StoredDocuments, job_id: str, workflow: bytes, extra: bytes) -> JobDocuments | None:
    """The blob in which the documents of a new job are now; None for small ones, which stand in its row.

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
