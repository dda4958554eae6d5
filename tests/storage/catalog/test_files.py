"""What a model file may say beyond the plainest: operations, several legs, translations, prices by case."""

import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from fairlead.domain.catalog.models import Assets, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.catalog.strict_forms import StrictField
from fairlead.domain.catalog.translations import Move, Translation
from fairlead.domain.declarations import BadFileError
from fairlead.domain.ledger.quantities import Factor, Reading, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Measured,
    StrictPointers,
    StrictQuantity,
)
from fairlead.domain.pointers import Condition
from fairlead.storage.catalog.files import Offer
from fairlead.storage.catalog.reader import load_catalog

OFFERS = {"acme": Offer(frozenset({"image", "edits"})), "fal": Offer(frozenset({"queue"}), is_alternate=True)}
FLAG = "x-service-input-schema-authored"
GOOD = """\
id = "acme/paint"
title = "Paint"
charges_on_policy_rejection = "yes"
draft_of = "/content/*[type=draft]/id"
canonical_id = "acme/paint"
assets = { at = ["/data/*/url"], lifetime_hours = 2 }

[[operations]]
name = "edit"
edit = true
when = [{ at = "/image" }]

[[operations]]
name = "generate"

[[billed_as]]
name = "large"
when = [{ at = "/size", equals = ["4k"] }]

[[billed_as]]
name = "small"

[[legs]]
provider = "acme"
calls = { edit = "edits", generate = "image" }
names = { edit = "paint-edit" }
fixed = { tag = "{run}" }

[[legs.rate_cards]]
version = "v1"
effective = 2026-01-01
source = "https://acme.example/prices"
checked = 2026-02-01
check_by = 2026-05-01
derived = true

[[legs.rate_cards.components]]
unit = "image"
price = "0.03"
at_most = "4"
beyond = "1"
whole = true
requested = { product = ["count(/images/*)", { at = "/d", values = { "5s" = "5" }, otherwise = "2..9" }, "bytes()"],\
 scale = "0.5", unless = "/raw" }
measured = { count = "/data/*" }
cases = [
    { operations = ["large"], price = "0.07" },
    { when = [{ at = "/quality", contains = ["HIGH"] }], price = "0.06" },
]

[[legs]]
provider = "fal"
call = "queue"
name = "fal-ai/paint"

[[legs.rate_cards]]
version = "f1"
effective = 2026-01-01

[[legs.rate_cards.components]]
unit = "run"
price = "0.05"
requested = { product = [{ at = "/n", otherwise = "1" }] }

[legs.rate_cards.components.strict]
at_most = "9"
requested = [
    { operations = ["edit"], product = [{ at = "/seconds", otherwise = "5" }] },
    { when = [{ at = "/prompt" }], product = ["count(/pictures/*)"] },
]
cases = [{ when = [{ at = "/prompt", present = false }], price = "0.06" }]

[legs.strict]
fields = ["/prompt", { at = "/seconds", values = ["5"] }, { at = "/pictures/*", at_most = 3 }]
operations = [{ name = "edit", when = [{ at = "/pictures" }] }, { name = "generate" }]

[legs.translation]
fields = [
    { from = "/size", to = ["/w", "/h"], glue = "x", kind = "integer" },
    { from = "/d", to = "/seconds", values = { "5s" = 5 } },
]
constants = { "/sync_mode" = true }
dropped = { "/user" = "it keeps no users apart" }
implied = ["/content/*/type"]

[legs.translation.answer]
fields = [{ from = "/images/*/url", to = "/data/*/url" }]
constants = { "/created" = 0 }
require = ["/data/0/url"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a good model."""
    file = tmp_path / "paint.toml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def model(path: Path) -> Model:
    """Return the good model."""
    return load_catalog([path.parent], OFFERS, FLAG).models["acme/paint"]


@pytest.mark.req("R-16", "R-36")
def test_behaviour_of_a_model_is_read_as_it_stands(model: Model) -> None:
    """Operations, what they are billed as, drafts, links and the canonical id are in the model."""
    image = Condition(("image",))
    assert model.operations == (Operation("edit", (image,), is_edit=True), Operation("generate"))
    assert model.billed_as == (Operation("large", (Condition(("size",), frozenset({"4k"})),)), Operation("small"))
    assert model.draft_of == ("content", "*[type=draft]", "id")
    assert model.assets == Assets((("data", "*", "url"),), 7200)
    assert (model.canonical_id, model.bills_refusals) == ("acme/paint", True)


@pytest.mark.req("R-12")
def test_leg_is_read_as_it_stands(model: Model) -> None:
    """Each leg has its calls and names by operation, and its own fields."""
    native, other = model.legs
    assert native is model.native
    assert (native.calls, native.fixed) == ({"edit": "edits", "generate": "image"}, {"tag": "{run}"})
    assert native.names == {"edit": "paint-edit", "generate": "paint"}
    assert other.calls == {"edit": "queue", "generate": "queue"}
    assert other.names == {"edit": "fal-ai/paint", "generate": "fal-ai/paint"}
    assert native.translation is None


