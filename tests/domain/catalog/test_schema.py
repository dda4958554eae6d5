"""Violations of an input schema: where, what, of which kind, and within bounds."""

from typing import Any

import pytest

from fairlead.domain.catalog.schema import VIOLATIONS_MAX, InputSchema, strong_etag
from fairlead.domain.faults import Violation

SCHEMA = InputSchema(
    {
        "type": "object",
        "required": ["prompt"],
        "additionalProperties": False,
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$"},
            "n": {"type": "integer", "minimum": 1, "maximum": 4, "multipleOf": 2, "default": 2},
            "size": {"enum": ["s", "m"], "default": "s"},
            "over": {"exclusiveMinimum": 0, "exclusiveMaximum": 9},
            "fixed": {"const": 7},
            "items": {"type": "array", "minItems": 1, "maxItems": 60, "items": {"$ref": "#/$defs/item"}},
            "link": {"type": "string", "format": "uri"},
            "anything": True,
        },
        "$defs": {"item": {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}},
    }
)


def violation(**body: Any) -> Violation:
    """Return the one violation of a body."""
    (found,) = SCHEMA.violations({"prompt": "a", **body})
    return found


@pytest.mark.req("R-08")
@pytest.mark.parametrize("body", [{"prompt": "abc"}, {"prompt": "a", "n": 2, "items": [{"w": 1}], "anything": [None]}])
def test_valid_body_has_no_violations(body: dict[str, Any]) -> None:
    """A valid body has no violations."""
    assert SCHEMA.violations(body) == ()


@pytest.mark.req("R-21")
@pytest.mark.parametrize(
    ("field", "value", "kind", "ctx"),
    [
        ("n", 0, "greater_than_equal", {"ge": 1}),
        ("n", 6, "less_than_equal", {"le": 4}),
        ("n", 3, "multiple_of", {"multiple_of": 2}),
        ("n", "2", "type", {"expected": ["integer"]}),
        ("n", True, "type", {"expected": ["integer"]}),
        ("over", 0, "greater_than", {"gt": 0}),
        ("over", 9, "less_than", {"lt": 9}),
        ("prompt", "", "string_too_short", {"min_length": 1}),
        ("prompt", "abcdef", "string_too_long", {"max_length": 5}),
        ("prompt", "A", "string_pattern_mismatch", {"pattern": "^[a-z]*$"}),
        ("size", "l", "enum", {"expected": ["s", "m"]}),
        ("fixed", 8, "const", {"expected": 7}),
        ("link", "::", "format", {"format": "uri"}),
    ],
)
def test_violation_has_the_specified_shape(field: str, value: Any, kind: str, ctx: dict[str, Any]) -> None:
    """Path, kind, bounds and the value, as the specification lays them out."""
    found = violation(**{field: value})
    assert (found.loc, found.type, found.ctx) == (("body", field), kind, ctx)
    assert (found.input, found.has_input) == (value, True)
    assert found.msg


@pytest.mark.req("R-21")
def test_missing_or_unexpected_field_is_named_in_its_own_path() -> None:
    """Both are named in their own path, and without a value."""
    assert SCHEMA.violations({}) == (Violation(("body", "prompt"), "Field required", "missing"),)
    assert violation(colour=1) == Violation(("body", "colour"), "Extra inputs are not permitted", "extra_forbidden")


@pytest.mark.req("R-21")
def test_array_index_in_a_path_is_an_integer() -> None:
    """A place in an array is an integer in the path."""
    found = violation(items=[{"w": 1}, {"w": "x"}, {}][:2])
    assert found.loc == ("body", "items", 1, "w")
    assert violation(items=[{}]).loc == ("body", "items", 0, "w")


@pytest.mark.req("R-21")
@pytest.mark.parametrize(("items", "kind"), [([], "too_short"), ([{"w": 1}] * 61, "too_long")])
def test_array_violations_have_their_own_kinds(items: list[Any], kind: str) -> None:
    """Arrays have their own kinds, and are not repeated in the answer."""
    found = violation(items=items)
    assert (found.type, found.input, found.has_input) == (kind, None, False)


