"""Rate cards: a charge never passes its hold, and what cannot be read is taken at its upper bound."""

import datetime
from decimal import Decimal
from math import prod
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.domain.ledger.estimates import Estimate, Source, estimate
from fairlead.domain.ledger.money import Tier
from fairlead.domain.ledger.quantities import Factor, Pricing, Reading, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    Multiplier,
    Part,
    RateCard,
    Report,
    card_in_force,
    card_named,
    charge,
    quote,
)
from fairlead.domain.pointers import Condition

DAY = datetime.date(2026, 11, 1)
PLACES = st.sampled_from([("n",), ("size", "w"), ("usage",), ("list", "0"), ("none",)])
SCALES = st.decimals("0.001", 1000, places=3)
WORDS = ["low", "high", "5s", ""]
NUMBERS = (
    st.sampled_from(WORDS)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "Infinity", "-1", "1e999999", "9" * 40, "3.5", "1e-999999", 10**400])
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS,
        "size": st.fixed_dictionaries({"w": NUMBERS}),
        "usage": NUMBERS,
        "list": st.lists(NUMBERS, max_size=2),
    },
)
AMOUNTS = st.decimals(0, 1000, places=3)
FACTORS = st.builds(
    Factor,
    at=PLACES | st.just(("list", "*")),
    reading=st.sampled_from(Reading),
    values=st.dictionaries(st.sampled_from(WORDS), AMOUNTS, max_size=2),
    otherwise=st.none() | AMOUNTS,
)
CONDITIONS = st.builds(
    Condition,
    PLACES | st.just(("list", "*")),
    st.none() | st.frozensets(st.sampled_from(WORDS)),
    is_present=st.booleans(),
)
CASES = st.builds(
    Case,
    price=st.integers(0, 10**10),
    operations=st.none() | st.frozensets(st.sampled_from(["edit", "run"]), min_size=1),
    when=st.lists(CONDITIONS, max_size=2).map(tuple),
)
REQUESTED = st.builds(
    Requested,
    product=st.lists(FACTORS, min_size=1, max_size=3).map(tuple),
    scale=SCALES,
    unless=st.just(()) | st.tuples(st.builds(Condition, PLACES)),
)
MEASURED = st.builds(
    Measured,
    answer=st.lists(PLACES | st.just(("list", "*")), min_size=1, max_size=2).map(tuple),
    scale=SCALES,
    is_counted=st.booleans(),
) | st.builds(Measured, header=st.sampled_from(["x-seconds", "x-none"]), scale=SCALES)
PARTS = st.builds(
    Part,
    unit=st.just("part"),
    price=st.integers(0, 10**10),
    answer=st.lists(PLACES, min_size=1, max_size=2).map(tuple),
    when_any=st.lists(CONDITIONS, max_size=2).map(tuple),
)
MULTIPLIERS = st.builds(
    Multiplier,
    name=st.just("tier"),
    times=st.decimals("0.1", 3, places=2),
    when=st.lists(CONDITIONS, max_size=1).map(tuple),
    size_above=st.none() | st.integers(0, 10**7),
    answered=st.lists(CONDITIONS, max_size=1).map(tuple),
)
COMPONENTS = st.builds(
    Component,
    unit=st.just("unit"),
    price=st.integers(0, 10**10),
    at_most=st.decimals(0, 10**6, places=3),
    requested=st.none() | REQUESTED,
    measured=st.none() | MEASURED,
    cases=st.lists(CASES, max_size=2).map(tuple),
    beyond=st.just(Decimal(0)) | AMOUNTS,
    is_whole=st.booleans(),
    parts=st.lists(PARTS, max_size=2).map(tuple),
    multipliers=st.lists(MULTIPLIERS, max_size=2).map(tuple),
)
MARKUPS = st.just(Decimal(0)) | st.decimals(-90, 1000, places=2)
CARDS = st.builds(
    lambda parts, markup: RateCard("v1", DAY, tuple(parts), markup=markup),
    st.lists(COMPONENTS, min_size=1, max_size=3),
    MARKUPS,
)


