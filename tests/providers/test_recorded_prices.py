"""What runs cost by the vendors' price lists: tests/providers/prices/*.json.

Each file has a body, its size in bytes, the answer as the vendor documents it, and the dollars that the list at its
source asks for it, reckoned by hand: `says` is how.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from catalog_samples import shipped_catalog
from fairlead.domain.billing.estimates import Source, estimate
from fairlead.domain.billing.rates import Pricing, charge, quote
from fairlead.domain.money import as_dollars

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
    assert as_dollars(charge(held, recorded.answer, {}).amount) == recorded.dollars
    assert told.source is Source.UNKNOWN or told.most == held.amount


def test_every_case_of_the_language_is_recorded() -> None:
    """Caches and their lifetimes, tiers, contexts, tools, modalities, reported costs, and several outputs."""
    found = {path.stem for path in _FOLDER.glob("*.json")}
    wanted = {"cached-tokens", "cache-writes-by-lifetime", "tier-flex", "tier-priority", "long-context", "ten-pictures"}
    wanted |= {"server-tool-search", "text-and-image-tokens-in", "reported-cost", "reported-cost-beyond-the-cap"}
    assert wanted - found == set()
