"""Lists of runs: scoped, filtered, in pages of bounded cost (A-02)."""

from functools import partial
from typing import Any

import pytest

from fairlead.clock import new_id
from fairlead.domain.runs.states import RunState
from fairlead.storage.accounts import workspaces
from fairlead.storage.runs import listing
from fairlead.storage.runs.listing import RunFilter, RunPage, list_runs, owner_of_run
from storage.bookings import LAB, Books, admission, failure, new_key, settlement
from storage.plans import trace


@pytest.fixture
def ids(books: Books) -> list[str]:
    """Return the ids of twelve runs of two workspaces in turn, the newest first; every third has failed."""
    books.open(balance=10**9)
    books.open("office", balance=10**9)
    books.do(lambda c: workspaces.create_key(c, new_key(label="studio")))
    made = []
    for number in range(12):
        id_, of = new_id(), {"workspace_id": LAB if number % 2 == 0 else "office"}
        books.write(admission(id_, 100, **of, key_id="key-1" if number % 4 == 0 else None))
        books.write(failure(id_, **of) if number % 3 == 0 else settlement(id_, 60, **of))
        made.append(id_)
    return made[::-1]


def page(books: Books, limit: int = 50, **wanted: Any) -> RunPage:
    """Return a page."""
    found: RunPage = books.do(lambda c: list_runs(c, RunFilter(**wanted), limit))
    return found


def walk(books: Books, limit: int, **wanted: Any) -> list[str]:
    """Return the ids of all pages, one after the other."""
    found, before = [], None
    while True:
        one = page(books, limit, **{**wanted, "before": before})
        assert len(one.runs) <= limit
        found += [run.id for run in one.runs]
        if one.before is None:
            return found
        assert before is None or one.before < before
        before = one.before


@pytest.mark.parametrize("limit", [1, 3, 4, 12, 50])
@pytest.mark.parametrize("looked_at", [2, 5, 5_000])
def test_pages_have_every_run_once(
    books: Books, ids: list[str], monkeypatch: pytest.MonkeyPatch, limit: int, looked_at: int
) -> None:
    """The newest first, whatever the length of a page is, and however few runs it looks at."""
    monkeypatch.setattr(listing, "LOOKED_AT", looked_at)
    assert walk(books, limit) == ids
    assert walk(books, limit, workspace_ids=(LAB, "office")) == ids
    assert walk(books, limit, workspace_ids=(LAB,)) == ids[1::2]
    assert walk(books, limit, state=RunState.FAILED) == ids[2::3]
    assert walk(books, limit, workspace_ids=(LAB, "office"), state=RunState.FAILED) == ids[2::3]
    assert walk(books, limit, workspace_ids=(LAB,), own_key_id="key-1") == ids[3::4]
    assert walk(books, limit, workspace_ids=()) == []


def test_filters_are_held_together(books: Books, ids: list[str]) -> None:
    """A run passes where it passes every filter."""
    assert page(books, model_id="acme/two").runs == []
    assert page(books, provider="fal").runs == []
    assert len(page(books, model_id="acme/one", provider="acme", key_id="key-1").runs) == 3
    assert page(books, since=0, until=1).runs == []
    first = int(ids[-1].replace("-", "")[:12], 16)
    assert len(page(books, since=first, until=first + 3_600_000).runs) == 12


def test_listed_run_has_its_key_and_money(books: Books, ids: list[str]) -> None:
    """A run is listed with the key it was called with, its hold and its charge."""
    (run,) = page(books, 1, workspace_ids=(LAB,), key_id="key-1").runs
    assert run.key is not None
    assert (run.workspace, run.key.label, run.hold) == ("lab-id-name", "studio", 100)
    assert (run.state, run.charge, run.is_queued) == ("succeeded", 60, False)
    owner = books.do(lambda c: owner_of_run(c, ids[0]))
    assert (owner.workspace_id, owner.model_id, owner.key_id) == ("office", "acme/one", None)


@pytest.mark.usefixtures("ids")
def test_page_is_found_by_an_index(books: Books) -> None:
    """No page reads all runs."""
    for wanted in (RunFilter(), RunFilter(workspace_ids=(LAB,), state=RunState.FAILED)):
        for sql, plan in trace(books, partial(_list, wanted=wanted)):
            assert not any("SCAN runs" in step and "USING" not in step for step in plan.splitlines()), (sql, plan)


def _list(connection: Any, wanted: RunFilter) -> None:
    list_runs(connection, wanted, 5)
