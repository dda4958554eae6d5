"""The data of the catalog: samples, schemas, prices and operations of every model file agree with each other."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from cases import for_each
from catalog_samples import (
    SAMPLES,
    Sample,
    asked_for,
    plan_call,
    sample_files,
    samples,
    shipped_catalog,
    shipped_providers,
)
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.ledger.estimates import estimate
from fairlead.domain.pointers import find_all
from fairlead.operations.runs.requests import completed_body

_PROVIDERS: Final = shipped_providers()
_ASK_NOTHING: Final = {"bfl/flux-pro-1.1", "bfl/flux-pro-1.1-ultra", "luma/photon-1", "luma/photon-flash-1"}
"""Those whose documented request has no required field."""
_SAY_LESS: Final = {("vertexai/gemini-3-pro-image", "fal")}
"""Legs that cannot say all of the simplest body, such as who speaks in it."""
_KNOWN_AFTERWARDS: Final = {"openrouter/chat-completions"}
"""Models that may be any of hundreds, each with a price of its own."""
_NAMES_OF_THE_MODEL: Final = {"model", "model_name", "model_id", "ai_model"}
_TODAY: Final = Clock().today()
_MODELS: Final = [model for model in shipped_catalog().models.values() if not model.is_retired(_TODAY)]
_SAMPLES: Final = [sample for model in _MODELS for sample in samples(model)]
every_model = for_each("model", [pytest.param(model, id=model.id) for model in _MODELS])
every_sample = for_each("sample", [pytest.param(sample, id=sample.id) for sample in _SAMPLES])
every_leg = for_each(
    ("sample", "leg"),
    [pytest.param(sample, leg, id=f"{sample.id}@{leg.provider}") for sample in _SAMPLES for leg in sample.legs()],
)


@every_model
def test_every_operation_has_a_sample(model: Model) -> None:
    """Each operation of each leg has a body that means it."""
    tried = {sample.operation.name for sample in samples(model)}
    assert {operation for leg in model.legs for operation in leg.calls} == tried


@every_sample
def test_every_sample_is_a_valid_body(sample: Sample) -> None:
    """Samples are valid, and name no field that the schema does not know."""
    schema = sample.model.input_schema
    assert schema is not None
    body = completed_body(sample.model, sample.body)
    assert schema.violations(body) == ()
    assert schema.unknown_fields(body) == ()


@every_sample
def test_model_of_the_path_may_be_null(sample: Sample) -> None:
    """A body may have null where the vendor names its model, and what is sent names the model all the same."""
    schema = sample.model.input_schema
    assert schema is not None
    named = _NAMES_OF_THE_MODEL & schema.document["properties"].keys()
    for name in named if sample.model.id not in _KNOWN_AFTERWARDS else ():
        nulled = replace(sample, body={**sample.body, name: None})
        assert schema.violations(completed_body(sample.model, nulled.body)) == ()
        assert json.loads(plan_call(nulled, sample.model.native).body)[name]


@every_sample
def test_answers_are_asked_for_whole(sample: Sample) -> None:
    """Where a schema takes `stream` or `background` without effect, false is sent."""
    schema = sample.model.input_schema
    assert schema is not None
    fields = schema.document["properties"]
    taken = {
        name for name in ("stream", "background") if isinstance(field := fields.get(name), dict) and "type" in field
    }
    for name in taken:
        asked = replace(sample, body={**sample.body, name: True})
        assert json.loads(plan_call(asked, sample.model.native).body)[name] is False


@every_sample
def test_every_schema_refuses_garbage(sample: Sample) -> None:
    """A field of a sample with a value of the wrong kind is a violation that names the field."""
    schema = sample.model.input_schema
    assert schema is not None
    taken = [
        name
        for name, value in sample.body.items()
        if not any(
            violation.loc[:2] == ("body", name) for violation in schema.violations({**sample.body, name: _other(value)})
        )
    ]
    assert taken == []
    assert schema.violations([]) != ()
    assert schema.violations("a lighthouse") != ()


def _other(value: Any) -> Any:
    """A value that no field with this one takes."""
    return "many" if isinstance(value, bool | int | float) else True


@every_model
def test_every_schema_refuses_an_empty_body(model: Model) -> None:
    """No model runs on nothing at all, unless its vendor says so: an empty body is refused before anybody pays."""
    assert model.input_schema is not None
    assert model.input_schema.violations({}) != () or model.id in _ASK_NOTHING


@pytest.mark.req("R-31")
def test_estimate_of_a_model_begins_above_nothing() -> None:
    """Every model has a body with a lower bound above nothing, but for those whose price only an answer has."""
    vague = set()
    for model in _MODELS:
        told = [estimate(model.native.rate_cards[0], asked_for(sample)) for sample in samples(model)]
        if not any(one.least for one in told):
            vague.add(model.id)
    assert vague == _KNOWN_AFTERWARDS


@every_leg
def test_every_leg_costs_something(sample: Sample, leg: Leg) -> None:
    """Each sample is held a price for on each leg, below what a day's work costs."""
    hold = plan_call(sample, leg).hold
    assert 0 < hold < 10_000_000_000


