"""Places for synchronous runs: how many calls may wait for their runs, and how many are admitted at a time.

A run that waits for its partner costs only memory. Admitting one costs processor time, so if more arrive than the
processor can handle, each further one makes all others slower. Runs beyond the places therefore wait, in fair shares of
their workspaces, and are refused if they have waited too long (R-39).
"""

import math
import time
from collections.abc import Callable
from typing import Final

from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.fair_shares import FairShares, NoRoomError

_WAITING_MAX: Final = 5_000
"""How many wait for either kind of place: a burst of thousands is accepted, one after the other."""
_PRESSED_PLACES: Final = 2
"""The divisor of the number of runs admitted at a time under pressure: each admission then takes less time. A larger
one would cost too much, as runs that are admitted together share a transaction."""
_PRESSED_WAIT: Final = 50
"""The divisor of the time a run may wait for its admission under pressure."""
_FEW: Final = 16
"""The divisor of the admissions that gives how many may wait before any run is refused at once."""
_MANY: Final = 2
"""The factor of the admissions that gives how many may wait before a workspace may have only one."""
_BUSY: Final = "This server has as many runs under way as it can do at a time; nothing was started."


class RunPlaces:
    """The places of one server: `in_progress` for calls that wait for their runs, `admissions` for runs being admitted.

    A run waits for a place for up to `wait_seconds`. If one has waited in vain for its admission, more arrive than the
    server can handle, and letting them wait would make all of them late. So from then on the server is under pressure:
    few runs wait, and only briefly, and others are refused at once if their workspace has its share. That lasts until
    no run was refused for `wait_seconds`: a moment in which none waits proves little.

    A workspace has at most three quarters of the places in progress, which may be held for minutes.
    """

    def __init__(
        self, in_progress: int, admissions: int, wait_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.in_progress: Final = FairShares(in_progress, _WAITING_MAX, max(1, in_progress * 3 // 4))
        self.admissions: Final = FairShares(admissions, _WAITING_MAX)
        self.pressed_until = 0.0
        """When the pressure ends unless another run is refused, by the monotonic clock; 0 if there is none."""
        self.refused = 0
        """How many runs got no place."""
        self.refusal: Final = ServiceUnavailable(_BUSY, math.ceil(wait_seconds))
        """The fault for such a run."""
        self._admissions = admissions
        self._pressed_admissions = math.ceil(admissions / _PRESSED_PLACES)
        self._wait_seconds = wait_seconds
        self._clock = clock

    @property
    def waiting(self) -> int:
        """How many runs wait for a place of either kind."""
        return self.in_progress.waiting + self.admissions.waiting

    @property
    def is_pressed(self) -> bool:
        """Whether the server is under pressure."""
        return self._clock() < self.pressed_until

    def refuses(self, workspace_id: str) -> bool:
        """Whether a run of a workspace is refused at once under pressure."""
        now, admissions = self._clock(), self.admissions
        if now > self.pressed_until:
            self.pressed_until = 0.0
            admissions.resize(self._admissions)
            return False
        if (waiting := admissions.waiting) * _FEW < self._admissions:
            return False
        is_crowded = waiting >= self._admissions * _MANY
        share = 1 if is_crowded else max(1, self._pressed_admissions // (admissions.owners or 1))
        if admissions.count_held_and_awaited(workspace_id) < share:
            return False
        self.refused += 1
        self.pressed_until = now + self._wait_seconds
        return True

    async def wait(self, places: FairShares, workspace_id: str) -> None:
        """Take a place when all are in use; FaultError(ServiceUnavailable) if none becomes free in time."""
        is_admission = places is self.admissions
        seconds = self._wait_seconds / (_PRESSED_WAIT if is_admission and self.pressed_until else 1)
        try:
            await places.take(workspace_id, seconds)
        except NoRoomError as error:
            self.refused += 1
            if is_admission:
                self.pressed_until = self._clock() + self._wait_seconds
                self.admissions.resize(self._pressed_admissions)
            raise FaultError(self.refusal) from error
