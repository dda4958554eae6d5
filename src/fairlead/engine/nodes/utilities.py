"""Nodes that help others: values to link to, numbers, colours, sizes, choices, lists, and a look at any value."""

import math
import re
import string
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fairlead.engine.nodes.node import Output, Result, boolean, combo, integer, node, number, socket, text
from fairlead.engine.texts.bounds import as_json, check_length
from fairlead.engine.texts.expressions import Number, evaluate

_CATEGORY: Final = "utilities"
_PRIMITIVE: Final = "utilities/primitive"
_FARTHEST: Final = (1 << 63) - 1
_BOX_EDGE: Final = 16384
_PIXELS_OF_A_MEGAPIXEL: Final = 1024 * 1024
_LONGEST_NUMBER: Final = 1000
_COLOUR: Final = re.compile(r"#[0-9a-fA-F]{6}")
_LETTERS_TEMPLATE: Final = {
    "input": {"required": {"value": ["FLOAT,INT,BOOLEAN", {}]}},
    "names": list(string.ascii_lowercase),
    "min": 1,
}
_LIST_ITEM: Final = ["COMFY_MATCHTYPE_V3", {"template": {"template_id": "type", "allowed_types": "*"}}]
_LIST_TEMPLATE: Final = {
    "input": {"required": {"input": _LIST_ITEM}},
    "prefix": "input",
    "min": 1,
    "max": 10,
}
_ASPECT_RATIOS: Final[Mapping[str, tuple[int, int]]] = {
    "1:1 (Square)": (1, 1),
    "2:3 (Portrait Photo)": (2, 3),
    "3:2 (Photo)": (3, 2),
    "3:4 (Portrait Standard)": (3, 4),
    "4:3 (Standard)": (4, 3),
    "9:16 (Portrait Widescreen)": (9, 16),
    "16:9 (Widescreen)": (16, 9),
    "21:9 (Ultrawide)": (21, 9),
}


@node("PrimitiveBoolean", "Boolean", _PRIMITIVE, outputs=(Output("BOOLEAN"),))
def primitive_boolean(value: Annotated[bool, boolean()]) -> bool:
    """Yes or no."""
    return value


@node("PrimitiveInt", "Int", _PRIMITIVE, outputs=(Output("INT"),))
def primitive_integer(
    value: Annotated[int, integer(None, -_FARTHEST, _FARTHEST, control_after_generate="fixed")],
) -> int:
    """A whole number."""
    return value


@node("PrimitiveFloat", "Float", _PRIMITIVE, outputs=(Output("FLOAT"),))
def primitive_number(value: Annotated[float, number(None, -_FARTHEST, _FARTHEST, step=0.1)]) -> float:
    """A number."""
    return value


@node("PrimitiveString", "Text String (DEPRECATED)", _PRIMITIVE, outputs=(Output("STRING"),), is_deprecated=True)
def primitive_line(value: Annotated[str, text(multiline=False)]) -> str:
    """A text on one line."""
    return value


@node("PrimitiveStringMultiline", "Input Text", _PRIMITIVE, outputs=(Output("STRING"),))
def primitive_text(value: Annotated[str, text(multiline=True)]) -> str:
    """A text."""
    return value


@node("PrimitiveBoundingBox", "Bounding Box", _PRIMITIVE, outputs=(Output("BOUNDING_BOX"),))
def primitive_bounding_box(
    x: Annotated[int, integer(0, 0, _BOX_EDGE)],
    y: Annotated[int, integer(0, 0, _BOX_EDGE)],
    width: Annotated[int, integer(512, 1, _BOX_EDGE)],
    height: Annotated[int, integer(512, 1, _BOX_EDGE)],
) -> dict[str, int]:
    """A rectangle of pixels, by its upper left corner and its size."""
    return {"x": x, "y": y, "width": width, "height": height}


@node(
    "ComfyMathExpression",
    "Math Expression",
    _CATEGORY,
    outputs=(Output("FLOAT"), Output("INT"), Output("BOOLEAN", "BOOL")),
)
def math_expression(
    expression: Annotated[str, text("a + b", multiline=True)],
    values: Annotated[Mapping[str, Any], socket("COMFY_AUTOGROW_V3", template=_LETTERS_TEMPLATE)],
) -> tuple[float, int, bool]:
    """The value of an expression over the inputs a to z, and `values`, the list of them; the INT is cut off."""
    strange = [name for name, value in values.items() if not isinstance(value, (int, float))]
    if strange:
        raise ValueError(f"The expression reckons with numbers, and {strange[0]} is none.")
    result = evaluate(expression, {**values, "values": list(values.values())})
    return float(result), int(result), bool(result)


