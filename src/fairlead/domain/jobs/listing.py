"""Lists of jobs: queries, labels and pages (J-01 to J-05, J-12). Times are in ms since 1970."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.faults import BadLabels
from fairlead.domain.jobs.states import JobState
from fairlead.domain.runs.entries import LABELS_MAX as RUN_LABELS_MAX

PAGE_MAX: Final = 500
FILTERS_MAX: Final = 3
NUMBER_MAX: Final = 2**63 - 1
LABELS_MAX: Final = 16
VALUE_BYTES_MAX: Final = 256
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_FORBIDDEN: Final = re.compile("[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of the text around them."""
_KEY_SHOWN: Final = 100


class LabelFilter(msgspec.Struct, frozen=True):
    """A label that listed jobs must have."""

    key: str
    value: str


class ListQuery(msgspec.Struct, frozen=True):
    """Which jobs of a workspace are to be listed, the newest first: those before a number, with all of some labels.

    With a `deployment_id` only those that were sent there, with a `state` only those in it.
    """

    limit: int = PAGE_MAX
    before: int | None = None
    labels: Sequence[LabelFilter] = ()
    deployment_id: str | None = None
    state: JobState | None = None


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
        """The id that callers use, as in `Job`."""
        return self.chosen_id or self.id


class JobPage(msgspec.Struct, frozen=True):
    """A page of a list, and the number before which the next one goes on; None on the last page.

    A page may have fewer jobs than were asked for, or none, although there are more: a search stops after a while.
    """

    jobs: Sequence[ListedJob]
    next_before: int | None = None


def is_label_key(text: str) -> bool:
    """Whether a label may have this key."""
    return _KEY.fullmatch(text) is not None


def is_label_text(text: str) -> bool:
    """Whether a text has only characters that values of labels may have."""
    return _FORBIDDEN.search(text) is None


def labels_of_runs(labels: Mapping[str, str]) -> str | None:
    """The labels of the runs that a job's nodes begin, as JSON: as many of the job's as a run may have, by name."""
    kept = dict(sorted(labels.items())[:RUN_LABELS_MAX])
    return msgspec.json.encode(kept).decode() if kept else None


def fault_of_labels(labels: Mapping[str, object]) -> BadLabels | None:
    """The first rule that labels break; None for labels that may be kept."""
    if len(labels) > LABELS_MAX:
        return BadLabels(f"A job may have {LABELS_MAX} labels.")
    return next((fault for key, value in labels.items() if (fault := _fault(key, value))), None)


def _fault(key: str, value: object) -> BadLabels | None:
    shown = key[:_KEY_SHOWN]
    if not is_label_key(key):
        return BadLabels("The key of a label has 1 to 40 letters, digits, underscores, dots and dashes.", shown)
    if not isinstance(value, str):
        return BadLabels("The value of a label must be a text.", shown)
    if len(value.encode("utf-8", "surrogatepass")) > VALUE_BYTES_MAX:
        return BadLabels(f"The value of a label may have {VALUE_BYTES_MAX} bytes in UTF-8.", shown)
    if not is_label_text(value):
        return BadLabels("The value of a label has a control character, or one that turns directions.", shown)
    return None
