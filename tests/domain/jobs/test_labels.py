"""Labels: which may be kept (J-12)."""

from typing import Any

import pytest

from cases import for_each
from fairlead.domain.jobs.listing import fault_of_labels, is_label_key, is_label_text, labels_of_runs


@pytest.mark.req("J-12")
@pytest.mark.parametrize("key", ["a", "A-z_0.9", "k" * 40, ".", "-"])
def test_good_label_key_is_taken(key: str) -> None:
    """A key has 1 to 40 letters, digits, underscores, dots and dashes."""
    assert is_label_key(key)
    assert fault_of_labels({key: ""}) is None


@pytest.mark.parametrize("key", ["", "k" * 41, "a b", "é", "a\n", "a[0]", "a/b", "a=b"])
def test_malformed_label_key_is_refused_by_name(key: str) -> None:
    """Anything else is none, and the refusal names it."""
    assert not is_label_key(key)
    fault = fault_of_labels({"fine": "x", key: "x"})
    assert fault is not None
    assert fault.key == key


@pytest.mark.req("M-07")
def test_runs_of_a_job_have_as_many_of_its_labels_as_a_run_may() -> None:
    """The first ones by name, in one order."""
    assert labels_of_runs({"b": "2", "a": "é"}) == '{"a":"é","b":"2"}'
    assert labels_of_runs({}) is None
    many = {f"l{number:02}": "x" for number in reversed(range(16))}
    assert labels_of_runs(many) == labels_of_runs({f"l{number:02}": "x" for number in range(8)})


@for_each("code", [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], ids=hex)
def test_control_and_direction_characters_are_refused_in_labels(code: int) -> None:
    """Control characters, and those that turn directions."""
    assert not is_label_text(f"a{chr(code)}b")


@pytest.mark.parametrize(
    "text", ["", " ", "~", "\u00a0", "é", "\u200f", "\u2029", "\u202f", "\u2065", "\u206a", "\U0001f600"]
)
def test_every_other_character_is_taken_in_labels(text: str) -> None:
    """Everything else, up to 256 bytes."""
    assert is_label_text(text)
    assert fault_of_labels({"k": text}) is None


@pytest.mark.parametrize(
    ("value", "is_good"), [("x" * 256, True), ("x" * 257, False), ("é" * 128, True), ("é" * 129, False), (1, False)]
)
def test_label_value_is_measured_in_utf8_bytes(value: Any, is_good: bool) -> None:  # noqa: FBT001 -- a row of a table
    """A value is a text of at most 256 bytes in UTF-8."""
    assert (fault_of_labels({"k": value}) is None) is is_good


def test_at_most_sixteen_labels_are_taken() -> None:
    """At most sixteen; too many are refused without a key."""
    sixteen = {f"k{number}": "" for number in range(16)}
    assert fault_of_labels(sixteen) is None
    fault = fault_of_labels({**sixteen, "more": ""})
    assert fault is not None
    assert fault.key is None
