"""The shape of a model file (docs/catalog-files.md), and how what it says becomes records of the domain."""

import datetime
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead.domain.billing.rates import Case, Component, Factor, Measured, RateCard, Reading, Requested
from fairlead.domain.catalog.models import SOLE, Assets, Leg, Operation
from fairlead.domain.catalog.translations import Move, Translation
from fairlead.domain.conditions import ConditionFile, conditions
from fairlead.domain.money import UNITS_PER_DOLLAR, from_dollars
from fairlead.domain.pointers import Pointer, is_plural, parse_pointer

_CHARGE_MAX: Final = 1_000_000 * UNITS_PER_DOLLAR
"""What one run may cost at the most: a price with a slip of the decimal point is refused when it is loaded."""
_READ: Final = re.compile(r"(?P<reading>count|length|bytes)\((?P<at>(/.*)?)\)")

_PointerText = Annotated[str, msgspec.Meta(pattern=r"^/.+$", max_length=256)]
_FactorText = Annotated[str, msgspec.Meta(pattern=r"^(/.+|(count|length)\(/.+\)|bytes\(\))$", max_length=256)]
_PriceText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,8})?$")]
_NumberText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]


class _FactorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: _FactorText
    values: dict[str, _NumberText] = {}
    otherwise: _NumberText | None = None


class _RequestedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    product: Annotated[list[_FactorText | _FactorFile], msgspec.Meta(min_length=1)]
    scale: _NumberText = "1"
    unless: _PointerText | None = None


class _MeasuredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: _PointerText | None = None
    header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]+$")] | None = None
    count: _PointerText | None = None
    scale: _NumberText = "1"


class _CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: _PriceText
    operations: Annotated[list[_Name], msgspec.Meta(min_length=1)] | None = None
    when: list[ConditionFile] = []


class _ComponentFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    price: _PriceText
    at_most: _NumberText = "1"
    beyond: _NumberText = "0"
    whole: bool = False
    requested: _RequestedFile | None = None
    measured: _MeasuredFile | None = None
    cases: Annotated[list[_CaseFile], msgspec.Meta(max_length=64)] = []


class _RateCardFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    effective: datetime.date
    components: Annotated[list[_ComponentFile], msgspec.Meta(min_length=1, max_length=32)]
    stale_after: datetime.date | None = None


class _OperationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    when: list[ConditionFile] = []
    edit: bool = False


class _MoveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sources": "from", "targets": "to"}):
    # Plain texts, held against the pattern below: msgspec 0.22 frees a pattern twice when it stands in both halves of
    # a union, which ends some processes with a segmentation fault.
    sources: str | list[str]
    targets: str | list[str]
    values: dict[str, Any] | None = None
    kind: Literal["text", "integer", "number"] | None = None
    form: Annotated[str, msgspec.Meta(pattern=r"\{\}", max_length=64)] | None = None
    glue: Annotated[str, msgspec.Meta(max_length=8)] | None = None


class _AnswerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fields: Annotated[list[_MoveFile], msgspec.Meta(min_length=1)]
    constants: dict[_PointerText, Any] = {}
    require: list[_PointerText] = []


class _TranslationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fields: Annotated[list[_MoveFile], msgspec.Meta(min_length=1)]
    constants: dict[_PointerText, Any] = {}
    dropped: dict[_PointerText, Annotated[str, msgspec.Meta(min_length=1, max_length=200)]] = {}
    implied: list[_PointerText] = []
    answer: _AnswerFile | None = None


class LegFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run the model."""

    provider: str
    rate_cards: Annotated[list[_RateCardFile], msgspec.Meta(min_length=1)]
    call: str | None = None
    calls: dict[str, str] = {}
    name: str | None = None
    names: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    translation: _TranslationFile | None = None


class RetirementFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the model ends."""

    date: datetime.date
    successor: str | None = None


