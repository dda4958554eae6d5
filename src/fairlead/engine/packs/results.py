"""What the code of packs gives, in all the shapes they know, as a Result of ours."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from fairlead.engine.nodes.node import Blocked, Output, Result
from fairlead.engine.nodes.node_context import NodeContext
from fairlead.engine.packs import videos
from fairlead.engine.packs.tensors import from_pack, holds_tensors


class ShownFiles(Protocol):
    """Where files lie that packs have written and show."""

    def kept(self, ui: Mapping[str, object], context: NodeContext) -> Mapping[str, object]:
        """Hand the files over to the job; what is shown then names them as the job does."""
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
            return Result(ui=_shown(ui, files, context))
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
    shown = _shown(ui, files, context)
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


def _shown(ui: object, files: ShownFiles, context: NodeContext | None) -> Mapping[str, object]:
    if not isinstance(ui, Mapping):
        return {}
    return ui if context is None else files.kept(ui, context)
