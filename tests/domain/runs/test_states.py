"""The states of a run: what can follow what, and that the end is the end."""

import itertools

import pytest

from cases import for_each
from fairlead.domain.runs.states import (
    LIVE,
    TRANSITIONS,
    WAITING,
    WORKING,
    RunEvent,
    RunState,
    advance,
    states_before,
)
from fairlead.domain.work.states import IllegalTransitionError

TERMINAL = (RunState.SUCCEEDED, RunState.FAILED, RunState.LOST)


@for_each(("state", "event"), list(itertools.product(RunState, RunEvent)))
def test_run_event_leads_where_the_table_says_or_is_illegal(state: RunState, event: RunEvent) -> None:
    """Every state and event is a row of the table, or illegal."""
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{state} cannot {event}"):
            advance(state, event)


@pytest.mark.parametrize("state", TERMINAL)
def test_ended_run_has_no_further_events(state: RunState) -> None:
    """Nothing follows an end."""
    assert state not in LIVE
    assert not [event for event in RunEvent if (state, event) in TRANSITIONS]


def test_every_live_run_can_end() -> None:
    """Each state somebody works in can succeed, fail, be lost and be taken over; each that waits can be withdrawn."""
    assert {state for state in RunState if any(before is state for before, _ in TRANSITIONS)} == LIVE
    for event in (RunEvent.SUCCEED, RunEvent.FAIL, RunEvent.LOSE, RunEvent.TAKE_OVER):
        assert set(states_before(event)) == WORKING
    assert set(states_before(RunEvent.WITHDRAW)) == WAITING
    assert states_before(RunEvent.ACCEPT) == (RunState.DISPATCHED,)