ASKED = st.builds(
    Pricing,
    body=DOCUMENTS,
    defaults=DOCUMENTS,
    size=st.integers(0, 10**7),
    operation=st.sampled_from(["edit", "run", None]),
)


def dearest(part: Component) -> Decimal:
    """Return the highest price a unit may have."""
    return part.dearest * prod((max(one.times, Decimal(1)) for one in part.multipliers), start=Decimal(1))


def card(*components: Component) -> RateCard:
    """Return a card in force."""
    return RateCard("v1", DAY, components)


def asks(*factors: Factor, scale: str = "1", unless: tuple[Condition, ...] = ()) -> Requested:
    """Return a quantity that is the product of some factors."""
    return Requested(factors, Decimal(scale), unless)


def n(**changes: Any) -> Factor:
    """Return the factor that stands at `/n`."""
    return Factor(("n",), **changes)


def hold_of(component: Component, body: dict[str, Any], operation: str | None = None, **defaults: Any) -> int:
    """Return what a body is held for."""
    return quote(card(component), Pricing(body, defaults, operation=operation)).amount


def charge_of(component: Component, answer: Any, **headers: str) -> int:
    """Return what an answer is charged, when everything was asked for."""
    return charge(quote(card(component), Pricing({})), Report(answer, headers)).amount


@pytest.mark.req("R-28", "R-29")
@given(
    CARDS,
    ASKED,
    DOCUMENTS | st.none() | st.lists(NUMBERS, max_size=3),
    st.dictionaries(st.just("x-seconds"), NUMBERS.map(str)),
)
def test_charge_never_passes_its_hold(prices: RateCard, asked: Pricing, answer: Any, headers: dict[str, str]) -> None:
    """Whatever caller and partner say, 0 <= charge <= hold <= the card's own upper bound."""
    marked = 1 + prices.markup / 100
    upper = sum(int(dearest(part) * part.at_most * marked) + 1 for part in prices.components)
    priced = quote(prices, asked)
    assert 0 <= charge(priced, Report(answer, headers)).amount <= priced.amount <= upper


@given(CARDS, ASKED)
@example(
    RateCard(
        "v1",
        DAY,
        (
            Component(
                "unit",
                0,
                Decimal("0.501"),
                parts=(Part("part", 1, (("n",),)),),
                multipliers=(Multiplier("tier", Decimal("0.1"), answered=(Condition(("n",)),), size_above=10),),
            ),
        ),
    ),
    Pricing({}),
)
def test_answer_that_reports_nothing_costs_what_was_held(prices: RateCard, asked: Pricing) -> None:
    """An answer that reports nothing costs what was held, but for what its headers say."""
    priced = quote(prices, asked)
    assert charge(priced, Report(None)).amount == priced.amount


@pytest.mark.parametrize(
    ("today", "version"),
    [
        (datetime.date(2025, 12, 31), None),
        (datetime.date(2026, 1, 1), "v1"),
        (datetime.date(2026, 5, 31), "v1"),
        (datetime.date(2026, 6, 1), "v2"),
        (datetime.date(2030, 1, 1), "v2"),
    ],
)
@pytest.mark.req("R-28")
def test_newest_card_whose_date_has_come_is_in_force(today: datetime.date, version: str | None) -> None:
    """The newest card whose date has come, wherever it stands in the file."""
    cards = [
        RateCard("v2", datetime.date(2026, 6, 1), ()),
        RateCard("v1", datetime.date(2026, 1, 1), ()),
    ]
    found = card_in_force(cards, today)
    assert (found.version if found else None) == version


def test_quantity_is_the_product_of_its_fields() -> None:
    """Fields are multiplied and scaled; defaults stand in for what is left out."""
    part = Component("pixel", 10, Decimal(1000), asks(Factor(("w",)), Factor(("h",)), scale="0.5"))
    assert hold_of(part, {"w": 4, "h": 6}) == 120
    assert hold_of(part, {"w": 4}, h=3) == 60
    assert hold_of(part, {"w": "4", "h": 1.5}) == 30


