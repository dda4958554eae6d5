"""Translations (R-12): a model's native body in another provider's form, and that provider's answer in the native form.

A translation is data: fields that move, values that are spelled differently, constants, and what cannot be expressed.
Everything in a body that no field carries over is dropped, and each drop is named with its reason.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.catalog.strict_forms import RUN_ID
from fairlead.domain.pointers import Pointer, as_text, find_all, is_plural, put, text_of

_NO_PLACE: Final = "this provider has no such field"
_NO_WORD: Final = "this provider cannot express this value"
_SECONDS, _MILLISECONDS = "{seconds}", "{milliseconds}"
_TIME_OF_UUID7: Final = 80
"""How many bits of a UUIDv7 follow its milliseconds since 1970."""


class Move(msgspec.Struct, frozen=True):
    """One field on its way: from where, to where, and how its value is spelled there.

    Several `sources` are joined by `glue` into one text; several `targets` take the parts of a text cut at `glue`.
    `values` maps texts (of scalars as JSON writes them) to values; one that is not in it cannot be expressed.
    `kind` makes a text, an integer or a number of the value, `form` a text around it (`{}` stands for the value).
    A source with `*` moves to a target with as many `*`; to a target without, its first value does.
    """

    sources: tuple[Pointer, ...]
    targets: tuple[Pointer, ...]
    values: Mapping[str, object] | None = None
    kind: str | None = None
    form: str | None = None
    glue: str | None = None


class Translation(msgspec.Struct, frozen=True):
    """How to speak to a provider that serves another provider's model.

    `dropped` gives reasons for fields by their pointers; `implied` are places without information of their own, such as
    the kind of an item whose content is moved. Without `answer` moves the provider's answer stays raw. An answer that
    lacks one of the `require`d places after translation stays raw as well. `answer_constants` may be of the run: its id
    for `{run}` in a text, and when it began for the texts `{seconds}` and `{milliseconds}`.
    """

    moves: tuple[Move, ...]
    constants: tuple[tuple[Pointer, object], ...] = ()
    dropped: Mapping[str, str] = msgspec.field(default_factory=dict)
    implied: tuple[Pointer, ...] = (("model",),)
    answer: tuple[Move, ...] = ()
    answer_constants: tuple[tuple[Pointer, object], ...] = ()
    require: tuple[Pointer, ...] = ()


class Translated(msgspec.Struct, frozen=True):
    """A body in a provider's form, and what could not be expressed in it: `field: reason` each."""

    body: dict[str, object]
    dropped: tuple[str, ...]


class CannotExpressError(Exception):
    """A value has no counterpart on the other side."""


def translate(translation: Translation, body: Mapping[str, object]) -> Translated:
    """Translate a native body into a provider's form."""
    target: dict[str, object] = {}
    for pointer, value in translation.constants:
        put(target, pointer, copy.deepcopy(value))
    carried: set[Pointer] = {place for one in translation.implied for place, _ in find_all(body, one)}
    reasons: dict[Pointer, str] = {}
    for move in translation.moves:
        try:
            carried.update(_carry(move, body, target))
        except CannotExpressError as error:
            reasons.update({pointer: str(error) or _NO_WORD for pointer in _places(move, body)})
    left = _find_uncarried(body, carried)
    return Translated(target, tuple(f"{_path_text(at)}: {_reason(translation, at, reasons)}" for at in left))


def translate_back(translation: Translation, answer: object, run_id: str) -> dict[str, object] | None:
    """A provider's answer in the native form, with its additional fields; None where that cannot be done.

    `run_id` is a UUIDv7, which says when the run began as well.
    """
    if not translation.answer or not isinstance(answer, dict):
        return None
    native: dict[str, object] = {}
    for pointer, value in translation.answer_constants:
        put(native, pointer, _constant_of_run(value, run_id))
    carried: set[Pointer] = set()
    try:
        for move in translation.answer:
            carried.update(_carry(move, answer, native))
    except (CannotExpressError, ValueError):
        return None
    if not all(any(find_all(native, pointer)) for pointer in translation.require):
        return None
    _add(native, _remainder(answer, carried))
    return native


def _constant_of_run(value: object, run_id: str) -> object:
    if value in (_SECONDS, _MILLISECONDS):
        return (int(run_id.replace("-", ""), 16) >> _TIME_OF_UUID7) // (1000 if value == _SECONDS else 1)
    return value.replace(RUN_ID, run_id) if isinstance(value, str) else copy.deepcopy(value)


