"""Translations: what is carried over, how it is spelled there, and that nothing is lost without a word."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.catalog.translations import Move, Translation, translate, translate_back
from fairlead.domain.pointers import Pointer, is_plural, parse_pointer


def move(source: str | list[str], target: str | list[str], **spelling: Any) -> Move:
    """Return a move as a file writes it."""
    several = [[text] if isinstance(text, str) else text for text in (source, target)]
    sources, targets = (tuple(parse_pointer(text) for text in texts) for texts in several)
    return Move(sources, targets, **spelling)


def translated_body(body: dict[str, Any], *moves: Move, **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a body in another provider's words, and what was dropped."""
    translated = translate(Translation(moves, **more), body)
    return translated.body, translated.dropped


@pytest.mark.req("R-12")
@pytest.mark.parametrize(
    ("moved", "body", "expected"),
    [
        (move("/prompt", "/text"), {"prompt": "x"}, {"text": "x"}),
        (move("/a/b", "/c/d/e"), {"a": {"b": [1]}}, {"c": {"d": {"e": [1]}}}),
        (move("/prompt", "/text"), {"prompt": None}, {"text": None}),
        (move("/a", "/b", values={"5s": 5, "true": "yes"}), {"a": "5s"}, {"b": 5}),
        (move("/a", "/b", values={"5": "short", "true": "yes"}), {"a": 5}, {"b": "short"}),
        (move("/a", "/b", values={"true": "yes"}), {"a": True}, {"b": "yes"}),
        (move("/size", ["/w", "/h"], glue="x", kind="integer"), {"size": "16x9"}, {"w": 16, "h": 9}),
        (move(["/w", "/h"], "/size", glue="*"), {"w": 16, "h": 9}, {"size": "16*9"}),
        (move("/a", "/b", kind="integer"), {"a": "5"}, {"b": 5}),
        (move("/a", "/b", kind="integer"), {"a": 5.0}, {"b": 5}),
        (move("/a", "/b", kind="number"), {"a": "2.5"}, {"b": 2.5}),
        (move("/a", "/b", kind="text"), {"a": 5}, {"b": "5"}),
        (move("/a", "/b", form="{}s"), {"a": 5}, {"b": "5s"}),
        (move("/a", "/b", kind="integer", form="n={}"), {"a": "05"}, {"b": "n=5"}),
        (move("/images/*/url", "/urls/*"), {"images": [{"url": "a"}, {"url": "b"}]}, {"urls": ["a", "b"]}),
        (
            move("/images/*/url", "/refs/*/at"),
            {"images": [{"url": "a"}, {"url": "b"}]},
            {"refs": [{"at": "a"}, {"at": "b"}]},
        ),
        (move("/images/*/url", "/first"), {"images": [{"url": "a"}]}, {"first": "a"}),
        (move("/images/0", "/first"), {"images": ["a"]}, {"first": "a"}),
        (move("/image", "/images/0"), {"image": "a"}, {"images": ["a"]}),
    ],
)
def test_moved_field_arrives_as_the_move_says(moved: Move, body: dict[str, Any], expected: dict[str, Any]) -> None:
    """A field moves, spelled as the move says, and nothing is dropped of it."""
    assert translated_body(body, moved) == (expected, ())


@pytest.mark.req("R-12")
@pytest.mark.parametrize(
    ("moved", "body"),
    [
        (move("/a", "/b", values={"5s": 5}), {"a": "9s"}),
        (move("/a", "/b", values={"5s": 5}), {"a": ["5s"]}),
        (move("/a", "/b", kind="integer"), {"a": "five"}),
        (move("/a", "/b", kind="integer"), {"a": 2.5}),
        (move("/a", "/b", kind="integer"), {"a": {}}),
        (move("/a", "/b", kind="number"), {"a": "nan"}),
        (move("/a", "/b", kind="number"), {"a": "-inf"}),
        (move("/a", "/b", form="{}s"), {"a": []}),
        (move("/a", ["/b", "/c"], glue="x"), {"a": "16"}),
        (move("/a", ["/b", "/c"], glue="x"), {"a": "16x9x1"}),
        (move("/a", ["/b", "/c"], glue="x", kind="integer"), {"a": "16xnine"}),
        (move("/a", ["/b", "/c"], glue="x"), {"a": [16, 9]}),
        (move("/a", "/b/3"), {"a": 1}),
    ],
)
def test_value_without_a_counterpart_is_dropped_with_a_reason(moved: Move, body: dict[str, Any]) -> None:
    """A value without a counterpart is dropped, and named with the reason."""
    _, dropped = translated_body(body, moved)
    assert dropped == ("a: this provider cannot express this value",)


@pytest.mark.req("R-12")
def test_joined_field_needs_all_its_parts() -> None:
    """A text is joined of all its parts or of none: what is there alone is dropped."""
    body, dropped = translated_body({"w": 16}, move(["/w", "/h"], "/size", glue="*"))
    assert (body, dropped) == ({}, ("w: this provider has no such field",))


