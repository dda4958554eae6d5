"""Finds which outputs of a graph can be made, and what is wrong with the others (engine-wire, 2.1).

Only nodes that an output needs are checked; their constants are converted to the types of the inputs. Time and memory
grow with nodes and links, not with depth.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from fairlead.engine.graph import faults
from fairlead.engine.graph.cycles import sort_topologically, way_round
from fairlead.engine.graph.faults import At, Fault, NodeFaults
from fairlead.engine.graph.graph import BadLink, Graph, Link, Node
from fairlead.engine.nodes.interface import AUTOGROW, DYNAMIC_COMBO, Expected, Interface, select_named, spec_of
from fairlead.engine.nodes.node import Declared
from fairlead.engine.nodes.node_context import current
from fairlead.engine.nodes.registry import Registry

_REPORTED_NODES_MAX: Final = 1_000
_DEPENDENT_OUTPUTS_MAX: Final = 32
_WAY_SHOWN_MAX: Final = 32
_TYPES: Final = "input_types"
_READERS: Final[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
    {"INT": int, "FLOAT": float, "STRING": str, "BOOLEAN": bool}
)
_ANY: Final = frozenset({"*", "COMFY_MATCHTYPE_V3"})


class Validated(msgspec.Struct, frozen=True):
    """A graph with its constants converted, its outputs that can be made in order, and what is wrong with the rest.

    At most 1,000 faulty nodes are reported.
    """

    graph: Graph
    outputs: tuple[str, ...]
    node_faults: Mapping[str, NodeFaults]


class InvalidGraphError(Exception):
    """No output can be made; holds why."""

    def __init__(self, fault: Fault, node_faults: Mapping[str, NodeFaults] | None = None) -> None:
        super().__init__(fault.message)
        self.fault: Final = fault
        self.node_faults: Final = node_faults or {}


async def validate(
    graph: Graph, registry: Registry, targets: Iterable[str] | None = None, context: object = None
) -> Validated:
    """Find the outputs that can be made, of all or of some targets; `context` is given to nodes' own checks.

    InvalidGraphError when there is none.
    """
    for node in graph.values():
        if node.class_type is None or node.class_type not in registry:
            title = node.title or node.class_type or node.id
            raise InvalidGraphError(faults.missing_node_type(node.id, node.class_type, title))
    wanted = None if targets is None else set(targets)
    outputs = [
        node.id
        for node in graph.values()
        if registry[cast("str", node.class_type)].definition.is_output and (wanted is None or node.id in wanted)
    ]
    if not outputs:
        raise InvalidGraphError(faults.no_outputs())
    return await _Validation(graph, registry, outputs, context).run()


class _Validation:
    """The state of one validation."""

    def __init__(self, graph: Graph, registry: Registry, outputs: Sequence[str], context: object) -> None:
        self._graph = graph
        self._registry = registry
        self._outputs = outputs
        self._output_set = frozenset(outputs)
        self._context = context
        self._links: dict[str, list[str]] = {}
        self._faults: dict[str, list[Fault]] = {}
        self._bad: set[str] = set()
        self._good: dict[str, Node] = {}

    async def run(self) -> Validated:
        """Check every node an output needs, sources first."""
        order, knots = sort_topologically(self._outputs, self._sources)
        self._note_cycles(knots)
        for node in order:
            await self._check(self._graph[node])
        made = tuple(output for output in self._outputs if output not in self._bad)
        node_faults = self._report(order)
        if not made:
            own = [fault for output in self._outputs for fault in self._faults.get(output, ())]
            raise InvalidGraphError(faults.outputs_failed(own[:_REPORTED_NODES_MAX]), node_faults)
        return Validated({**self._graph, **self._good}, made, node_faults)

    def _interface(self, node: str) -> Interface:
        return self._registry[cast("str", self._graph[node].class_type)]

    def _sources(self, node: str) -> list[str]:
        """The nodes that a node has links from, as far as they exist."""
        if node not in self._links:
            inputs, interface = self._graph[node].inputs, self._interface(node)
            expected = interface.expect(inputs)
            takes_unknown = interface.takes_unknown_links
            self._links[node] = [
                value.node
                for path, value in inputs.items()
                if isinstance(value, Link) and value.node in self._graph and (takes_unknown or path in expected)
            ]
        return self._links[node]

    async def _check(self, node: Node) -> None:
        interface = self._interface(node.id)
        expected = interface.expect(node.inputs)
        checker = _NodeCheck(node, interface, expected, is_output=node.id in self._output_set)
        found = checker.check_inputs(self._types(node))
        found.extend(await checker.check_by_itself(self._types(node), self._context))
        if found:
            self._faults.setdefault(node.id, []).extend(found)
        if found or any(source in self._bad for source in self._sources(node.id)):
            self._bad.add(node.id)
        if checker.has_converted:
            self._good[node.id] = replace(node, inputs=checker.values)

    def _types(self, node: Node) -> dict[str, object]:
        """The type that each link brings, or the error of its look-up."""
        return {path: self._type(value) for path, value in node.inputs.items() if isinstance(value, Link)}

    def _type(self, link: Link) -> object:
        if link.node not in self._graph:
            return KeyError(link.node)
        outputs = self._interface(link.node).definition.outputs
        return outputs[link.slot].type if 0 <= link.slot < len(outputs) else IndexError("list index out of range")

    def _note_cycles(self, knots: Sequence[Sequence[str]]) -> None:
        """Report the cycle at each of its nodes; there may be more cycles than the one that is shown."""
        for knot in knots:
            way = way_round(knot, self._sources)
            shown = [*way[:_WAY_SHOWN_MAX], way[0]]
            details = " -> ".join(f"{node} ({self._graph[node].class_type})" for node in shown)
            for node in way:
                self._faults[node] = [faults.dependency_cycle(node, shown, details)]
            self._bad.update(knot)

    def _report(self, order: Sequence[str]) -> dict[str, NodeFaults]:
        if not self._faults:
            return {}
        dependent = self._dependent_outputs(order)
        places = {output: place for place, output in enumerate(self._outputs)}
        reported = [node for node in self._graph if node in self._faults][:_REPORTED_NODES_MAX]
        return {
            node: NodeFaults(
                str(self._graph[node].class_type),
                self._faults[node],
                sorted(dependent.get(node, ()), key=places.__getitem__),
            )
            for node in reported
        }

    def _dependent_outputs(self, order: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The first outputs that need each node, which may be itself; in a cycle only those found so far."""
        dependent: dict[str, tuple[str, ...]] = {}
        for node in reversed(order):
            own = (node,) if node in self._output_set else ()
            mine = dependent[node] = _merge(own, dependent.get(node, ()))
            for source in self._sources(node):
                dependent[source] = _merge(dependent.get(source, ()), mine)
        return dependent


