"""The prices of the catalog that depend on files of a body: less is held where those were measured, and enough."""

import datetime
from collections.abc import Mapping
from typing import Any, Final

import pytest
from msgspec.structs import replace

from fairlead.domain.catalog.models import Model
from fairlead.domain.ledger.estimates import Source, estimate
from fairlead.domain.ledger.rates import Report, card_in_force, charge, quote
from fairlead.domain.pointers import Pointer, find_all
from storage.catalog.test_shipped_catalog import SHIPPED, priced_places, samples_of

TODAY: Final = datetime.date(2026, 11, 29)
MODELS: Final = [pytest.param(model, id=model.id) for model in SHIPPED.models.values() if model.measured_files]
SHORT: Final = {"longest": "2", "frames": "48", "pixels": "250000"}


def given_of(model: Model, body: dict[str, Any]) -> Mapping[Pointer, Mapping[str, str]]:
    """Say of every file of a body that it is short."""
    return {place: SHORT for pointer in model.measured_files for place, _ in find_all(body, pointer)}


@pytest.mark.req("X-02")
@pytest.mark.parametrize("model", MODELS)
def test_less_is_held_for_short_files(model: Model) -> None:
    """For some body that names a file, and never more; the most that an estimate tells is what is held."""
    card = card_in_force(model.native.rate_cards, TODAY)
    assert card is not None
    named, shorter = 0, 0
    for body in samples_of(model):
        asked = priced_places(model, body)
        measured = replace(asked, given=given_of(model, body))
        held = quote(card, measured)
        assert held.amount <= quote(card, asked).amount
        told = estimate(card, measured)
        assert told.source is Source.UNKNOWN or told.least <= told.most == held.amount
        assert estimate(card, asked).source is told.source
        assert charge(held, Report({})).amount <= held.amount
        named += bool(measured.given)
        shorter += held.amount < quote(card, asked).amount
    assert shorter > 0 or named == 0


@pytest.mark.req("X-02")
def test_clip_of_two_seconds_is_held_for_as_three() -> None:
    """The most expensive guess of the catalog: five minutes of lips that follow another voice."""
    model = SHIPPED.models["synclabs/sync-3"]
    body = {"input": [{"type": "video", "url": "https://a.example/v"}, {"type": "audio", "url": "https://a.example/s"}]}
    card = card_in_force(model.native.rate_cards, TODAY)
    assert card is not None
    asked = priced_places(model, body)
    assert quote(card, asked).amount == 40 * 10**8 - 100
    assert quote(card, replace(asked, given=given_of(model, body))).amount == 3 * 13333333
    library = {"input": [body["input"][0], {"type": "audio", "assetId": "a"}]}
    asked = priced_places(model, library)
    assert quote(card, replace(asked, given=given_of(model, library))).amount == 40 * 10**8 - 100
