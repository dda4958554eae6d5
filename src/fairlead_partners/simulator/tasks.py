"""Tasks of the submit-and-poll vendors: time makes them run and end."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

TASKS_MAX = 20_000
KEEP_SECONDS = 3600.0
KEEP_BYTES_MAX = 256 * 1024 * 1024
TEXT_CHARACTERS_MAX = 8192

Stage = Literal["queued", "running", "ended", "cancelled"]


class Clock(msgspec.Struct, frozen=True):
    """What time it is, and how long a task takes; tests give their own."""

    task_seconds: float = 0.3
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class Task(msgspec.Struct, eq=False):
    """One piece of work: queued for a third of the task seconds, running for the rest, then ended.

    How it ended is for the vendor to say, from `faults`: `refused`, `refused-output` or `failed`, else well.
    A task with the fault `stuck` runs forever.
    """

    vendor: str
    id: str
    request: Mapping[str, Any]
    faults: Mapping[str, str]
    facts: dict[str, Any]
    clock: Clock
    links: dict[str, str] = msgspec.field(default_factory=dict)
    is_cancelled: bool = False
    weight: int = 0
    born: float = 0.0
    created: float = 0.0

    def __post_init__(self) -> None:
        """Note when it began, on both clocks, and let go of the long strings: pictures nobody looks at."""
        self.request = shorten(self.request)
        self.weight = len(json.dumps(self.request))
        self.born = self.clock.monotonic()
        self.created = self.clock.wall()

    @property
    def stage(self) -> Stage:
        """Tell how far it is."""
        if self.is_cancelled:
            return "cancelled"
        age = self.clock.monotonic() - self.born
        if age < self.clock.task_seconds / 3:
            return "queued"
        return "running" if age < self.clock.task_seconds or self.has("stuck") else "ended"

    @property
    def progress(self) -> float:
        """Tell how far it is, from 0 to 1; only an ended task has 1."""
        if self.stage == "ended":
            return 1.0
        age = self.clock.monotonic() - self.born
        return min(0.99, round(age / self.clock.task_seconds, 2)) if self.clock.task_seconds else 0.99

    @property
    def updated(self) -> float:
        """Return the wall clock at its last change, as near as anybody asks."""
        return self.created + min(self.clock.monotonic() - self.born, self.clock.task_seconds)

    def has(self, fault: str) -> bool:
        """Tell whether this task is to meet a fault."""
        return fault in self.faults

    def cancel(self) -> bool:
        """Cancel it unless it ended; tell whether that was in time."""
        if self.stage == "ended":
            return False
        self.is_cancelled = True
        return True


def shorten(value: object) -> Any:
    """Cut the strings in a JSON value to 8192 characters."""
    match value:
        case str():
            return value[:TEXT_CHARACTERS_MAX]
        case dict():
            return {name: shorten(inner) for name, inner in value.items()}
        case list():
            return [shorten(inner) for inner in value]
        case _:
            return value


class Tasks:
    """The tasks of all vendors, bounded in number, age and bytes: the oldest is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._tasks: OrderedDict[tuple[str, str], Task] = OrderedDict()
        self._weight = 0

    def add(self, task: Task) -> Task:
        """Remember a task."""
        self._keep(task, task.id)
        return task

    def add_alias(self, task: Task, id_: str) -> None:
        """Find a task by another id too, such as that of its file."""
        self._keep(task, id_)

    def _keep(self, task: Task, id_: str) -> None:
        self._tasks[task.vendor, id_] = task
        self._weight += task.weight
        oldest = self._clock.monotonic() - KEEP_SECONDS
        while self._is_too_much(oldest):
            _, dropped = self._tasks.popitem(last=False)
            self._weight -= dropped.weight

    def _is_too_much(self, oldest: float) -> bool:
        if len(self._tasks) <= 1:
            return False
        first = next(iter(self._tasks.values()))
        return len(self._tasks) > TASKS_MAX or self._weight > KEEP_BYTES_MAX or first.born < oldest

    def get(self, vendor: str, id_: str) -> Task | None:
        """Find a task of a vendor."""
        return self._tasks.get((vendor, id_))

    def forget(self, task: Task) -> None:
        """Forget a task that was deleted, under each of its ids."""
        for key in [key for key, kept in self._tasks.items() if kept is task]:
            del self._tasks[key]
            self._weight -= task.weight

    def __len__(self) -> int:
        return len(self._tasks)