@pytest.mark.parametrize("value", [None, True, False, -1, -0.5, "many", "", [], {}, "NaN", float("nan"), float("inf")])
def test_nonsense_quantity_is_held_and_charged_at_the_upper_bound(value: Any) -> None:
    """Booleans, negatives, NaN and texts are not quantities: the upper bound is held and charged."""
    asked = Component("image", 10, Decimal(4), asks(n()))
    told = Component("image", 10, Decimal(4), measured=Measured((("n",),)))
    assert hold_of(asked, {"n": value}) == 40
    assert charge_of(told, {"n": value}) == 40


def test_quantity_never_passes_its_upper_bound() -> None:
    """A caller who asks for more than the card knows is held for the bound."""
    part = Component("image", 10, Decimal(4), asks(n()))
    assert [hold_of(part, {"n": number}) for number in (0, 1, 4, 5, 10**400)] == [0, 10, 40, 40, 40]
    assert hold_of(part, {}) == 40


def test_unless_field_makes_the_quantity_unknown() -> None:
    """`unless` takes the upper bound as soon as the field says something; null is as good as absent."""
    part = Component("image", 10, Decimal(4), asks(n(), unless=(Condition(("mode",)),)))
    assert [hold_of(part, {"n": 1, **more}) for more in ({}, {"mode": None}, {"mode": "x"})] == [10, 10, 40]


def test_zero_that_is_no_report_charges_what_was_held() -> None:
    """A unit count of zero, as accounts that pay by balance are told, is not a free run."""
    part = Component("unit", 10, Decimal(4), None, Measured((("units",),), is_nonzero=True))
    held = quote(card(part), Pricing({}))
    assert [charge(held, Report({"units": units})).amount for units in ("0", 0, "3", None)] == [40, 40, 30, 40]


def test_tiers_price_a_quantity_once() -> None:
    """A table of areas has one price for the whole: of the first tier it does not pass, and the last where unknown."""
    tiers = (Tier(Decimal(1), 10), Tier(Decimal(4), 25))
    part = Component("area", 70, Decimal(100), None, Measured(result="pixels"), tiers=tiers, at_least=Decimal(0))
    held = quote(card(part), Pricing({}))
    dues = [charge(held, Report({}, made={"pixels": area})).amount for area in ("0.5", "1", "1.1", "4", "5")]
    assert (held.amount, dues, charge(held, Report({})).amount) == (70, [10, 10, 25, 25, 70], 70)
    assert estimate(card(part), Pricing({})) == Estimate(Source.ESTIMATED, 10, 70)
    free = Component("area", 70, Decimal(100), None, Measured(result="pixels"), (Case(0),), tiers=tiers)
    assert charge(quote(card(free), Pricing({})), Report({}, made={"pixels": "1"})).amount == 0


def test_first_place_with_a_number_is_measured() -> None:
    """A price may know several forms of an answer; a figure told before the answer is read by its name."""
    part = Component("unit", 10, Decimal(9), None, Measured((("a",), ("b",))))
    held = quote(card(part), Pricing({}))
    assert [charge(held, Report(one)).amount for one in ({"b": 2}, {"a": 0, "b": 2}, {"a": None, "b": 3}, {})] == [
        20,
        0,
        30,
        90,
    ]
    told = quote(card(Component("unit", 10, Decimal(9), None, Measured(told="cost"))), Pricing({}))
    assert [charge(told, Report({}, {}, one)).amount for one in ({"cost": "4.5"}, {})] == [45, 90]


def test_first_place_that_says_something_is_asked() -> None:
    """A factor with several places reads the first that the body has, before the default of any."""
    part = Component("unit", 10, Decimal(9), asks(Factor(("a",), otherwise=Decimal(7), or_at=(("b",),))))
    assert [hold_of(part, body) for body in ({"a": 1, "b": 2}, {"b": 2}, {"a": None, "b": 3}, {})] == [10, 20, 30, 70]


