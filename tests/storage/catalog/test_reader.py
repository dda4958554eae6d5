"""Catalog files: good ones load whole, and each kind of mistake names its file, its line and what to mend."""

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fairlead.domain.catalog.models import Catalog
from fairlead.domain.declarations import BadFileError
from fairlead.domain.ledger.money import from_dollars
from fairlead.storage.catalog.files import Offer
from fairlead.storage.catalog.reader import fingerprint, load_catalog

GOOD = """\
id = "acme/one"
title = "One"
charges_on_policy_rejection = "no"
input_schema = "one.json"

[[legs]]
provider = "acme"
call = "image"

[[legs.rate_cards]]
version = "v1"
effective = 2026-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.03"
at_most = "4"
requested = { product = ["/n"] }

[[legs.rate_cards.components]]
unit = "second"
price = "0.01"
measured = { header = "X-Seconds", scale = "0.5" }

[[legs.rate_cards]]
version = "v2"
effective = 2027-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.05"

[retirement]
date = 2028-05-06
"""
SCHEMA = '{\n "type": "object",\n "properties": {\n  "n": {"type": "integer", "default": 1}\n }\n}\n'
OFFERS = {"acme": Offer(frozenset({"image", "video"})), "fal": Offer(frozenset({"queue"}))}
FLAG = "x-service-input-schema-authored"

