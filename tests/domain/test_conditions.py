"""Conditions: what a file may ask of a document, and when it is so."""

from typing import Any

import msgspec
import pytest

from fairlead.domain.pointers import ConditionFile, all_hold, condition, conditions, text_of


def holds(document: Any, **said: Any) -> bool:
    """Whether a condition, as a file writes it, holds in a document."""
    return condition(msgspec.convert(said, ConditionFile)).holds(document)


@pytest.mark.parametrize("nothing", [{}, {"a": None}, {"a": ""}, {"a": []}, {"a": {}}])
def test_null_and_empty_values_count_as_absent(nothing: dict[str, Any]) -> None:
    """Null, an empty text and an empty container are as good as nothing."""
    assert not holds(nothing, at="/a")
    assert not holds(nothing, at="/a", present=True)
    assert holds(nothing, at="/a", present=False)


@pytest.mark.parametrize("something", [0, False, 0.0, "x", [None], {"b": None}])
def test_zero_false_and_containers_of_nulls_count_as_present(something: Any) -> None:
    """Zero and false are values, and so is a container of nulls."""
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
def test_scalars_are_compared_as_json_writes_them(value: Any, wanted: list[str], *, so: bool) -> None:
    """Scalars are compared as JSON writes them, whole numbers without decimals; nothing else equals a text."""
    assert holds({"a": value}, at="/a", equals=wanted) is so


@pytest.mark.parametrize(
    ("value", "so"), [("Rejected by MODERATION", True), ("moderated", True), ("fine", False), (5, False), (None, False)]
)
def test_word_is_found_in_any_case(value: Any, *, so: bool) -> None:
    """One of the words occurs, in whatever case it or the text is written."""
    assert holds({"a": value}, at="/a", contains=["Moderat", "nsfw"]) is so


@pytest.mark.parametrize(
    ("value", "so"), [(5, False), (5.5, True), (6, True), (4, False), ("6", False), (True, False), (None, False)]
)
def test_only_a_number_above_the_bound_is_above_it(value: Any, *, so: bool) -> None:
    """A number above the bound, not one equal to it, and no text or boolean."""
    assert holds({"a": value}, at="/a", above="5") is so


@pytest.mark.parametrize(
    ("value", "so"),
    [("1500*1500", False), ("1501x1500", True), ("4000X4000", True), ("1K", False), (2250001, False), (None, False)],
)
def test_area_is_that_of_a_size(value: Any, *, so: bool) -> None:
    """A size of more pixels than the bound; what is no size has no area."""
    assert holds({"a": value}, at="/a", area_above="2250000") is so


def test_one_of_several_places_is_enough_and_absent_needs_all() -> None:
    """A condition on several places holds when one of them matches; `absent` holds when all of them are absent."""
    document = {"content": [{"type": "text"}, {"type": "video_url"}]}
    assert holds(document, at="/content/*/type", equals=["video_url"])
    assert not holds(document, at="/content/*/type", equals=["audio_url"])
    assert holds(document, at="/content/*[type=video_url]")
    assert holds(document, at="/content/*[type=audio_url]", present=False)
    assert not holds(document, at="/content/*/type", present=False)


def test_all_of_several_conditions_must_hold() -> None:
    """All of them must hold, and none at all always do."""
    both = conditions([ConditionFile("/a"), ConditionFile("/b", equals=["x"])])
    assert all_hold(both, {"a": 1, "b": "x"})
    assert not all_hold(both, {"a": 1, "b": "y"})
    assert not all_hold(both, {"b": "x"})
    assert all_hold((), {})


def test_condition_that_says_two_things_is_refused() -> None:
    """A condition says at most one thing about its place."""
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
def test_malformed_condition_is_refused(said: dict[str, Any]) -> None:
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
def test_scalar_is_spelled_as_json_spells_it(value: Any, text: str | None) -> None:
    """Scalars are spelled as JSON spells them; containers and null are none."""
    assert text_of(value) == text
