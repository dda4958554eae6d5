"""The states of a run, as a table (drawn in docs/states.md)."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlead.domain.work.states import StateMachine


class RunState(enum.StrEnum):
    """The state of a run. The public statuses are derived from these."""

    PARKED = "parked"
    """Queued, with its hold; waits for a slot of its workspace, and where it was postponed for its time."""
    RELEASED = "released"
    """Queued, and has a slot; waits for a worker."""
    DISPATCHED = "dispatched"
    """Admitted, with its hold; the intent to call the partner is durable."""
    ACCEPTED = "accepted"
    """The partner took the work and gave a handle, which is durable."""
    SUCCEEDED = "succeeded"
    """A generation completed and was charged."""
    FAILED = "failed"
    """The run ended without a generation; its hold was voided unless the failure itself is billed."""
    LOST = "lost"
    """The partner may or may not have done the work, and cannot be asked: voided, listed and counted."""


class RunEvent(enum.StrEnum):
    """What can happen to a run."""

    RELEASE = "release"
    CLAIM = "claim"
    POSTPONE = "postpone"
    WITHDRAW = "withdraw"
    ACCEPT = "accept"
    REDIRECT = "redirect"
    SUCCEED = "succeed"
    FAIL = "fail"
    LOSE = "lose"
    TAKE_OVER = "take_over"


WAITING: Final = frozenset({RunState.PARKED, RunState.RELEASED})
"""Queued, and claimed by no worker."""
WORKING: Final = frozenset({RunState.DISPATCHED, RunState.ACCEPTED})
"""Claimed: a server works on it, or it is taken over."""
LIVE: Final = WAITING | WORKING
"""Not ended, so that money is held for it. All but the parked occupy a slot."""

TRANSITIONS: Final[Mapping[tuple[RunState, RunEvent], RunState]] = MappingProxyType(
    {
        (RunState.PARKED, RunEvent.RELEASE): RunState.RELEASED,
        (RunState.PARKED, RunEvent.WITHDRAW): RunState.FAILED,
        (RunState.RELEASED, RunEvent.CLAIM): RunState.DISPATCHED,
        (RunState.RELEASED, RunEvent.WITHDRAW): RunState.FAILED,
        (RunState.DISPATCHED, RunEvent.ACCEPT): RunState.ACCEPTED,
        (RunState.DISPATCHED, RunEvent.REDIRECT): RunState.DISPATCHED,
        (RunState.DISPATCHED, RunEvent.POSTPONE): RunState.PARKED,
        (RunState.DISPATCHED, RunEvent.SUCCEED): RunState.SUCCEEDED,
        (RunState.DISPATCHED, RunEvent.FAIL): RunState.FAILED,
        (RunState.DISPATCHED, RunEvent.LOSE): RunState.LOST,
        (RunState.DISPATCHED, RunEvent.TAKE_OVER): RunState.DISPATCHED,
        (RunState.ACCEPTED, RunEvent.REDIRECT): RunState.DISPATCHED,
        (RunState.ACCEPTED, RunEvent.SUCCEED): RunState.SUCCEEDED,
        (RunState.ACCEPTED, RunEvent.FAIL): RunState.FAILED,
        (RunState.ACCEPTED, RunEvent.LOSE): RunState.LOST,
        (RunState.ACCEPTED, RunEvent.TAKE_OVER): RunState.ACCEPTED,
    }
)


_MACHINE: Final = StateMachine("run", TRANSITIONS)
advance: Final = _MACHINE.advance
states_before: Final = _MACHINE.states_before
