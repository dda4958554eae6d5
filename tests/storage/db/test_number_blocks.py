"""Sets of numbers as they are kept."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.storage.db.number_blocks import BLOCK, places_in_all, with_places, without_places

_PLACES = st.integers(0, BLOCK - 1)
_SETS = st.one_of(
    st.frozensets(_PLACES, max_size=40),
    st.builds(lambda first, step: frozenset(range(first, BLOCK, step)), st.integers(0, 50), st.integers(1, 150)),
)


@given(_SETS, _SETS, _SETS)
def test_block_has_the_places_it_was_given(first: frozenset[int], more: frozenset[int], gone: frozenset[int]) -> None:
    """Whether it has few or many, before and after; and a set is the same bytes, however it has come about."""
    block = with_places(with_places(b"", first), more)
    assert block == with_places(b"", first | more)
    assert list(places_in_all([block])) == sorted(first | more, reverse=True)
    assert without_places(block, gone) == with_places(b"", (first | more) - gone)
    assert without_places(block, first | more) == b""


@given(st.lists(_SETS, min_size=1, max_size=4))
def test_blocks_have_the_common_places_of_their_sets(sets: list[frozenset[int]]) -> None:
    """The highest first."""
    blocks = [with_places(b"", those) for those in sets]
    assert list(places_in_all(blocks)) == sorted(frozenset.intersection(*sets), reverse=True)


def test_block_takes_no_more_room_than_its_bits() -> None:
    """Two bytes a place as long as there are few, and a bit for each after that: 896 bytes at most."""
    assert len(with_places(b"", range(32))) == 64
    assert len(with_places(b"", range(33))) == len(with_places(b"", range(BLOCK))) == 896
    assert len(without_places(with_places(b"", range(33)), [7])) == 64
