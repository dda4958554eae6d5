"""Signatures tell apart what differs, and nothing else; the cache holds results by them, within its bytes."""

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.graph.cache import Entry, ResultCache, size_of
from fairlead.engine.graph.graph import Link
from fairlead.engine.graph.signatures import encode, signature

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES, _VALUES)
def test_equal_encodings_are_equal_values(one: Any, other: Any) -> None:
    """The encodings are equal when the values and their types are."""
    assert (encode(one) == encode(other)) == (repr(_sort(one)) == repr(_sort(other)))


def _sort(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort(value[key]) for key in sorted(value)}
    return [_sort(item) for item in value] if isinstance(value, list) else value


def test_value_that_equals_nothing_has_no_encoding() -> None:
    """NaN, objects, arrays, dicts with odd keys, and values that hold themselves."""
    endless: list[Any] = []
    endless.append(endless)
    for value in (math.nan, [1, math.nan], object(), np.zeros(2), {1: 2}, {"a": object()}, endless):
        assert encode(value) is None


def _sign(**changes: Any) -> bytes | None:
    facts: dict[str, Any] = {
        "class_type": "X",
        "fingerprint": b"",
        "constants": {"a": 1},
        "links": {"b": Link("7", 0)},
        "known": {"7": b"seven", "8": b"seven", "9": b"nine"},
    }
    return signature(**{**facts, **changes})


def test_signature_does_not_depend_on_ids() -> None:
    """It depends on class, fingerprint, constants, slots and sources, but not on the ids of these."""
    same = [_sign(), _sign(links={"b": Link("8", 0)})]
    others = [
        _sign(class_type="Y"),
        _sign(fingerprint=b"f"),
        _sign(constants={"a": 2}),
        _sign(constants={"a": "1"}),
        _sign(constants={"c": 1}),
        _sign(links={"b": Link("7", 1)}),
        _sign(links={"c": Link("7", 0)}),
        _sign(links={"b": Link("9", 0)}),
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 1 + len(others)


def test_node_after_a_restless_one_has_no_signature() -> None:
    """A node after one that is never the same is never the same."""
    assert _sign(constants={"a": math.nan}) is None
    assert _sign(known={"7": None}) is None
    assert _sign(known={}) is None


def test_cache_stays_within_its_bytes() -> None:
    """The least recently used goes first; what is too large by itself is not kept, and drives nobody out."""
    cache = ResultCache(10_000)
    for name in (b"a", b"b", b"c"):
        cache.put(name, _entry(2_000))
    assert cache.get(b"a") is not None
    cache.put(b"d", _entry(2_000))
    cache.put(b"e", _entry(20_000))
    assert [cache.get(name) is not None for name in (b"a", b"b", b"c", b"d", b"e")] == [True, False, True, True, False]
    assert len(cache) == 3
    assert cache.bytes <= 10_000


def test_replaced_value_is_no_longer_counted() -> None:
    """Bytes are those of what is there."""
    cache = ResultCache(10_000)
    for _ in range(100):
        cache.put(b"a", _entry(3_000))
    cache.put(None, _entry(3_000))
    assert 3_000 < cache.bytes < 6_000
    cache.clear()
    assert (cache.bytes, len(cache)) == (0, 0)


def _entry(size: int) -> Entry:
    return Entry([[np.zeros(size, np.uint8)]], {})


def test_size_of_a_value_counts_all_it_holds() -> None:
    """Arrays in lists, dicts and objects count whole, once each; what has no end counts as endless."""
    array = np.zeros(1_000_000, np.uint8)

    class Holder:
        def __init__(self) -> None:
            self.inner = {"array": array}

    assert size_of([array, [array], {"a": array}]) < 1_100_000
    assert size_of(Holder()) > 1_000_000
    assert size_of([array, array.copy()]) > 2_000_000
    assert size_of(list(range(1000, 200_000))) > 1 << 60
