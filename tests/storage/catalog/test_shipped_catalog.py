"""The catalog that ships: it loads, and no body and no answer make a charge pass its hold, on any leg."""

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import for_each
from catalog_samples import shipped_catalog
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.translations import Translation, translate, translate_back
from fairlead.domain.ledger.estimates import Source, estimate
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import Component, Report, charge, quote
from fairlead.domain.pointers import Pointer, put

_SAMPLES: Final = Path(__file__).parents[2] / "providers" / "samples"
_EXAMPLES: Final = settings().max_examples // 5
"""For each of some 260 legs, whose prices have 25 forms between them."""
_NUMBERS: Final = (
    st.integers(-5, 10**7)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 10**30, "5", "1e9", "1920x1080", "high", "4k", "", True, None])
)


SHIPPED: Final = shipped_catalog()
PAIRS: Final = [(model, leg) for model in SHIPPED.models.values() for leg in model.legs]
LEGS: Final = [pytest.param(model, leg, id=f"{model.id} at {leg.provider}") for model, leg in PAIRS]
ALTERNATES: Final = [
    pytest.param(model, leg.translation, id=f"{model.id} at {leg.provider}")
    for model, leg in PAIRS
    if leg.translation is not None
]


def samples_of(model: Model) -> list[dict[str, Any]]:
    """Return the sample bodies of a model."""
    return _samples_of(model.id)


@cache
def _samples_of(model_id: str) -> list[dict[str, Any]]:
    model = SHIPPED.models[model_id]
    return [
        json.loads(path.read_text())
        for path in sorted((_SAMPLES / model.provider).glob("*.json"))
        if _is_of(model, path)
    ]


def _is_of(model: Model, path: Path) -> bool:
    """Whether a sample is a model's: named after it, and after no other whose name begins with its name."""
    names = (other.name for other in SHIPPED.models.values() if other.provider == model.provider)
    return max((name for name in names if f"{path.stem}.".startswith(f"{name}.")), key=len, default="") == model.name


def priced_places(model: Model, body: dict[str, Any]) -> Pricing:
    """Return what the prices of a model look at in a body."""
    schema = model.input_schema
    operation = model.billed_operation(body, model.operation(body))
    return Pricing(body, schema.defaults if schema else {}, len(msgspec.json.encode(body)), operation)


def places(document: Any, above: Pointer = ()) -> Iterator[Pointer]:
    """Return the place of every scalar in a document."""
    members: Any = ()
    match document:
        case dict():
            members = document.items()
        case list():
            members = enumerate(document)
        case _:
            yield above
    for name, inner in members:
        yield from places(inner, (*above, str(name)))


@st.composite
def bodies(draw: st.DrawFn, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a sample of which some scalars are otherwise."""
    body: dict[str, Any] = copy.deepcopy(draw(st.sampled_from([*samples, {}])))
    for place in list(places(body)):
        if place and draw(st.integers(0, 2)) == 0:
            put(body, place, draw(_NUMBERS))
    return body


@st.composite
def reports(draw: st.DrawFn, leg: Leg) -> Report:
    """Draw an answer that says something wherever the prices of a leg look, or one of bytes."""
    answer: dict[str, Any] = {}
    headers, told = dict[str, str](), dict[str, str]()
    for part in (part for card in leg.rate_cards for part in card.components):
        if part.measured is None or not draw(st.booleans()):
            continue
        if part.measured.header is not None:
            headers[part.measured.header] = str(draw(_NUMBERS))
        if part.measured.told is not None:
            told[part.measured.told] = str(draw(_NUMBERS))
        wanted = draw(st.sampled_from(part.measured.answer or ((),)))
        for index in range(draw(st.integers(1, 3)) if part.measured.is_counted else 1):
            place = tuple("0" if step.startswith("*") else step for step in wanted)
            last = max((depth for depth, step in enumerate(wanted) if step.startswith("*")), default=0)
            if place:
                at = (*place[:last], str(index), *place[last + 1 :]) if part.measured.is_counted else place
                put(answer, at, draw(_NUMBERS))
    return Report(draw(st.sampled_from([answer, None])), headers, told)


def highest(part: Component) -> Decimal:
    """Return the highest price a component may have."""
    return part.dearest * prod((max(one.times, Decimal(1)) for one in part.multipliers), start=Decimal(1))


@pytest.mark.req("R-28", "R-29")
@settings(max_examples=_EXAMPLES)
@pytest.mark.parametrize(("model", "leg"), LEGS)
@given(data=st.data())
def test_charge_of_the_shipped_catalog_stays_within_its_hold_and_its_estimate(
    data: st.DataObject, model: Model, leg: Leg
) -> None:
    """Whatever is asked for and reported, no charge is below zero or passes its hold, and an exact price is charged."""
    asked = priced_places(model, data.draw(bodies(samples_of(model))))
    report = data.draw(reports(leg))
    for card in leg.rate_cards:
        told, held = estimate(card, asked), quote(card, asked)
        charged = charge(held, report).amount
        upper = sum(highest(part) * part.at_most for part in card.components)
        assert 0 <= charged <= held.amount <= upper + len(card.components)
        if told.source is Source.UNKNOWN:
            assert (told.reason is not None, told.least, told.most) == (True, 0, 0)
            continue
        assert told.most == held.amount
        assert told.least <= charge(held, Report(None)).amount
        assert told.source is not Source.EXACT or told.least == charged


@pytest.mark.req("R-28", "R-29")
@for_each(("model", "leg"), LEGS)
def test_every_sample_costs_something(model: Model, leg: Leg) -> None:
    """Every sample of a model costs something on each of its legs that serve it."""
    for body in samples_of(model):
        if leg.call(model.operation(body).name) is None:
            continue
        for card in leg.rate_cards:
            assert quote(card, priced_places(model, body)).amount > 0, body


@pytest.mark.req("R-12")
@settings(max_examples=_EXAMPLES)
@pytest.mark.parametrize(("model", "translation"), ALTERNATES)
@given(data=st.data())
def test_every_body_of_the_shipped_catalog_can_be_translated(
    data: st.DataObject, model: Model, translation: Translation
) -> None:
    """Whatever is asked for, a translation says it or names what it drops; and any answer goes back or stays raw."""
    body = data.draw(bodies(samples_of(model)))
    before = copy.deepcopy(body)
    translated = translate(translation, body)
    assert body == before
    msgspec.json.encode(translated.body)
    assert all(": " in entry for entry in translated.dropped)
    back = translate_back(translation, data.draw(bodies([translated.body])), "0198f000-0000-7000-8000-000000000001")
    assert back is None or msgspec.json.encode(back)


@pytest.mark.req("R-12")
def test_only_alternate_legs_have_a_translation() -> None:
    """Every alternate leg has a translation, and no native one has."""
    for model in SHIPPED.models.values():
        native, *others = model.legs
        assert native.translation is None, model.id
        assert all(leg.translation is not None for leg in others), model.id


def test_every_sample_belongs_to_a_model() -> None:
    """Every sample is found by some model, so none is left out by its name."""
    found = sum(len(samples_of(model)) for model in SHIPPED.models.values())
    assert found == sum(1 for _ in _SAMPLES.rglob("*.json"))
