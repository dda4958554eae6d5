"""Editors are told of each class what they are told by the engine they know."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from cases import for_each
from engine import sample_nodes
from fairlead.engine.nodes.families import own_nodes
from fairlead.engine.nodes.registry import Registry

_KNOWN: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "object_info.json").read_text())
_OWN: Final[dict[str, Any]] = json.loads(json.dumps(own_nodes().object_info()))
_NOT_KNOWN: Final = {
    "description": "",
    "python_module": "nodes",
    "has_intermediate_output": False,
    "search_aliases": [],
}
"""What editors must find with every class, and what the known ones say in words of their own."""


@for_each("name", sorted(_OWN))
def test_classes_are_described_as_editors_know_them(name: str) -> None:
    """Inputs with their order, types and options, outputs, titles, categories: all are the same."""
    assert _OWN[name] == {**_NOT_KNOWN, **_KNOWN[name]}
    assert {section: list(inputs) for section, inputs in _OWN[name]["input"].items()} == _KNOWN[name]["input_order"]


def test_second_class_of_a_name_is_refused() -> None:
    """The second is refused, or it would hide the first."""
    with pytest.raises(ValueError, match="two nodes are called Number"):
        Registry(sample_nodes.NODES, [sample_nodes.constant])


def test_registry_knows_its_names() -> None:
    """It knows its names and how many there are."""
    registry = Registry([sample_nodes.constant, sample_nodes.add])
    assert (list(registry), len(registry), "Add" in registry, "Show" in registry) == (["Number", "Add"], 2, True, False)
