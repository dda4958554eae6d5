"""The body of a partner's model, made of the inputs of its node (C-11)."""

import copy
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from fairlead.domain.catalog.body import read_body
from fairlead.domain.catalog.partner_declarations import EXTRA_BODY, NodeInput, PartnerNode
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.pointers import Pointer, parse_pointer, put

LINK_WANTED: Final = "as-link:"
"""What a data URI begins with in a body whose partner takes links only: the server puts a link in its place."""
_APPEND: Final = "-"
_IN_FRONT: Final = "+"


class BadInputError(ValueError):
    """The inputs of a node make no body."""


def body_of(node: PartnerNode, model: str, values: Mapping[str, object]) -> dict[str, object]:
    """The body for a variant; media are given as lists of spelled texts. BadInputError says which input is wrong.

    Media come first: a prompt after its pictures is what all partners take.
    """
    body: dict[str, object] = copy.deepcopy(dict(node.start))
    for input_ in sorted(node.inputs, key=lambda one: one.media is None):
        value = values.get(input_.name)
        if value is None or input_.name == EXTRA_BODY or input_.at == "":
            continue
        if input_.models is not None and model not in input_.models:
            if input_.media is not None:
                raise BadInputError(f"{input_.name}: {model} takes none; only {', '.join(input_.models)} do.")
            continue
        _give(body, input_, value)
    return _merge(body, _extra(values.get(EXTRA_BODY)))


def _give(body: dict[str, object], input_: NodeInput, value: Any) -> None:
    if input_.media is None:
        value = _plain(input_, value)
        if not any(_is_same(value, omitted) for omitted in input_.omitted):
            _place(body, input_, value)
        return
    if len(value) > input_.media.most:
        raise BadInputError(f"{input_.name}: {len(value)} were given; the model takes at most {input_.media.most}.")
    for text in value:
        _place(body, input_, text)


def _plain(input_: NodeInput, value: Any) -> object:
    """A value as JSON has it, whatever number or text a link brought. BadInputError."""
    try:
        match input_.type:
            case "INT":
                return int(value)
            case "FLOAT":
                number = float(value)
                return number if math.isfinite(number) else _refuse(input_, value)
            case "BOOLEAN":
                return bool(value)
            case "STRING":
                return str(value)
            case _:
                return value if isinstance(value, str | int | float) else _refuse(input_, value)
    except (TypeError, ValueError, OverflowError):
        _refuse(input_, value)


def _refuse(input_: NodeInput, value: object) -> NoReturn:
    raise BadInputError(f"{input_.name}: {str(value)[:100]!r} is no {input_.type}.")


def _place(body: dict[str, object], input_: NodeInput, value: object) -> None:
    if input_.template is not None:
        template = copy.deepcopy(input_.template)
        put(template, parse_pointer(input_.value_at), value)
        value = template
    *above, last = parse_pointer(input_.at)
    if last not in (_APPEND, _IN_FRONT):
        put(body, (*above, last), value)
        return
    items = _list_at(body, tuple(above))
    items.insert(0 if last == _IN_FRONT else len(items), value)


def _list_at(body: dict[str, object], at: Pointer) -> list[object]:
    """The list at a place, made where there is none."""
    place: Any = body
    for part in at[:-1]:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    found: list[object] = place.setdefault(at[-1], [])
    return found


def _extra(text: object) -> dict[str, object]:
    if text is None or not str(text).strip():
        return {}
    try:
        return read_body(str(text).encode("utf-8", "surrogatepass"))
    except FaultError as error:
        words = error.fault.detail if isinstance(error.fault, InvalidInput) else "It cannot be read."
        told = words.replace("The request body", "it")
        raise BadInputError(f"{EXTRA_BODY} must be a JSON object: {told}") from None


def _merge(body: dict[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """A body with more fields: objects are merged, everything else is replaced."""
    for name, value in extra.items():
        known = body.get(name)
        body[name] = _merge(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return body


def _is_same(value: object, other: object) -> bool:
    """Whether two values are the same JSON: true is not 1, but 1.0 is."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)
