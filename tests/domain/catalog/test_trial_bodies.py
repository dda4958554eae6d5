"""Bodies to try models with: always valid, cheap, and never made up where a schema cannot tell."""

from contextlib import suppress
from dataclasses import replace

import pytest

from catalog_samples import shipped_catalog
from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.catalog.trial_bodies import NoTrialBodyError, trial_body

_MODELS = shipped_catalog().models
_PLAIN = _MODELS["local/procedural-text-1"]


def _model(**properties: object) -> Model:
    """A model with a schema of these properties; those without a default are required."""
    required = [name for name, one in properties.items() if isinstance(one, dict) and "optional" not in one]
    schema = InputSchema({"type": "object", "properties": properties, "required": required})
    return replace(_PLAIN, input_schema=schema)


def _free(_body: dict[str, object]) -> int:
    return 0


@pytest.mark.parametrize("model", _MODELS.values(), ids=lambda model: model.id)
def test_body_of_a_shipped_model_is_valid_or_none_is_made(model: Model) -> None:
    """Whatever the schema, a body that is made satisfies it."""
    with suppress(NoTrialBodyError):
        body = trial_body(model, _free)
        assert model.input_schema is not None
        assert model.input_schema.violations(body) == ()


def test_most_models_need_no_body_of_the_operator() -> None:
    """Those that take a picture, a clip or an id do, and no others."""
    made = 0
    for model in _MODELS.values():
        with suppress(NoTrialBodyError):
            made += bool(trial_body(model, _free))
    assert made > len(_MODELS) / 2


def test_values_come_from_the_schema() -> None:
    """Constants, defaults, the first of a list, words for a prompt, the least of a number, one of an array."""
    model = _model(
        prompt={"type": "string", "maxLength": 5},
        mode={"const": "fast"},
        size={"enum": ["1K", "2K"]},
        steps={"type": "integer", "minimum": 4, "maximum": 9},
        ratio={"type": "string", "default": "1:1"},
        parts={"type": "array", "items": {"type": "object", "properties": {"text": {"type": "string"}}}},
        either={"anyOf": [{"type": "string", "format": "uri"}, {"type": "boolean"}]},
    )
    assert trial_body(model, _free) == {
        "prompt": "A red",
        "mode": "fast",
        "size": "1K",
        "steps": 4,
        "ratio": "1:1",
        "parts": [{"text": "A red circle on white."}],
        "either": False,
    }


def test_cheapest_choice_is_taken() -> None:
    """Of closed lists, flags and numbers with a lower bound, also where the caller need not say them."""
    model = _model(
        prompt={"type": "string"},
        quality={"enum": ["high", "low"], "optional": True},
        duration={"type": "integer", "minimum": 3, "maximum": 15, "default": 10, "optional": True},
        audio={"type": "boolean", "default": True, "optional": True},
        max_tokens={"type": "integer", "minimum": 1, "optional": True},
    )

    def price(body: dict[str, object]) -> int:
        quality = 5 if body.get("quality", "high") == "high" else 1
        seconds, tokens = body.get("duration", 10), body.get("max_tokens", 4096)
        assert isinstance(seconds, int)
        assert isinstance(tokens, int)
        return quality + seconds + tokens + (7 if body.get("audio", True) else 0)

    assert trial_body(model, price) == {
        "prompt": "A red circle on white.",
        "quality": "low",
        "duration": 3,
        "audio": False,
        "max_tokens": 64,
    }


def test_body_that_cannot_be_run_is_not_taken_for_cheap() -> None:
    """A choice without a price is left alone."""
    model = _model(mode={"enum": ["a", "b"], "default": "a", "optional": True})
    assert trial_body(model, lambda body: None if body.get("mode") == "b" else 5) == {}


@pytest.mark.parametrize(
    "field", [{"type": "string"}, {"type": "string", "format": "uri"}, {}, {"type": "string", "pattern": "^x+$"}]
)
def test_what_a_schema_cannot_tell_is_not_made_up(field: dict[str, object]) -> None:
    """A required picture, link or id has no value that would be right."""
    with pytest.raises(NoTrialBodyError, match="/image_url"):
        trial_body(_model(image_url=field), _free)
