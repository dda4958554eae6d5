"""Pages: which limit is applied, and where a page begins and ends."""

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.catalog.models import catalog_limit, page_after


@pytest.mark.req("R-02", "R-04")
@pytest.mark.parametrize(
    ("asked", "applied"), [(None, 20), (0, 20), (-1, 20), (-(10**9), 20), (1, 1), (20, 20), (100, 100), (101, 100)]
)
def test_catalog_limit_is_defaulted_and_clamped(asked: int | None, applied: int) -> None:
    """Absent, 0 and negatives are the default; what is too large is clamped."""
    assert catalog_limit(asked) == applied


@pytest.mark.req("R-02")
@given(st.sets(st.text("abc", max_size=3), max_size=30), st.integers(1, 10))
def test_traversal_shows_each_key_once_in_order(names: set[str], limit: int) -> None:
    """Following pages to the last shows each key once, in order, and never an empty page that promises more."""
    seen: list[str] = []
    keys, after, more = sorted(names), None, True
    while more:
        page, more = page_after(keys, after, limit)
        assert len(page) == limit or not more
        seen.extend(page)
        after = page[-1] if page else after
    assert seen == keys


@given(st.sets(st.text("abc", max_size=3), max_size=30), st.text("abc", max_size=3), st.integers(1, 10))
def test_page_begins_after_its_cursor_even_when_that_key_has_gone(names: set[str], after: str, limit: int) -> None:
    """A key that has gone since still marks its place."""
    keys = sorted(names)
    page, more = page_after(keys, after, limit)
    begin = bisect.bisect_right(keys, after)
    assert (list(page), more) == (keys[begin : begin + limit], len(keys) > begin + limit)