Load = Callable[[], Catalog]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one good model."""
    (tmp_path / "one.toml").write_text(GOOD)
    (tmp_path / "one.json").write_text(SCHEMA)
    return tmp_path


def mistake(folder: Path) -> tuple[str, int, str]:
    """Load a bad folder and return file, line and reason."""
    with pytest.raises(BadFileError) as caught:
        load_catalog([folder], OFFERS, FLAG)
    return Path(caught.value.file).name, caught.value.line, caught.value.reason


def spoil(folder: Path, old: str, new: str, name: str = "one.toml") -> None:
    """Replace a part of a file that occurs once."""
    text = (folder / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))


def test_model_file_is_read_as_it_stands(folder: Path) -> None:
    """Everything a file says is in the model."""
    model = load_catalog([folder], OFFERS, FLAG).models["acme/one"]
    assert (model.native.provider, model.charges_on_policy_rejection) == ("acme", "no")
    assert (model.native.calls, model.native.names) == ({"run": "image"}, {"run": "one"})
    assert model.retirement is not None
    assert model.retirement.date == datetime.date(2028, 5, 6)
    first, second = model.native.rate_cards
    assert (first.version, second.effective) == ("v1", datetime.date(2027, 1, 1))
    image, seconds = first.components
    assert (image.price, image.at_most) == (from_dollars("0.03"), Decimal(4))
    assert seconds.measured is not None
    assert (seconds.measured.header, seconds.measured.scale) == ("x-seconds", Decimal("0.5"))


@pytest.mark.req("R-07", "R-08")
def test_served_schema_is_the_one_that_validates(folder: Path) -> None:
    """The schema file stands in the OpenAPI document as it is, and is the one that validates."""
    model = load_catalog([folder], OFFERS, FLAG).models["acme/one"]
    document = json.loads(model.openapi.content)
    body = document["paths"]["/v2/models/acme/one"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"] == json.loads(SCHEMA)
    assert document[FLAG] is True
    assert model.input_schema is not None
    assert model.input_schema.document == json.loads(SCHEMA)


@pytest.mark.req("R-08")
def test_model_without_a_schema_takes_any_object(folder: Path) -> None:
    """Without an authored schema the document says so and takes any object."""
    spoil(folder, 'input_schema = "one.json"\n', "")
    model = load_catalog([folder], OFFERS, FLAG).models["acme/one"]
    document = json.loads(model.openapi.content)
    assert model.input_schema is None
    assert document[FLAG] is False
    body = document["paths"]["/v2/models/acme/one"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        pytest.param('title = "One"', "title = One", 2, "Invalid value", id="syntax"),
        pytest.param('title = "One"', 'title = "One"\ncolour = "red"', 3, "unknown field `colour`", id="unknown field"),
        pytest.param(
            "[[legs]]\n", "[[legs]]\ncolour = 1\n", 7, "unknown field `colour`", id="unknown field of a table"
        ),
        pytest.param('title = "One"', "title = 1", 2, "Expected `str`, got `int`", id="wrong type"),
        pytest.param('title = "One"\n', "", 1, "missing required field `title`", id="missing field"),
        pytest.param('= "no"', '= "never"', 3, "Invalid enum value 'never'", id="unknown word"),
        pytest.param("acme/one", "Acme/one", 1, "'Acme/one' is not a model id", id="bad id"),
        pytest.param('provider = "acme"', 'provider = "ace"', 7, "unknown provider 'ace'", id="unknown provider"),
        pytest.param('call = "image"', 'call = "text"', 8, "it has image, video", id="unknown call"),
        pytest.param("one.json", "two.json", 4, "there is no file 'two.json' beside it", id="missing schema"),
        pytest.param("one.json", "../one.json", 4, "must be a file beside", id="schema of another folder"),
        pytest.param("one.json", "/etc/passwd", 4, "must be a file beside", id="schema anywhere"),
        pytest.param("one.json", "..", 4, "there is no file '..'", id="schema that is a folder"),
        pytest.param('price = "0.03"', 'price = "three"', 16, "price", id="bad price"),
        pytest.param('price = "0.01"', 'price = "0.000000001"', 22, "price", id="price too fine"),
        pytest.param('price = "0.05"', 'price = "-0.05"', 31, "price", id="negative price"),
        pytest.param('price = "0.01"', 'price = "1e-3"', 22, "price", id="price with an exponent"),
        pytest.param('at_most = "4"', 'at_most = "-4"', 17, "at_most", id="bad quantity"),
        pytest.param('["/n"]', '["n"]', 18, "product", id="bad pointer"),
        pytest.param("effective = 2027-01-01", 'effective = "soon"', 27, "effective", id="bad date"),
        pytest.param('version = "v2"\n', "", 25, "missing required field `version`", id="missing in a second entry"),
        pytest.param("2028-05-06", "2028-05-06\nsuccessor = 5", 35, "Expected `str", id="wrong type of successor"),
        pytest.param("2028-05-06", '2028-05-06\nsuccessor = "acme/two"', 35, "not in the catalog", id="bad successor"),
    ],
)
def test_mistake_in_a_model_file_is_named_at_its_line(folder: Path, old: str, new: str, line: int, reason: str) -> None:
    """Each kind of mistake names the file, the line it stands in, and what to mend."""
    spoil(folder, old, new)
    name, at, found = mistake(folder)
    assert (name, at) == ("one.toml", line)
    assert reason in found


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        pytest.param('"properties":', '"properties"', 3, "delimiter", id="syntax"),
        pytest.param(' "type": "object",', ' "type": "object",\n "type": "object",', 3, "occurs twice", id="duplicate"),
        pytest.param('"type": "integer"', '"type": "whole"', 4, "not a usable JSON Schema", id="no type"),
        pytest.param('"type": "integer"', '"pattern": "("', 4, "not a usable JSON Schema", id="no pattern"),
        pytest.param(SCHEMA, "[]", 1, "not a usable JSON Schema", id="no object"),
        pytest.param('"type": "integer"', '"$ref": "https://nowhere.test/a"', 4, "usable", id="elsewhere"),
    ],
)
def test_mistake_in_a_schema_file_is_named_at_its_line(
    folder: Path, old: str, new: str, line: int, reason: str
) -> None:
    """A schema that cannot be used is named itself, not the model that names it."""
    spoil(folder, old, new, "one.json")
    name, at, found = mistake(folder)
    assert name == "one.json"
    assert reason in found
    assert at in (line, 1) if "$ref" in new else at == line


def test_property_may_allow_anything(folder: Path) -> None:
    """A schema may be a plain true."""
    spoil(folder, '{"type": "integer", "default": 1}', "true", "one.json")
    assert load_catalog([folder], OFFERS, FLAG).ids == ("acme/one",)


def test_model_declared_twice_is_refused(folder: Path) -> None:
    """The second file of an id is refused, whichever folder it is in."""
    more = folder / "more"
    more.mkdir()
    (more / "again.toml").write_text("# again\n" + GOOD.replace('input_schema = "one.json"\n', ""))
    assert mistake(folder) == ("one.toml", 1, "acme/one is declared twice")


def test_successor_may_be_any_model(folder: Path) -> None:
    """A successor may be any model, of any file."""
    spoil(folder, "2028-05-06", '2028-05-06\nsuccessor = "acme/two"')
    (folder / "two.toml").write_text(GOOD.replace("acme/one", "acme/two"))
    assert load_catalog([folder], OFFERS, FLAG).ids == ("acme/one", "acme/two")


@pytest.mark.parametrize("content", [b'id = "\xff"', b"#" * (4 * 1024 * 1024 + 1)])
def test_unreadable_file_is_a_mistake_of_its_first_line(folder: Path, content: bytes) -> None:
    """Bad UTF-8 and a file of no end are mistakes of line 1."""
    (folder / "one.toml").write_bytes(content)
    assert mistake(folder)[:2] == ("one.toml", 1)


@pytest.mark.req("R-03")
def test_edited_file_changes_the_build(folder: Path) -> None:
    """The build changes with the model's file and with its schema, and with nothing else."""
    builds = [load_catalog([folder], OFFERS, FLAG).build]
    spoil(folder, "0.03", "0.04")
    builds.append(load_catalog([folder], OFFERS, FLAG).build)
    spoil(folder, '"default": 1', '"default": 2', "one.json")
    builds.append(load_catalog([folder], OFFERS, FLAG).build)
    (folder / "notes.txt").write_text("not ours")
    assert load_catalog([folder], OFFERS, FLAG).build == builds[-1]
    assert len(set(builds)) == 3


def _edit(folder: Path) -> None:
    (folder / "one.toml").write_text(GOOD + "\n")


def _edit_schema(folder: Path) -> None:
    (folder / "one.json").write_text(SCHEMA + "\n")


def _add(folder: Path) -> None:
    (folder / "deeper").mkdir()
    (folder / "deeper" / "two.toml").write_text("")


def _remove(folder: Path) -> None:
    (folder / "one.json").unlink()


@pytest.mark.parametrize("change", [_edit, _edit_schema, _add, _remove])
def test_changed_files_change_the_fingerprint(folder: Path, change: Callable[[Path], Any]) -> None:
    """The fingerprint changes when a file is edited, added or removed."""
    before = fingerprint(folder)
    assert fingerprint(folder) == before
    change(folder)
    assert fingerprint(folder) != before


def test_missing_folder_is_an_empty_catalog(tmp_path: Path) -> None:
    """No folder, no models."""
    assert load_catalog([tmp_path / "none"], OFFERS, FLAG).ids == ()
    assert fingerprint(tmp_path / "none") == ()
