"""The inputs a class expects of one node: the declared ones, with repeated and choice-dependent inputs expanded.

Such an input is written flat in a graph (`images.image0`, `resize_type.width`) and reaches the function as a dict.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.engine.nodes.node import Declared, Definition

AUTOGROW: Final = "COMFY_AUTOGROW_V3"
DYNAMIC_COMBO: Final = "COMFY_DYNAMICCOMBO_V3"
_DYNAMIC: Final = frozenset({AUTOGROW, DYNAMIC_COMBO})
_GROWTH_MAX: Final = 100
_CONTEXT: Final = "context"


class Expected(msgspec.Struct, frozen=True):
    """An input of one node: its path in the graph, and the keys that lead to it in the function's arguments."""

    path: str
    keys: tuple[str, ...]
    declared: Declared
    is_optional: bool

    @property
    def is_lazy(self) -> bool:
        """Whether it is only computed when the node asks for it."""
        return bool(self.declared.options.get("lazy", False))

    @property
    def is_raw(self) -> bool:
        """Whether the node wants the link itself instead of what comes through it."""
        return bool(self.declared.options.get("rawLink", False))


class Interface:
    """A definition, with what is derived from it once for all nodes of its class."""

    def __init__(self, definition: Definition) -> None:
        self.definition: Final = definition
        self.is_concurrent: Final = inspect.iscoroutinefunction(definition.run)
        self.is_dynamic: Final = any(input_.declared.type in _DYNAMIC for input_ in definition.inputs)
        self.hidden: Final = {name: _hidden_kind(kind) for name, kind in definition.hidden.items()}
        self.takes_unknown_links: Final = definition.takes_unknown or definition.takes_unknown_links
        self.wants_id: Final = "UNIQUE_ID" in self.hidden.values()
        self.wants_live_graph: Final = "DYNPROMPT" in self.hidden.values()
        self._static: Final = {} if self.is_dynamic else self._expect({})

    def expect(self, given: Mapping[str, object]) -> Mapping[str, Expected]:
        """Every input a node with these constants and links may have, by path, in the order of the declaration."""
        return self._expect(given) if self.is_dynamic else self._static

    def nest(self, values: Mapping[str, object], expected: Mapping[str, Expected]) -> dict[str, object]:
        """The values by path as the function takes them; the choice of a combo is in its dict under its own name."""
        if not self.is_dynamic:
            return dict(values)
        arguments: dict[str, Any] = {path: value for path, value in values.items() if path not in expected}
        for path, input_ in expected.items():
            *above, last = input_.keys
            place = arguments
            for key in above:
                place = place[key]
            if input_.declared.type == AUTOGROW:
                place[last] = {}
            elif input_.declared.type == DYNAMIC_COMBO:
                place[last] = {last: values.get(path)}
            elif path in values:
                place[last] = values[path]
        return arguments

    def _expect(self, given: Mapping[str, object]) -> dict[str, Expected]:
        found: dict[str, Expected] = {}
        waiting = [
            Expected(input_.name, (input_.name,), input_.declared, input_.is_optional)
            for input_ in reversed(self.definition.inputs)
        ]
        while waiting:
            input_ = waiting.pop()
            found[input_.path] = input_
            waiting.extend(reversed([*_below(input_, given)]))
        return found


def spec_of(declared: Declared) -> list[object]:
    """A declared input as editors read it: its type, or the list of its choices, and its options."""
    type_: object = declared.type if declared.choices is None else list(declared.choices)
    return [type_] if declared.is_bare else [type_, dict(declared.options)]


def select_named(
    function: Callable[..., object], arguments: Mapping[str, object], context: object
) -> dict[str, object]:
    """The arguments that a function has parameters for, or all if it takes any; and the context if it has one for it.

    An input of that name takes precedence.
    """
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    chosen = {name: value for name, value in arguments.items() if takes_any or name in parameters}
    return {_CONTEXT: context, **chosen} if _CONTEXT in parameters else chosen


def _hidden_kind(kind: object) -> str:
    """`"PROMPT"` as older nodes declare it, or `["PROMPT"]`."""
    return str(kind[0] if isinstance(kind, list | tuple) else kind)


def _below(input_: Expected, given: Mapping[str, object]) -> Iterator[Expected]:
    if input_.declared.type == AUTOGROW:
        yield from _grow(input_, given)
    elif input_.declared.type == DYNAMIC_COMBO:
        chosen = given.get(input_.path)
        for option in input_.declared.options.get("options", ()):
            if option["key"] == chosen:
                yield from _children(input_, option["inputs"])


def _grow(input_: Expected, given: Mapping[str, object]) -> Iterator[Expected]:
    """Of all possible repetitions only those that are required, present, or have something below them."""
    template = input_.declared.options["template"]
    names = template.get("names")
    if names is None:
        most = min(template.get("max", _GROWTH_MAX), _GROWTH_MAX)
        names = [f"{template['prefix']}{number}" for number in range(most)]
    needed = int(template.get("min", 0))
    for section, inputs in template["input"].items():
        for spec in inputs.values():
            for number, name in enumerate(names):
                optional = input_.is_optional or section == "optional" or number >= needed
                child = _child(input_, name, spec, is_optional=optional)
                if not optional or child.path in given or child.declared.type in _DYNAMIC:
                    yield child


def _children(input_: Expected, inputs: Mapping[str, Mapping[str, object]]) -> Iterator[Expected]:
    for section in ("required", "optional"):
        for name, spec in inputs.get(section, {}).items():
            yield _child(input_, name, spec, is_optional=input_.is_optional or section == "optional")


def _child(input_: Expected, name: str, spec: object, *, is_optional: bool) -> Expected:
    return Expected(f"{input_.path}.{name}", (*input_.keys, name), _declare(spec), is_optional)


def _declare(spec: Any) -> Declared:
    type_, options = spec[0], spec[1] if len(spec) > 1 else {}
    return Declared(type_, options) if isinstance(type_, str) else Declared("COMBO", options, tuple(type_))
