"""The classes of nodes, by name, and their descriptions for editors."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairlead.engine.nodes.interface import Interface, spec_of
from fairlead.engine.nodes.node import Definition, Input, definition_of


class Registry:
    """Classes of nodes by name, made of the functions that were declared as nodes."""

    def __init__(self, *families: Iterable[Callable[..., object]]) -> None:
        """ValueError when two nodes have one name: the later would hide the earlier."""
        self._interfaces: dict[str, Interface] = {}
        for family in families:
            for run in family:
                self.add(definition_of(run))

    def add(self, definition: Definition) -> None:
        """Add a class of nodes."""
        if definition.name in self._interfaces:
            raise ValueError(f"two nodes are called {definition.name}")
        self._interfaces[definition.name] = Interface(definition)

    def __contains__(self, name: object) -> bool:
        return name in self._interfaces

    def __getitem__(self, name: str) -> Interface:
        return self._interfaces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._interfaces)

    def __len__(self) -> int:
        return len(self._interfaces)

    def object_info(self) -> dict[str, dict[str, Any]]:
        """Every class as editors read it (engine-wire, 2.4)."""
        return {name: describe(interface.definition) for name, interface in self._interfaces.items()}


def describe(definition: Definition) -> dict[str, Any]:
    """One class as editors read it: its inputs by section and in order, its outputs, and its category."""
    required = [input_ for input_ in definition.inputs if not input_.is_optional]
    optional = [input_ for input_ in definition.inputs if input_.is_optional]
    sections = {
        "required": _specs(required),
        **({"optional": _specs(optional)} if optional else {}),
        **({"hidden": dict(definition.hidden)} if definition.hidden else {}),
    }
    return {
        "input": sections,
        "input_order": {section: list(inputs) for section, inputs in sections.items()},
        "output": [output.type for output in definition.outputs],
        "output_is_list": [output.is_list for output in definition.outputs],
        "output_name": [output.name or output.type for output in definition.outputs],
        "name": definition.name,
        "display_name": definition.title,
        "description": "",
        "python_module": "nodes",
        "category": definition.category,
        "output_node": definition.is_output,
        "is_input_list": definition.is_input_list,
        "has_intermediate_output": False,
        "search_aliases": (),
        **({"experimental": True} if definition.is_experimental else {}),
        **({"deprecated": True} if definition.is_deprecated else {}),
        **definition.told,
    }


def _specs(inputs: Iterable[Input]) -> dict[str, list[object]]:
    return {input_.name: spec_of(input_.declared) for input_ in inputs}
