"""Cooldowns of credentials: after failures in a row a credential is not used for a while; then one call is a probe."""

import enum
import time
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.providers.spec import Cooldown


class Health(enum.Enum):
    """The health of a credential."""

    READY = "ready"
    COOLING_DOWN = "cooling_down"
    PROBING = "probing"
    """One call, the probe, is under way; the others wait for its result."""


class Failures(msgspec.Struct):
    """How often a credential has failed in a row, and until when it cools down or a probe is under way (seconds)."""

    number: int = 0
    cooldown_until: float = 0.0
    probing_until: float = 0.0


CredentialRef = tuple[str, str]
"""A partner and the label of a credential."""


class Healths:
    """The health of every credential that calls use. `tell` is called with each change; `now` is monotonic, in seconds.

    Failures that count are about the partner: no connection, no answer, a 5xx, no room. A probe that never reports back
    (its run was cancelled) is given up after the length of a cooldown, so that no credential stays unused.
    """

    def __init__(
        self, tell: Callable[[CredentialRef, Health], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._now = now
        self.failing: Final[dict[CredentialRef, Failures]] = {}
        """Credentials whose last call failed: while it is empty, any credential may be used."""

    def of(self, ref: CredentialRef) -> Health:
        """The health of a credential."""
        record = self.failing.get(ref)
        if record is None or record.cooldown_until == 0.0:
            return Health.READY
        return Health.PROBING if record.probing_until > self._now() else Health.COOLING_DOWN

    def may_call(self, ref: CredentialRef) -> bool:
        """Whether a call may use it now: when a cooldown is over, one may (see `begins`)."""
        health = self.of(ref)
        return health is Health.READY or (health is Health.COOLING_DOWN and self.seconds_left(ref) == 0.0)

    def begins(self, ref: CredentialRef, cooldown: Cooldown) -> None:
        """A call begins: where a cooldown has just ended, it is the probe."""
        record = self.failing.get(ref)
        if record is not None and record.cooldown_until > 0.0:
            record.probing_until = self._now() + cooldown.seconds
            self._tell(ref, Health.PROBING)

    def note_success(self, ref: CredentialRef) -> None:
        """A call was answered in a way that shows that the partner works."""
        record = self.failing.pop(ref, None)
        if record is not None and record.cooldown_until > 0.0:
            self._tell(ref, Health.READY)

    def note_failure(self, ref: CredentialRef, cooldown: Cooldown) -> None:
        """A call failed because of the partner."""
        record = self.failing.setdefault(ref, Failures())
        record.number += 1
        if record.cooldown_until > 0.0 or record.number >= cooldown.after:
            record.cooldown_until = self._now() + cooldown.seconds
            record.probing_until = 0.0
            self._tell(ref, Health.COOLING_DOWN)

    def end_cooldown(self, ref: CredentialRef) -> bool:
        """End a cooldown on an operator's request; False where there is none."""
        record = self.failing.get(ref)
        if record is None or record.cooldown_until == 0.0:
            return False
        del self.failing[ref]
        self._tell(ref, Health.READY)
        return True

    def seconds_left(self, ref: CredentialRef) -> float:
        """Seconds until the cooldown ends; 0 when there is none."""
        record = self.failing.get(ref)
        return 0.0 if record is None else max(0.0, record.cooldown_until - self._now())
