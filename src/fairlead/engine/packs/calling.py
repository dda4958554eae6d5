"""Calls of a pack's code, whichever form its classes have: values on their way in, results on their way out."""

import asyncio
import concurrent.futures
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fairlead.engine.graph.live import LiveGraph
from fairlead.engine.nodes.node import Blocked, Input, Output, Result
from fairlead.engine.nodes.node_context import NodeContext, current_context
from fairlead.engine.packs import videos
from fairlead.engine.packs.shims.prompts import view_of
from fairlead.engine.packs.tensors import for_pack, from_pack, holds_tensors


def hidden_values(names: Mapping[str, object]) -> dict[str, object]:
    """The values of the hidden inputs of the node that is being called; None for unknown ones."""
    context = current_context()
    known = {} if context is None else context.hidden
    return {name: _view_hidden(known.get(name)) for name in names}


def converter(inputs: tuple[Input, ...]) -> Callable[[Mapping[str, object]], dict[str, object]]:
    """A function that converts the values of inputs to what the pack takes; undeclared ones may be anything."""
    untouched = frozenset(
        input_.name
        for input_ in inputs
        if not input_.declared.type.startswith("COMFY_")
        and not holds_tensors(input_.declared.type)
        and "VIDEO" not in input_.declared.type
    )

    def convert(values: Mapping[str, object]) -> dict[str, object]:
        return {
            name: value if name in untouched else videos.for_pack(for_pack(value)) for name, value in values.items()
        }

    return convert


def with_hidden(function: Callable[..., object], hidden: Mapping[str, object]) -> Callable[..., object]:
    """A check of a class that is given the hidden inputs it names as well. It shows the parameters of the check."""
    signature = inspect.signature(function)
    named = {name: kind for name, kind in hidden.items() if name in signature.parameters}

    def check(**values: object) -> object:
        return function(**{**hidden_values(named), **values})

    check.__signature__ = signature  # type: ignore[attr-defined]
    return check


def complete(value: object) -> object:
    """The result of a coroutine for a caller that cannot await; from another thread when an event loop runs here."""
    if not inspect.isawaitable(value):
        return value
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(await_value(value))
    context = contextvars.copy_context()  # the node that is being called is known there as well
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, await_value(value)).result()


async def await_value(value: object) -> object:
    """A coroutine of an awaitable, or of a plain value."""
    return await value if inspect.isawaitable(value) else value


def node_id(context: NodeContext | None) -> str:
    """The id of the node that is being called; empty when none is."""
    return "" if context is None else context.place.node


def _view_hidden(value: object) -> object:
    return view_of(value) if isinstance(value, LiveGraph) else value


class ShownFiles(Protocol):
    """The folder of files that packs have written and show."""

    def keep(self, ui: Mapping[str, object], context: NodeContext) -> Mapping[str, object]:
        """Pass the files to the job; the displayed output then has the job's names for them."""
        ...


def as_result(
    given: object, outputs: Sequence[Output], files: ShownFiles, context: NodeContext | None
) -> Result | Blocked:
    """A tuple or list holds the outputs; a dict may hold `result`, `ui` and `expand`; anything else is the only one.

    Too many values are cut off, as packs rely on it. An output without a value blocks every node that would take it.
    """
    ui: Mapping[str, object] = {}
    expand: Mapping[str, object] | None = None
    if isinstance(given, Mapping) and not {"ui", "result", "expand"}.isdisjoint(given):
        ui, expand = given.get("ui") or {}, given.get("expand")
        given = given.get("result")
        if given is None and expand is None:
            return Result(ui=_show(ui, files, context))
    elif isinstance(given, Mapping) and not given:
        given = None
    return made_result(given, ui, expand, outputs, files, context)


def made_result(
    given: object,
    ui: Mapping[str, object],
    expand: Mapping[str, object] | None,
    outputs: Sequence[Output],
    files: ShownFiles,
    context: NodeContext | None,
) -> Result | Blocked:
    """The same when the parts are known: the values, what is shown, and the graph that takes the node's place."""
    shown = _show(ui, files, context)
    if isinstance(given, Blocked):
        return Result((given,) * len(outputs), shown) if shown and outputs else given
    values = _values(given, len(outputs))
    converted = [
        videos.from_pack(from_pack(value) if holds_tensors(output.type) else value)
        for output, value in zip(outputs, values, strict=True)
    ]
    return Result(tuple(converted), shown, None if expand is None else dict(expand))


def _values(given: object, count: int) -> list[object]:
    if count == 0:
        return []
    match given:
        case tuple() | list():
            values = list(given[:count])
        case None:
            values = []
        case _:
            values = [given]
    missing = (Blocked(f"the node gave no value for its output {number}") for number in range(len(values), count))
    return [*values, *missing]


def _show(ui: object, files: ShownFiles, context: NodeContext | None) -> Mapping[str, object]:
    if not isinstance(ui, Mapping):
        return {}
    return ui if context is None else files.keep(ui, context)