class _AssetsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: Annotated[list[_PointerText], msgspec.Meta(min_length=1)]
    lifetime_hours: Annotated[int, msgspec.Meta(ge=1, le=24 * 365)] | None = None


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole model file."""

    id: str
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    charges_on_policy_rejection: Literal["yes", "no", "unknown"]
    legs: Annotated[list[LegFile], msgspec.Meta(min_length=1, max_length=8)]
    input_schema: str | None = None
    output_schema: str | None = None
    output_media_type: str | None = None
    retirement: RetirementFile | None = None
    operations: Annotated[list[_OperationFile], msgspec.Meta(min_length=1, max_length=16)] | None = None
    billed_as: Annotated[list[_OperationFile], msgspec.Meta(max_length=16)] = []
    draft_of: _PointerText | None = None
    assets: _AssetsFile | None = None
    canonical_id: str | None = None


class MistakeError(Exception):
    """Something in a model file contradicts something else; `steps` lead to where."""

    def __init__(self, steps: Sequence[str], reason: str) -> None:
        super().__init__(reason)
        self.steps = list(steps)
        self.reason = reason


def operations_of(read: ModelFile) -> tuple[Operation, ...]:
    """The operations a body may mean; MistakeError where one could never be meant."""
    if read.operations is None:
        return (SOLE,)
    return _operations("operations", read.operations)


def billed_operations_of(read: ModelFile) -> tuple[Operation, ...]:
    """The further operations that prices know; MistakeError."""
    return _operations("billed_as", read.billed_as) if read.billed_as else ()


def check_priced_operations(read: ModelFile) -> None:
    """MistakeError where a price is for something no body is priced as: it would never apply."""
    priced = {entry.name for entry in read.billed_as or read.operations or []}
    for leg_number, leg in enumerate(read.legs):
        for card_number, card in enumerate(leg.rate_cards):
            for number, part in enumerate(card.components):
                named = {name for case in part.cases for name in case.operations or []}
                if unknown := next(iter(sorted(named - priced)), None):
                    where = ["legs", str(leg_number), "rate_cards", str(card_number), "components", str(number)]
                    raise MistakeError(where, f"{unknown!r} is nothing this model is priced as")


def assets_of(read: ModelFile) -> Assets:
    """The links of a result that are copied."""
    if read.assets is None:
        return Assets(())
    hours = read.assets.lifetime_hours
    return Assets(tuple(parse_pointer(text) for text in read.assets.at), None if hours is None else hours * 3600)


def leg_of(
    read: LegFile,
    steps: Sequence[str],
    operations: Sequence[Operation],
    calls: Mapping[str, frozenset[str]],
    segment: str,
) -> Leg:
    """One leg, checked against what its provider offers; MistakeError. `segment` is the model part of the id."""
    if read.provider not in calls:
        raise MistakeError([*steps, "provider"], f"unknown provider {read.provider!r}")
    if (read.call is None) == (not read.calls):
        raise MistakeError(steps, "a leg needs either 'call' or 'calls'")
    by_operation = read.calls or {operation.name: str(read.call) for operation in operations}
    known = {operation.name for operation in operations}
    for operation, call in by_operation.items():
        if operation not in known:
            raise MistakeError([*steps, "calls"], f"{operation!r} is no operation of this model")
        if call not in calls[read.provider]:
            offered = ", ".join(sorted(calls[read.provider]))
            where = [*steps, "call" if read.call is not None else "calls"]
            raise MistakeError(where, f"the provider {read.provider!r} has no call {call!r}; it has {offered}")
    if unknown := next((operation for operation in read.names if operation not in known), None):
        raise MistakeError([*steps, "names"], f"{unknown!r} is no operation of this model")
    names = {operation: read.names.get(operation, read.name or segment) for operation in by_operation}
    return Leg(
        provider=read.provider,
        calls=by_operation,
        names=names,
        fixed=read.fixed,
        rate_cards=_rate_cards(read, steps),
        translation=None if read.translation is None else _translation(read.translation, [*steps, "translation"]),
    )


def _operations(key: str, read: Sequence[_OperationFile]) -> tuple[Operation, ...]:
    found = []
    for number, entry in enumerate(read):
        for one in entry.when:
            if problem := one.problem():
                raise MistakeError([key, str(number), "when"], problem)
        if not entry.when and number < len(read) - 1:
            raise MistakeError([key, str(number)], "only the last operation may be without conditions")
        found.append(Operation(entry.name, conditions(entry.when), entry.edit))
    return tuple(found)


def _rate_cards(read: LegFile, steps: Sequence[str]) -> tuple[RateCard, ...]:
    return tuple(_rate_card(card, [*steps, "rate_cards", str(number)]) for number, card in enumerate(read.rate_cards))


def _rate_card(read: _RateCardFile, steps: Sequence[str]) -> RateCard:
    components = []
    for number, part in enumerate(read.components):
        try:
            components.append(_component(part))
        except ValueError as error:
            raise MistakeError([*steps, "components", str(number)], str(error)) from error
    most = sum(max(one.price, *(case.price for case in one.cases), 0) * one.at_most for one in components)
    if most > _CHARGE_MAX:
        reason = f"the card {read.version!r} could charge more than {_CHARGE_MAX // UNITS_PER_DOLLAR} dollars"
        raise MistakeError(steps, reason)
    return RateCard(read.version, read.effective, tuple(components), read.stale_after)


def _component(read: _ComponentFile) -> Component:
    return Component(
        unit=read.unit,
        price=from_dollars(read.price),
        at_most=Decimal(read.at_most),
        requested=None if read.requested is None else _requested(read.requested),
        measured=None if read.measured is None else _measured(read.measured),
        cases=tuple(_case(case) for case in read.cases),
        beyond=Decimal(read.beyond),
        whole=read.whole,
    )


def _case(read: _CaseFile) -> Case:
    operations = None if read.operations is None else frozenset(read.operations)
    if problem := next(filter(None, (one.problem() for one in read.when)), None):
        raise ValueError(problem)
    return Case(from_dollars(read.price), operations, conditions(read.when))


def _requested(read: _RequestedFile) -> Requested:
    return Requested(
        product=tuple(_factor(entry) for entry in read.product),
        scale=Decimal(read.scale),
        unless=_pointer(read.unless),
    )


def _factor(read: str | _FactorFile) -> Factor:
    """A factor as a file writes it: a pointer, `count(…)`, `length(…)` or `bytes()`, or a table with more to say."""
    if isinstance(read, str):
        read = _FactorFile(at=read)
    called = _READ.fullmatch(read.at)
    return Factor(
        at=parse_pointer(read.at if called is None else called["at"]),
        reading=Reading.VALUE if called is None else Reading(called["reading"]),
        values={text: Decimal(number) for text, number in read.values.items()},
        otherwise=None if read.otherwise is None else Decimal(read.otherwise),
    )


def _measured(read: _MeasuredFile) -> Measured:
    if sum(found is not None for found in (read.answer, read.header, read.count)) != 1:
        raise ValueError("'measured' needs one of 'answer', 'count' and 'header'")
    return Measured(
        answer=_pointer(read.answer or read.count),
        header=None if read.header is None else read.header.lower(),
        scale=Decimal(read.scale),
        counted=read.count is not None,
    )


def _translation(read: _TranslationFile, steps: Sequence[str]) -> Translation:
    answer = read.answer
    return Translation(
        moves=tuple(_move(move, [*steps, "fields"]) for move in read.fields),
        constants=_constants(read.constants),
        dropped=read.dropped,
        implied=(("model",), *(parse_pointer(text) for text in read.implied)),
        answer=() if answer is None else tuple(_move(move, [*steps, "answer", "fields"]) for move in answer.fields),
        answer_constants=() if answer is None else _constants(answer.constants),
        require=() if answer is None else tuple(parse_pointer(text) for text in answer.require),
    )


def _move(read: _MoveFile, steps: Sequence[str]) -> Move:
    sources, targets = _pointers(read.sources, steps), _pointers(read.targets, steps)
    if len(sources) > 1 and len(targets) > 1:
        raise MistakeError(steps, "several fields cannot become several others in one go")
    if (len(sources) > 1 or len(targets) > 1) != (read.glue is not None):
        raise MistakeError(steps, "'glue' belongs to a field that is cut or joined, which needs it")
    if is_plural(targets[0]) and not is_plural(sources[0]):
        raise MistakeError(steps, "a target with '*' needs a source with '*'")
    return Move(sources, targets, read.values, read.kind, read.form, read.glue)


def _pointers(read: str | list[str], steps: Sequence[str]) -> tuple[Pointer, ...]:
    texts = [read] if isinstance(read, str) else read
    if not texts or not all(text.startswith("/") and len(text) > 1 for text in texts):
        raise MistakeError(steps, "a field moves from one place to another, each written as /a/b")
    return tuple(parse_pointer(text) for text in texts)


def _constants(read: Mapping[str, Any]) -> tuple[tuple[Pointer, Any], ...]:
    return tuple((parse_pointer(text), value) for text, value in read.items())


def _pointer(text: str | None) -> Pointer | None:
    return None if text is None else parse_pointer(text)
