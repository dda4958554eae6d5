"""Executes one node: its function is called once for each item of its lists, and the results are gathered.

Everything here may run in a thread: it changes only its arguments.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from fairlead.engine.graph.graph import Link
from fairlead.engine.graph.live import LiveNode
from fairlead.engine.nodes.interface import select_named
from fairlead.engine.nodes.node import Blocked, Definition, Result
from fairlead.engine.nodes.node_context import NodeContext, current

CALLS_MAX: Final = 100_000
_CONCURRENT_CALLS_MAX: Final = 64


class Step(msgspec.Struct, frozen=True):
    """A node with the values of its inputs; the lazy ones in `missing` are not known yet."""

    node: LiveNode
    inputs: Mapping[str, Sequence[object]]
    missing: Sequence[str]
    context: NodeContext

    @property
    def definition(self) -> Definition:
        """The definition of the node's class."""
        return self.node.interface.definition


class Wants(msgspec.Struct, frozen=True):
    """The node needs more of its lazy inputs before it can be executed."""

    paths: Sequence[str]


class Raised(msgspec.Struct, frozen=True):
    """The node, or a call of it, has failed; `inputs` are those of the call."""

    error: BaseException
    inputs: Mapping[str, object] = msgspec.field(default_factory=dict)


class Returned(msgspec.Struct, frozen=True):
    """The result of each call, in order, and the messages of blockers that stopped calls."""

    results: Sequence[Result | Blocked]
    blockers: Sequence[str]


Performed: TypeAlias = Wants | Raised | Returned


class BadResultError(TypeError):
    """A node returned something other than it declares."""


def perform(step: Step) -> Performed:
    """Execute a node whose function is an ordinary one."""
    with current(step.context):
        return _perform(step)


async def perform_concurrently(step: Step) -> Performed:
    """Execute a node whose function is a coroutine: its calls run concurrently, also with those of other nodes."""
    with current(step.context):
        return await _performed_concurrently(step)


def _perform(step: Step) -> Performed:
    call: Mapping[str, object] = {}
    results = []
    try:
        wanted = _find_wanted(step)
        if wanted:
            return Wants(wanted)
        for call in _calls(step):
            step.context.check()
            is_blocked = _blocker(call) is not None
            results.append(Blocked() if is_blocked else _as_result(step.definition, _call(step, call)))
        step.context.keep_files()
    except BaseException as error:  # noqa: BLE001 -- a node may fail in any way, and that is its job's error
        step.context.discard_files()
        return Raised(error, call)
    return _collect_results(step, results)


async def _performed_concurrently(step: Step) -> Performed:
    try:
        wanted = await asyncio.to_thread(_find_wanted, step) if step.missing else []
        if wanted:
            return Wants(wanted)
        room = asyncio.Semaphore(_CONCURRENT_CALLS_MAX)
        # A call that fails returns its error, so that the others end before the node does.
        ended = await asyncio.gather(*(_call_concurrently(step, call, room) for call in _calls(step)))
        raised = next((result for result in ended if isinstance(result, Raised)), None)
        if raised is not None:
            step.context.discard_files()
            return raised
        if step.context.has_files:
            await asyncio.to_thread(step.context.keep_files)
    except asyncio.CancelledError:
        step.context.discard_files()
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- a node may fail in any way, and that is its job's error
        step.context.discard_files()
        return Raised(error)
    return _collect_results(step, [result for result in ended if not isinstance(result, Raised)])


def merge_results(
    definition: Definition, results: Sequence[Result | Blocked], resolve: Callable[[Link], Sequence[object]]
) -> list[list[object]]:
    """The values of all calls as one list for each output; links are followed by `resolve`."""
    outputs: list[list[object]] = [[] for _ in definition.outputs]
    for result in results:
        values = result.values if isinstance(result, Result) else (result,) * len(outputs)
        for gathered, declared, value in zip(outputs, definition.outputs, values, strict=False):
            if isinstance(value, Link):
                gathered.extend(resolve(value))
            elif declared.is_list and not isinstance(value, Blocked):
                gathered.extend(value)
            else:
                gathered.append(value)
    for gathered in outputs:
        _protect(gathered)
    return outputs


