"""Bodies in a provider's own form (S-01): what a leg allows in them, and which operation they ask for.

Such a body reaches the provider byte for byte. So anything that could make the provider do something other than what
was priced is refused, and never rewritten: another value of a fixed field, and any field that the leg does not name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from fairlead.domain.catalog.operations import Operation, select_operation
from fairlead.domain.catalog.schema import VIOLATIONS_MAX
from fairlead.domain.faults import Violation
from fairlead.domain.pointers import Pointer, exact_text_of

RUN_ID: Final = "{run}"
"""What stands for the run's id in a fixed field. A strict body has a UUID of the caller's own there."""
_UUID: Final = r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_NAME_MAX: Final = 200
_sorted: Final = msgspec.json.Encoder(order="sorted").encode


class StrictField(msgspec.Struct, frozen=True):
    """A place where a strict body may have a scalar; only one of `values` (as JSON writes them), `at_most` times."""

    at: Pointer
    values: frozenset[str] | None = None
    at_most: int | None = None


class _Node:
    """A place on the path to fields: the values it may have, and the fields in it."""

    __slots__ = ("field", "inside")

    def __init__(self) -> None:
        self.field: StrictField | None = None
        self.inside: dict[str, _Node] = {}


class StrictForm:
    """What a strict body of one leg may hold. `operations` are those the leg serves, in their order."""

    def __init__(self, fields: Sequence[StrictField], operations: tuple[Operation, ...]) -> None:
        self.fields = tuple(fields)
        self.operations = operations
        self._root = _Node()
        for one in fields:
            node = self._root
            for part in one.at:
                node = node.inside.setdefault(part, _Node())
            node.field = one

    def operation(self, body: object) -> Operation:
        """The operation that a body asks for; the last one where the conditions of no other hold."""
        return select_operation(self.operations, body)

    def allows(self, pointer: Pointer) -> bool:
        """Whether a body may have a value at a place, or in it."""
        node: _Node | None = self._root
        for part in pointer:
            node = None if node is None else node.inside.get(part, node.inside.get("*") if part.isdecimal() else None)
        return node is not None

    def violations(self, body: Mapping[str, object], fixed: Mapping[str, object]) -> tuple[Violation, ...]:
        """Every reason to refuse a body, at most VIOLATIONS_MAX of them; `fixed` as the leg has them."""
        found = list(_fixed_violations(body, fixed))
        counts: dict[StrictField, int] = {}
        rest = {name: value for name, value in body.items() if name not in fixed}
        found += islice(_strangers(self._root, rest, ("body",), counts), VIOLATIONS_MAX)
        found += (_too_many(one) for one, count in counts.items() if one.at_most is not None and count > one.at_most)
        return tuple(found[:VIOLATIONS_MAX])


def _fixed_violations(body: Mapping[str, object], fixed: Mapping[str, object]) -> Iterator[Violation]:
    """The fixed fields that a body lacks, or has with another value."""
    for name, value in fixed.items():
        told = value.replace(RUN_ID, "<a UUID>") if isinstance(value, str) else value
        wanted = msgspec.json.encode(told).decode()
        if name not in body:
            message = f"In strict mode the body of this model must have {wanted} here."
            yield Violation(("body", name), message, "missing")
        elif not _is_fixed(value, body[name]):
            message = f"In strict mode this must be {wanted}, as the path names the model."
            yield Violation(("body", name), message, "const", {"expected": told})


def _is_fixed(value: object, given: object) -> bool:
    """Whether a body has the value of a fixed field: the same JSON, with any UUID where the run's id would stand."""
    if isinstance(value, str) and RUN_ID in value:
        pattern = _UUID.join(re.escape(part) for part in value.split(RUN_ID))
        return isinstance(given, str) and re.fullmatch(pattern, given) is not None
    return _sorted(value) == _sorted(given)


def _strangers(
    node: _Node, value: Any, above: tuple[str | int, ...], counts: dict[StrictField, int]
) -> Iterator[Violation]:
    """The places of a body that no field names, or with a value the field does not take; `counts` those that do."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in members:
        known = node.inside.get("*") if isinstance(name, int) else None if name == "*" else node.inside.get(name)
        place = (*above, name[:_NAME_MAX] if isinstance(name, str) else name)
        if known is None:
            yield Violation(place, "In strict mode this model takes no such field: it has no price.", "extra_forbidden")
        elif inner is None:
            continue
        elif isinstance(inner, dict | list):
            yield from _of_container(known, inner, place, counts)
        elif known.field is None:
            yield Violation(place, "In strict mode this must be an object or an array.", "type")
        elif known.field.values is not None and exact_text_of(inner) not in known.field.values:
            expected = sorted(known.field.values)
            message = f"In strict mode this model takes only {' or '.join(expected)} here."
            yield Violation(place, message, "enum", {"expected": expected})
        else:
            counts[known.field] = counts.get(known.field, 0) + 1


def _of_container(
    known: _Node, inner: dict[str, object] | list[object], place: tuple[str | int, ...], counts: dict[StrictField, int]
) -> Iterator[Violation]:
    is_array = "*" in known.inside
    if not known.inside or isinstance(inner, list) is not is_array:
        yield Violation(place, "In strict mode this model takes no such value here: it has no price.", "type")
        return
    yield from _strangers(known, inner, place, counts)


def _too_many(one: StrictField) -> Violation:
    place = ("body", *one.at[: one.at.index("*")])
    message = f"In strict mode this model takes at most {one.at_most} here."
    return Violation(place, message, "too_long", {"max_length": one.at_most})