def _carry(move: Move, source: Mapping[str, object], target: dict[str, object]) -> Iterator[Pointer]:
    """Move one field where it is present; the places it was read from. CannotExpressError."""
    found = [list(find_all(source, pointer)) for pointer in move.sources]
    if not all(found):
        return
    try:
        if len(move.sources) > 1:
            parts = [_scalar(places[0][1]) for places in found]
            put(target, move.targets[0], _spell(move, (move.glue or "").join(parts)))
            yield from (places[0][0] for places in found)
        elif len(move.targets) > 1:
            yield from _covering(move, found[0][0], target)
        else:
            yield from _set(move, found[0], target)
    except ValueError as error:  # the body has another value where the target would go
        raise CannotExpressError from error
    yield from _filter_pointers(move, found[0])


def _filter_pointers(move: Move, found: Sequence[tuple[Pointer, object]]) -> Iterator[Pointer]:
    """The places that a source's filter has read: `role` in `*[role=first_frame]` carries no other information."""
    for depth, part in enumerate(move.sources[0]):
        name = part[2:].partition("=")[0] if part.startswith("*[") else None
        if name is not None:
            yield from ((*place[: depth + 1], name) for place, _ in found)


def _covering(move: Move, found: tuple[Pointer, object], target: dict[str, object]) -> Iterator[Pointer]:
    place, value = found
    parts = _scalar(value).split(move.glue) if move.glue else [_scalar(value)]
    if len(parts) != len(move.targets):
        raise CannotExpressError
    spelled = [_spell(move, part) for part in parts]
    for pointer, part in zip(move.targets, spelled, strict=True):
        put(target, pointer, part)
    yield place


def _set(move: Move, found: Sequence[tuple[Pointer, object]], target: dict[str, object]) -> Iterator[Pointer]:
    if not is_plural(move.targets[0]):
        place, value = found[0]
        put(target, move.targets[0], _spell(move, value))
        yield place
        return
    for number, (place, value) in enumerate(found):
        pointer = tuple(str(number) if part.startswith("*") else part for part in move.targets[0])
        put(target, pointer, _spell(move, value))
        yield place


def _spell(move: Move, value: object) -> object:
    if move.values is not None:
        text = text_of(value)
        if text is None or text not in move.values:
            raise CannotExpressError
        return copy.deepcopy(move.values[text])
    if move.kind is not None:
        value = _as_kind(move.kind, value)
    # A copy, because a later field may be written into the value, which is still part of the caller's body.
    return copy.deepcopy(value) if move.form is None else move.form.replace("{}", _scalar(value))


def _as_kind(kind: str, value: object) -> object:
    text = _scalar(value)
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                return _finite(float(text))
            case _:
                return text
    except ValueError:
        raise CannotExpressError from None


def _finite(number: float) -> float:
    """A number JSON can write; ValueError for an infinity and for what is not a number."""
    if not math.isfinite(number):
        raise ValueError(number)
    return number


def _scalar(value: object) -> str:
    text = text_of(value)
    if text is None:
        raise CannotExpressError
    return text


def _places(move: Move, body: Mapping[str, object]) -> Iterator[Pointer]:
    for pointer in move.sources:
        yield from (place for place, _ in find_all(body, pointer))


def _find_uncarried(document: object, carried: set[Pointer], above: Pointer = ()) -> Iterator[Pointer]:
    """The places nothing was carried from, each named at the highest level at which that is so."""
    members = _members(document)
    for name, value in members:
        place = (*above, name)
        if place in carried or value is None:
            continue
        if any(one[: len(place)] == place for one in carried):
            yield from _find_uncarried(value, carried, place)
        else:
            yield place


def _remainder(document: object, carried: set[Pointer]) -> dict[str, object]:
    """The fields of an answer that were not carried over: unknown fields are kept."""
    rest: dict[str, object] = {}
    for name, value in _members(document):
        touched = {one[1:] for one in carried if one[:1] == (name,)}
        if not touched:
            rest[name] = value
        elif isinstance(value, dict) and () not in touched and (inner := _remainder(value, touched)):
            rest[name] = inner
    return rest


def _add(native: dict[str, object], rest: Mapping[str, object]) -> None:
    """Add the additional fields of an answer beside what was carried over, never replacing it."""
    for name, value in rest.items():
        known = native.setdefault(name, value)
        if known is not value and isinstance(known, dict) and isinstance(value, dict):
            _add(known, value)


def _members(document: object) -> Iterable[tuple[str, object]]:
    if isinstance(document, dict):
        return document.items()
    return ((str(index), item) for index, item in enumerate(document)) if isinstance(document, list) else ()


def _reason(translation: Translation, place: Pointer, reasons: Mapping[Pointer, str]) -> str:
    said = translation.dropped.get(as_text(place)) or translation.dropped.get(as_text(place[:1]))
    return reasons.get(place) or said or _NO_PLACE


def _path_text(place: Pointer) -> str:
    return ".".join(place)