def merged_ui(results: Sequence[Result | Blocked]) -> dict[str, object]:
    """The displayed outputs of all calls, their lists joined by key."""
    shown: dict[str, Any] = {}
    for result in results:
        for key, value in (result.ui if isinstance(result, Result) else {}).items():
            shown.setdefault(key, []).extend(value if isinstance(value, list | tuple) else [value])
    return shown


def _protect(values: Sequence[object]) -> None:
    """A value goes to many nodes and into the cache, and none of them may change it for the others."""
    for value in values:
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, np.ndarray):
                item.flags.writeable = False


def _collect_results(step: Step, results: Sequence[Result | Blocked]) -> Returned:
    """A blocker's message is reported by the first node that it blocks; after that it is silent."""
    if not any(isinstance(result, Blocked) for result in results):
        return Returned(results, ())
    said = [value.message for call in _calls(step) for value in _blocked_values(call) if value.message is not None]
    return Returned(results, list(dict.fromkeys(said)))


def _calls(step: Step) -> Iterator[dict[str, object]]:
    """The inputs of each call by path. Shorter lists repeat their last item; with an empty one there is no call.

    A class that takes lists is called once, with all of them.
    """
    if step.definition.is_input_list:
        yield {path: list(values) for path, values in step.inputs.items()}
        return
    lengths = {len(values) for values in step.inputs.values()}
    count = 0 if 0 in lengths else max(lengths, default=1)
    if count > CALLS_MAX:
        raise BadResultError(f"a list of {count} items is too long; a node is called at most {CALLS_MAX} times")
    for index in range(count):
        yield {path: values[min(index, len(values) - 1)] for path, values in step.inputs.items()}


def _find_wanted(step: Step) -> list[str]:
    """The lazy inputs that the node asks for, of those it does not have."""
    needed = step.definition.needed
    if needed is None or not step.missing:
        return []
    names: dict[str, None] = {}
    for call in _calls(step):
        if _blocker(call) is None:
            flat = {**call, **_unknown(step)}
            arguments = step.node.interface.nest(flat, step.node.expected)
            asked = needed(**select_named(needed, arguments, step.context))
            said = asyncio.run(_await(asked)) if inspect.isawaitable(asked) else asked
            names.update(dict.fromkeys(said or ()))
    return [name for name in names if name in step.missing]


def _unknown(step: Step) -> dict[str, object]:
    """The placeholders of lazy inputs that were not computed."""
    return dict.fromkeys(step.missing, [None] if step.definition.is_input_list else None)


async def _await(value: Awaitable[object]) -> Any:
    return await value


def _call(step: Step, call: Mapping[str, object]) -> Any:
    """The result of the function, or its awaitable, for the inputs of one call."""
    flat = {**call, **_unknown(step)}
    arguments = step.node.interface.nest(flat, step.node.expected)
    if step.definition.takes_context:
        arguments["context"] = step.context
    return step.definition.run(**arguments)


async def _call_concurrently(
    step: Step, call: Mapping[str, object], room: asyncio.Semaphore
) -> Result | Blocked | Raised:
    try:
        async with room:
            step.context.check()
            if _blocker(call) is not None:
                return Blocked()
            return _as_result(step.definition, await _call(step, call))
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- as in perform
        return Raised(error, call)


def _blocked_values(call: Mapping[str, object]) -> Iterator[Blocked]:
    """The blockers among the inputs of a call, also within the lists of a class that takes lists."""
    for value in call.values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Blocked):
                yield item


def _blocker(call: Mapping[str, object]) -> Blocked | None:
    return next(_blocked_values(call), None)


def _as_result(definition: Definition, given: object) -> Result | Blocked:
    """A tuple holds the outputs; anything else is the only output. A Result without values only displays something."""
    declared = len(definition.outputs)
    match given:
        case Blocked():
            return given
        case Result(values=()):
            return given
        case Result():
            result = given
        case tuple():
            result = Result(given)
        case None if not declared:
            return Result()
        case _:
            result = Result((given,))
    if len(result.values) != declared and (declared or result.values != (None,)):
        words = f"{definition.name} has {declared} outputs, and its function gave {len(result.values)} values"
        raise BadResultError(words)
    return result
