"""Arithmetic written by callers: what it may say, and what is refused before it is worked out."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.engine.texts.expressions import ExpressionError, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("7 % 3", 1),
        ("7 / 2", 3.5),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("-2 ** 2", -4),
        ("1 << 4 | 3", 19),
        ("~5 & 7", 2),
        ("6 ^ 3", 5),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("0x10", 16),
        ("1_000", 1000),
        ("  1 +\n  2  # two lines", 3),
    ],
)
def test_arithmetic_is_pythons(expression: str, value: float) -> None:
    """Operators have Python's meaning, precedence and kinds of result, over several lines too."""
    result = evaluate(expression, {})
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a < b", True),
        ("a < b < 3", False),
        ("1 < a < 5", True),
        ("a == 2 and b != 2", True),
        ("not a", False),
        ("a > 5 or b", 3),
        ("0 and 1 / 0", 0),
        ("1 or 1 / 0", 1),
        ("a if a > b else b", 3),
        ("1 / 0 if False else 8", 8),
        ("2 in values", True),
        ("9 not in values", True),
    ],
)
def test_logic_is_pythons(expression: str, value: float) -> None:
    """Comparisons chain, `and` and `or` stop early, and only the side that is taken is worked out."""
    result = evaluate(expression, {"a": 2, "b": 3, "values": [2, 3]})
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("min(3, 1, 2)", 1),
        ("max(values)", 4),
        ("sum(values)", 6.5),
        ("sum(1, 2, 3)", 6),
        ("abs(-3)", 3),
        ("round(2.5)", 2),
        ("round(3.5)", 4),
        ("round(3.14159, 2)", 3.14),
        ("round(1234, -2)", 1200),
        ("floor(-1.5)", -2),
        ("ceil(1.2)", 2),
        ("trunc(-1.7)", -1),
        ("int(3.9)", 3),
        ("float(2)", 2.0),
        ("sqrt(9)", 3.0),
        ("pow(2, 3)", 8),
        ("log(1)", 0.0),
        ("log(8, 2)", 3.0),
        ("log2(8)", 3.0),
        ("log10(1000)", 3.0),
        ("exp(0)", 1.0),
        ("sin(0)", 0.0),
        ("cos(0)", 1.0),
        ("tan(0)", 0.0),
    ],
)
def test_functions_give_what_mathematics_says(expression: str, value: float) -> None:
    """Each function gives what mathematics says."""
    assert evaluate(expression, {"values": [1, 1.5, 4]}) == pytest.approx(value)


@given(a=st.integers(-(10**6), 10**6), b=st.integers(-(10**6), 10**6), c=st.integers(1, 10**6))
def test_names_stand_for_their_values(a: int, b: int, c: int) -> None:
    """Names stand for their values."""
    assert evaluate("a * b + a // c - b % c", {"a": a, "b": b, "c": c}) == a * b + a // c - b % c


@for_each(
    "expression",
    [
        "__import__('os')",
        "().__class__",
        "a.real",
        "values[0]",
        "[a]",
        "(a, a)",
        "{a: a}",
        "'text'",
        "f'{a}'",
        "lambda: 1",
        "[x for x in values]",
        "(x := 1)",
        "max(a, key=abs)",
        "max(*values)",
        "abs(abs)",
        "evaluate",
        "eval(1)",
        "(lambda: 1)()",
        "1j",
        "...",
        "None",
        "a; a",
        "import os",
        "",
        " \n ",
        "1 +",
        ")(",
        "a is a",
        "values",
        "values * 2",
        "values + values",
        "a @ a",
        "~1.5",
        "1.5 << 2",
        "1 << -1",
        "int(values)",
        "\x00",
    ],
)
def test_expression_does_nothing_but_arithmetic(expression: str) -> None:
    """Whatever is not arithmetic on numbers is refused, in a sentence."""
    with pytest.raises(ExpressionError):
        evaluate(expression, {"a": 1, "values": [1, 2]})


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("(-1) ** 0.5", "root of a negative number"),
        ("sqrt(-1)", "cannot be worked out"),
        ("log(0)", "cannot be worked out"),
        ("1e308 * 10", "not a finite number"),
        ("1e999", "not a finite number"),
        ("1e999 - 1e999", "not a finite number"),
        ("10 ** 400", "too large"),
        ("2.0 ** 3000", "too large"),
        ("q + 1", "no value q; there are: a"),
        ("nosuch(1)", "no function nosuch; there are: abs, "),
    ],
)
def test_refusal_says_why(expression: str, reason: str) -> None:
    """What has no value says so."""
    with pytest.raises(ExpressionError, match=reason):
        evaluate(expression, {"a": 1})


@for_each(
    "expression",
    [
        "9 ** 9 ** 9",
        "9 ** 9 ** 9 ** 9",
        "pow(10, 10000000)",
        "10 ** -10000000",
        "1 << 10 ** 12",
        "1 << (1 << 60000)",
        "round(5, -1000000000)",
        "round(5.5, 1000000000)",
        "(2 ** 4000) ** 4000",
        " * ".join(["2 ** 4000"] * 300),
        "+".join(["1"] * 1000),
        "-" * 3000 + "1",
        "not " * 900 + "1",
        "(" * 150 + "1" + ")" * 150 + " + q",
        "(" * 1900 + "1" + ")" * 1900,
        "1" * 4001,
        "1 if 0 else " * 250 + "1",
        "abs(" * 500 + "1" + ")" * 500,
        "lambda:" * 190 + "1",
        "lambda:" * 500 + "1",
        "lambda x=" * 400 + "1" + ":1" * 400,
        "[" * 190 + "]" * 190,
        "{1:" * 190 + "1" + "}" * 190,
        "a." + "b." * 1900 + "c",
        "a" + "[0]" * 1000,
        "a" + "()" * 1900,
        "await " * 600 + "a",
        "[x for x in " * 150 + "a" + "]" * 150,
        "f'{" * 60 + "a" + "}'" * 60,
    ],
)
def test_large_or_deep_expression_is_refused(expression: str) -> None:
    """What would grow large, or nest deep, is refused before it does."""
    with pytest.raises(ExpressionError):
        evaluate(expression, {})


_PIECES = [
    *("lambda:", "lambda x:", "(", ")", "[", "]", "{", "}", "1", "a", "+", "-", "not ", " if ", " else ", "abs(", ","),
    *("*", "**", ".b", "[0]", " for x in a", ":=", "=", ":", "'", "f'{", "await ", "yield ", "\\", "\n", "<<"),
]


@pytest.mark.req("S-02")
@given(
    piece=st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map("".join),
    times=st.integers(1, 1_000),
    end=st.lists(st.sampled_from(_PIECES), max_size=3).map("".join),
    close=st.sampled_from(["", ")", "]", "}", ":1", "}'"]),
)
def test_expression_of_any_shape_ends_in_a_number_or_a_clear_refusal(
    piece: str, times: int, end: str, close: str
) -> None:
    """However deep and in whatever words: there is no error but ours, least of all one of recursion."""
    with suppress(ExpressionError):
        assert isinstance(evaluate((piece * times + end + close * times)[:4_000], {"a": 3}), int | float)


def test_result_that_is_not_finite_is_refused() -> None:
    """An infinite input gives an infinite result, which is refused; one that is not used does not matter."""
    with pytest.raises(ExpressionError, match="not a finite number"):
        evaluate("a + 1", {"a": math.inf})
    assert evaluate("b", {"a": math.nan, "b": 4}) == 4
