"""The usual quantities of the models that ship (docs/catalog-files.md, Usual quantities)."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from catalog_samples import asked_for, samples, shipped_catalog
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.ledger.estimates import least_of, typical_of
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import (
    RateCard,
    quote,
)

_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig")


def _asked() -> Iterator[tuple[Model, Leg, RateCard, Pricing]]:
    """Every sample over every leg that serves it, with the newest card."""
    for model in shipped_catalog().models.values():
        for sample in samples(model):
            for leg in sample.legs():
                yield model, leg, leg.rate_cards[-1], asked_for(sample)


def test_no_run_is_held_for_much_more_than_usual_without_a_typical_price() -> None:
    """What a body leaves open and costs half a dollar more at its most than at its least says what is usual."""
    unknown = [
        (model.id, leg.provider, line.component.unit)
        for model, leg, card, asked in _asked()
        for line in quote(card, asked).lines
        if typical_of(line, asked) is None and line.held - least_of(line, asked) > UNITS_PER_DOLLAR // 2
    ]
    assert unknown == []


@pytest.mark.req("X-02")
def test_text_without_a_limit_usually_costs_a_part_of_its_most() -> None:
    """What a text model without a limit on tokens usually costs is a fifth of its hold or less."""
    dear = []
    for model, leg, card, asked in _asked():
        if model.modality == "text" and leg is model.native and any(name in asked.body for name in _LIMITS):
            body: dict[str, Any] = {name: said for name, said in asked.body.items() if name not in _LIMITS}
            unlimited = replace(asked, body=body)
            held = quote(card, unlimited)
            usual = sum(line.held if (one := typical_of(line, unlimited)) is None else one for line in held.lines)
            if usual * 5 > held.amount:
                dear.append((model.id, usual, held.amount))
    assert dear == []
