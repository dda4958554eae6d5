"""Requests counted per window: added up, and deleted when nobody asks any more."""

from typing import Final

import pytest

from fairlead.domain.accounts.rate_windows import WindowKey
from fairlead.storage.accounts.rate_windows import add_requests, delete_windows, old_windows
from storage.bookings import LAB, Books

MINUTE: Final = 60_000
DAY: Final = 86_400_000
NOW: Final = 20_000 * DAY
HERE: Final = WindowKey(LAB, "minute", NOW)
TODAY: Final = WindowKey(LAB, "day", NOW)


@pytest.mark.req("R-23")
def test_counts_of_a_window_add_up(books: Books) -> None:
    """Counts add up, each window for itself, and what is returned is the sum."""
    assert books.do(lambda c: add_requests(c, [(TODAY, 2), (HERE, 2)])) == {TODAY: 2, HERE: 2}
    assert books.do(lambda c: add_requests(c, [(HERE, 3)])) == {HERE: 5}
    assert books.do(lambda c: add_requests(c, [(HERE._replace(started_at=0), 1), (TODAY, 1)])) == {
        HERE._replace(started_at=0): 1,
        TODAY: 3,
    }
    assert books.do(lambda c: add_requests(c, [])) == {}


def test_window_is_old_one_length_after_it_turned(books: Books) -> None:
    """A window is old when another of its length has passed since it turned."""
    kept = [HERE._replace(started_at=NOW - 2 * MINUTE), TODAY._replace(started_at=NOW - 2 * DAY)]
    old = [HERE._replace(started_at=NOW - 3 * MINUTE), TODAY._replace(started_at=NOW - 3 * DAY)]
    books.do(lambda c: add_requests(c, [(key, 1) for key in kept + old]))
    found = books.do(lambda c: old_windows(c, NOW, 10))
    assert sorted(found) == sorted(old)
    books.do(lambda c: delete_windows(c, found))
    assert books.do(lambda c: old_windows(c, NOW, 10)) == []
    assert books.do(lambda c: add_requests(c, [(key, 1) for key in kept])) == dict.fromkeys(kept, 2)


def test_old_windows_are_deleted_in_bounded_batches(books: Books) -> None:
    """A batch has a bound, and a window that another server has deleted is no matter."""
    books.do(lambda c: add_requests(c, [(WindowKey(f"w-{number}", "minute", 0), 1) for number in range(5)]))
    batch = books.do(lambda c: old_windows(c, NOW, 3))
    assert len(batch) == 3
    for _ in range(2):
        books.do(lambda c: delete_windows(c, batch))
    assert len(books.do(lambda c: old_windows(c, NOW, 10))) == 2
