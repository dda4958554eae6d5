"""The usual quantity of a component in a model file."""

from decimal import Decimal
from pathlib import Path

import pytest

from fairlead.domain.declarations import BadFileError
from fairlead.storage.catalog.files import Offer
from fairlead.storage.catalog.reader import load_catalog

_MODEL = """
id = "acme/clip"
title = "Clip"
charges_on_policy_rejection = "no"

[[legs]]
provider = "acme"
call = "clip"

[[legs.rate_cards]]
version = "1"
effective = 2026-01-01

[[legs.rate_cards.components]]
unit = "second"
price = "0.02"
"""
_REPORTED = 'at_most = "60"\nmeasured = { answer = "/seconds" }\n'
_WANTED = 'requested = { product = [{ at = "/duration", otherwise = "8" }] }\n'


def typical(folder: Path, words: str) -> Decimal | None:
    """Return the usual quantity of the component of the model's card."""
    (folder / "clip.toml").write_text(_MODEL + words)
    catalog = load_catalog([folder], {"acme": Offer(frozenset({"clip"}))}, "x-authored")
    return catalog.models["acme/clip"].native.rate_cards[0].components[0].typical


@pytest.mark.parametrize(
    "words",
    [
        "",
        'at_least = "1"\n',
        'requested = { product = ["/duration"] }\n',
        'requested = { product = [{ at = "/duration", otherwise = "30" }], bound = true }\n',
        'requested = { product = [{ at = "/duration", otherwise = "5..30" }] }\n',
        'requested = { product = ["count(/clips/*)"], unless = "/link" }\n',
    ],
    ids=["not said", "at least", "may be missing", "bound", "range", "unless"],
)
def test_typical_quantity_is_read_where_something_leaves_it_open(tmp_path: Path, words: str) -> None:
    """A body may lack the quantity, only limit it, or leave it to the vendor."""
    assert typical(tmp_path, f'{_REPORTED}{words}typical = "8"\n') == Decimal(8)
    assert typical(tmp_path, f"{_REPORTED}{words}") is None


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f'{_REPORTED}typical = "60.5"', "at most 'at_most'"),
        (f'{_REPORTED}typical = "0"', "above 0"),
        (f'{_REPORTED}typical = "-1"', "typical"),
        (f'{_REPORTED}at_least = "9"\ntypical = "8"', "at least 'at_least'"),
        ('at_most = "60"\ntypical = "8"', "that is 'measured'"),
        (f'{_REPORTED}{_WANTED}typical = "8"', "does not fix"),
        (f'{_REPORTED}at_least = "60"\ntypical = "60"', "does not fix"),
        ('measured = { answer = "/seconds" }\ntypical = "1"', "does not fix"),
    ],
    ids=["too much", "nothing", "negative", "too little", "not measured", "said", "always so much", "one"],
)
def test_typical_quantity_that_makes_no_sense_is_refused(tmp_path: Path, words: str, reason: str) -> None:
    """Beyond the bounds of the component, or of a quantity that is known."""
    with pytest.raises(BadFileError, match=reason):
        typical(tmp_path, words)
