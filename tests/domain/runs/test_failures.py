"""Failures as JSON: what was told once is told again word for word."""

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.every_fault import EVERY, name_of
from fairlead.domain.faults import Fault, InputRejected, InternalError, Upstream, Violation
from fairlead.domain.runs.replays import read_fault, write_fault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
VIOLATIONS = st.builds(
    Violation,
    loc=st.lists(st.text(max_size=4) | st.integers(0, 99), max_size=4).map(tuple),
    msg=st.text(max_size=9),
    type=st.text(max_size=9),
    ctx=st.none() | st.dictionaries(st.text(max_size=3), JSON, max_size=2),
    input=JSON,
    has_input=st.booleans(),
)


@pytest.mark.req("R-18")
@pytest.mark.parametrize("fault", EVERY, ids=name_of)
def test_every_fault_is_read_back_as_it_was_written(fault: Fault) -> None:
    """Every kind of fault is read as it was written, with all that is nested in it."""
    assert read_fault(write_fault(fault)) == fault


def test_every_kind_of_fault_is_tried() -> None:
    """There is one of every kind."""
    assert [type(fault) for fault in EVERY] == list(typing.get_args(Fault))


@pytest.mark.req("R-18", "R-21")
@given(st.lists(VIOLATIONS, max_size=3).map(tuple), st.builds(Upstream, st.none() | st.integers(100, 599)))
def test_rejected_field_is_read_back_with_its_path_and_value(
    violations: tuple[Violation, ...], upstream: Upstream
) -> None:
    """Paths keep their indexes, and values are whatever a body may hold."""
    fault = InputRejected(violations, upstream)
    assert read_fault(write_fault(fault)) == fault


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"5", b"[]", b'["InvalidInput"]', b'["Retired", {}]', b'["InvalidInput", {}]', b"[[], {}]", b"[1,2,3]"],
)
def test_unreadable_failure_is_still_a_failure(text: bytes) -> None:
    """What another version wrote and this one cannot read is still told as a failure."""
    assert read_fault(text) == InternalError()