@pytest.mark.req("R-21")
def test_at_most_fifty_violations_are_told() -> None:
    """At most fifty violations are told, from one error or from many."""
    assert len(SCHEMA.violations({"prompt": "a", "items": [{}] * 60})) == VIOLATIONS_MAX
    assert len(SCHEMA.violations({"prompt": "a", **{f"x{n}": 1 for n in range(200)}})) == VIOLATIONS_MAX


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "SECRET" * 10_000},
        {"prompt": "a", "size": "SECRET" * 10_000},
        {"prompt": "a", "items": {"SECRET": ["SECRET"] * 10_000}},
        {"prompt": "a", "SECRET" * 10_000: 1},
    ],
)
@pytest.mark.req("R-21")
def test_large_value_is_never_repeated(body: dict[str, Any]) -> None:
    """Long texts and containers stay out of the answer, also out of its sentences."""
    for found in SCHEMA.violations(body):
        assert found.input is None
        assert "SECRET" not in found.msg
        assert len(str(found.loc)) < 300


def test_defaults_are_those_of_top_level_fields() -> None:
    """The defaults are those of the top-level fields that have one."""
    assert SCHEMA.defaults == {"n": 2, "size": "s"}


def test_patterns_match_in_linear_time() -> None:
    """Patterns are matched in linear time."""
    schema = InputSchema({"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert len(schema.violations({"a": "a" * 5000 + "!"})) == 1


@pytest.mark.parametrize("document", [{"type": "whole"}, {"pattern": "(?=a)"}, {"$ref": "https://nowhere.test/schema"}])
def test_unusable_schema_is_refused(document: dict[str, Any]) -> None:
    """A document that is not a schema, or needs another from elsewhere, is refused when it is compiled."""
    with pytest.raises(Exception, match=r"."):
        InputSchema({"properties": {"a": document}})


@pytest.mark.req("R-07")
def test_entity_tag_is_strong_and_follows_every_byte() -> None:
    """A tag is quoted, strong, and changes with every byte."""
    assert strong_etag(b"a").startswith('"')
    assert strong_etag(b"a") != strong_etag(b"b")


@pytest.mark.req("R-15")
def test_undeclared_top_level_field_is_named() -> None:
    """Top-level fields that are not declared are named, each in its own path; nested ones are not looked at."""
    body = {"prompt": "a", "colour": 1, "items": [{"w": 1, "colour": 1}], "x" * 999: 2}
    assert SCHEMA.unknown_fields(body) == (
        Violation(("body", "colour"), "Extra inputs are not permitted", "extra_forbidden"),
        Violation(("body", "x" * 200), "Extra inputs are not permitted", "extra_forbidden"),
    )
    silent = InputSchema({"type": "object", "properties": {"prompt": {}}})
    assert [found.loc for found in silent.unknown_fields({"prompt": 1, "colour": 1})] == [("body", "colour")]
    assert silent.violations({"prompt": 1, "colour": 1}) == ()


@pytest.mark.req("R-15")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "object"},
        {"properties": {}},
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
    ],
)
def test_open_schema_takes_every_field(document: dict[str, Any]) -> None:
    """Nothing is unknown to a schema that is open, or that declares nothing."""
    assert InputSchema(document).unknown_fields({"a": 1, "colour": 2}) == ()


@pytest.mark.parametrize(
    ("properties", "declares"), [({"model": {"type": "string"}}, True), ({"model": True}, False), ({}, False)]
)
def test_schema_says_whether_its_body_names_the_model(properties: dict[str, Any], *, declares: bool) -> None:
    """A schema whose body names the model says so."""
    assert InputSchema({"properties": properties}).declares_model is declares


def test_schema_is_kept_as_it_was_written() -> None:
    """The document is kept as text, and reads as what it was, in its order, to the last digit."""
    document = {"properties": {"b": {"maximum": 2**70, "default": 0.1}, "a": {"const": "\u2028ü"}}, "required": []}
    schema = InputSchema(document)
    assert repr(schema.document) == repr(document)
    assert [violation.loc for violation in schema.violations({"a": 1})] == [("body", "a")]


def test_schema_that_cannot_be_encoded_is_refused() -> None:
    """Half of a surrogate pair is text in Python and nowhere else."""
    with pytest.raises(UnicodeEncodeError):
        InputSchema({"properties": {"a": {"const": "\ud800"}}})
