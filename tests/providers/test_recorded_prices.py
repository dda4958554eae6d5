"""What runs cost by the vendors' price lists: tests/providers/prices/*.json.

Each file has a body, its size in bytes, the answer as the vendor documents it, and the dollars that the list at its
source asks for it, reckoned by hand: `says` is how.
"""

from collections.abc import Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import asdict

from cases import for_each
from catalog_samples import Sample, asked_for, is_within, samples, shipped_catalog, shipped_providers
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.ledger.estimates import Source, estimate
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.price_facts import FACTS_MAX, price_again
from fairlead.domain.ledger.quantities import Pricing, Reading
from fairlead.domain.ledger.rates import Component, Report, charge, quantity_asked, quote
from fairlead.domain.pointers import Captured, capture
from fairlead.domain.runs.outcomes import Completed
from providers.test_catalog_recordings import RECORDINGS, read

_FOLDER: Final = Path(__file__).parent / "prices"
_CATALOG: Final = shipped_catalog()


class RecordedPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run and what it costs."""

    source: str
    model: str
    says: str
    body: dict[str, Any]
    size: int
    answer: Any
    dollars: str


@pytest.mark.req("R-28", "R-29")
@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_answer_costs_what_the_vendor_lists(path: Path) -> None:
    """The charge is the vendor's price to the last digit, within what is held, and within the estimate's bounds."""
    recorded = msgspec.json.decode(path.read_bytes(), type=RecordedPrice)
    model = _CATALOG.models[recorded.model]
    schema = model.input_schema
    assert schema is not None
    body = {**recorded.body, "model": model.name} if schema.declares_model else recorded.body
    assert schema.violations(body) == ()
    operation = model.billed_operation(body, model.operation(body))
    asked = Pricing(body, schema.defaults, recorded.size, operation)
    card = model.native.rate_cards[0]
    held, told = quote(card, asked), estimate(card, asked)
    due = charge(held, Report(recorded.answer))
    assert as_dollars(due.amount) == recorded.dollars
    assert told.source is Source.UNKNOWN or told.most == held.amount
    assert is_within(told, due.amount)


@pytest.mark.req("X-02")
def test_charge_of_a_recorded_answer_is_within_every_estimate() -> None:
    """What a documented answer costs is never less than the least that any sample it may answer was told, nor more."""
    found = list(_answered_samples())
    assert len(found) > 400
    outside = []
    for name, sample, leg, answer in found:
        told, held = estimate(leg.rate_cards[-1], asked_for(sample)), quote(leg.rate_cards[-1], asked_for(sample))
        due = charge(held, Report(answer.answer, answer.headers))
        if not is_within(told, due.amount):
            outside.append((sample.id, leg.provider, name, told, due.amount))
    assert outside == []


@pytest.mark.req("M-07")
def test_recorded_answer_is_priced_again_alike() -> None:
    """What is kept of a run comes to its charge, by every card that an answer is recorded for."""
    wrong = []
    for name, sample, leg, answer in _answered_samples():
        card, asked = leg.rate_cards[-1], asked_for(sample)
        report = Report(answer.answer, answer.headers, answer.told)
        kept = capture(card.captures, {**asdict(asked), **asdict(report)}, FACTS_MAX)
        due = charge(quote(card, asked), report).amount
        if kept is None or price_again(msgspec.json.decode(kept, type=Captured), card) != due:
            wrong.append((sample.id, leg.provider, name, kept))
    assert wrong == []


def _answered_samples() -> Iterator[tuple[str, Sample, Leg, Completed]]:
    """Every recorded result, with each sample and leg that it may be the result of."""
    for provider, name, recording in RECORDINGS:
        spec = shipped_providers()[provider]
        reading = read(spec, spec.calls[recording.call], recording.stage, recording.reply())
        if not isinstance(reading, Completed):
            continue
        for model in _CATALOG.models.values():
            for leg in (leg for leg in model.legs if leg.provider == provider):
                for sample in samples(model):
                    is_unlike = any(fnmatchcase(sample.id, pattern) for pattern in recording.unlike)
                    if leg.call(sample.operation.name) == recording.call and not is_unlike:
                        yield name, sample, leg, reading


_BY_FORM: Final = [
    model for model in _CATALOG.models.values() if {one.name for one in model.operations} == {"respond", "run"}
]
_CHAT_LIMIT: Final = {"openai": "max_completion_tokens", "byteplus": "max_tokens"}
_LONG: Final = 400_000


@pytest.mark.req("R-28")
@for_each("model", [pytest.param(model, id=model.id) for model in _BY_FORM])
def test_both_forms_of_a_text_model_cost_the_same(model: Model) -> None:
    """The same tokens cost the same by either form of body and answer: cached, in a long context, and as held."""
    chat = {"prompt_tokens": 300_000, "completion_tokens": 500, "prompt_tokens_details": {"cached_tokens": 1000}}
    response = {"input_tokens": 300_000, "output_tokens": 500, "input_tokens_details": {"cached_tokens": 1000}}
    by_form: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"messages": [{"role": "user", "content": "?"}], _CHAT_LIMIT[model.provider]: 600}, chat),
        ({"input": "?", "max_output_tokens": 600}, response),
    ]
    defaults = {} if model.input_schema is None else model.input_schema.defaults
    card = model.native.rate_cards[0]
    held = [quote(card, Pricing(body, defaults, _LONG, model.operation(body).name)) for body, _ in by_form]
    charged = [charge(one, Report({"usage": usage})).amount for one, (_, usage) in zip(held, by_form, strict=True)]
    assert held[0].amount == held[1].amount
    assert charged[0] == charged[1] > 0


def test_every_case_of_the_language_is_recorded() -> None:
    """Caches and their lifetimes, tiers, contexts, tools, modalities, reported costs, and several outputs."""
    found = {path.stem for path in _FOLDER.glob("*.json")}
    wanted = {"cached-tokens", "cache-writes-by-lifetime", "tier-flex", "tier-priority", "long-context", "ten-pictures"}
    wanted |= {"server-tool-search", "text-and-image-tokens-in", "reported-cost", "reported-cost-beyond-the-cap"}
    assert wanted - found == set()


@pytest.mark.req("R-28")
@for_each("model", [pytest.param(one, id=one.id) for one in _CATALOG.models.values()])
def test_bound_of_a_quantity_never_cuts_what_a_body_may_ask_for(model: Model) -> None:
    """A field that multiplies a quantity does so up to its maximum: ten pictures are held for like ten times one."""
    fields = {} if model.input_schema is None else model.input_schema.document.get("properties", {})
    for sample in samples(model):
        for part in (part for leg in model.legs for card in leg.rate_cards for part in card.components):
            for factor in () if part.requested is None or part.beyond or part.is_whole else part.requested.product:
                name = factor.at[0] if len(factor.at) == 1 and factor.reading is Reading.VALUE else ""
                field = fields.get(name, {})
                most = field.get("maximum")
                if field.get("type") != "integer" or not isinstance(most, int):
                    continue
                one, all_ = (_quantity(part, sample, {name: number}) for number in (1, most))
                assert one is None or (all_ is not None and round(all_ - one * most, 6) == 0), (part.unit, name)


def _quantity(part: Component, sample: Sample, changed: dict[str, Any]) -> Decimal | None:
    assert part.requested is not None
    asked = asked_for(sample)
    return quantity_asked(part, part.requested, msgspec.structs.replace(asked, body={**asked.body, **changed}))


@pytest.mark.parametrize("model_id", ["openai/gpt-6-sol", "anthropic/claude-sonnet-5-5", "vertexai/gemini-3.8-flash"])
def test_hold_of_a_text_model_follows_its_output_limit(model_id: str) -> None:
    """A limit in the body is what is held for the answer; without one, the model's own is."""
    model = _CATALOG.models[model_id]
    part = model.native.rate_cards[0].components[1]
    limits = {"openai": "max_completion_tokens", "anthropic": "max_tokens"}
    sample = next(iter(samples(model)))
    name = limits.get(model.provider)
    few: dict[str, Any] = {name: 100} if name else {"generationConfig": {"maxOutputTokens": 100}}
    assert _quantity(part, sample, few) == Decimal("0.0001")
    if name != "max_tokens":  # which a body must have
        none: dict[str, Any] = {name: None} if name else {"generationConfig": {}}
        assert _quantity(part, sample, none) == (Decimal("0.128") if name else Decimal("0.065536"))
