"""What a constant must be to stand at an input: read as the input's type, within its bounds, one of its choices."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fairlead.engine.graph import faults
from fairlead.engine.graph.faults import At, Fault
from fairlead.engine.nodes.interface import DYNAMIC_COMBO
from fairlead.engine.nodes.node import Declared

_READERS: Final[Mapping[str, Callable[[Any], object]]] = MappingProxyType(
    {"INT": int, "FLOAT": float, "STRING": str, "BOOLEAN": bool}
)
_ANY: Final = frozenset({"*", "COMFY_MATCHTYPE_V3"})


def converted(value: object, at: At, declared: Declared) -> tuple[object, Fault | None]:
    """The constant as the input's type, as Python reads it: the text "false" is true, and "5" is 5."""
    reader = _READERS.get(declared.type) if declared.choices is None else None
    if reader is None:
        return value, None
    try:
        return reader(value), None
    except (ValueError, TypeError, OverflowError) as error:
        return value, faults.invalid_input_type(at, value, declared.type, error)


def limits_fault(value: object, at: At, declared: Declared) -> Fault | None:
    """What is wrong with a converted constant: below or above its bound, or none of its choices."""
    if isinstance(value, int | float):
        least, most = declared.options.get("min"), declared.options.get("max")
        if least is not None and value < least:
            return faults.value_smaller_than_min(at, value, least)
        if most is not None and value > most:
            return faults.value_bigger_than_max(at, value, most)
    choices = _choices(declared)
    if choices:
        chosen = value if declared.options.get("multiselect") and isinstance(value, list) else [value]
        known = {choice for choice in choices if isinstance(choice, str)}  # so that many choices of many are no square
        if not all((isinstance(choice, str) and choice in known) or choice in choices for choice in chosen):
            return faults.value_not_in_list(at, value, choices)
    return None


def types_match(received: object, declared: Declared) -> bool:
    """Whether what an output gives may go into an input.

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
    """The choices there are; none when they are known elsewhere: to a folder, to a route, or to the editor."""
    if declared.type == DYNAMIC_COMBO:
        return [option["key"] for option in declared.options.get("options", ())]
    if declared.type != "COMBO" or "remote" in declared.options:
        return []
    return list(declared.options.get("options", ()) if declared.choices is None else declared.choices)