def test_products_of_a_quantity_are_added() -> None:
    """A quantity may be a sum, of which each part can make it unknown."""
    links = Requested((Factor(("links", "*"), Reading.COUNT),), Decimal(5), unless=(Condition(("file",)),))
    part = Component("token", 2, Decimal(100), Requested((n(),), plus=(links,)))
    assert [hold_of(part, {"n": 3, "links": links}) for links in ([], ["a", "b"])] == [6, 26]
    assert hold_of(part, {"n": 3, "file": "x"}) == 200
    assert hold_of(part, {"links": ["a"]}) == 200


def test_quantity_is_measured_from_a_header() -> None:
    """A quantity may be told by a header, which is asked for in lower case."""
    part = Component("second", 10, Decimal(60), measured=Measured(header="x-ms", scale=Decimal("0.001")))
    assert charge_of(part, None, **{"x-ms": "1500"}) == 15
    assert charge_of(part, None, **{"x-ms": "90000"}) == 600
    assert charge_of(part, None) == 600


@pytest.mark.req("R-28")
def test_charge_is_the_sum_of_its_lines() -> None:
    """A charge is the sum of its lines."""
    prices = card(Component("call", 7), Component("image", 10, Decimal(4), asks(n()), Measured((("n",),))))
    priced = quote(prices, Pricing({"n": 3}))
    assert priced.amount == 37
    assert charge(priced, Report({"n": 2})).amount == 27


HIGH = Condition(("quality",), frozenset({"high"}))
CASED = Component(
    "image",
    10,
    cases=(Case(40, frozenset({"edit"}), (HIGH,)), Case(30, frozenset({"edit", "mask"})), Case(20, None, (HIGH,))),
)


@pytest.mark.req("R-16", "R-28")
@pytest.mark.parametrize(
    ("operation", "body", "price"),
    [
        ("edit", {"quality": "high"}, 40),
        ("edit", {"quality": "low"}, 30),
        ("mask", {"quality": "high"}, 30),
        ("generate", {"quality": "high"}, 20),
        (None, {"quality": "high"}, 20),
        ("generate", {}, 10),
        (None, {}, 10),
    ],
)
def test_first_case_that_applies_sets_the_price(operation: str | None, body: dict[str, Any], price: int) -> None:
    """The first case of which operation and conditions both hold replaces the price; else the price stands."""
    assert hold_of(CASED, body, operation) == price


@pytest.mark.req("R-28")
def test_charge_is_made_at_the_price_of_the_hold() -> None:
    """The price is chosen by the body alone, and the measured quantity is paid at it."""
    part = Component("image", 10, Decimal(4), asks(n()), Measured((("n",),)), (Case(30, None, (HIGH,)),))
    priced = quote(card(part), Pricing({"n": 4, "quality": "high"}))
    assert (priced.amount, charge(priced, Report({"n": 2, "quality": "low"})).amount) == (120, 60)


@pytest.mark.req("R-28")
@pytest.mark.parametrize("spelled", [10, 10.0, "10"])
def test_whole_number_with_decimals_costs_the_same(spelled: Any) -> None:
    """`10.0` passes for an integer, with a schema and with a partner, so it must cost what `10` costs."""
    part = Component("video", 5, cases=(Case(50, None, (Condition(("seconds",), frozenset({"10"})),)),))
    assert hold_of(part, {"seconds": spelled}) == 50
    mapped = Component("second", 1, Decimal(60), asks(Factor(("seconds",), values={"10": Decimal(12)})))
    assert hold_of(mapped, {"seconds": spelled}) == 12


def test_free_units_are_neither_held_nor_charged() -> None:
    """Up to `beyond` units cost nothing, and only those past them are paid, held for and charged alike."""
    part = Component("image", 10, Decimal(20), asks(n()), Measured((("n",),)), beyond=Decimal(2))
    assert [hold_of(part, {"n": number}) for number in (0, 1, 2, 3, 5)] == [0, 0, 0, 10, 30]
    assert [charge_of(part, {"n": number}) for number in (0, 2, 3)] == [0, 0, 10]


