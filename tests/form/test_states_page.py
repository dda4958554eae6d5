"""docs/states.md draws the table of states, and nothing else."""

import re
from typing import Final

from fairlead.domain.runs.states import LIVE, TRANSITIONS, WAITING, RunEvent, RunState
from form.sources import DOCS

_TEXT: Final = (DOCS / "states.md").read_text(encoding="utf-8")
_ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
_END: Final = "[*]"


def _arrows() -> list[tuple[str, str, str]]:
    blocks = re.findall(r"```mermaid\n(.*?)```", _TEXT, re.DOTALL)
    return [arrow for block in blocks for arrow in _ARROW.findall(block)]


def test_a_transition_is_drawn_wrongly_or_not_at_all() -> None:
    """Each row of the table is one arrow, and each arrow between states is one row of the table."""
    drawn = [arrow for arrow in _arrows() if _END not in arrow]
    table = [(state.value, target.value, event.value) for (state, event), target in TRANSITIONS.items()]
    assert sorted(table) == sorted(drawn)


def test_the_drawing_begins_or_ends_elsewhere_than_a_run_does() -> None:
    """A run begins dispatched, or waits first; the drawing ends in every terminal state."""
    begins = sorted(arrow[1] for arrow in _arrows() if arrow[0] == _END)
    assert sorted(state.value for state in {RunState.DISPATCHED, *WAITING}) == begins
    ends = sorted(arrow[0] for arrow in _arrows() if arrow[1] == _END)
    assert sorted(state.value for state in RunState if state not in LIVE) == ends


def test_a_state_or_event_is_not_described() -> None:
    """Each state and each event has an entry of its own."""
    described = set(re.findall(r"^- `(\w+)`: \S", _TEXT, re.MULTILINE))
    assert set() == {*(state.value for state in RunState), *(event.value for event in RunEvent)} - described
