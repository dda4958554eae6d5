"""Which credentials of which partners rest: after some failures in a row for a while, then one call tries again."""

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

from fairlead.providers.spec import Cooldown


class Health(enum.Enum):
    """Whether calls go to a partner under a credential."""

    WELL = "well"
    RESTING = "resting"
    TRIED = "tried"
    """One call is out to see whether the rest is over; the others wait for what it brings."""


@dataclass(slots=True)
class _Record:
    failures: int = 0
    rests_until: float = 0.0
    tried_until: float = 0.0


Place = tuple[str, str]
"""A partner and the label of a credential."""


class Healths:
    """The health of every place calls go to. `tell` hears of each change; `now` is monotonic, in seconds.

    Failures are those that say something of the partner: no connection, no answer, a 5xx, no room. A probe that never
    reports back (its run was cancelled) is given up after the length of a rest, so no place stays shut for good.
    """

    def __init__(self, tell: Callable[[Place, Health], None], now: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._now = now
        self._records: dict[Place, _Record] = {}

    def of(self, place: Place) -> Health:
        """How a place is."""
        record = self._records.get(place)
        if record is None or record.rests_until == 0.0:
            return Health.WELL
        return Health.TRIED if record.tried_until > self._now() else Health.RESTING

    def may_call(self, place: Place) -> bool:
        """Whether a call may go there now: when a rest is over, one may (see `begins`)."""
        if place not in self._records:  # as most are
            return True
        health = self.of(place)
        return health is Health.WELL or (health is Health.RESTING and self.seconds_left(place) == 0.0)

    def begins(self, place: Place, cooldown: Cooldown) -> None:
        """A call goes there: where a rest has just ended, it is the probe."""
        record = self._records.get(place)
        if record is not None and record.rests_until > 0.0:
            record.tried_until = self._now() + cooldown.seconds
            self._tell(place, Health.TRIED)

    def succeeded(self, place: Place) -> None:
        """A call there was answered in a way that says the partner is there."""
        record = self._records.pop(place, None)
        if record is not None and record.rests_until > 0.0:
            self._tell(place, Health.WELL)

    def failed(self, place: Place, cooldown: Cooldown) -> None:
        """A call there failed for the partner's sake."""
        record = self._records.setdefault(place, _Record())
        record.failures += 1
        if record.rests_until > 0.0 or record.failures >= cooldown.after:
            record.rests_until = self._now() + cooldown.seconds
            record.tried_until = 0.0
            self._tell(place, Health.RESTING)

    def seconds_left(self, place: Place) -> float:
        """How long a place still rests; 0 when it does not."""
        record = self._records.get(place)
        return 0.0 if record is None else max(0.0, record.rests_until - self._now())
