"""Regular expressions that end, whatever the pattern."""

import re
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.texts.patterns import FaultyPatternError, Pattern

_ENDLESS = Pattern("(a+)+$", seconds=0.2)
_LONG_A = "a" * 40 + "b"


def test_endless_pattern_is_ended_in_time() -> None:
    """A pattern that would need centuries is ended when its time is up."""
    with pytest.raises(ValueError, match=r"more than 0\.2 s"):
        _ENDLESS.is_in(_LONG_A)


def test_ended_pattern_does_not_end_the_next_one() -> None:
    """After one was ended the next is answered."""
    with pytest.raises(ValueError, match="more than"):
        _ENDLESS.replace_in(_LONG_A, "x")
    assert Pattern("b").is_in(_LONG_A)


def test_endless_pattern_leaves_other_threads_running() -> None:
    """While one is tried, the rest of the program goes on."""
    ticks = 0

    def ask() -> None:
        with pytest.raises(ValueError, match="more than"):
            _ENDLESS.is_in(_LONG_A)

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        time.sleep(0.01)
        ticks += 1
    assert ticks >= 5


def test_each_thread_gets_its_own_answer() -> None:
    """Each of many threads gets its own answer."""
    wrong: list[int] = []

    def ask(number: int) -> None:
        answers = [Pattern(r"\d+").find_in(f"a{number}b") for _ in range(20)]
        wrong.extend(number for answer in answers if answer != [str(number)])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("source", ["(", "[a", "*", "(?P<1>a)", "a{2,1}", r"\1", "(?<=a+)b"])
def test_faulty_pattern_is_refused(source: str) -> None:
    """A pattern that is none says so."""
    with pytest.raises(FaultyPatternError, match="The pattern cannot be used"):
        Pattern(source).is_in("text")


@pytest.mark.parametrize("replacement", [r"\9", r"\g<none>", r"\g<"])
def test_faulty_replacement_is_refused(replacement: str) -> None:
    """A replacement that names a group there is not says so."""
    with pytest.raises(FaultyPatternError, match="The pattern cannot be used"):
        Pattern("(a)").replace_in("a", replacement)


@given(
    source=st.sampled_from(["a", "b*", "(a)|b", "(a)(b)?", "^", "[^a]", "(?=(ab))", "x"]),
    text=st.text(alphabet="abé\n ", max_size=20),
)
@settings(max_examples=60)
def test_answers_are_those_of_python(source: str, text: str) -> None:
    """Searching, finding and replacing are what Python's own module gives."""
    pattern, own = Pattern(source), re.compile(source)
    assert pattern.is_in(text) == (own.search(text) is not None)
    assert pattern.find_in(text, 0) == [match[0] for match in own.finditer(text)]
    assert pattern.replace_in(text, "<>") == own.sub("<>", text)
    if own.groups <= 1:
        assert pattern.find_in(text) == own.findall(text)


def test_flags_are_passed_on() -> None:
    """Case, lines and the dot are as asked for."""
    assert not Pattern("A").is_in("a")
    assert Pattern("A", ignores_case=True).is_in("a")
    assert not Pattern("^b").is_in("a\nb")
    assert Pattern("^b", is_multiline=True).is_in("a\nb")
    assert not Pattern("a.b").is_in("a\nb")
    assert Pattern("a.b", dot_is_all=True).is_in("a\nb")


def test_any_text_passes_the_pipe() -> None:
    """Any text goes there and back."""
    text = "\ud800 \r\n\x00\u2028 \U0001f600"
    assert Pattern("(?s).*").find_in(text, count=1) == [text]


@pytest.mark.parametrize(
    ("source", "replacement"),
    [("(?=(.*))", None), ("a", "b" * 1000), ("(.*)", r"\1" * 5_000), ("(.*)", r"\1" * 300_000)],
)
def test_result_of_a_pattern_is_bounded(source: str, replacement: str | None) -> None:
    """What a pattern gives is bounded, though each match, or the replacement, is small."""
    pattern, text = Pattern(source), "a" * 20_000
    with pytest.raises(ValueError, match="more than 10,000,000 characters"):
        _ = pattern.find_in(text) if replacement is None else pattern.replace_in(text, replacement)


@pytest.mark.parametrize(("pattern", "text"), [("a" * 10_001, ""), ("a", "a" * 1_000_001)])
def test_length_of_pattern_and_text_is_bounded(pattern: str, text: str) -> None:
    """Both have a most."""
    with pytest.raises(ValueError, match="is the most"):
        Pattern(pattern).is_in(text)


def test_length_of_a_replacement_is_bounded() -> None:
    """A replacement that is too long is refused."""
    with pytest.raises(ValueError, match="The replacement has 1,000,001"):
        Pattern("a").replace_in("a", "b" * 1_000_001)