@node("ComfyNumberConvert", "Convert Number", _CATEGORY, outputs=(Output("FLOAT"), Output("INT")))
def convert_number(
    value: Annotated[Number | str, socket("INT,FLOAT,STRING,BOOLEAN", display_name="value")],
) -> tuple[float, int]:
    """The value as a number, and as a whole number, cut and not rounded; a text is read as one."""
    exact = _number_of(value) if isinstance(value, str) else value
    try:
        if math.isfinite(exact):
            return float(exact), int(exact)
    except OverflowError:
        pass  # too large for a float is as good as infinite
    raise ValueError(f"The value is not a finite number: {str(value)[:200]}")


def _number_of(written: str) -> Number:
    if len(written) > _LONGEST_NUMBER:
        raise ValueError(f"A number is read from {_LONGEST_NUMBER} characters at most.")
    try:
        return int(written)
    except ValueError:
        pass  # it may have a fraction
    try:
        return float(written)
    except ValueError:
        raise ValueError(f"The text is not a number: '{written[:200]}'") from None


@node("ColorToRGBInt", "Color Picker", _CATEGORY, outputs=(Output("INT", "rgb_int"), Output("COLOR", "hex")))
def color_to_rgb_integer(
    color: Annotated[str, socket("COLOR", default="#ffffff", socketless=True)],
) -> tuple[int, str]:
    """A colour as one number, red in the highest of three bytes, and as it was written."""
    if _COLOUR.fullmatch(color) is None:
        raise ValueError(f"A colour is written #RRGGBB, not '{color[:200]}'.")
    return int(color[1:], 16), color


@node("ResolutionSelector", "Resolution Selector", _CATEGORY, outputs=(Output("INT", "width"), Output("INT", "height")))
def select_resolution(
    aspect_ratio: Annotated[str, combo(*_ASPECT_RATIOS, default="1:1 (Square)", multiselect=False)],
    megapixels: Annotated[float, number(1.0, 0.1, 16.0, step=0.1)],
    multiple: Annotated[int, integer(8, 8, 128, step=4, advanced=True)],
) -> tuple[int, int]:
    """Width and height of an aspect ratio and an area, each the nearest multiple."""
    if aspect_ratio not in _ASPECT_RATIOS:
        raise ValueError(f"There is no such aspect ratio: '{aspect_ratio[:200]}'.")
    wide, high = _ASPECT_RATIOS[aspect_ratio]
    unit = math.sqrt(megapixels * _PIXELS_OF_A_MEGAPIXEL / (wide * high))
    return round(wide * unit / multiple) * multiple, round(high * unit / multiple) * multiple


@node("SeedNode", "Seed", _CATEGORY, outputs=(Output("INT", "seed"),))
def seed(seed: Annotated[int, integer(None, 0, (1 << 63) - 1, control_after_generate="fixed")]) -> int:
    """A seed for others to link to."""
    return seed


def _any_choice(choice: object) -> bool:  # noqa: ARG001 -- naming the parameter disables the check against the list
    return True


@node(
    "CustomCombo",
    "Custom Combo",
    _CATEGORY,
    outputs=(Output("STRING"), Output("INT", "INDEX")),
    is_experimental=True,
    validate=_any_choice,
)
def custom_combo(choice: Annotated[str, combo(multiselect=False)], **others: Any) -> tuple[str, int]:
    """One of the choices that its user wrote, and which: editors send the choices, and `index`, undeclared."""
    return choice, int(others.get("index", 0))


@node(
    "CreateList",
    "Create List",
    _CATEGORY,
    outputs=(Output("COMFY_MATCHTYPE_V3", "list", is_list=True),),
    is_input_list=True,
)
def create_list(
    inputs: Annotated[Mapping[str, Sequence[object]], socket("COMFY_AUTOGROW_V3", template=_LIST_TEMPLATE)],
) -> list[object]:
    """All values of all inputs, one after another in the order of the inputs."""
    in_order = sorted(inputs, key=lambda name: (len(name), name))  # input2 before input10
    return [value for name in in_order for value in inputs[name]]


@node("PreviewAny", "Preview as Text", _CATEGORY, outputs=(Output("STRING"),), is_output=True)
def preview_any(source: Annotated[object, socket("*")]) -> Result:
    """Any value as text, shown to watchers: lists and dictionaries as JSON, others by `str`."""
    shown = _write(source)
    check_length(len(shown))
    return Result((shown,), ui={"text": [shown]})


def _write(source: object) -> str:
    if isinstance(source, (list, tuple, dict)):
        try:
            return as_json(source, indent=4)
        except TypeError:
            return str(source)
    return str(source)


NODES: Final = (
    primitive_boolean,
    primitive_integer,
    primitive_number,
    primitive_line,
    primitive_text,
    primitive_bounding_box,
    math_expression,
    convert_number,
    color_to_rgb_integer,
    select_resolution,
    seed,
    custom_combo,
    create_list,
    preview_any,
)
