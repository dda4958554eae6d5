"""Lists of jobs: what may be asked for, and what a page of one says (J-01 to J-05). Times are in ms since 1970."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.states import JobState

PAGE_MAX: Final = 500
FILTERS_MAX: Final = 3
NUMBER_MAX: Final = 2**63 - 1


class LabelFilter(msgspec.Struct, frozen=True):
    """A label that listed jobs have, exactly."""

    key: str
    value: str


class ListQuery(msgspec.Struct, frozen=True):
    """Which jobs of a workspace are to be listed, the newest first: those before a number, with all of some labels.

    With a `deployment_id` they are those that were sent there.
    """

    limit: int = PAGE_MAX
    before: int | None = None
    labels: Sequence[LabelFilter] = ()
    deployment_id: str | None = None


class ListedJob(msgspec.Struct, frozen=True):
    """A job as a list has it: fields of `Job`, each read from its column. `labels` is a JSON object, None for none."""

    id: str
    number: int
    state: JobState
    created_at: int
    updated_at: int
    labels: str | None = None
    release_version: int | None = None
    chosen_id: str | None = None

    @property
    def public_id(self) -> str:
        """What callers know it by, as of `Job`."""
        return self.chosen_id or self.id


class JobPage(msgspec.Struct, frozen=True):
    """A page of a list, and the number before which the next one goes on; None where there is no next one.

    A page may have fewer jobs than were asked for, and none, although there are more: a search stops after a while.
    """

    jobs: Sequence[ListedJob]
    next_before: int | None = None