class _NodeCheck:
    """The checks of one node; `values` are its inputs with the constants converted."""

    def __init__(self, node: Node, interface: Interface, expected: Mapping[str, Expected], *, is_output: bool) -> None:
        self.values: dict[str, object] = dict(node.inputs)
        self.has_converted = False
        """Whether a constant has another type now.

        Equal values may differ: 7 equals 7.0, but a node divides them differently.
        """
        self._interface = interface
        self._expected = expected
        self._is_output = is_output
        self._own = _parameters(interface.definition.validate)
        self._takes_types = self._own is not None and _TYPES in self._own

    def check_inputs(self, types: Mapping[str, object]) -> list[Fault]:
        """What is wrong with the inputs, one by one."""
        found = []
        for path, input_ in self._expected.items():
            if path in self.values:
                fault = self._input_fault(path, input_, types)
            elif input_.is_optional or input_.declared.type == AUTOGROW:
                fault = None
            else:
                fault = faults.required_input_missing(path)
            if fault is not None:
                found.append(fault)
        return found

    async def check_by_itself(self, types: Mapping[str, object], context: Any) -> list[Fault]:
        """The result of the class's own check, if it takes any known input; links are None in it.

        `input_types` are the types that links bring.
        """
        own = self._interface.definition.validate
        named = [path for path in self._expected if path in self.values and self._is_own(path)]
        if own is None or (named and all(isinstance(self.values[path], Link) for path in named)):
            return []
        given = {path: None if isinstance(value, Link | BadLink) else value for path, value in self.values.items()}
        nested = self._interface.nest(given, self._expected)
        if self._takes_types:
            nested[_TYPES] = types
        arguments = select_named(own, nested, context)
        try:
            with current(context):
                said = own(**arguments)
                said = await said if inspect.isawaitable(said) else said
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- a check may break in any way: a fault of the node
            return [faults.exception_during_validation(error, is_output=self._is_output)]
        if said is None or said is True:
            return []
        words = said if isinstance(said, str) else ""
        return [faults.custom_validation_failed(self._at(path), given.get(path), words) for path in named or [""]]

    def _input_fault(self, path: str, input_: Expected, types: Mapping[str, object]) -> Fault | None:
        value, at = self.values[path], At(path, spec_of(input_.declared))
        if isinstance(value, BadLink):
            return faults.bad_linked_input(at, value.value)
        if isinstance(value, Link):
            return self._link_fault(at, input_, value, types[path])
        self.values[path], fault = convert(value, at, input_.declared)
        self.has_converted |= self.values[path] is not value
        if fault is not None or self._is_own(path):
            return fault
        return limits_fault(self.values[path], at, input_.declared)

    def _link_fault(self, at: At, input_: Expected, link: Link, received: object) -> Fault | None:
        if isinstance(received, Exception):
            info = at.info(linked_node=list(link))
            return faults.exception_during_validation(received, is_output=self._is_output, **info)
        if self._takes_types or types_match(received, input_.declared):
            return None
        return faults.return_type_mismatch(at, received, link)

    def _is_own(self, path: str) -> bool:
        """Whether the class checks an input itself; then bounds and choices are not applied."""
        return self._own is None or self._expected[path].keys[0] in self._own

    def _at(self, path: str) -> At:
        return At(path, spec_of(self._expected[path].declared) if path else [])


