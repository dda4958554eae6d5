"""Which files live jobs name by id: those are not deleted, and are kept past their time (J-14)."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, select

from fairlead.domain.jobs.states import LIVE
from fairlead.storage.prepared import Prepared
from fairlead.storage.tables import job_files, jobs, workflow_files

INSERT_NEEDED: Final = Prepared(insert(job_files), ("file_id", "job_id"))
_LIVE: Final = sorted(state.value for state in LIVE)


def needed_by_jobs() -> ColumnElement[bool]:
    """The condition that a row of `workflow_files` is named by a job that has not ended."""
    return exists(
        select(job_files.c.job_id)
        .join(jobs, jobs.c.id == job_files.c.job_id)
        .where(job_files.c.file_id == workflow_files.c.id, jobs.c.state.in_(_LIVE))
    )


def delete_needed(connection: Connection, job_ids: Sequence[str]) -> None:
    """Forget which files some jobs have named, which are forgotten themselves."""
    connection.execute(delete(job_files).where(job_files.c.job_id.in_(job_ids)))