def test_part_of_a_unit_is_paid_whole() -> None:
    """`whole` rounds what is left up, and nothing is nothing."""
    part = Component("megapixel", 10, Decimal(20), asks(n()), Measured((("n",),)), beyond=Decimal(1), is_whole=True)
    assert [hold_of(part, {"n": number}) for number in (0, 1, 1.01, 2, 2.5)] == [0, 0, 10, 10, 20]
    assert [charge_of(part, {"n": number}) for number in (0.2, 1.5, 3)] == [0, 10, 20]
    assert hold_of(Component("second", 10, Decimal("2.5"), asks(n()), is_whole=True), {"n": 2.1}) == 25


def test_count_is_the_number_of_values_at_a_place() -> None:
    """`count` is how many values stand at a place; without any it is none, which is not unknown."""
    part = Component("image", 10, Decimal(9), asks(Factor(("refs", "*", "url"), Reading.COUNT)))
    assert hold_of(part, {"refs": [{"url": "a"}, {"text": "b"}, {"url": "c"}]}) == 20
    assert hold_of(part, {"refs": [{"url": "a"}] * 12}) == 90
    assert hold_of(part, {}) == 0


def test_length_is_the_number_of_characters_at_a_place() -> None:
    """`length` is the sum of the lengths of the texts at a place, in characters and not in bytes."""
    part = Component("character", 1, Decimal(1000), asks(Factor(("lines", "*"), Reading.LENGTH)))
    assert hold_of(part, {"lines": ["ab", "ééé", 7, None]}) == 5
    assert hold_of(part, {"lines": "abc"}) == 0


def test_bytes_is_the_size_of_the_whole_body() -> None:
    """`bytes` is the size of the whole body, wherever its texts stand."""
    part = Component("token", 2, Decimal(1000), asks(Factor(reading=Reading.BYTES), scale="0.5"))
    assert quote(card(part), Pricing({"a": "b"}, size=300)).amount == 300
    assert quote(card(part), Pricing({"a": "b"}, size=5000)).amount == 2000


def test_word_is_priced_as_the_number_it_stands_for() -> None:
    """`values` maps words to numbers, in the body and in the defaults; a word it does not know is unknown."""
    part = Component("second", 10, Decimal(30), asks(n(values={"5s": Decimal(5), "long": Decimal(9)})))
    assert hold_of(part, {"n": "5s"}) == 50
    assert hold_of(part, {}, n="long") == 90
    assert hold_of(part, {"n": 3}) == 30
    assert hold_of(part, {"n": "endless"}) == 300


def test_absent_field_takes_its_otherwise_number() -> None:
    """`otherwise` stands for a field that is absent or null, after the default; not for one that is nonsense."""
    part = Component("second", 10, Decimal(30), asks(n(otherwise=Decimal(5))))
    assert hold_of(part, {}) == 50
    assert hold_of(part, {"n": None}) == 50
    assert hold_of(part, {}, n=7) == 70
    assert hold_of(part, {"n": "nonsense"}) == 300


def test_results_in_the_answer_are_counted() -> None:
    """A counted quantity is how many results the answer holds; an answer of bytes holds none that could be counted."""
    part = Component("image", 10, Decimal(4), measured=Measured((("data", "*"),), is_counted=True))
    assert charge_of(part, {"data": [1, 2]}) == 20
    assert charge_of(part, {"data": list(range(9))}) == 40
    assert charge_of(part, None) == 40


USED = Measured((("usage", "in"),), scale=Decimal("0.001"), plus=(("usage", "read"), ("usage", "written")))
CACHED = Part("cached", 10, (("usage", "read"),))
WRITTEN = Part("written", 200, (("usage", "written"),), (Condition(("cache",)),))
ANSWERED_FAST = Condition(("tier",), frozenset({"fast"}))
TOKENS = Component("1,000 tokens", 100, Decimal(50), measured=USED, parts=(CACHED, WRITTEN))


@pytest.mark.req("R-28")
def test_parts_of_a_quantity_have_prices_of_their_own() -> None:
    """Numbers are added up, each part is paid at its own price, and what is left at the component's."""
    asked = quote(card(TOKENS), Pricing({"cache": True}))
    assert asked.amount == 50 * 200
    usage = {"in": 3000, "read": 4000, "written": 1000}
    assert charge(asked, Report({"usage": usage})).amount == 3 * 100 + 4 * 10 + 200
    assert charge(asked, Report({"usage": {"in": 1000}})).amount == 100
    assert charge(asked, Report({"usage": {"in": 0, "read": "many"}})).amount == 0


