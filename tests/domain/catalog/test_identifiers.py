"""The grammar of model ids, as the specification writes it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.domain.catalog.identifiers import is_model_id, is_model_segment, is_provider_segment

SEGMENT = re.compile(r"^[a-z0-9]+([._-][a-z0-9]+)*$")
MODEL_ID = re.compile(r"^[a-z0-9]+([._-][a-z0-9]+)*/[a-z0-9]+([._-][a-z0-9]+)*$")
NEAR_MISSES = st.text(alphabet="ab09._-/A \n\u00e9", max_size=24)
pytestmark = pytest.mark.req("R-01")


def _is(pattern: re.Pattern[str], text: str) -> bool:
    """Match as JSON Schema means it: `$` is the end, not the place before a last newline."""
    return pattern.match(text) is not None and not text.endswith("\n")


@given(NEAR_MISSES)
def test_segment_is_good_exactly_when_the_pattern_says_so(text: str) -> None:
    """Short segments are good exactly when the specification's pattern says so."""
    assert is_provider_segment(text) == is_model_segment(text) == _is(SEGMENT, text)


@given(NEAR_MISSES)
def test_id_is_good_exactly_when_the_pattern_says_so(text: str) -> None:
    """Short ids are good exactly when the specification's pattern says so."""
    assert is_model_id(text) == _is(MODEL_ID, text)


@settings(max_examples=20)
@given(st.from_regex(MODEL_ID, fullmatch=True).filter(lambda text: len(text) < 60))
def test_whatever_the_pattern_makes_is_an_id(text: str) -> None:
    """Whatever the pattern makes is an id."""
    assert is_model_id(text) == (not text.endswith("\n"))


@pytest.mark.parametrize(("length", "good"), [(1, True), (64, True), (65, False)])
def test_provider_has_at_most_64_characters(length: int, *, good: bool) -> None:
    """A provider has at most 64 characters."""
    assert is_provider_segment("a" * length) is good


@pytest.mark.parametrize(("length", "good"), [(65, True), (128, True), (129, False)])
def test_model_has_at_most_128_characters(length: int, *, good: bool) -> None:
    """A model has at most 128 characters."""
    assert is_model_segment("a" * length) is good


@pytest.mark.parametrize(
    ("provider", "model", "good"), [(64, 128, True), (65, 128, False), (64, 129, False), (65, 2, False)]
)
def test_id_of_193_characters_is_the_longest(provider: int, model: int, *, good: bool) -> None:
    """An id has at most 193 characters, 64 and 128 around the slash."""
    assert is_model_id("a" * provider + "/" + "b" * model) is good


def test_long_malformed_name_is_refused_at_once() -> None:
    """The pattern cannot be made to run away."""
    assert not is_model_segment("a-" * 60 + "!")
    assert not is_model_id("a" * 100_000 + "!")