@pytest.mark.req("R-12")
def test_translation_is_read_as_it_stands(model: Model) -> None:
    """A translation has its moves, constants and reasons, and the way back."""
    assert model.legs[1].translation == Translation(
        moves=(
            Move((("size",),), (("w",), ("h",)), kind="integer", glue="x"),
            Move((("d",),), (("seconds",),), values={"5s": 5}),
        ),
        constants=((("sync_mode",), True),),
        dropped={"/user": "it keeps no users apart"},
        implied=(("model",), ("content", "*", "type")),
        answer=(Move((("images", "*", "url"),), (("data", "*", "url"),)),),
        answer_constants=((("created",), 0),),
        require=(("data", "0", "url"),),
    )


@pytest.mark.req("R-28")
def test_price_is_read_as_it_stands(model: Model) -> None:
    """A component has its factors, its cases and its bounds."""
    (card,) = model.native.rate_cards
    assert (card.source, card.checked) == ("https://acme.example/prices", datetime.date(2026, 2, 1))
    assert (card.check_by, card.is_derived) == (datetime.date(2026, 5, 1), True)
    (part,) = card.components
    assert (part.price, part.at_most, part.beyond, part.is_whole) == (3_000_000, Decimal(4), Decimal(1), True)
    assert part.requested == Requested(
        product=(
            Factor(("images", "*"), Reading.COUNT),
            Factor(("d",), values={"5s": Decimal(5)}, otherwise=Decimal(9)),
            Factor((), Reading.BYTES),
        ),
        scale=Decimal("0.5"),
        unless=(Condition(("raw",)),),
    )
    assert part.fewest is not None
    assert part.fewest.product[1] == Factor(("d",), values={"5s": Decimal(5)}, otherwise=Decimal(2))
    assert part.measured == Measured(answer=(("data", "*"),), is_counted=True)
    assert part.cases == (
        Case(7_000_000, frozenset({"large"})),
        Case(6_000_000, None, (Condition(("quality",), contains=("high",)),)),
    )


@pytest.mark.req("S-01")
def test_strict_form_is_read_as_it_stands(model: Model) -> None:
    """A leg has the fields a strict body may say, what it means by them, and where prices read it."""
    leg = model.legs[1]
    assert leg.strict is not None
    assert leg.strict.fields == (
        StrictField(("prompt",)),
        StrictField(("seconds",), frozenset({"5"})),
        StrictField(("pictures", "*"), at_most=3),
    )
    assert leg.strict.operations == (
        Operation("edit", (Condition(("pictures",)),), is_edit=True),
        Operation("generate"),
    )
    assert leg.rate_cards[0].components[0].strict == StrictPointers(
        quantities=(
            StrictQuantity(Requested((Factor(("seconds",), otherwise=Decimal(5)),)), frozenset({"edit"})),
            StrictQuantity(Requested((Factor(("pictures", "*"), Reading.COUNT),)), when=(Condition(("prompt",)),)),
        ),
        cases=(Case(6_000_000, None, (Condition(("prompt",), is_present=False),)),),
        at_most=Decimal(9),
    )


_LEG = '[[legs]]\nprovider = "fal"\ncall = "queue"\n'
_SOURCE = 'source = "https://acme.example/prices"\n'
_PART = "[[legs.rate_cards.components]]"
_EDITS = 'edit = "edits"'
_QUEUE = 'call = "queue"'
_LARGE = 'when = [{ at = "/size", equals = ["4k"] }]'
_TWICE = '[[legs]]\nprovider = "acme"\ncall = "image"\n'
_NOTHING = "{run}\" }\ntranslation = { fields = [{ from = '/a', to = '/b' }] }"

_SECOND = '[[legs.rate_cards.components]]\nunit = "run"'
_TABLE = "[legs.rate_cards.components.strict]"
_POINTERS = GOOD[GOOD.index(_TABLE) : GOOD.index("[legs.strict]")]
_STRICT = GOOD[GOOD.index("[legs.strict]") : GOOD.index("[legs.translation]")]
_MEANT = 'operations = [{ name = "edit", when = [{ at = "/pictures" }] }, { name = "generate" }]\n'
_FIELDS = 'fields = ["/prompt", { at = "/seconds", values = ["5"] }, { at = "/pictures/*", at_most = 3 }]'

