"""Nodes that hold a value for others to link to."""

from typing import Annotated, Final

from fairlead.engine.nodes.node import Output, boolean, integer, node, number, text

_CATEGORY: Final = "utilities/primitive"
_FARTHEST: Final = (1 << 63) - 1
_EDGE: Final = 16384


@node("PrimitiveBoolean", "Boolean", _CATEGORY, outputs=(Output("BOOLEAN"),))
def primitive_boolean(value: Annotated[bool, boolean()]) -> bool:
    """Yes or no."""
    return value


@node("PrimitiveInt", "Int", _CATEGORY, outputs=(Output("INT"),))
def primitive_integer(
    value: Annotated[int, integer(None, -_FARTHEST, _FARTHEST, control_after_generate="fixed")],
) -> int:
    """A whole number."""
    return value


@node("PrimitiveFloat", "Float", _CATEGORY, outputs=(Output("FLOAT"),))
def primitive_number(value: Annotated[float, number(None, -_FARTHEST, _FARTHEST, step=0.1)]) -> float:
    """A number."""
    return value


@node("PrimitiveString", "Text String (DEPRECATED)", _CATEGORY, outputs=(Output("STRING"),), is_deprecated=True)
def primitive_line(value: Annotated[str, text(multiline=False)]) -> str:
    """A text on one line."""
    return value


@node("PrimitiveStringMultiline", "Input Text", _CATEGORY, outputs=(Output("STRING"),))
def primitive_text(value: Annotated[str, text(multiline=True)]) -> str:
    """A text."""
    return value


@node("PrimitiveBoundingBox", "Bounding Box", _CATEGORY, outputs=(Output("BOUNDING_BOX"),))
def primitive_bounding_box(
    x: Annotated[int, integer(0, 0, _EDGE)],
    y: Annotated[int, integer(0, 0, _EDGE)],
    width: Annotated[int, integer(512, 1, _EDGE)],
    height: Annotated[int, integer(512, 1, _EDGE)],
) -> dict[str, int]:
    """A rectangle of pixels, by its upper left corner and its size."""
    return {"x": x, "y": y, "width": width, "height": height}


NODES: Final = (
    primitive_boolean,
    primitive_integer,
    primitive_number,
    primitive_line,
    primitive_text,
    primitive_bounding_box,
)
