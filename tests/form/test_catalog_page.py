"""docs/catalog.md is what the rate cards say."""

from catalog_samples import shipped_catalog
from fairlead.cli.catalog import page_of
from fairlead.operations.catalog import price_rows
from form.sources import DOCS


def test_catalog_page_lists_the_prices_that_ship() -> None:
    """The page is current: `make catalog-page` writes it."""
    assert (DOCS / "catalog.md").read_text(encoding="utf-8") == page_of(price_rows(shipped_catalog()))
