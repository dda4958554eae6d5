"""Nodes that decide: and, or, not, and the switch that works out only the side it takes."""

from collections.abc import Mapping
from typing import Annotated, Final

from fairlead.engine.nodes.node import Output, boolean, node, socket

_CATEGORY: Final = "utilities/logic"
_ANY_TEMPLATE: Final = {"input": {"required": {"value": ["*", {}]}}, "prefix": "value", "min": 1, "max": 10}
_SWITCHED: Final = {"template_id": "switch", "allowed_types": "*"}


@node("ComfyAndNode", "And", _CATEGORY, outputs=(Output("BOOLEAN"),))
def both(values: Annotated[Mapping[str, object], socket("COMFY_AUTOGROW_V3", template=_ANY_TEMPLATE)]) -> bool:
    """Whether all values are true, as Python has it: zero and empty are not."""
    return all(values.values())


@node("ComfyOrNode", "Or", _CATEGORY, outputs=(Output("BOOLEAN"),))
def either(values: Annotated[Mapping[str, object], socket("COMFY_AUTOGROW_V3", template=_ANY_TEMPLATE)]) -> bool:
    """Whether any value is true."""
    return any(values.values())


@node("ComfyNotNode", "Not", _CATEGORY, outputs=(Output("BOOLEAN"),))
def negate(value: Annotated[object, socket("*")]) -> bool:
    """Whether the value is not true."""
    return not value


def _find_taken(switch: object, on_false: object = None, on_true: object = None) -> list[str]:
    name, value = ("on_true", on_true) if switch else ("on_false", on_false)
    return [name] if value is None else []


@node(
    "ComfySwitchNode",
    "If/Else Switch",
    _CATEGORY,
    outputs=(Output("COMFY_MATCHTYPE_V3", "output"),),
    is_experimental=True,
    needed=_find_taken,
)
def choose_side(
    switch: Annotated[bool, boolean()],
    on_false: Annotated[object, socket("COMFY_MATCHTYPE_V3", lazy=True, template=_SWITCHED)],
    on_true: Annotated[object, socket("COMFY_MATCHTYPE_V3", lazy=True, template=_SWITCHED)],
) -> object:
    """The value of the chosen side; the other is not computed."""
    return on_true if switch else on_false


NODES: Final = (both, either, negate, choose_side)
