"""How far the subscribers of a workspace were told of its jobs, so that nothing is told twice or out of order."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.domain.jobs.events import Ending, EventEnvelope, Started
from fairlead.messaging.event_relay import JobMark

_JOBS_MAX: Final = 2_000
"""How many jobs of a workspace are remembered, the newest. More than this within a second are told with gaps."""


class _Told(msgspec.Struct):
    """Up to where the life of a job was told. `is_open`: it was under way before, and the next may be any of it."""

    attempt: int = 0
    kept: int = 0
    is_open: bool = False
    has_ended: bool = False
    heard_at: float | None = None
    """When something only live was heard of it last, by the clock of the event loop."""


class ToldJobs:
    """The jobs of one workspace that is watched, and how many of its jobs remain by what was told last."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, _Told] = OrderedDict()
        self.has_begun = False
        self.remaining: int | None = None
        self.turn = 0

    def begin(self, remaining: int, jobs: Iterable[JobMark]) -> None:
        """Take over how the workspace stands; what is known already is newer."""
        self.has_begun = True
        if self.remaining is None:
            self.remaining = remaining
        for job in jobs:
            if job.job_id not in self._jobs:
                self._remember(job.job_id, _Told(job.attempt, job.kept, is_open=True))

    def note_remaining(self, remaining: int) -> None:
        """Take note of how many jobs remain, as it is told."""
        self.remaining = remaining
        self.turn += 1

    def heard_at(self, job_id: str) -> float | None:
        """When something only live was heard of a job last; None for never."""
        told = self._jobs.get(job_id)
        return None if told is None else told.heard_at

    def own(self, envelope: EventEnvelope) -> bool:
        """Whether an event of this server's is to be told: all but an end that was read before it was published."""
        told = self._of(envelope)
        if told is None:
            return True
        if told.has_ended:
            return False
        _advance(told, envelope)
        return True

    def heard(self, envelope: EventEnvelope, now: float) -> bool:
        """Whether an event that a messenger brings is to be told: where it follows what was told."""
        told = self._of(envelope)
        if told is None:
            return True
        if told.has_ended or not _follows(told, envelope):
            return False
        _advance(told, envelope)
        if not envelope.is_kept:
            told.heard_at = now
        return True

    def read(self, envelope: EventEnvelope) -> bool:
        """Whether an event from the database is to be told: where it is new, for there is none missing before it."""
        told = self._of(envelope)
        if told is None:
            return True
        if told.has_ended or not _is_new(told, envelope):
            return False
        _advance(told, envelope)
        return True

    def _of(self, envelope: EventEnvelope) -> _Told | None:
        """What was told of the job of an event; None for one that is not part of the life of a job."""
        if envelope.job_id is None or not (envelope.attempt or _is_end(envelope)):
            return None
        return self._jobs.get(envelope.job_id) or self._remember(envelope.job_id, _Told())

    def _remember(self, job_id: str, told: _Told) -> _Told:
        self._jobs[job_id] = told
        if len(self._jobs) > _JOBS_MAX:
            self._jobs.popitem(last=False)
        return told


def _is_end(envelope: EventEnvelope) -> bool:
    return isinstance(envelope.event, Ending)


def _follows(told: _Told, envelope: EventEnvelope) -> bool:
    """Whether an event is the next one of a job. An attempt begins with its first; one that was under way, with any."""
    if not envelope.attempt:
        return True  # the end of a job that no server executes
    if envelope.attempt != told.attempt:
        return envelope.attempt > told.attempt and (told.is_open or isinstance(envelope.event, Started))
    due = told.kept + envelope.is_kept
    return envelope.kept == due or (told.is_open and envelope.kept > due)


def _is_new(told: _Told, envelope: EventEnvelope) -> bool:
    if not envelope.attempt or envelope.attempt > told.attempt:
        return True
    is_later = envelope.kept > told.kept or (envelope.kept == told.kept and not envelope.is_kept)
    return envelope.attempt == told.attempt and is_later


def _advance(told: _Told, envelope: EventEnvelope) -> None:
    if envelope.attempt:
        told.attempt, told.kept, told.is_open = envelope.attempt, envelope.kept, False
    told.has_ended = _is_end(envelope)
