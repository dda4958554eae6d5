"""What befalls a history: how often which part fails, all of it drawn from one seed."""

import random
from dataclasses import dataclass, field, replace
from typing import Any, Final

_CALM: Final = (0.0, 0.0, 0.0, 0.01, 0.05)
_ROUGH: Final = (0.0, 0.0, 0.02, 0.3)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The chances and figures of one history; chances are for each single transaction, call or poll."""

    servers: int = 1
    alone: bool = True
    commit_refused: float = 0.0
    commit_unheard: float = 0.0
    read_refused: float = 0.0
    crash_before_commit: float = 0.0
    crash_after_commit: float = 0.0
    crash_at_partner: float = 0.0
    crashes: int = 0
    stops: int = 0
    limits: int = 0
    outages: int = 0
    clock_jumps: int = 0
    unreachable: float = 0.0
    broken_before: float = 0.0
    broken_after: float = 0.0
    too_slow: float = 0.0
    busy: float = 0.0
    refused: float = 0.0
    failed: float = 0.0
    blobs_refused: float = 0.0
    queue_timeout_ms: int = 86_400_000
    slots: tuple[int, int, int] = (2, 1, -1)
    actors: int = 4
    seconds: float = 40.0
    ends_alive: bool = False


def fault_plan_of(chance: random.Random) -> FaultPlan:
    """Draw the fault plan of a history: most have a few faults at once, some have none."""
    servers = chance.choice((1, 1, 2, 3))
    return FaultPlan(
        servers=servers,
        alone=servers == 1 and chance.random() < 0.8,
        commit_refused=chance.choice(_CALM),
        commit_unheard=chance.choice((*_CALM, 0.2)),
        read_refused=chance.choice(_CALM),
        crash_before_commit=chance.choice((0.0, 0.0, 0.02)),
        crash_after_commit=chance.choice((0.0, 0.0, 0.02)),
        crash_at_partner=chance.choice((0.0, 0.0, 0.03)),
        crashes=chance.choice((0, 0, 1, 2, 4)),
        stops=chance.choice((0, 0, 1, 2)),
        limits=chance.choice((0, 0, 3)),
        outages=chance.choice((0, 0, 0, 1, 4)),
        clock_jumps=chance.choice((0,) * 9 + (1,)),
        unreachable=chance.choice(_ROUGH),
        broken_before=chance.choice(_CALM),
        broken_after=chance.choice(_CALM),
        too_slow=chance.choice((0.0, 0.0, 0.02)),
        busy=chance.choice(_ROUGH),
        refused=chance.choice(_CALM),
        failed=chance.choice(_CALM),
        blobs_refused=chance.choice((0.0, 0.0, 0.2)),
        queue_timeout_ms=chance.choice((10_000, 60_000, 86_400_000)),
        slots=(chance.choice((1, 2, 5)), chance.choice((1, 2)), -1),
        actors=chance.choice((2, 4, 6)),
        seconds=chance.choice((15.0, 40.0, 40.0, 120.0)),
        ends_alive=chance.random() < 0.5,
    )


def without_trouble(plan: FaultPlan) -> FaultPlan:
    """The same without any trouble, for the end of a history."""
    return FaultPlan(servers=1, alone=plan.alone, queue_timeout_ms=plan.queue_timeout_ms, slots=plan.slots)


@dataclass(slots=True)
class Scenario:
    """What everything in a history shares: its chance, its fault plan, and what is reported of it.

    `tellings` are lines with their simulated second; `excuses` are the runs that met something after which they may
    end without a charge though their partner worked, with what that was; `turned_away` are the runs, and the partners
    for all of theirs, that found no room or no connection. `has_silence` says that a server was dead, or looked it.
    """

    seed: int
    chance: random.Random = field(init=False)
    plan: FaultPlan = field(init=False)
    tellings: list[tuple[float, str]] = field(default_factory=list)
    excuses: dict[str, set[str]] = field(default_factory=dict)
    turned_away: set[str] = field(default_factory=set)
    has_silence: bool = False
    now: Any = float

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 -- it has to be foreseen
        self.plan = fault_plan_of(self.chance)

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens now."""
        return probability > 0 and self.chance.random() < probability

    def tell(self, text: str) -> None:
        """Note a line of the history."""
        self.tellings.append((self.now(), text))

    def excuse(self, run_id: str, what: str) -> None:
        """Note that something befell a run that may cost it its result."""
        self.excuses.setdefault(run_id, set()).add(what)

    def calm(self) -> None:
        """End all trouble."""
        self.plan = without_trouble(self.plan)

    def with_faults(self, **changes: Any) -> None:
        """Change the fault plan from now on."""
        self.plan = replace(self.plan, **changes)

    def text(self) -> str:
        """The whole history, a line each."""
        lines = [f"{second:9.3f}  {line}" for second, line in self.tellings]
        return "\n".join([f"seed {self.seed}, {self.plan}", *lines])
