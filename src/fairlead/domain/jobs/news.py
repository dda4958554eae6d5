"""What those who watch the jobs of a workspace are told, as it happens. What must not be lost is in the database."""

from typing import TypeAlias

import msgspec

from fairlead.domain.jobs.events import Event, Place


class QueueChanged(msgspec.Struct, frozen=True):
    """A job of the workspace was submitted, began or ended: how many of them now wait or are executed."""

    remaining: int


class Notice(msgspec.Struct, frozen=True):
    """A sentence for people, such as why a job has to wait."""

    text: str


class Preview(msgspec.Struct, frozen=True):
    """What a node has made so far. `image_type` is image/jpeg or image/png."""

    place: Place
    image_type: str
    image: bytes


class ProgressText(msgspec.Struct, frozen=True):
    """A word of a node about its progress."""

    place: Place
    text: str


Tiding: TypeAlias = Event | QueueChanged | Notice | Preview | ProgressText


class News(msgspec.Struct, frozen=True):
    """Something that happened in a workspace, at a time in ms since 1970; both ids are None where it is no job's.

    `job_id` is the job's own, and tells it from all others; `public_id` is what is told.
    """

    workspace_id: str
    job_id: str | None
    public_id: str | None
    at: int
    tiding: Tiding
