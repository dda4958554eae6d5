"""The grammar of model ids, as the specification writes it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.domain.identifiers import is_model_id, is_model_segment, is_provider_segment

SEGMENT = re.compile(r"^[a-z0-9]+([._-][a-z0-9]+)*$")
MODEL_ID = re.compile(r"^[a-z0-9]+([._-][a-z0-9]+)*/[a-z0-9]+([._-][a-z0-9]+)*$")
NEAR_MISSES = st.text(alphabet="ab09._-/A \n\u00e9", max_size=24)
pytestmark = pytest.mark.req("R-01")


def _is(pattern: re.Pattern[str], text: str) -> bool:
    """Match as JSON Schema means it: `$` is the end, not the place before a last newline."""
    return pattern.match(text) is not None and not text.endswith("\n")


@given(NEAR_MISSES)
def test_a_segment_differs_from_the_pattern(text: str) -> None:
    """Short segments are good exactly when the specification's pattern says so."""
    assert is_provider_segment(text) == is_model_segment(text) == _is(SEGMENT, text)


@given(NEAR_MISSES)
def test_an_id_differs_from_the_pattern(text: str) -> None:
    """Short ids are good exactly when the specification's pattern says so."""
    assert is_model_id(text) == _is(MODEL_ID, text)


@settings(max_examples=20)
@given(st.from_regex(MODEL_ID, fullmatch=True).filter(lambda text: len(text) < 60))
def test_a_good_id_is_refused(text: str) -> None:
    """Whatever the pattern makes is an id."""
    assert is_model_id(text) == (not text.endswith("\n"))


@pytest.mark.parametrize(("length", "good"), [(1, True), (64, True), (65, False)])
def test_a_provider_is_as_long_as_it_likes(length: int, *, good: bool) -> None:
    """A provider has at most 64 characters."""
    assert is_provider_segment("a" * length) is good


@pytest.mark.parametrize(("length", "good"), [(65, True), (128, True), (129, False)])
def test_a_model_is_as_long_as_it_likes(length: int, *, good: bool) -> None:
    """A model has at most 128 characters."""
    assert is_model_segment("a" * length) is good


@pytest.mark.parametrize(
    ("provider", "model", "good"), [(64, 128, True), (65, 128, False), (64, 129, False), (65, 2, False)]
)
def test_an_id_of_193_characters_is_refused(provider: int, model: int, *, good: bool) -> None:
    """An id has at most 193 characters, 64 and 128 around the slash."""
    assert is_model_id("a" * provider + "/" + "b" * model) is good


def test_a_long_bad_name_takes_for_ever() -> None:
    """The pattern cannot be made to run away."""
    assert not is_model_segment("a-" * 60 + "!")
    assert not is_model_id("a" * 100_000 + "!")
