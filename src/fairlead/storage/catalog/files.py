"""The shape of a model file (docs/catalog-files.md), and how what it says becomes records of the domain."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from fairlead.domain.catalog.models import Assets, Leg
from fairlead.domain.catalog.operations import SOLE, Operation
from fairlead.domain.catalog.translations import Move, Translation
from fairlead.domain.pointers import ConditionFile, Pointer, conditions, is_plural, parse_pointer
from fairlead.storage.catalog.rates import MistakeError, Name, RateCardFile, rate_cards_of
from fairlead.storage.catalog.strict import StrictFormFile, check_strict_prices, strict_form_of

_PointerText = Annotated[str, msgspec.Meta(pattern=r"^/.+$", max_length=256)]


class Offer(msgspec.Struct, frozen=True):
    """What a provider offers to model files: its calls, and whether callers may name it in `model_provider`."""

    calls: frozenset[str]
    is_alternate: bool = False


class _OperationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    when: list[ConditionFile] = []
    edit: bool = False


class _MoveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sources": "from", "targets": "to"}):
    # Plain texts, held against the pattern below: msgspec 0.22 frees a pattern twice when it stands in both halves of
    # a union, which ends some processes with a segmentation fault.
    sources: str | list[str]
    targets: str | list[str]
    values: dict[str, object] | None = None
    kind: Literal["text", "integer", "number"] | None = None
    form: Annotated[str, msgspec.Meta(pattern=r"\{\}", max_length=64)] | None = None
    glue: Annotated[str, msgspec.Meta(max_length=8)] | None = None


class _AnswerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fields: Annotated[list[str | _MoveFile], msgspec.Meta(min_length=1)]
    constants: dict[_PointerText, object] = {}
    require: list[_PointerText] = []


class _TranslationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fields: Annotated[list[str | _MoveFile], msgspec.Meta(min_length=1)]
    constants: dict[_PointerText, object] = {}
    dropped: dict[_PointerText, Annotated[str, msgspec.Meta(min_length=1, max_length=200)]] = {}
    implied: list[_PointerText] = []
    answer: _AnswerFile | None = None


class LegFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run the model."""

    provider: str
    rate_cards: Annotated[list[RateCardFile], msgspec.Meta(min_length=1)]
    call: str | None = None
    calls: dict[str, str] = {}
    name: str | None = None
    names: dict[str, str] = {}
    fixed: dict[str, object] = {}
    translation: _TranslationFile | None = None
    strict: StrictFormFile | None = None


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
    modality: Literal["image", "video", "audio", "text", "3d"] | None = None


def fill_in_components(document: dict[str, object]) -> tuple[list[str], str] | None:
    """Put the components that a file declares once in the place of those that `use` them.

    What stands beside `use` is said over the shared component. Returns the steps to a mistake and what it is.
    """
    shared, used = _tables(document.pop("components", None)), set[str]()
    for leg_number, leg in enumerate(_entries(document.get("legs"))):
        for card_number, card in enumerate(_entries(leg.get("rate_cards"))):
            for number, component in enumerate(_entries(card.get("components"))):
                if "use" not in component:
                    continue
                name = str(component.pop("use"))
                if name not in shared:
                    where = ["legs", str(leg_number), "rate_cards", str(card_number), "components", str(number)]
                    return where, f"there is no shared component {name!r}"
                used.add(name)
                said = dict(component)
                component.clear()
                component.update({**shared[name], **said})
    if unused := min(shared.keys() - used, default=None):
        return ["components", unused], f"no rate card uses the shared component {unused!r}"
    return None


def _entries(read: object) -> list[dict[str, object]]:
    """The tables of an array; what is none is left to the check of the whole file."""
    return [one for one in read if isinstance(one, dict)] if isinstance(read, list) else []


def _tables(read: object) -> dict[str, dict[str, object]]:
    return {name: one for name, one in read.items() if isinstance(one, dict)} if isinstance(read, dict) else {}


def operations_of(read: ModelFile) -> tuple[Operation, ...]:
    """The operations that a body may ask for; MistakeError for one that no body could ask for."""
    if read.operations is None:
        return (SOLE,)
    return _operations("operations", read.operations)


def read_billed_operations(read: ModelFile) -> tuple[Operation, ...]:
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
    offers: Mapping[str, Offer],
    segment: str,
) -> Leg:
    """One leg, checked against what its provider offers; MistakeError. `segment` is the model part of the id."""
    by_operation = _calls_of(read, steps, operations, offers)
    names = {operation: read.names.get(operation, read.name or segment) for operation in by_operation}
    cards = rate_cards_of(read.rate_cards, steps)
    form = None
    if read.strict is not None:
        form = strict_form_of(read.strict, [*steps, "strict"], operations, by_operation)
        check_strict_prices(form, read.fixed, cards, steps)
    return Leg(
        provider=read.provider,
        calls=by_operation,
        names=names,
        fixed=read.fixed,
        rate_cards=cards,
        translation=None if read.translation is None else _translation(read.translation, [*steps, "translation"]),
        strict=form,
    )


def _calls_of(
    read: LegFile, steps: Sequence[str], operations: Sequence[Operation], offers: Mapping[str, Offer]
) -> Mapping[str, str]:
    """The calls of a leg by operation; MistakeError."""
    if read.provider not in offers:
        raise MistakeError([*steps, "provider"], f"unknown provider {read.provider!r}")
    calls = offers[read.provider].calls
    if (read.call is None) == (not read.calls):
        raise MistakeError(steps, "a leg needs either 'call' or 'calls'")
    by_operation = read.calls or {operation.name: str(read.call) for operation in operations}
    known = {operation.name for operation in operations}
    for operation, call in by_operation.items():
        if operation not in known:
            raise MistakeError([*steps, "calls"], f"{operation!r} is not an operation of this model")
        if call not in calls:
            offered = ", ".join(sorted(calls))
            where = [*steps, "call" if read.call is not None else "calls"]
            raise MistakeError(where, f"the provider {read.provider!r} has no call {call!r}; it has {offered}")
    if unknown := next((operation for operation in read.names if operation not in known), None):
        raise MistakeError([*steps, "names"], f"{unknown!r} is not an operation of this model")
    return by_operation


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


def _move(read: str | _MoveFile, steps: Sequence[str]) -> Move:
    if isinstance(read, str):
        read = _MoveFile(read, read)
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


def _constants(read: Mapping[str, object]) -> tuple[tuple[Pointer, object], ...]:
    return tuple((parse_pointer(text), value) for text, value in read.items())


def _pointer(text: str | None) -> Pointer | None:
    return None if text is None else parse_pointer(text)
