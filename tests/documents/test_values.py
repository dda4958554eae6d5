"""The limit on values of a JSON document, which is counted in its bytes."""

import itertools
import json
import string
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead.documents.values as counting
from fairlead.documents.values import ValueCount, has_more_values, is_certainly_within

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('"\\,[]{}: \n\té😀' + string.ascii_letters))
)
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text('"\\,[]{}a ', max_size=4), inner, max_size=6),
    max_leaves=40,
)


def count(document: Any) -> int:
    """How many values a document holds, counted the plain way."""
    if isinstance(document, dict):
        return 1 + sum(map(count, document.values()))
    if isinstance(document, list):
        return 1 + sum(map(count, document))
    return 1


@pytest.mark.req("S-02")
@given(document=_DOCUMENTS, indent=st.sampled_from([None, 1]), escaped=st.booleans(), size=st.integers(1, 40))
def test_count_in_bytes_is_the_count_of_values(document: Any, indent: int | None, *, escaped: bool, size: int) -> None:
    """Whatever stands in texts and names, and wherever a slice ends, the limit is exact."""
    values = count(document)
    padding = b" " * 2 * values  # else a short document would not be counted
    content = padding + json.dumps(document, indent=indent, ensure_ascii=escaped).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_SLICE", size)
        assert not has_more_values(content, values)
        assert has_more_values(content, values - 1)


@pytest.mark.req("S-02")
@given(document=_DOCUMENTS, indent=st.sampled_from([None, 1]), data=st.data())
def test_count_of_pieces_is_the_count_of_the_whole(document: Any, indent: int | None, data: st.DataObject) -> None:
    """However a document is cut into pieces, they are held to the same limit as the whole."""
    values = count(document)
    content = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    pieces = [content[start:end] for start, end in itertools.pairwise([0, *cuts, len(content)])]
    count_of_pieces = ValueCount()
    assert [count_of_pieces.add(piece) for piece in pieces][-1] == values


@pytest.mark.req("S-02")
def test_document_that_is_too_short_for_the_limit_is_not_counted() -> None:
    """The shortest document of so many values is counted; one a byte shorter cannot hold as many."""
    content = b"[" + b",".join([b"1"] * 9) + b"]"
    assert has_more_values(content, 9)
    assert not is_certainly_within(content, 9)
    assert is_certainly_within(content[:-2], 9)


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "content", [b"[[[", b'[{},"', b"[{},[{},", b'{"a":{},"b":[[[[[[{},{}', b"[{},}]" * 9, b'"' * 8]
)
def test_document_that_breaks_off_is_counted_as_far_as_it_goes(content: bytes) -> None:
    """What a reader would build of a document before it finds the mistake is counted as well."""
    assert has_more_values(content, 1)


@pytest.mark.req("S-02")
def test_count_of_sixty_megabytes_takes_hardly_any_memory() -> None:
    """A document of twenty million values is refused, and one of a single text of commas is counted, in a few KiB."""
    tracemalloc.start()
    many = b"[" + b"{}," * 20_000_000 + b"{}]"
    text = b'["' + b"," * 10_000_000 + b'"]'
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    assert has_more_values(many, 20_000)
    assert not has_more_values(text, 20_000)
    assert tracemalloc.get_traced_memory()[1] - before < 8 * 2**20
    tracemalloc.stop()
