"""Nodes that do nothing but what a test wants to see."""

import asyncio
import threading
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary

from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.node import Blocked, Output, Result, boolean, combo, integer, node, number, socket, text

_CATEGORY: Final = "samples"
_ANY: Final = socket("*")
_INT: Final = Output("INT")


@node("Number", "Number", _CATEGORY, outputs=(_INT,))
def constant(value: Annotated[int, integer(0, -1000, 1_000_000)]) -> int:
    """A number."""
    return value


@node("Add", "Add", _CATEGORY, outputs=(_INT,))
def add(a: Annotated[int, socket("INT")], b: Annotated[int, integer(1)]) -> int:
    """A sum."""
    return a + b


@node("Show", "Show", _CATEGORY, is_output=True)
def show(value: Annotated[Any, _ANY]) -> Result:
    """Show a value."""
    return Result(ui={"values": [value]})


@node("ShowAll", "Show all", _CATEGORY, is_output=True, is_input_list=True)
def show_all(value: Annotated[list[Any], _ANY]) -> Result:
    """Show a list as it comes."""
    return Result(ui={"values": value})


@node("Pass", "Pass", _CATEGORY, outputs=(Output("*"),), is_output=True)
def passing(value: Annotated[Any, _ANY]) -> Result:
    """An output node whose value goes on."""
    return Result((value,), ui={"values": [value]})


@node("Count", "Count", _CATEGORY, outputs=(Output("INT", is_list=True),))
def count(most: Annotated[int, integer(3)]) -> list[int]:
    """A list of numbers from zero."""
    return list(range(most))


@node("Pair", "Pair", _CATEGORY, outputs=(_INT, _INT))
def pair(a: Annotated[int, integer()], b: Annotated[int, integer()]) -> tuple[int, int]:
    """Two outputs."""
    return a, b


def _wanted_inputs(condition: bool, yes: Any = None, no: Any = None) -> list[str]:  # noqa: FBT001 -- called by name
    return ["yes" if condition else "no"] if (yes if condition else no) is None else []


@node("Choose", "Choose", _CATEGORY, outputs=(Output("*"),), needed=_wanted_inputs)
def choose(
    condition: Annotated[Any, _ANY],
    yes: Annotated[Any, socket("*", lazy=True)] = None,
    no: Annotated[Any, socket("*", lazy=True)] = None,
) -> Any:
    """One of two, the other not worked out."""
    return yes if condition else no


@node("Fail", "Fail", _CATEGORY, outputs=(Output("*"),))
def failing(value: Annotated[Any, _ANY]) -> Any:
    """Raise."""
    raise ArithmeticError(f"no use for {value}")


@node("Block", "Block", _CATEGORY, outputs=(Output("*"),))
def blocking(
    value: Annotated[int, socket("INT")], above: Annotated[int, integer(0)], message: Annotated[str, text("")]
) -> Any:
    """Block numbers above a bound."""
    return Blocked(message or None) if value > above else value


@node("Times", "Times", _CATEGORY, outputs=(Output("INT"),))
def times(value: Annotated[int, integer()], steps: Annotated[int, integer(0, 0, 1000)]) -> Result | int:
    """Add one so many times, by putting Add nodes in its place."""
    if not steps:
        return value
    graph: dict[str, Any] = {"0": {"class_type": "Number", "inputs": {"value": value}}}
    for step in range(1, steps + 1):
        graph[str(step)] = {"class_type": "Add", "inputs": {"a": [str(step - 1), 0], "b": 1}}
    return Result(([str(steps), 0],), expand=graph)


@node("Countdown", "Countdown", _CATEGORY, outputs=(Output("INT"),))
def countdown(value: Annotated[int, integer()]) -> Result | int:
    """Put itself, with one less, in its own place until nothing is left."""
    if value <= 0:
        return value
    inner = {"class_type": "Countdown", "inputs": {"value": value - 1}}
    return Result((["inner", 0],), expand={"inner": inner})


@node("Circular", "Circular", _CATEGORY, outputs=(Output("INT"),), hidden={"me": "UNIQUE_ID"})
def circular(context: Context) -> Result:
    """Put a node in its place that needs it."""
    inner = {"class_type": "Add", "inputs": {"a": [context.hidden["me"], 0], "b": 1}}
    return Result((["inner", 0],), expand={"inner": inner})


