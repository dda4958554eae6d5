"""The ledger read from end to end: a page at a time, and all of it as of one moment."""

from collections.abc import Sequence

import pytest

from fairlead.domain.days import DAY_MS
from fairlead.storage.accounts import workspaces
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.ledger import LedgerLine
from storage.bookings import LAB, NOW, Books, admission, new_key, settlement


def export_lines(
    books: Books, workspace_id: str | None = None, since: int | None = None, until: int | None = None
) -> Sequence[LedgerLine]:
    """Return every line of an export."""
    pages = books.do(lambda c: list(ledger.export_pages(c, ledger.WantedLines(workspace_id, since, until))))
    return [line for page in pages for line in page]


@pytest.fixture
def written(books: Books) -> Books:
    """Return books with entries of two workspaces."""
    books.open(balance=1000)
    books.open(id_="office", balance=500)
    books.do(lambda c: workspaces.create_key(c, new_key()))
    books.write(admission(key_id="key-1"), admission("run-2", workspace_id="office"))
    books.write(settlement(charge=60))
    return books


def test_exported_entry_names_its_run(written: Books) -> None:
    """Each entry has its workspace by name and what its run ran with which key; entries of no run have neither."""
    lines = export_lines(written, LAB)
    assert [(line.kind, line.balance_change, line.held_change) for line in lines] == [
        ("credit", 1000, 0),
        ("hold", 0, 100),
        ("post", -60, -100),
    ]
    assert lines[0][6:] == (None, None, None, "paid in", None, None)
    assert lines[2][1:] == (
        NOW + 5, "lab-id-name", "post", -60, -100, "acme/one", "key-1", "run-1", "completed", "v1", None,
    )  # fmt: skip


@pytest.mark.req("R-29")
def test_export_adds_up_to_the_balance(written: Books) -> None:
    """The entries of an export add up to the figures of their workspaces."""
    for workspace_id in (LAB, "office"):
        lines = export_lines(written, workspace_id)
        figures = (sum(line.balance_change for line in lines), sum(line.held_change for line in lines))
        assert figures == written.figures(workspace_id)[:2]


def test_export_holds_all_workspaces_in_order(written: Books) -> None:
    """All workspaces are exported in the order of the book; one of nobody has nothing in it."""
    lines = export_lines(written)
    assert [line.id for line in lines] == sorted(line.id for line in lines)
    assert {line.workspace for line in lines} == {"lab-id-name", "office-name"}
    assert len(lines) == 5
    assert export_lines(written, "nobody") == []


def test_export_includes_its_first_moment_and_excludes_its_last(written: Books) -> None:
    """The first moment is in it, the last is not."""
    assert [line.kind for line in export_lines(written, LAB, since=NOW + 5)] == ["post"]
    assert [line.kind for line in export_lines(written, LAB, until=NOW + 5)] == ["credit", "hold"]
    assert export_lines(written, LAB, since=NOW + DAY_MS) == []


def test_pages_of_an_export_hold_each_entry_once(written: Books) -> None:
    """Pages are bounded, and together they are the book."""
    for start in range(0, 1200, 400):
        written.write(*(admission(f"many-{n}", hold=0) for n in range(start, start + 400)))
    wanted = ledger.WantedLines(None, None, None)
    sizes = [len(page) for page in written.do(lambda c: list(ledger.export_pages(c, wanted)))]
    assert sizes == [1000, 205]
    ids = [line.id for line in export_lines(written)]
    assert len(set(ids)) == len(ids) == 1205
