"""What a model file says of bodies in a provider's own form (docs/catalog-files.md), and whether it says enough."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.strict_forms import StrictField, StrictForm
from fairlead.domain.ledger.rates import Case, RateCard, StrictPointers, StrictQuantity
from fairlead.domain.ledger.strict_rates import pointers_of
from fairlead.domain.pointers import ConditionFile, Pointer, as_text, conditions, parse_pointer
from fairlead.storage.catalog.rates import MistakeError, Name

_CONDITIONED: Final = "a leg of strict bodies cannot have parts or multipliers that depend on the native body"
_UNPRICED: Final = (
    "this price depends on the body, so it needs 'strict': where a body in the provider's own form has the quantity, "
    "and which price applies; 'strict = {}' holds 'at_most' at the dearest price"
)

_PlaceText = Annotated[str, msgspec.Meta(pattern=r"^(/(\*|[^/*\[]+))+$", max_length=256)]


class _StrictFieldFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: _PlaceText
    values: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    at_most: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None


class _StrictOperationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    when: list[ConditionFile] = []


class StrictFormFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a body in the provider's own form may hold."""

    fields: Annotated[list[_PlaceText | _StrictFieldFile], msgspec.Meta(min_length=1, max_length=256)]
    operations: Annotated[list[_StrictOperationFile], msgspec.Meta(max_length=16)] = []


def strict_form_of(
    read: StrictFormFile, steps: Sequence[str], operations: Sequence[Operation], calls: Mapping[str, str]
) -> StrictForm:
    """The form of a leg that serves `calls` by operation; MistakeError."""
    served = {one.name: one for one in operations if one.name in calls}
    meant = []
    for number, entry in enumerate(read.operations):
        where = [*steps, "operations", str(number)]
        if problem := next(filter(None, (one.problem() for one in entry.when)), None):
            raise MistakeError([*where, "when"], problem)
        if entry.name not in served:
            raise MistakeError([*where, "name"], f"{entry.name!r} is not an operation that this leg serves")
        if not entry.when and number < len(read.operations) - 1:
            raise MistakeError(where, "only the last operation may be without conditions")
        meant.append(Operation(entry.name, conditions(entry.when), served[entry.name].is_edit))
    if not meant and len(served) > 1:
        named = ", ".join(sorted(served))
        reason = f"say by which of the provider's fields a strict body means {named}: a table for each in 'operations'"
        raise MistakeError(steps, reason)
    fields = tuple(_field(entry) for entry in read.fields)
    form = StrictForm(fields, tuple(meant) or tuple(served.values()))
    for number, one in enumerate(meant):
        _check_places([entry.at for entry in one.when], form, (), [*steps, "operations", str(number)])
    return form


def check_strict_prices(
    form: StrictForm, fixed: Mapping[str, object], cards: Sequence[RateCard], steps: Sequence[str]
) -> None:
    """MistakeError where a price depends on the body, and nothing good says where a strict body has its quantity."""
    for card_number, card in enumerate(cards):
        for number, component in enumerate(card.components):
            where = [*steps, "rate_cards", str(card_number), "components", str(number)]
            if any(one.when or one.size_above is not None for one in component.multipliers) or any(
                part.when_any for part in component.parts
            ):
                raise MistakeError(where, _CONDITIONED)
            if component.strict is None:
                if component.requested is not None or component.cases:
                    raise MistakeError(where, _UNPRICED)
                continue
            _check_places(pointers_of(component.strict), form, fixed, [*where, "strict"])
            _check_operations(component.strict, form, [*where, "strict"])


def _check_places(places: Iterable[Pointer], form: StrictForm, fixed: Container[str], steps: Sequence[str]) -> None:
    for place in places:
        if place[0] not in fixed and not form.allows(place):
            raise MistakeError(steps, f"no strict body may say {as_text(place)}: it is not in the 'fields' of 'strict'")


def _check_operations(strict: StrictPointers, form: StrictForm, steps: Sequence[str]) -> None:
    """MistakeError where a price is for an operation that no strict body means: it would never apply."""
    known = {one.name for one in form.operations}
    entries: tuple[StrictQuantity | Case, ...] = (*strict.quantities, *strict.cases)
    named = {name for entry in entries for name in entry.operations or ()}
    if unknown := next(iter(sorted(named - known)), None):
        raise MistakeError(steps, f"{unknown!r} is nothing that a strict body of this leg means")


def _field(read: str | _StrictFieldFile) -> StrictField:
    if isinstance(read, str):
        return StrictField(parse_pointer(read))
    return StrictField(parse_pointer(read.at), None if read.values is None else frozenset(read.values), read.at_most)
