"""Credits: within the bound of a balance, and once for each idempotency key."""

import pytest

from fairlead.domain.ledger.money import BALANCE_MAX
from fairlead.storage.accounts.credits import BalanceBoundError, CreditKeyUsedError, NewCredit, credit
from fairlead.storage.ledger import ledger
from storage.bookings import LAB, NOW, Books


def _credit(books: Books, amount: int, key: str | None = None, reason: str = "paid in") -> tuple[int, bool]:
    booked: tuple[int, bool] = books.do(lambda c: credit(c, LAB, NewCredit(amount, reason, key), NOW))
    return booked


@pytest.mark.req("R-29")
@pytest.mark.parametrize("sign", [1, -1])
def test_balance_stays_within_its_bound(books: Books, sign: int) -> None:
    """What would take it further is refused, up and down; what leads back is booked. Sums stay whole numbers."""
    books.open()
    for _ in range(3):
        assert _credit(books, sign * BALANCE_MAX) == (sign * BALANCE_MAX, True)
        with pytest.raises(BalanceBoundError, match="100000000"):
            _credit(books, sign)
        assert _credit(books, -sign * BALANCE_MAX) == (0, True)
    assert books.do(ledger.disagreements) == []
    assert type(books.figures()[0]) is int


def test_balance_that_is_beyond_its_bound_can_be_corrected(books: Books) -> None:
    """Of a version before there was a bound: only what leads back is booked."""
    books.open()
    _credit(books, BALANCE_MAX)
    books.sql("UPDATE workspaces SET balance = balance + 100")
    books.sql("UPDATE ledger_entries SET balance_change = balance_change + 100")
    with pytest.raises(BalanceBoundError):
        _credit(books, 1)
    assert _credit(books, -1) == (BALANCE_MAX + 99, True)


def test_credit_is_booked_once_for_a_key(books: Books) -> None:
    """The same again changes nothing, something else under its key is refused, and another key books again."""
    books.open()
    assert _credit(books, 50, "first") == (50, True)
    assert _credit(books, 50, "first") == (50, False)
    for amount, reason in ((51, "paid in"), (50, "another invoice")):
        with pytest.raises(CreditKeyUsedError):
            _credit(books, amount, "first", reason)
    assert _credit(books, 50, "second") == (100, True)
    assert len(books.entries()) == 2
