"""The catalog's list prices beside a price map in the form that LiteLLM publishes."""

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from fairlead.domain.catalog.models import Catalog, Leg, Model
from fairlead.domain.ledger.price_maps import Comparison, MapEntry, Verdict, compare_card
from fairlead.domain.ledger.rates import card_in_force

_BYTES_MAX: Final = 64 * 1024 * 1024
_ENTRIES_MAX: Final = 100_000
_DOLLARS_MAX: Final = 10**9
_SELLERS: Final[Mapping[str, Sequence[str]]] = {
    "bfl": ("black_forest_labs",),
    "fal": ("fal_ai",),
    "gemini-interactions": ("gemini", "vertex_ai"),
    "luma_2": ("luma",),
    "qwen": ("dashscope", "qwencloud"),
    "runway": ("runwayml",),
    "veo": ("vertex_ai", "gemini"),
    "vertexai": ("vertex_ai", "gemini"),
    "wan": ("dashscope", "qwencloud"),
}
"""What such maps call a provider, where it is not our name for it: of several, the first that has the model."""


class PriceMapError(Exception):
    """A file that is not a price map, in a sentence that says why."""


class ComparedPrice(msgspec.Struct, frozen=True):
    """A model at a provider beside the entry `key` of the map, which is None where there is none."""

    model: str
    provider: str
    key: str | None
    comparison: Comparison


class PriceMap:
    """The entries of a map by seller and name: `black_forest_labs/flux-pro-1.1` is flux-pro-1.1 there."""

    def __init__(self, entries: Mapping[tuple[str, str], MapEntry]) -> None:
        self._entries = entries

    def find(self, provider: str, name: str) -> MapEntry | None:
        """What one of our providers asks for a model of that name, in upper or lower case; None if nothing is said."""
        sellers = _SELLERS.get(provider, (provider,))
        return next((found for one in sellers if (found := self._entries.get((one, name.lower())))), None)


def read_price_map(path: Path) -> PriceMap:
    """Read a price map of at most 64 MiB: an object of models, each with its figures; PriceMapError, OSError."""
    if path.stat().st_size > _BYTES_MAX:
        raise PriceMapError(f"{path} is larger than {_BYTES_MAX >> 20} MiB")
    decoder = msgspec.json.Decoder(dict[str, dict[str, object]], float_hook=Decimal)
    try:
        models = decoder.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise PriceMapError(f"{path} is no price map, an object with an object for each model: {error}") from error
    if len(models) > _ENTRIES_MAX:
        raise PriceMapError(f"{path} has more than {_ENTRIES_MAX} models")
    entries: dict[tuple[str, str], MapEntry] = {}
    for key, said in models.items():
        seller = str(said.get("litellm_provider", "")).partition("-")[0]
        entries.setdefault((seller, key.removeprefix(f"{seller}/").lower()), _entry(key, said))
    return PriceMap(entries)


def compare_catalog(catalog: Catalog, prices: PriceMap, today: datetime.date) -> list[ComparedPrice]:
    """Compare every card in force with the map, by model and leg; a leg of several names may have several rows."""
    models = [catalog.models[model_id] for model_id in catalog.ids]
    names = Counter((leg.provider, name) for model in models for leg in model.legs for name in set(leg.names.values()))
    shared = {name for name, number in names.items() if number > 1}
    return [row for model in models for leg in model.legs for row in _compare_leg(model, leg, prices, today, shared)]


def _compare_leg(
    model: Model, leg: Leg, prices: PriceMap, today: datetime.date, shared: Collection[tuple[str, str]]
) -> Iterator[ComparedPrice]:
    card = card_in_force(leg.rate_cards, today)
    if card is None:
        return
    entries = list(_entries_of(model, leg, prices, shared))
    for entry in entries:
        yield ComparedPrice(model.id, leg.provider, entry.key, compare_card(card, entry))
    if not entries:
        yield ComparedPrice(model.id, leg.provider, None, Comparison(Verdict.MISSING))


def _entries_of(model: Model, leg: Leg, prices: PriceMap, shared: Collection[tuple[str, str]]) -> Iterator[MapEntry]:
    """The entry of the model's own name where its maker serves it, otherwise one for each name it has there.

    A name that several models of a provider share is that of a route, and says nothing of a price.
    """
    if leg is model.native and (entry := prices.find(leg.provider, model.id.partition("/")[2])) is not None:
        yield entry
        return
    own = (name for name in dict.fromkeys(leg.names.values()) if (leg.provider, name) not in shared)
    found = (prices.find(leg.provider, name) for name in own)
    yield from {entry.key: entry for entry in found if entry is not None}.values()


def _entry(key: str, said: Mapping[str, object]) -> MapEntry:
    """An entry with its prices; 0 is what maps write for what they do not price."""
    figures = {
        name: Decimal(value)
        for name, value in said.items()
        if "cost" in name
        and isinstance(value, int | Decimal)
        and not isinstance(value, bool)
        and 0 < value < _DOLLARS_MAX
    }
    mode = said.get("mode")
    return MapEntry(key, figures, mode if isinstance(mode, str) else None)