_MISTAKES = {
    # what is wrong: (what is replaced, by what, the beginning of the line that is named, and the reason)
    "two legs": (_LEG, _TWICE, 'provider = "acme"\ncall =', "two legs of one provider"),
    "an operation without conditions": (
        'when = [{ at = "/image" }]\n',
        "",
        "[[operations]]",
        "only the last operation",
    ),
    "a price without conditions": (_LARGE + "\n", "", "[[billed_as]]", "only the last operation"),
    "a native leg that lacks one": ('edit = "edits", ', "", "calls = { generate", "must serve every operation"),
    "an unknown operation": (_EDITS, 'paint = "edits"', "calls = {", "'paint' is not an operation"),
    "an unknown call of one": (_EDITS, 'edit = "sing"', "calls = {", "has no call 'sing'; it has edits, image"),
    "no call": (_QUEUE + "\n", "", '[[legs]]\nprovider = "fal"', "either 'call' or 'calls'"),
    "call and calls": (_QUEUE, _QUEUE + "\ncalls = { edit = 'queue' }", _LEG, "either 'call' or 'calls'"),
    "an unknown call": (_QUEUE, 'call = "sing"', 'call = "sing"', "it has queue"),
    "an unknown provider": ('provider = "fal"', 'provider = "ace"', 'provider = "ace"', "unknown provider 'ace'"),
    "an unknown model": ('canonical_id = "acme/paint"', 'canonical_id = "a/b"', "canonical_id", "not in the catalog"),
    "a cut without glue": ('glue = "x", ', "", "fields = [\n", "'glue' belongs to"),
    "glue for nothing": ('to = "/seconds", ', 'to = "/seconds", glue = "x", ', "fields = [\n", "'glue' belongs to"),
    "many to many": ('from = "/size"', 'from = ["/size", "/n"]', "fields = [\n", "several fields cannot become"),
    "a star from nowhere": ('to = "/seconds"', 'to = "/seconds/*"', "fields = [\n", "needs a source with '*'"),
    "a star on the way back": ('"/images/*/url"', '"/images/0/url"', "fields = [{", "needs a source with '*'"),
    "an unknown kind": ('kind = "integer"', 'kind = "whole"', "fields = [\n", "Invalid enum value 'whole'"),
    "a native translation": ('{run}" }', _NOTHING, "translation = {", "nothing to translate"),
    "nothing measured": ('measured = { count = "/data/*" }', "measured = {}", _PART, "needs one of"),
    "two measures": ('count = "/data/*"', 'count = "/data/*", header = "x"', _PART, "needs one of"),
    "an unknown reading": ('"bytes()"', '"bits()"', "requested = {", "product"),
    "a price that says two things": ('["HIGH"]', '["HIGH"], above = "1"', _PART, "one thing, not contains and above"),
    "a condition that says two things": ('["4k"]', '["4k"], present = true', "when = [{ at = '/size'", "one thing"),
    "a slip of the point": ('price = "0.07"', 'price = "999999"', "[[legs.rate_cards]]", "could charge more than"),
    "a day without its source": (_SOURCE, "", "[[legs.rate_cards]]", "'source', which is missing"),
    "a source of several lines": (_SOURCE, 'source = "a\\nb"\n', "source", "source"),
    "a price for nothing": ('["large"]', '["lagre"]', _PART, "'lagre' is nothing this model is priced as"),
    "a name for nothing": ("names = { edit", "names = { edti", "names = {", "'edti' is not an operation"),
    "no lifetime": ("lifetime_hours = 2", "lifetime_hours = 0", "assets = {", "lifetime_hours"),
    "no pointer": ('"/content/*[type=draft]/id"', '"content"', "draft_of", "draft_of"),
    "no form of strict bodies": (_STRICT, "", '[[legs]]\nprovider = "fal"', "needs [legs.strict]"),
    "no strict pointers": (_POINTERS, "", _SECOND, "this price depends on the body, so it needs 'strict'"),
    "a strict price of a field nobody may say": ('"/seconds", otherwise', '"/second", otherwise', _TABLE, "/second:"),
    "a strict case of a field nobody may say": ('"/prompt", present', '"/promt", present', _TABLE, "/promt: it is"),
    "a strict price for nothing": ('operations = ["edit"]', 'operations = ["run"]', _TABLE, "'run' is nothing that"),
    "a strict operation for nothing": (
        '{ name = "edit", when',
        '{ name = "run", when',
        "operations = [{",
        "not an operation",
    ),
    "a strict operation by a field nobody may say": (
        '[{ at = "/pictures" }]',
        '[{ at = "/pics" }]',
        "operations = [{",
        "/pics",
    ),
    "strict operations that are not told apart": (_MEANT, "", "[legs.strict]", "a strict body means edit, generate"),
    "no strict fields": (_FIELDS, "fields = []", "fields = []", "fields"),
    "a strict field with a filter": ('at = "/pictures/*"', 'at = "/pictures/*[a=b]"', "fields = [", "fields"),
    "no name": ('name = "large"', 'name = "Large"', 'name = "Large"', "name"),
}


@pytest.mark.parametrize(("old", "new", "marker", "reason"), _MISTAKES.values(), ids=_MISTAKES.keys())
def test_mistake_is_named_at_its_line(path: Path, old: str, new: str, marker: str, reason: str) -> None:
    """Each mistake names the file, the line of what is to be mended, and what is wrong with it."""
    assert GOOD.count(old) == 1
    marker = marker.replace("'", '"')
    text = GOOD.replace(old, new)
    path.write_text(text)
    with pytest.raises(BadFileError) as caught:
        load_catalog([path.parent], OFFERS, FLAG)
    assert reason in caught.value.reason
    line = text.count("\n", 0, text.index(marker)) + 1
    assert (Path(caught.value.file).name, caught.value.line) == ("paint.toml", line)