@pytest.mark.req("R-12")
def test_dropped_field_is_named_with_its_reason() -> None:
    """A reason of the file is told, at the field or at its top; else that there is no such field."""
    body = {"user": "me", "style": {"tone": 1, "mood": 2}, "seed": 5, "prompt": "x", "none": None}
    reasons = {"/user": "it keeps no users apart", "/style": "it has no styles", "/style/mood": "it has no moods"}
    _, dropped = translated_body(body, move("/prompt", "/p"), move("/style/tone", "/t", values={}), dropped=reasons)
    assert dropped == (
        "user: it keeps no users apart",
        "style: it has no styles",
        "seed: this provider has no such field",
    )


@pytest.mark.req("R-12")
def test_rest_of_a_partly_carried_object_is_named() -> None:
    """Beside what was carried, the rest of an object or an array is named place by place."""
    body = {"a": {"b": 1, "c": {"d": 2, "e": 3}}, "l": [{"url": "u", "fit": 1}, {"url": "v"}]}
    target, dropped = translated_body(body, move("/a/b", "/b"), move("/l/*/url", "/urls/*"))
    assert target == {"b": 1, "urls": ["u", "v"]}
    assert dropped == ("a.c: this provider has no such field", "l.0.fit: this provider has no such field")


@pytest.mark.req("R-12")
def test_each_further_picture_is_named_as_dropped() -> None:
    """Where there is room for one, the first is carried and each further one is named."""
    body = {"images": [{"url": "a"}, {"url": "b"}]}
    assert translated_body(body, move("/images/*/url", "/image")) == (
        {"image": "a"},
        ("images.1: this provider has no such field",),
    )


@pytest.mark.req("R-12")
def test_role_that_chose_the_field_is_not_dropped() -> None:
    """What a filter looked at has said what it had to; other roles are named."""
    body = {"content": [{"role": "first_frame", "url": "a"}, {"role": "last_frame", "url": "b"}, {"url": "c"}]}
    filtered = move("/content/*[role=first_frame]/url", "/start"), move("/content/*[role=]/url", "/refs/*")
    assert translated_body(body, *filtered) == (
        {"start": "a", "refs": ["c"]},
        ("content.1: this provider has no such field",),
    )


@pytest.mark.req("R-12")
def test_implied_field_is_not_named_as_dropped() -> None:
    """The model is named by the path, and what else says nothing of its own is not named."""
    body = {"model": "x", "content": [{"type": "text", "text": "t"}]}
    implied = (("model",), ("content", "*", "type"))
    assert translated_body(body, move("/content/*/text", "/prompt"), implied=implied) == ({"prompt": "t"}, ())


@pytest.mark.req("R-12")
def test_constants_do_not_carry_over_between_bodies() -> None:
    """Constants are there whatever the body says, and one body changes nothing for the next; nor itself."""
    constants = ((("size",), {"fit": "crop"}), (("sync",), True))
    translation = Translation(
        (move("/w", "/size/width"), move("/image", "/image"), move("/mask", "/image/mask")), constants
    )
    body = {"w": 5, "image": {"url": "u"}, "mask": "m"}
    before = copy.deepcopy(body)
    assert translate(translation, body).body == {
        "size": {"fit": "crop", "width": 5}, "sync": True, "image": {"url": "u", "mask": "m"},
    }  # fmt: skip
    assert body == before
    assert translate(translation, {}).body == {"size": {"fit": "crop"}, "sync": True}


RUN = "0198f000-0000-7000-8000-000000000001"
NATIVE = Translation(
    (move("/prompt", "/prompt"),),
    answer=(move("/images/*/url", "/data/*/url"), move("/usage/out", "/usage/output_tokens")),
    answer_constants=((("created",), 0),),
    require=(("data", "0", "url"),),
)


@pytest.mark.req("R-12")
def test_answer_is_translated_back_to_the_native_form() -> None:
    """Results take their native places, constants are added, and fields nobody knows survive beside them."""
    answer = {"images": [{"url": "a"}, {"url": "b"}], "usage": {"out": 7, "extra": 1}, "seed": 5, "created": 9}
    assert translate_back(NATIVE, answer, RUN) == {
        "created": 0,
        "data": [{"url": "a"}, {"url": "b"}],
        "usage": {"output_tokens": 7, "extra": 1},
        "seed": 5,
    }


@pytest.mark.req("R-12")
def test_answer_may_have_the_id_and_the_time_of_the_run() -> None:
    """What only the native provider would say, a constant says by the run: its id, and when it began."""
    constants = ((("id",), "task-{run}"), (("created",), "{seconds}"), (("at", "ms"), "{milliseconds}"), (("n",), 1))
    told = Translation((), answer=(move("/url", "/url"),), answer_constants=constants)
    assert translate_back(told, {"url": "a"}, RUN) == {
        "id": f"task-{RUN}",
        "created": 0x0198F0000000 // 1000,
        "at": {"ms": 0x0198F0000000},
        "n": 1,
        "url": "a",
    }


