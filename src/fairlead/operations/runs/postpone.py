"""Sends a queued run back into its queue where its partner may take it later, instead of ending it (T-01)."""

import math
import random
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import ServiceUnavailable
from fairlead.domain.runs.entries import Postponement, RunEntry
from fairlead.domain.runs.outcomes import Failed
from fairlead.domain.runs.retries import is_cooling, may_be_waited_for
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.dispatch import Served
from fairlead.providers.attempts import backoff
from fairlead.providers.spec import Provider

_COOLING_LEAST: Final = 5.0
"""The least pause (seconds) of a run that found a probe under way, so that a vendor that hangs is not asked about."""
_SPREAD: Final = 0.5
"""By which part at most a pause for a cooldown is longer than it, so that not all runs come back at once."""


class Postponer(msgspec.Struct, frozen=True):
    """Decides whether a run waits for its partner, and for how long."""

    providers: Mapping[str, Provider]
    clock: Clock

    def entry(self, run: AdmittedRun, served: Served) -> Postponement | None:
        """The entry with which a run goes back to wait; None for one that ends.

        It may be tried as often as its provider's file says, and waits no longer than its queue's timeout. To find its
        partner cooling down is no try.
        """
        failed = served.outcome
        if run.waits_until is None or not isinstance(failed, Failed):
            return None
        if not may_be_waited_for(failed, repeats_safely=False):
            return None
        provider, was_tried = self.providers[run.plan.provider], not is_cooling(failed)
        if was_tried and run.tries >= provider.postpone.times:
            return None
        asked = failed.fault.retry_after if isinstance(failed.fault, ServiceUnavailable) else None
        if was_tried:
            pause = max(float(asked or 0), backoff(provider.postpone, run.tries))
        else:
            pause = max(float(asked or 0), _COOLING_LEAST) * random.uniform(1, 1 + _SPREAD)  # noqa: S311 -- spreads load
        now = self.clock.now_ms()
        if now + pause * 1000 > run.waits_until:
            return None
        events = served.events
        if was_tried or _is_power_of_two(run.postponed - run.tries + 1):
            reason = failed.summary if was_tried else "cooling down"
            detail = f"{provider.name}: {reason}; it is tried again after {math.ceil(pause)} s"
            events = (*events, RunEntry("postponed", run.attempt, detail, now))
        return Postponement(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            provider=provider.name,
            pause_ms=round(pause * 1000),
            was_tried=was_tried,
            events=events,
        )


def _is_power_of_two(number: int) -> bool:
    """Whether a number is one that is noted: a cooldown may go on for as long as a run may wait."""
    return number & (number - 1) == 0
