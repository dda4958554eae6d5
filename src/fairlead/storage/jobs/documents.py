"""Large workflows of jobs: the blobs that hold them, and the storage that these take."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from fairlead.domain.accounts.storage_limits import StorageUsage
from fairlead.domain.jobs.entries import Submission
from fairlead.domain.jobs.faults import StorageFull
from fairlead.domain.jobs.jobs import JobDocuments
from fairlead.domain.work.entries import DocumentBlob
from fairlead.storage.accounts.storage_usage import lock_usage, usage_of_each
from fairlead.storage.db.tables import jobs

DOCUMENT_COLUMNS = (jobs.c.documents_blob, jobs.c.documents_size, jobs.c.workflow_size)
"""The columns of a job that `documents_in` reads."""


def document_columns(documents: JobDocuments | None) -> tuple[str | None, int | None, int | None]:
    """The values of a job's DOCUMENT_COLUMNS."""
    if documents is None:
        return None, None, None
    return documents.blob.name, documents.blob.size, documents.workflow_size


def documents_in(row: Mapping[object, Any]) -> JobDocuments | None:
    """The blob that holds the documents of a job; None where the row itself does."""
    name, size, workflow_size = (row[column.name] for column in DOCUMENT_COLUMNS)
    return None if name is None else JobDocuments(DocumentBlob(name, size), workflow_size)


def usage_before(connection: Connection, new: Sequence[Submission]) -> dict[str, StorageUsage]:
    """The usage of the workspaces that submit jobs."""
    owners = sorted({entry.workspace_id for entry in new})
    if any(entry.documents is not None for entry in new):
        lock_usage(connection, owners)  # in one order, as the triggers would lock them in that of the entries
    return usage_of_each(connection, owners)


def refuse_documents(usage: Mapping[str, StorageUsage], entry: Submission) -> StorageFull | None:
    """Why a workspace may store no more, or not the large documents of a job; None where it may."""
    used = usage.get(entry.workspace_id, StorageUsage())
    if (spent := used.find_used_up(entry.storage)) is not None:
        return StorageFull(*spent)
    if entry.documents is None:
        return None
    exceeded = used.with_file(entry.documents.blob.size).find_exceeded(entry.storage)
    return None if exceeded is None else StorageFull(*exceeded)


def count_documents(usage: dict[str, StorageUsage], entry: Submission) -> None:
    """Take note of the large documents of a job, which is submitted with others of its workspace."""
    if entry.documents is not None:
        used = usage.get(entry.workspace_id, StorageUsage())
        usage[entry.workspace_id] = used.with_file(entry.documents.blob.size)
