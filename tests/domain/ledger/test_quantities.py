"""Quantities of files that a body names: what they add up to, and what one counts as that was not measured."""

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.ledger.quantities import Factor, Pricing, Reading, Requested, count_of, files_in
from fairlead.domain.pointers import Pointer, parse_pointer

pytestmark = pytest.mark.req("X-02")

BODY = {"clips": [{"url": "a"}, {"url": "b"}], "mask": "c"}
ALL = parse_pointer("/clips/*/url")


def known(**sizes: str) -> Mapping[Pointer, Mapping[str, str]]:
    """Return properties of the files, by the text that names them."""
    places = {"a": ("clips", "0", "url"), "b": ("clips", "1", "url"), "c": ("mask",)}
    return {places[name]: {"longest": size, "frames": size, "pixels": size} for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("reading", "given", "otherwise", "size"),
    [
        ("seconds", known(a="1.5", b="2.5"), None, 5),
        ("seconds", known(a="1.5", b="2.4"), None, 4),
        ("longest", known(a="1.5", b="2.4"), None, 3),
        ("longest", known(a="0", b="0"), None, 1),
        ("frames", known(a="24", b="25"), None, 49),
        ("pixels", known(a="24", b="25"), None, 49),
        ("seconds", known(a="1.5"), None, None),
        ("seconds", known(a="1.5"), "300", 302),
        ("seconds", {}, "300", 600),
        ("longest", known(a="1.5"), "300", 300),
        ("longest", {}, None, None),
    ],
)
def test_files_add_up(
    reading: str, given: Mapping[Pointer, Mapping[str, str]], otherwise: str | None, size: int | None
) -> None:
    """Seconds to the next whole one; what is not known counts as `otherwise`, or makes the whole unknown."""
    factor = Factor(ALL, Reading(reading), otherwise=None if otherwise is None else Decimal(otherwise))
    assert count_of(factor, Pricing(BODY, given=given)) == size


@pytest.mark.parametrize("reading", ["seconds", "longest", "frames", "pixels"])
def test_no_file_has_no_size(reading: str) -> None:
    """Where a body names none at a place, there is nothing to hold for."""
    assert count_of(Factor(ALL, Reading(reading), otherwise=Decimal(300)), Pricing({})) == 0


@given(st.lists(st.decimals(0, 1000, places=3), min_size=1, max_size=5))
def test_seconds_are_more_than_measured_and_by_at_most_one(lengths: list[Decimal]) -> None:
    """So a vendor that counts one more frame, or rounds, does not pass what is held."""
    given: dict[Pointer, Mapping[str, str]] = {
        ("clips", str(number)): {"longest": str(length)} for number, length in enumerate(lengths)
    }
    asked = Pricing({"clips": list(map(str, lengths))}, given=given)
    for reading, size in ((Reading.SECONDS, sum(lengths)), (Reading.LONGEST, max(lengths))):
        found = count_of(Factor(("clips", "*"), reading), asked)
        assert found is not None
        assert size < found <= size + 1


def test_places_of_files_are_those_of_all_products() -> None:
    """Also of the ones that are added; places that are read otherwise are none."""
    clip, sound = Factor(("clip",), Reading.SECONDS), Factor(("sound",), Reading.LONGEST)
    wanted = Requested((clip, Factor(("n",))), plus=(Requested((sound, Factor((), Reading.BYTES))),))
    assert list(files_in(wanted)) == [("clip",), ("sound",)]
