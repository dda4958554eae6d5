"""Reading a caller's body: one clean JSON object, or a refusal that says why."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.domain.catalog.body import read_body
from fairlead.domain.faults import FaultError, InvalidInput

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
OBJECTS = st.dictionaries(
    st.text(), st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
)


def refusal(content: bytes) -> str:
    """Check that a body is refused as invalid input, and return the detail."""
    with pytest.raises(FaultError) as caught:
        read_body(content)
    assert isinstance(caught.value.fault, InvalidInput)
    return caught.value.fault.detail


@given(OBJECTS)
def test_clean_object_is_read_as_written(body: dict[str, Any]) -> None:
    """What JSON can say is read as it was said."""
    assert read_body(json.dumps(body).encode()) == body
    assert read_body(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")) == body


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b" \n", "not valid JSON", id="blank"),
        pytest.param(b"[]", "must be a JSON object", id="array"),
        pytest.param(b'"a"', "must be a JSON object", id="text"),
        pytest.param(b"5", "must be a JSON object", id="number"),
        pytest.param(b"null", "must be a JSON object", id="null"),
        pytest.param(b"{", "not valid JSON", id="unfinished"),
        pytest.param(b"{} {}", "not valid JSON", id="two"),
        pytest.param(b"{'a': 1}", "not valid JSON", id="single quotes"),
        pytest.param(b'{"a": 1,}', "not valid JSON", id="trailing comma"),
        pytest.param(b'{"a": 1, "a": 2}', 'duplicate key "a"', id="duplicate name"),
        pytest.param(b'{"a": {"b": 1, "b": 1}}', 'duplicate key "b"', id="inner duplicate"),
        pytest.param(b'{"a": 1, "\\u0061": 2}', "duplicate", id="escaped duplicate"),
        pytest.param(b'{"a": NaN}', "not valid JSON", id="NaN"),
        pytest.param(b'{"a": Infinity}', "not valid JSON", id="infinity"),
        pytest.param(b'{"a": -Infinity}', "not valid JSON", id="minus infinity"),
        pytest.param(b'{"a": [1e999]}', "too large", id="a number that becomes infinity"),
        pytest.param(b'{"a": {"b": -1.5E+400}}', "too large", id="a number that becomes minus infinity"),
        pytest.param(b'{"a": "\xff"}', "not valid JSON", id="bad UTF-8"),
        pytest.param(b'{"\xc3\x28": 1}', "not valid JSON", id="bad UTF-8 in a name"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', "not valid JSON", id="byte order mark"),
        pytest.param('{"a": 1}'.encode("utf-16"), "not valid JSON", id="UTF-16"),
        pytest.param(b'{"a": "\\ud800"}', "not valid JSON", id="half a character"),
        pytest.param(b'{"a": "\n"}', "not valid JSON", id="raw control character"),
        pytest.param(b'{"a": 01}', "not valid JSON", id="leading zero"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON", id="huge integer"),
        pytest.param(b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "recursion limit", id="deep nesting"),
        pytest.param(b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "recursion limit", id="deep objects"),
    ],
)
@pytest.mark.req("R-19")
def test_ambiguous_body_is_refused_with_a_reason(content: bytes, detail: str) -> None:
    """Whatever two readers could read in two ways is refused, with a reason."""
    assert detail in refusal(content)


@given(st.binary())
@example(b"{\x00}")
def test_any_bytes_are_an_object_or_a_refusal(content: bytes) -> None:
    """Any bytes are an object or a refusal."""
    try:
        body = read_body(content)
    except FaultError:
        refusal(content)
    else:
        assert isinstance(body, dict)


def test_refusal_does_not_repeat_a_long_name() -> None:
    """A long name that occurs twice is not repeated whole."""
    name = b'"' + b"k" * 100_000 + b'"'
    assert len(refusal(b"{" + name + b":1," + name + b":2}")) < 400