@pytest.mark.req("R-12")
def test_translated_result_wins_over_a_field_of_the_same_name() -> None:
    """What was carried over wins over what the provider calls the same."""
    answer = {"images": [{"url": "a"}], "data": "raw", "usage": {"out": 1, "output_tokens": 9}}
    back = translate_back(NATIVE, answer, RUN)
    assert back == {"created": 0, "data": [{"url": "a"}], "usage": {"output_tokens": 1}}


@pytest.mark.req("R-12")
@pytest.mark.parametrize(
    "answer", [{}, {"images": []}, {"images": [{"width": 1}]}, {"status": "ok"}, [], None, "text", 5]
)
def test_answer_without_a_required_result_stays_raw(answer: Any) -> None:
    """An answer that lacks what is required after translation stays raw."""
    assert translate_back(NATIVE, answer, RUN) is None


@pytest.mark.req("R-12")
def test_answer_that_cannot_be_translated_stays_raw() -> None:
    """A value without a native word, or a translation without a way back, leaves the answer raw."""
    picky = Translation((), answer=(move("/state", "/status", values={"done": "succeeded"}),))
    assert translate_back(picky, {"state": "done"}, RUN) == {"status": "succeeded"}
    assert translate_back(picky, {"state": "other"}, RUN) is None
    assert translate_back(Translation((move("/a", "/b"),)), {"a": 1}, RUN) is None


@pytest.mark.req("R-12")
def test_translating_changes_neither_the_answer_nor_the_translation() -> None:
    """The provider's answer is as it was, and so is the translation."""
    answer = {"images": [{"url": "a"}], "usage": {"out": 7, "extra": {"x": [1]}}}
    before = copy.deepcopy(answer)
    assert translate_back(NATIVE, answer, RUN) == translate_back(NATIVE, answer, RUN)
    assert answer == before


SOURCES = [("a",), ("b",), ("a", "b"), ("l", "*"), ("l", "*", "a"), ("l", "0"), ("l", "*[b=x]", "a"), ("l", "*[b=]")]
FORMS = [{}, {"form": "<{}>"}, {"kind": "text"}, {"kind": "integer"}, {"values": {"x": "y"}}]
LEAF = st.just("leaf")
INNER = st.fixed_dictionaries({}, optional={"a": LEAF, "b": st.just("x"), "c": LEAF}).filter(bool)
BODIES = st.fixed_dictionaries(
    {}, optional={"a": LEAF | INNER, "b": LEAF | INNER, "l": st.lists(LEAF | INNER, min_size=1, max_size=3)}
)


def number_leaves(value: Any, numbers: Iterator[int]) -> Any:
    """Return a document in which no two leaves are the same."""
    match value:
        case dict():
            return {name: number_leaves(inner, numbers) for name, inner in value.items()}
        case list():
            return [number_leaves(inner, numbers) for inner in value]
        case "leaf":
            return f"leaf-{next(numbers)};"
        case _:
            return value


def leaves(value: Any, above: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """Return the place and the text of every leaf."""
    if isinstance(value, str):
        yield above, value
        return
    for name, inner in enumerate(value) if isinstance(value, list) else value.items():
        yield from leaves(inner, (*above, str(name)))


@pytest.mark.req("R-12")
@given(st.lists(st.tuples(st.sampled_from(SOURCES), st.sampled_from(FORMS), st.booleans()), max_size=4), BODIES)
def test_every_leaf_arrives_or_is_named_as_dropped(
    moves: list[tuple[Pointer, dict[str, Any], bool]], body: Any
) -> None:
    """Whatever the moves, every leaf of a body arrives on the other side or is named there as dropped."""
    body = number_leaves(body, itertools.count())
    made = tuple(
        Move((source,), ((f"t{number}", *(["*"] if plural and is_plural(source) else [])),), **form)
        for number, (source, form, plural) in enumerate(moves)
    )
    translated = translate(Translation(made), body)
    arrived = repr(translated.body)
    named = [tuple(entry.partition(": ")[0].split(".")) for entry in translated.dropped]
    assert len(set(named)) == len(named)
    for place, text in leaves(body):
        is_named = any(place[: len(one)] == one for one in named)
        # The `x` of a filter has chosen the field, which is all it had to say.
        has_chosen = text == "x" and place[0] == "l" and any("*[b=x]" in source for source, _, _ in moves)
        has_arrived = text in arrived or (text == "x" and "'y'" in arrived)  # as one of the forms spells it
        assert is_named or has_arrived or has_chosen, place
        assert not (is_named and text.startswith("leaf") and text in arrived), place
