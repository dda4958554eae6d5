"""The catalog beside a price map: which entry is a model's, and what is no map."""

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pytest

from fairlead.domain.ledger.price_maps import Verdict
from fairlead.operations.catalog import read_catalog
from fairlead.operations.price_comparison import PriceMapError, compare_catalog, read_price_map
from operations.servers import FLAG, leg_text, providers_at

_TODAY = datetime.date(2026, 11, 29)


@pytest.fixture
def proven_books() -> None:
    """Take the folder's proof away: there are no books here."""


def _map(tmp_path: Path, **models: dict[str, object]) -> Path:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({key.replace("__", "/"): said for key, said in models.items()}))
    return path


def test_entries_are_found_by_seller_and_name(folder: Path, tmp_path: Path) -> None:
    """By the seller's name before the model's or without, in any case; another seller's entry is not ours."""
    found = _map(
        tmp_path,
        **{
            "plain__Plain-Now": {"litellm_provider": "plain", "output_cost_per_image": 0.1},
            "careful-now": {"litellm_provider": "careful-image-models", "output_cost_per_image": 0.2},
            "other__careful-later": {"litellm_provider": "other", "output_cost_per_image": 0.1},
            "plain__plain-later": {"litellm_provider": "plain", "output_cost_per_second": 0.1},
        },
    )
    catalog = read_catalog([folder], providers_at("http://127.0.0.1:1"), FLAG)
    rows = compare_catalog(catalog, read_price_map(found), _TODAY)
    assert {(row.model, row.key): row.comparison.verdict for row in rows} == {
        ("acme/plain-now", "plain/Plain-Now"): Verdict.EQUAL,
        ("acme/careful-now", "careful-now"): Verdict.DIFFERS,
        ("acme/careful-later", None): Verdict.MISSING,
        ("acme/plain-later", "plain/plain-later"): Verdict.NOT_COMPARABLE,
    }


def test_legs_elsewhere_are_found_by_the_names_they_have_there(folder: Path, tmp_path: Path) -> None:
    """An aggregator has names of its own; a name that two models share is a route's, and no model's."""
    path = folder / "plain-now.toml"
    elsewhere = leg_text("spare", price="0.30").replace("[[legs]]", '[[legs]]\nname = "acme/own-name"')
    path.write_text(path.read_text() + elsewhere)
    catalog = read_catalog([folder], providers_at("http://127.0.0.1:1"), FLAG)
    said = {"litellm_provider": "spare", "output_cost_per_image": 0.3}
    rows = compare_catalog(catalog, read_price_map(_map(tmp_path, **{"spare__acme__own-name": said})), _TODAY)
    (row,) = [one for one in rows if one.provider == "spare"]
    assert (row.key, row.comparison.verdict) == ("spare/acme/own-name", Verdict.EQUAL)


def test_prices_are_read_to_the_last_digit(tmp_path: Path) -> None:
    """No price goes through a binary fraction; what is no price, no number or beyond measure is not read."""
    said = {"litellm_provider": "a", "mode": 4, "x_cost": 0.1, "y_cost": 0, "z_cost": True, "w_cost": 1e300, "n": 1}
    entry = read_price_map(_map(tmp_path, a__b=said)).find("a", "B")
    assert entry is not None
    assert (entry.figures, entry.mode) == ({"x_cost": Decimal("0.1")}, None)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a": 1}', b"\xff"])
def test_another_file_is_no_price_map(tmp_path: Path, text: bytes) -> None:
    """The mistake names the file and what was expected."""
    path = tmp_path / "map.json"
    path.write_bytes(text)
    with pytest.raises(PriceMapError, match=r"map\.json is no price map"):
        read_price_map(path)
