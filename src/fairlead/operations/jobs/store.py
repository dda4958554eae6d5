"""The journal of jobs, as operations use it."""

from typing import Final, TypeAlias

from fairlead.domain.jobs.entries import JobEntry, JobVerdict
from fairlead.operations.work.store import WorkStore

JobStore: TypeAlias = WorkStore[JobEntry, JobVerdict]
REFUSAL: Final = "Jobs cannot be recorded right now."
"""What callers are told while that is so."""