def test_parts_never_pass_the_whole() -> None:
    """A partner that reports more of a part than of the whole is paid for the whole."""
    part = Component(
        "token", 100, Decimal(50), measured=Measured((("in",),)), parts=(Part("cached", 10, (("read",),)),)
    )
    assert charge_of(part, {"in": 5, "read": 9}) == 50


def test_part_a_body_rules_out_is_not_held_for() -> None:
    """A dear part is held for where a condition says that it may occur, and the hold bounds the charge all the same."""
    asked = quote(card(TOKENS), Pricing({}))
    assert asked.amount == 50 * 100
    assert charge(asked, Report({"usage": {"in": 0, "read": 0, "written": 40_000}})).amount == 50 * 100


@pytest.mark.req("R-28")
def test_multiplier_is_held_for_and_charged_where_the_answer_has_it() -> None:
    """A dearer tier is held for where the body may get it, and a cheaper one only where the answer says so."""
    fast = Multiplier("fast", Decimal(2), (Condition(("tier",), frozenset({"fast"})),), None, (ANSWERED_FAST,))
    flex = Multiplier("flex", Decimal("0.5"), answered=(Condition(("tier",), frozenset({"flex"})),))
    part = Component("second", 10, Decimal(60), asks(n()), Measured((("n",),)), multipliers=(fast, flex))
    assert hold_of(part, {"n": 3, "tier": "fast"}) == 60
    assert hold_of(part, {"n": 3, "tier": "flex"}) == 30
    asked = quote(card(part), Pricing({"n": 3, "tier": "fast"}))
    assert [charge(asked, Report({"n": 3, "tier": tier})).amount for tier in ("fast", "default", "flex")] == [
        60,
        30,
        15,
    ]
    plain = quote(card(part), Pricing({"n": 3}))
    assert charge(plain, Report({"n": 3, "tier": "fast"})) == (charge(plain, Report({"n": 3})))


@pytest.mark.req("R-28")
def test_long_body_is_held_for_at_the_price_of_a_long_context() -> None:
    """Only a body of more bytes than a threshold can have more tokens; the answer says whether it had."""
    long = Multiplier("long", Decimal(2), size_above=200, answered=(Condition(("n",), above=Decimal(200)),))
    part = Component(
        "token", 10, Decimal(1000), asks(Factor(reading=Reading.BYTES)), Measured((("n",),)), multipliers=(long,)
    )
    short, large = (quote(card(part), Pricing({}, size=size)) for size in (200, 300))
    assert (short.amount, large.amount) == (2000, 6000)
    assert [charge(large, Report({"n": number})).amount for number in (200, 201)] == [2000, 4020]


@pytest.mark.req("R-28")
def test_markup_is_on_every_price_and_rounded_once() -> None:
    """Hold and charge are the list price and the operator's percentage, half to even in 10^-8 dollars."""
    marked = RateCard("v1", DAY, (Component("call", 5), TOKENS), markup=Decimal("12.5"))
    asked = quote(marked, Pricing({}))
    assert asked.amount == 6 + 5625  # 5.625 and 5625
    assert charge(asked, Report({"usage": {"in": 2000, "read": 2000}})).amount == 6 + 248  # 247.5


def test_card_is_found_by_the_name_the_ledger_has_for_it() -> None:
    """The name has the markup of that time, whatever it is now."""
    now = RateCard("v1", DAY, (), markup=Decimal(20))
    assert now.label == "v1+20%"
    labels = ("v1+20%", "v1", "v1+7.5%", "v1-10%", "v1+x%", "v2", "v1+")
    named = {label: card_named([now], label) for label in labels}
    assert {label: found and found.markup for label, found in named.items()} == {
        "v1+20%": Decimal(20),
        "v1": Decimal(0),
        "v1+7.5%": Decimal("7.5"),
        "v1-10%": Decimal(-10),
        "v1+x%": None,
        "v2": None,
        "v1+": None,
    }