@every_sample
def test_what_is_held_for_nothing_is_refused(sample: Sample) -> None:
    """Without one of its members, or with a member of another type, a sample is refused or still costs something."""
    schema = sample.model.input_schema
    assert schema is not None
    bodies = [*_without_a_member(sample.body), *_of_other_types(sample.body, _types(schema.document))]
    valid = [body for body in bodies if schema.violations(completed_body(sample.model, body)) == ()]
    changed = [replace(sample, body=body, operation=sample.model.operation(body)) for body in valid]
    free = [(leg.provider, one.body) for one in changed for leg in one.legs() if plan_call(one, leg).hold == 0]
    assert free == []


def _without_a_member(value: Any) -> Iterator[Any]:
    """A body without one member of an object or one item of an array, for each of them at any depth."""
    for at, inner in _members(value):
        yield _with(value, at)
        for changed in _without_a_member(inner):
            yield _with(value, at, changed)


def _of_other_types(value: Any, types: set[str]) -> Iterator[Any]:
    """A body in which one `type` is another of those that the schema knows, for each of them at any depth."""
    for at, inner in _members(value):
        if at == "type":
            yield from (_with(value, at, other) for other in types - {inner})
        for changed in _of_other_types(inner, types):
            yield _with(value, at, changed)


def _members(value: Any) -> list[tuple[Any, Any]]:
    """The members of an object by name, or the items of an array by place."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _with(value: Any, at: Any, *instead: Any) -> Any:
    """An object or array with another value at a place, or without any there."""
    if isinstance(value, dict):
        return {name: kept for name, kept in [*value.items(), *((at, new) for new in instead)] if name != at or instead}
    return [*value[:at], *instead, *value[at + 1 :]]


def _types(schema: Any) -> set[str]:
    """The values that members called `type` may have, anywhere in a schema."""
    found = set()
    for at, inner in _members(schema):
        if at == "type" and isinstance(inner, dict):
            found |= set(inner.get("enum", ()))
        found |= _types(inner)
    return found


@every_leg
def test_every_leg_sends_one_json_object(sample: Sample, leg: Leg) -> None:
    """What is sent is an object with each field once, and nothing of a sample that can be said is dropped."""
    plan = plan_call(sample, leg)
    pairs: list[tuple[str, Any]] = json.loads(plan.body, object_pairs_hook=lambda found: found)
    assert len({name for name, _ in pairs}) == len(pairs)
    assert plan.dropped == () or (sample.model.id, leg.provider) in _SAY_LESS


@every_leg
def test_forms_of_the_samples_upload_inline_files(sample: Sample, leg: Leg) -> None:
    """Samples whose pictures go into a form hold them themselves, so that the catalog runs without the internet."""
    plan = plan_call(sample, leg)
    form = _PROVIDERS[leg.provider].calls[plan.call].form
    body = json.loads(plan.body)
    files = [value for part in (form.files if form else ()) for _, value in find_all(body, part.at)]
    assert [value for value in files if isinstance(value, str) and not value.startswith("data:")] == []


def test_every_sample_belongs_to_a_model() -> None:
    """Every file among the samples is read as a sample."""
    from_files = {path for model in shipped_catalog().models.values() for path in sample_files(model)}
    assert set(SAMPLES.glob("*/*.json")) == from_files
