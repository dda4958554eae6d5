"""Nodes that hold a value."""

from fairlead.engine.nodes.node import definition_of
from fairlead.engine.nodes.utilities import (
    primitive_boolean,
    primitive_bounding_box,
    primitive_integer,
    primitive_line,
    primitive_number,
    primitive_text,
)


def test_primitive_hands_its_value_on() -> None:
    """What goes in comes out."""
    assert primitive_boolean(value=False) is False
    assert primitive_integer(-(2**63) + 1) == -(2**63) + 1
    assert primitive_number(0.1) == 0.1
    assert primitive_line("é") == "é"
    assert primitive_text("two\nlines\n") == "two\nlines\n"


def test_bounding_box_names_its_sides() -> None:
    """A bounding box has its corner and its size under their names."""
    assert primitive_bounding_box(1, 2, 3, 4) == {"x": 1, "y": 2, "width": 3, "height": 4}


def test_whole_numbers_have_64_bits() -> None:
    """A whole number may be anything 64 bits hold but the very lowest."""
    (declared,) = (given.declared for given in definition_of(primitive_integer).inputs)
    assert (declared.options["min"], declared.options["max"]) == (-9223372036854775807, 9223372036854775807)
