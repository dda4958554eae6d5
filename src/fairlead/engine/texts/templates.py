"""Texts with places to fill in, `{a}`, as by Python's format method, but without its access to attributes.

A place may name a value, index it when it is a list, a dictionary or a text, convert it (`!r`, `!s`, `!a`), and say how
it is shown (`{a:.2f}`, `{a:>{b}}`). It may not ask for attributes, which lead from any value to everything.
"""

import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Final

from fairlead.engine.texts.bounds import check_length

_PLACE: Final = re.compile(r"(\w+)((?:\[[^\[\]]+\])*)")
_INDEX: Final = re.compile(r"\[([^\[\]]+)\]")
_WIDEST: Final = 1000
_NESTED_MOST: Final = 1
_QUOTED: Final = 500
"""The most characters of a place, which its errors repeat."""
_CONVERSIONS: Final[Mapping[str, Callable[[object], str]]] = {"r": repr, "s": str, "a": ascii}


def fill(template: str, values: Mapping[str, object]) -> str:
    """The template with its places filled in.

    ValueError says which place cannot be filled, for a template that is not a template, and for a text too long.
    """
    return _fill(template, values, nested=0)


def _fill(template: str, values: Mapping[str, object], nested: int) -> str:
    pieces, length = [], 0
    for literal, place, shown_as, conversion in Formatter().parse(template):
        pieces.append(literal)
        if place is not None:
            pieces.append(_show(place, shown_as or "", conversion, values, nested))
        length += sum(len(piece) for piece in pieces[-2:])
        check_length(length)
    return "".join(pieces)


def _show(place: str, shown_as: str, conversion: str | None, values: Mapping[str, object], nested: int) -> str:
    if len(place) > _QUOTED:
        raise ValueError(f"The place {{{place[:_QUOTED]}}} is longer than {_QUOTED} characters.")
    if "{" in shown_as:
        if nested >= _NESTED_MOST:
            raise ValueError(f"The place {{{place}}} is nested too deeply.")
        shown_as = _fill(shown_as, values, nested + 1)
    if any(len(digits) > len(str(_WIDEST)) or int(digits) > _WIDEST for digits in re.findall(r"\d+", shown_as)):
        raise ValueError(f"The place {{{place}}} asks for more than {_WIDEST} characters or digits.")
    value = _find(place, values)
    if conversion is not None and conversion not in _CONVERSIONS:
        raise ValueError(f"The place {{{place}}} has an unknown conversion: !{conversion}.")
    try:
        return format(value if conversion is None else _CONVERSIONS[conversion](value), shown_as)
    except RecursionError:
        raise ValueError(f"The value of {{{place}}} is nested too deeply to be shown.") from None
    except (TypeError, ValueError, OverflowError) as reason:
        raise ValueError(f"The value of {{{place}}} cannot be shown as '{shown_as[:_QUOTED]}': {reason}.") from None


def _find(place: str, values: Mapping[str, object]) -> object:
    match = _PLACE.fullmatch(place)
    if match is None:
        raise ValueError(f"The place {{{place}}} is none: write {{a}}, or {{a[0]}} for a part of a list.")
    name, indexes = match.groups()
    if name not in values:
        raise ValueError(f"The text asks for {{{name}}}, and there is no such value.")
    value = values[name]
    for index in _INDEX.findall(indexes):
        value = _part(value, int(index) if index.isdecimal() else index, place)
    return value


def _part(value: object, index: int | str, place: str) -> object:
    if isinstance(value, (list, tuple, dict, str)):
        try:
            return value[index]  # type: ignore[index]
        except (LookupError, TypeError):
            pass  # said below, as for what has no parts
    raise ValueError(f"The place {{{place}}} asks for a part that there is not.")
