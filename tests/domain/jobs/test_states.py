"""The states of a job: what can follow what, and that the end is the end (J-06)."""

import itertools
from typing import Final

import pytest

from cases import for_each
from fairlead.domain.jobs.states import LIVE, STATUSES, TRANSITIONS, JobState, JobStatus, JobTransition, advance
from fairlead.domain.work.states import IllegalTransitionError

_MOVES: Final[set[tuple[JobStatus, JobStatus]]] = {
    ("queued", "running"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "expired"),
    ("running", "canceling"),
    ("canceling", "canceled"),
}
"""Those of the specification."""
_ADDED: Final[set[tuple[JobStatus, JobStatus]]] = {
    ("queued", "canceled"),
    ("queued", "expired"),
    ("queued", "failed"),
    ("running", "queued"),
    ("canceling", "succeeded"),
    ("canceling", "failed"),
}
"""Ours: what waits ends at once, a dead server's jobs start again, and who is canceled too late has ended already."""


@pytest.mark.req("J-06")
def test_job_status_makes_only_the_listed_moves() -> None:
    """The moves of the statuses are these, and no others."""
    moves = {(STATUSES[before], STATUSES[after]) for (before, _), after in TRANSITIONS.items()}
    assert {move for move in moves if move[0] != move[1]} == _MOVES | _ADDED


@pytest.mark.req("J-06")
@for_each(("state", "transition"), list(itertools.product(JobState, JobTransition)))
def test_job_transition_leads_where_the_table_says_or_is_illegal(state: JobState, transition: JobTransition) -> None:
    """Every state and transition is a row of the table, or illegal; what has ended has no rows."""
    if (state, transition) in TRANSITIONS:
        assert state in LIVE
        assert advance(state, transition) is TRANSITIONS[state, transition]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{state} cannot {transition}"):
            advance(state, transition)
