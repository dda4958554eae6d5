"""Byte ranges: what a Range header means for a number of bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.http.representations import Part, UnsatisfiableRangeError, part_of

SIZES = st.integers(1, 1000)
PLACES = st.integers(0, 1200)


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes", "bytes=", "bytes=-", "items=0-1", "bytes=0-1,3-4", "bytes=5-2", "bytes=a-b", "bytes=\uff11-2",
     "bytes=0x1-2", f"bytes={'9' * 30}-", "bytes=--1", "bytes=+1-2"],
)  # fmt: skip
def test_header_without_a_single_range_asks_for_the_whole(header: str | None) -> None:
    """Absent, malformed, of another unit, or for several parts: the whole is sent."""
    assert part_of(header, 10) is None


@given(size=SIZES, first=PLACES, length=PLACES)
def test_part_is_the_slice_of_the_bytes(size: int, first: int, length: int) -> None:
    """First and last byte, the last cut at the end; behind the end there is nothing."""
    header = f"bytes={first}-{first + length}"
    if first >= size:
        with pytest.raises(UnsatisfiableRangeError):
            part_of(header, size)
    else:
        assert part_of(header, size) == Part(first, min(size, first + length + 1))
        assert part_of(f"bytes={first}-", size) == Part(first, size)


@given(size=SIZES, count=st.integers(1, 1200))
def test_suffix_counts_from_the_end(size: int, count: int) -> None:
    """A suffix counts from the end, and is the whole where it is longer."""
    assert part_of(f"bytes=-{count}", size) == Part(max(0, size - count), size)


def test_empty_part_is_unsatisfiable() -> None:
    """The last no bytes, and any part of nothing, cannot be sent."""
    for header, size in (("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)):
        with pytest.raises(UnsatisfiableRangeError):
            part_of(header, size)