@node("Showing", "Showing", _CATEGORY, outputs=(Output("INT"),))
def showing(value: Annotated[int, integer()]) -> Result:
    """Give a number, and show it in a node of its own."""
    return Result((value,), expand={"show": {"class_type": "Show", "inputs": {"value": value}}})


@node("Nap", "Nap", _CATEGORY, outputs=(Output("*"),))
async def nap(context: Context, value: Annotated[Any, _ANY], seconds: Annotated[float, number(0.01)]) -> Any:
    """Wait without holding up others."""
    await asyncio.sleep(seconds)
    context.check()
    return value


_MEETINGS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Barrier]] = WeakKeyDictionary()


@node("Meet", "Meet", _CATEGORY, outputs=(Output("*"),))
async def meet(value: Annotated[Any, _ANY], parties: Annotated[int, integer(2)]) -> Any:
    """Wait until so many have come, which they can only while none holds up another."""
    await _MEETINGS.setdefault(asyncio.get_running_loop(), asyncio.Barrier(parties)).wait()
    return value


@node("Work", "Work", _CATEGORY, outputs=(Output("INT"),))
def work(context: Context, steps: Annotated[int, integer(10)]) -> int:
    """Say how far it is, until it is done or unwanted."""
    pause = threading.Event()
    for step in range(steps):
        context.progress(step, steps)
        pause.wait(0.001)
    context.progress(steps, steps)
    return steps


@node("Restless", "Restless", _CATEGORY, outputs=(_INT,), fingerprint=lambda: float("nan"))
def restless() -> int:
    """Never the same."""
    return 1


@node("Stamped", "Stamped", _CATEGORY, outputs=(_INT,), fingerprint=lambda value: value % 10)
def stamp(value: Annotated[int, integer()]) -> int:
    """What it depends on beside its inputs."""
    return value


@node("Id", "Id", _CATEGORY, outputs=(Output("STRING"),), hidden={"me": "UNIQUE_ID", "prompt": "PROMPT", "x": ["X"]})
def identify(context: Context) -> Result:
    """Show its hidden inputs."""
    return Result((context.hidden["me"],), ui={"hidden": [dict(context.hidden)]})


def _even(value: int | None) -> bool | str:
    return True if value is None or value % 2 == 0 else f"{value} is odd"


@node("Even", "Even", _CATEGORY, outputs=(_INT,), validate=_even, is_output=True)
def even(value: Annotated[int, integer(0, 0, 10)]) -> int:
    """Take even numbers only, however large."""
    return value


@node("Every", "Every", _CATEGORY, is_output=True)
def every(
    whole: Annotated[int, integer(1, 0, 10)],
    part: Annotated[float, number(0.5, 0.0, 1.0)],
    words: Annotated[str, text("")],
    flag: Annotated[bool, boolean()],
    choice: Annotated[str, combo("a", "b")],
    options: Annotated[list[str] | None, combo("x", "y", multiselect=True)] = None,
) -> Result:
    """Show one of each kind of constant."""
    return Result(ui={"values": [whole, part, words, flag, choice, options]})


@node("Grow", "Grow", _CATEGORY, is_output=True)
def grow(
    values: Annotated[
        dict[str, int],
        socket(
            "COMFY_AUTOGROW_V3",
            template={"input": {"required": {"value": ["INT", {}]}}, "prefix": "value", "min": 1, "max": 3},
        ),
    ],
) -> Result:
    """Show what has grown."""
    return Result(ui={"values": [dict(values)]})


@node("Shape", "Shape", _CATEGORY, is_output=True)
def shape(
    kind: Annotated[
        dict[str, Any],
        socket(
            "COMFY_DYNAMICCOMBO_V3",
            options=[
                {"key": "circle", "inputs": {"required": {"radius": ["INT", {"min": 1}]}}},
                {"key": "point", "inputs": {"required": {}}},
            ],
        ),
    ],
) -> Result:
    """Show what was chosen, with what belongs to it."""
    return Result(ui={"values": [dict(kind)]})


NODES: Final = (
    constant, add, show, show_all, passing, count, pair, choose, failing, blocking, times, countdown, circular, showing,
    nap, meet, work, restless, stamp, identify, even, every, grow, shape,
)  # fmt: skip
