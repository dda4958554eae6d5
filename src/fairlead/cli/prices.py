"""`fairlead catalog prices`: what every model costs where, by whose word, and how old that word is."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fairlead.domain.catalog.models import Catalog
from fairlead.domain.ledger.estimates import price_lines

OLD_DAYS: Final = 180
_PAGE: Final = """\
# Prices of the catalog

The list prices that ship with Fairlead, in US dollars, with their source and the day they were last compared with it.
This page is generated: `make catalog-page` writes it from the model files.
A price in several amounts depends on the body or on the answer: `fairlead catalog show` has every case.
An operator's markup ([settings.md](settings.md#prices)) comes on top.

| Model | Provider | Price in dollars | From | Source | Checked |
|---|---|---|---|---|---|
"""


class PriceRow(msgspec.Struct, frozen=True):
    """The prices of a model at a provider from a day on: one text a component."""

    model: str
    provider: str
    price: tuple[str, ...]
    effective: datetime.date
    source: str | None
    checked: datetime.date | None
    markup: str

    def age(self, today: datetime.date) -> int | None:
        """Days since somebody compared it with its source; None where nobody has."""
        return None if self.checked is None else (today - self.checked).days


def price_rows(catalog: Catalog) -> list[PriceRow]:
    """One row a rate card: models by their ids, legs and cards as in their files."""
    return [
        PriceRow(
            model_id,
            leg.provider,
            tuple(price_lines(card)),
            card.effective,
            card.source,
            card.checked,
            f"{card.markup:f}",
        )
        for model_id in catalog.ids
        for leg in catalog.models[model_id].legs
        for card in leg.rate_cards
    ]


def warnings_of(rows: Iterable[PriceRow], today: datetime.date) -> Iterator[str]:
    """What is wrong with the age of prices: one line a row."""
    for row in rows:
        age = row.age(today)
        if age is None:
            yield f"{row.model} at {row.provider}: nobody has said when this price was checked"
        elif age > OLD_DAYS:
            yield f"{row.model} at {row.provider}: this price was last checked {age} days ago"


def page_of(rows: Sequence[PriceRow]) -> str:
    """The page docs/catalog.md."""
    return _PAGE + "".join(
        f"| `{row.model}` | {row.provider} | {'; '.join(row.price)} | {row.effective} |"
        f" {row.source or '-'} | {row.checked or '-'} |\n"
        for row in rows
    )


def shown_row(row: PriceRow) -> dict[str, object]:
    """A row for the table, or for JSON."""
    return {**msgspec.to_builtins(row), "price": list(row.price)}
