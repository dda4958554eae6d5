"""Conditions: what a file may ask of a document, and when it is so."""

from typing import Any

import msgspec
import pytest

from fairlead.domain.conditions import ConditionFile, all_hold, condition, conditions, text_of


def holds(document: Any, **said: Any) -> bool:
    """Whether a condition, as a file writes it, holds in a document."""
    return condition(msgspec.convert(said, ConditionFile)).holds(document)


@pytest.mark.parametrize("nothing", [{}, {"a": None}, {"a": ""}, {"a": []}, {"a": {}}])
def test_nothing_passes_for_something(nothing: dict[str, Any]) -> None:
    """Null, an empty text and an empty container are as good as nothing."""
    assert not holds(nothing, at="/a")
    assert not holds(nothing, at="/a", present=True)
    assert holds(nothing, at="/a", present=False)


@pytest.mark.parametrize("something", [0, False, 0.0, "x", [None], {"b": None}])
def test_something_passes_for_nothing(something: Any) -> None:
    """Nought and false are said, and so is a container of nulls."""
    assert holds({"a": something}, at="/a")
    assert not holds({"a": something}, at="/a", present=False)


@pytest.mark.parametrize(
    ("value", "wanted", "so"),
    [
        ("high", ["low", "high"], True),
        ("High", ["high"], False),
        (5, ["5"], True),
        (5.0, ["5"], True),
        (5.5, ["5.5"], True),
        ("5", ["5"], True),
        (True, ["true"], True),
        (False, ["true"], False),
        (1, ["true"], False),
        (None, ["null", "None", ""], False),
        (["high"], ["high"], False),
    ],
)
def test_two_values_are_equal_that_are_not(value: Any, wanted: list[str], *, so: bool) -> None:
    """Scalars are compared as JSON writes them, whole numbers without decimals; nothing else equals a text."""
    assert holds({"a": value}, at="/a", equals=wanted) is so


@pytest.mark.parametrize(
    ("value", "so"), [("Rejected by MODERATION", True), ("moderated", True), ("fine", False), (5, False), (None, False)]
)
def test_a_word_is_not_found_in_a_text(value: Any, *, so: bool) -> None:
    """One of the words occurs, in whatever case it or the text is written."""
    assert holds({"a": value}, at="/a", contains=["Moderat", "nsfw"]) is so


@pytest.mark.parametrize(
    ("value", "so"), [(5, False), (5.5, True), (6, True), (4, False), ("6", False), (True, False), (None, False)]
)
def test_a_number_is_above_its_bound(value: Any, *, so: bool) -> None:
    """A number above the bound, not one equal to it, and no text or boolean."""
    assert holds({"a": value}, at="/a", above="5") is so


def test_one_of_several_places_is_not_enough() -> None:
    """With several places one that is so is enough; absent is what none of them says."""
    document = {"content": [{"type": "text"}, {"type": "video_url"}]}
    assert holds(document, at="/content/*/type", equals=["video_url"])
    assert not holds(document, at="/content/*/type", equals=["audio_url"])
    assert holds(document, at="/content/*[type=video_url]")
    assert holds(document, at="/content/*[type=audio_url]", present=False)
    assert not holds(document, at="/content/*/type", present=False)


def test_one_of_several_conditions_is_enough() -> None:
    """All of them must hold, and none at all always do."""
    both = conditions([ConditionFile("/a"), ConditionFile("/b", equals=["x"])])
    assert all_hold(both, {"a": 1, "b": "x"})
    assert not all_hold(both, {"a": 1, "b": "y"})
    assert not all_hold(both, {"b": "x"})
    assert all_hold((), {})


def test_a_condition_that_says_two_things_is_taken() -> None:
    """A condition says at most one thing beside its place."""
    assert (
        ConditionFile("/a", equals=["x"], present=True).problem()
        == "a condition says one thing, not equals and present"
    )
    assert ConditionFile("/a", above="1").problem() is None
    assert ConditionFile("/a").problem() is None


@pytest.mark.parametrize(
    "said",
    [
        {"at": "a"},
        {"at": "/a", "equals": []},
        {"at": "/a", "above": "x"},
        {"at": "/a", "above": 5},
        {"at": "/a", "is": 1},
    ],
)
def test_a_condition_nobody_can_read_is_taken(said: dict[str, Any]) -> None:
    """What a file writes is checked by its shape."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(said, ConditionFile)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (2.5, "2.5"),
        (3.0, "3"),
        (-0.0, "0"),
        ([], None),
        (None, None),
    ],
)
def test_a_scalar_is_spelled_otherwise(value: Any, text: str | None) -> None:
    """Scalars are spelled as JSON spells them; containers and null are none."""
    assert text_of(value) == text
