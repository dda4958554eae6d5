"""docs/states.md draws the three tables of states, and nothing else."""

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from fairlead.domain import deployments
from fairlead.domain.jobs import states as jobs
from fairlead.domain.runs import states as runs
from form.sources import DOCS

_TEXT: Final = (DOCS / "states.md").read_text(encoding="utf-8")
_ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
_END: Final = "[*]"


@dataclass(frozen=True)
class Drawn:
    """A part of the page, and the table it is about."""

    title: str
    transitions: Mapping[tuple[Any, Any], enum.StrEnum]
    states: Iterable[enum.StrEnum]
    events: Iterable[enum.StrEnum]
    begins: Collection[enum.StrEnum]
    live: Collection[enum.StrEnum]

    @property
    def text(self) -> str:
        """What the page says of it."""
        return _TEXT.partition(f"# {self.title}\n")[2].partition("\n# ")[0]

    @property
    def arrows(self) -> list[tuple[str, str, str]]:
        """The arrows of its drawing."""
        blocks = re.findall(r"```mermaid\n(.*?)```", self.text, re.DOTALL)
        return [arrow for block in blocks for arrow in _ARROW.findall(block)]


RUNS: Final = Drawn(
    "The states of a run", runs.TRANSITIONS, runs.RunState, runs.RunEvent, {*runs.WORKING, *runs.WAITING},
    runs.LIVE,
)  # fmt: skip
JOBS: Final = Drawn(
    "The states of a job", jobs.TRANSITIONS, jobs.JobState, jobs.JobTransition, {jobs.JobState.RUNNING, *jobs.WAITING},
    jobs.LIVE,
)  # fmt: skip
DEPLOYMENTS: Final = Drawn(
    "The states of a deployment", deployments.TRANSITIONS, deployments.DeploymentState, deployments.DeploymentEvent,
    {deployments.DeploymentState.NOT_READY}, frozenset(deployments.DeploymentState),
)  # fmt: skip
each = pytest.mark.parametrize("drawn", [RUNS, JOBS, DEPLOYMENTS], ids=["runs", "jobs", "deployments"])


@each
def test_every_transition_is_drawn(drawn: Drawn) -> None:
    """Each row of the table is one arrow, and each arrow between states is one row of the table."""
    arrows = [arrow for arrow in drawn.arrows if _END not in arrow]
    table = [(state.value, target.value, event.value) for (state, event), target in drawn.transitions.items()]
    assert sorted(table) == sorted(arrows)


@each
def test_drawing_begins_and_ends_with_the_states(drawn: Drawn) -> None:
    """What begins, or waits first; and every terminal state."""
    begins = sorted(arrow[1] for arrow in drawn.arrows if arrow[0] == _END)
    assert sorted(state.value for state in drawn.begins) == begins
    ends = sorted(arrow[0] for arrow in drawn.arrows if arrow[1] == _END)
    assert sorted(state.value for state in drawn.states if state not in drawn.live) == ends


@each
def test_every_state_and_event_is_described(drawn: Drawn) -> None:
    """Each state and each event has an entry of its own."""
    described = set(re.findall(r"^- `(\w+)`: \S", drawn.text, re.MULTILINE))
    assert set() == {*(state.value for state in drawn.states), *(event.value for event in drawn.events)} - described
