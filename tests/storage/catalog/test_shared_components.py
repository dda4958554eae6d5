"""Components that a model file declares once for several rate cards."""

from decimal import Decimal
from pathlib import Path

import pytest

from fairlead.domain.declarations import BadFileError
from fairlead.domain.ledger.rates import Case, Component
from fairlead.storage.catalog.files import Offer
from fairlead.storage.catalog.reader import load_catalog

_MODEL = """
id = "acme/paint"
title = "Paint"
charges_on_policy_rejection = "no"

[components.picture]
unit = "picture"
price = "0.02"
at_most = "4"

[[legs]]
provider = "acme"
call = "image"

[[legs.rate_cards]]
version = "1"
effective = 2026-01-01
components = [{ use = "picture" }, { use = "picture", price = "0.03", cases = [{ price = "0" }] }]
"""


def read(folder: Path, text: str) -> tuple[Component, ...]:
    """Return the components of the model's card."""
    (folder / "paint.toml").write_text(text)
    catalog = load_catalog([folder], {"acme": Offer(frozenset({"image"}))}, "x-authored")
    return catalog.models["acme/paint"].native.rate_cards[0].components


def test_component_is_declared_once_and_changed_where_it_differs(tmp_path: Path) -> None:
    """A component that uses a shared one has its words, but for those it says itself."""
    first, second = read(tmp_path, _MODEL)
    assert (first.unit, first.price, first.at_most, first.cases) == ("picture", 2_000_000, Decimal(4), ())
    assert (second.unit, second.price, second.cases) == ("picture", 3_000_000, (Case(0),))


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('{ use = "picture" }', '{ use = "clip" }', 18, "there is no shared component 'clip'"),
        ("[components.picture]", "[components.clip]\nunit = 'c'\n[components.picture]", 6, "uses the shared component"),
        ('unit = "picture"', "size = 1", 18, "unknown field `size`"),
    ],
    ids=["unknown", "unused", "wrong"],
)
def test_mistake_in_a_shared_component_is_named(tmp_path: Path, old: str, new: str, line: int, reason: str) -> None:
    """A name that is not declared, one that nobody uses, and a wrong word are refused with their line."""
    with pytest.raises(BadFileError) as caught:
        read(tmp_path, _MODEL.replace(old, new, 1))
    assert reason in caught.value.reason
    assert caught.value.line == line