def _parameters(function: Callable[..., object] | None) -> frozenset[str] | None:
    """The names of a function's parameters; None when it takes any."""
    if function is None:
        return frozenset()
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Two lists merged, without duplicates and at most as many as are reported; an equal list is shared."""
    if not first or first == second:
        return second
    added = tuple(name for name in second if name not in first)
    return (first + added)[:_DEPENDENT_OUTPUTS_MAX] if added else first


def convert(value: object, at: At, declared: Declared) -> tuple[object, Fault | None]:
    """The constant converted to the input's type by Python's rules: the text "false" is true, and "5" is 5."""
    reader = _READERS.get(declared.type) if declared.choices is None else None
    if reader is None:
        return value, None
    try:
        return reader(value), None
    except (ValueError, TypeError, OverflowError) as error:
        return value, faults.invalid_input_type(at, value, declared.type, error)


def limits_fault(value: object, at: At, declared: Declared) -> Fault | None:
    """The fault of a converted constant: below or above its bound, or none of its choices."""
    if isinstance(value, int | float):
        least, most = declared.options.get("min"), declared.options.get("max")
        if least is not None and value < least:
            return faults.value_smaller_than_min(at, value, least)
        if most is not None and value > most:
            return faults.value_bigger_than_max(at, value, most)
    choices = _choices(declared)
    if choices:
        chosen = value if declared.options.get("multiselect") and isinstance(value, list) else [value]
        known = {
            choice for choice in choices if isinstance(choice, str)
        }  # so that many inputs with many choices do not take quadratic time
        if not all((isinstance(choice, str) and choice in known) or choice in choices for choice in chosen):
            return faults.value_not_in_list(at, value, choices)
    return None


def types_match(received: object, declared: Declared) -> bool:
    """Whether the type of an output matches that of an input.

    Types are lists separated by commas, any of which may match. The comparison is by `!=`, because node packs make
    types that equal everything by overriding it.
    """
    expected = declared.type
    if expected in _ANY or not received != expected:  # noqa: SIM202 -- a pack's type overrides `!=`, and not `==`
        return True
    if not isinstance(received, str):
        return expected == "COMBO" and isinstance(received, list | tuple)
    offered = {part.strip() for part in received.split(",")}
    return not _ANY.isdisjoint(offered) or not offered.isdisjoint(part.strip() for part in expected.split(","))


def _choices(declared: Declared) -> list[object]:
    """The choices of an input; none where they come from a folder, a route or the editor."""
    if declared.type == DYNAMIC_COMBO:
        return [option["key"] for option in declared.options.get("options", ())]
    if declared.type != "COMBO" or "remote" in declared.options:
        return []
    return list(declared.options.get("options", ()) if declared.choices is None else declared.choices)
