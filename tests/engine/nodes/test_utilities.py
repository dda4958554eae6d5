"""Nodes that help others."""

import math
from typing import Any

import numpy as np
import pytest

from fairlead.engine.nodes.node import Result, definition_of
from fairlead.engine.nodes.utilities import (
    color_to_rgb_integer,
    convert_number,
    create_list,
    custom_combo,
    math_expression,
    preview_any,
    seed,
    select_resolution,
)


@pytest.mark.parametrize(
    ("expression", "values", "results"),
    [
        ("a + b", {"a": 1, "b": 2}, (3.0, 3, True)),
        ("a / b", {"a": 7, "b": 2}, (3.5, 3, True)),
        ("-a / b", {"a": 7, "b": 2}, (-3.5, -3, True)),
        ("a > b", {"a": 7, "b": 2}, (1.0, 1, True)),
        ("a - a", {"a": 7}, (0.0, 0, False)),
        ("a * 2", {"a": True}, (2.0, 2, True)),
        ("sum(values) / 2", {"a": 1, "b": 2.0, "z": 4}, (3.5, 3, True)),
        ("round(a / 16) * 16", {"a": 680}, (672.0, 672, True)),
    ],
)
def test_expression_gives_a_float_an_int_and_a_bool(
    expression: str, values: dict[str, float], results: tuple[float, int, bool]
) -> None:
    """The result comes as a number, a whole number that is cut and not rounded, and a boolean."""
    given = math_expression(expression, values)
    assert given == results
    assert [type(result) for result in given] == [float, int, bool]


def test_expression_refuses_texts_by_name() -> None:
    """A value that is not a number is refused by its name."""
    with pytest.raises(ValueError, match="and b is none"):
        math_expression("a", {"a": 1, "b": "text"})


@pytest.mark.parametrize(
    ("value", "results"),
    [
        (3, (3.0, 3)),
        (3.9, (3.9, 3)),
        (-3.9, (-3.9, -3)),
        (True, (1.0, 1)),
        (False, (0.0, 0)),
        ("42", (42.0, 42)),
        (" 3.75 ", (3.75, 3)),
        ("-1e3", (-1000.0, -1000)),
        ("9007199254740993", (9007199254740992.0, 9007199254740993)),
    ],
)
def test_number_is_converted(value: Any, results: tuple[float, int]) -> None:
    """Texts are read, booleans are 1 and 0, fractions are cut, and whole numbers keep all their digits."""
    given = convert_number(value)
    assert given == results
    assert [type(result) for result in given] == [float, int]


@pytest.mark.parametrize("value", ["", "  ", "text", "inf", "nan", math.inf, math.nan, 10**400, "1" * 5000, "0x10"])
def test_text_that_is_no_number_is_refused(value: Any) -> None:
    """Empty texts, other texts, and what is not finite are refused."""
    with pytest.raises(ValueError, match="number"):
        convert_number(value)


def test_colour_is_read_red_first() -> None:
    """Red is the highest byte; the text is handed on as it was written."""
    assert color_to_rgb_integer("#ffffff") == (16777215, "#ffffff")
    assert color_to_rgb_integer("#FF0000") == (0xFF0000, "#FF0000")
    assert color_to_rgb_integer("#000001") == (1, "#000001")


@pytest.mark.parametrize("colour", ["", "red", "#fff", "ffffff", "#gggggg", "#ffffff00", "#ffffff\n", "#+12345"])
def test_text_that_is_no_colour_is_refused(colour: str) -> None:
    """A colour has six hexadecimal digits."""
    with pytest.raises(ValueError, match="#RRGGBB"):
        color_to_rgb_integer(colour)


@pytest.mark.parametrize(
    ("ratio", "megapixels", "multiple", "size"),
    [
        # A square of one megapixel is 1024; of four, 2048.
        ("1:1 (Square)", 1.0, 8, (1024, 1024)),
        ("1:1 (Square)", 4.0, 64, (2048, 2048)),
        # sqrt(2^20 * 16/9) = 1365.33 = 170.67 eights; sqrt(2^20 * 9/16) = 768.
        ("16:9 (Widescreen)", 1.0, 8, (1368, 768)),
        ("9:16 (Portrait Widescreen)", 1.0, 8, (768, 1368)),
        # sqrt(2^20 * 3/2) = 1254.1 = 156.8 eights; sqrt(2^20 * 2/3) = 836.1 = 104.5 eights.
        ("3:2 (Photo)", 1.0, 8, (1256, 840)),
        ("2:3 (Portrait Photo)", 1.0, 8, (840, 1256)),
        # sqrt(2^20 * 4/3) = 1182.4 = 9.24 times 128; sqrt(2^20 * 3/4) = 886.8 = 6.93 times 128.
        ("4:3 (Standard)", 1.0, 128, (1152, 896)),
        ("3:4 (Portrait Standard)", 1.0, 128, (896, 1152)),
        # sqrt(2^20 * 21/9) = 1564.2 = 195.5 eights; sqrt(2^20 * 9/21) = 670.4 = 83.8 eights.
        ("21:9 (Ultrawide)", 1.0, 8, (1568, 672)),
    ],
)
def test_resolution_has_the_ratio_and_area_asked_for(
    ratio: str, megapixels: float, multiple: int, size: tuple[int, int]
) -> None:
    """Width and height have the ratio and the area as nearly as their multiple lets them."""
    assert select_resolution(ratio, megapixels, multiple) == size


def test_unknown_ratio_is_refused() -> None:
    """It may come over a link, unchecked."""
    with pytest.raises(ValueError, match="no such aspect ratio: '5:4'"):
        select_resolution("5:4", 1.0, 8)


def test_seed_is_handed_on() -> None:
    """A seed is handed on."""
    assert seed(2**63 - 1) == 2**63 - 1


def test_choice_that_its_user_wrote_is_taken() -> None:
    """The choices of the editor are not in the definition: any is taken, with the index the editor sends along."""
    definition = definition_of(custom_combo)
    assert definition.validate is not None
    assert definition.validate(choice="mine") is True
    assert definition.takes_unknown
    assert [given.name for given in definition.inputs] == ["choice"]
    assert custom_combo("mine", option1="yours", option2="mine", index=1) == ("mine", 1)
    assert custom_combo("mine") == ("mine", 0)


def test_list_keeps_the_order_of_its_inputs() -> None:
    """The items come in the order of the inputs, whatever the order of the graph."""
    grown = {"input2": [5], "input0": [1, 2], "input10": [6], "input1": [3, 4]}
    assert create_list(grown) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("text", "text"),
        (3, "3"),
        (0.5, "0.5"),
        (True, "True"),
        (None, "None"),
        ([1, "é"], '[\n    1,\n    "é"\n]'),
        ({"a": {"b": None}}, '{\n    "a": {\n        "b": null\n    }\n}'),
        ([], "[]"),
        ([1 + 2j], "[(1+2j)]"),
    ],
)
def test_value_is_shown_as_it_is(source: Any, shown: str) -> None:
    """Lists and dictionaries are JSON, others are as they write themselves; watchers see what the output holds."""
    assert preview_any(source) == Result((shown,), ui={"text": [shown]})


def test_large_array_is_shown_in_short() -> None:
    """Millions of numbers are shown in short."""
    (shown,) = preview_any(np.zeros((1, 512, 512, 3), np.float32)).values
    assert len(shown) < 2000
