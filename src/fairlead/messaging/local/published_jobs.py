"""Which events of each job were published to the subscribers of a workspace: none twice, and none out of order."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead.domain.jobs.events import Ending, EventEnvelope, Started
from fairlead.messaging.event_relay import JobMark

_JOBS_MAX: Final = 2_000
"""How many jobs of a workspace are remembered, the newest. More than this within a second are published with gaps."""


class _Position(msgspec.Struct):
    """The last event of a job that was published. `is_open`: the job was under way before, so any event may be next."""

    attempt: int = 0
    kept: int = 0
    is_open: bool = False
    has_ended: bool = False
    heard_at: float | None = None
    """When a messenger last brought an event of it that is not stored, by the clock of the event loop."""


class PublishedJobs:
    """The jobs of one watched workspace, and the number of its remaining jobs that was published last."""

    def __init__(self) -> None:
        self._positions: OrderedDict[str, _Position] = OrderedDict()
        self.has_begun = False
        self.remaining: int | None = None
        self.turn = 0

    def begin(self, remaining: int, jobs: Iterable[JobMark]) -> None:
        """Take over the state of the workspace; what is known already is newer."""
        self.has_begun = True
        if self.remaining is None:
            self.remaining = remaining
        for job in jobs:
            if job.job_id not in self._positions:
                self._remember(job.job_id, _Position(job.attempt, job.kept, is_open=True))

    def note_remaining(self, remaining: int) -> None:
        """Take note of the number of remaining jobs that is being published."""
        self.remaining = remaining
        self.turn += 1

    def last_heard_at(self, job_id: str) -> float | None:
        """When a messenger last brought an event of a job that is not stored; None for never."""
        position = self._positions.get(job_id)
        return None if position is None else position.heard_at

    def admit_own(self, envelope: EventEnvelope) -> bool:
        """Whether an event of this server is to be published: all but an end that was read before it was published."""
        return self._admit(envelope, lambda _position, _envelope: True)

    def admit_heard(self, envelope: EventEnvelope, now: float) -> bool:
        """Whether an event that a messenger brings is to be published: only if it is the next one of its job."""
        is_admitted = self._admit(envelope, _follows)
        if is_admitted and not envelope.is_kept and (position := self._position_of(envelope)) is not None:
            position.heard_at = now
        return is_admitted

    def admit_read(self, envelope: EventEnvelope) -> bool:
        """Whether an event from the database is to be published: only if it is new; none can be missing before it."""
        return self._admit(envelope, _is_new)

    def _admit(self, envelope: EventEnvelope, may_be_next: Callable[[_Position, EventEnvelope], bool]) -> bool:
        """Whether an event is to be published; if so, it becomes the last one of its job."""
        position = self._position_of(envelope)
        if position is None:
            return True
        if position.has_ended or not may_be_next(position, envelope):
            return False
        _advance(position, envelope)
        return True

    def _position_of(self, envelope: EventEnvelope) -> _Position | None:
        """The position of the job of an event; None for an event that is not part of the life of a job."""
        if envelope.job_id is None or not (envelope.attempt or _is_end(envelope)):
            return None
        return self._positions.get(envelope.job_id) or self._remember(envelope.job_id, _Position())

    def _remember(self, job_id: str, position: _Position) -> _Position:
        self._positions[job_id] = position
        if len(self._positions) > _JOBS_MAX:
            self._positions.popitem(last=False)
        return position


def _is_end(envelope: EventEnvelope) -> bool:
    return isinstance(envelope.event, Ending)


def _follows(position: _Position, envelope: EventEnvelope) -> bool:
    """Whether an event is the next one of a job. An attempt begins with its first; one that was under way, with any."""
    if not envelope.attempt:
        return True  # the end of a job that no server executes
    if envelope.attempt != position.attempt:
        return envelope.attempt > position.attempt and (position.is_open or isinstance(envelope.event, Started))
    due = position.kept + envelope.is_kept
    return envelope.kept == due or (position.is_open and envelope.kept > due)


def _is_new(position: _Position, envelope: EventEnvelope) -> bool:
    if not envelope.attempt or envelope.attempt > position.attempt:
        return True
    is_later = envelope.kept > position.kept or (envelope.kept == position.kept and not envelope.is_kept)
    return envelope.attempt == position.attempt and is_later


def _advance(position: _Position, envelope: EventEnvelope) -> None:
    if envelope.attempt:
        position.attempt, position.kept, position.is_open = envelope.attempt, envelope.kept, False
    position.has_ended = _is_end(envelope)
