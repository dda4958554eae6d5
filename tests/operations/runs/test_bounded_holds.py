"""Runs whose holds an operator bounds by their typical price (FAIRLEAD_HOLD_TYPICAL_TIMES, D-28)."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InsufficientCredits
from fairlead.observing.observations import PartnerReportedMore
from operations.servers import CENT, DOLLAR, DONE, Partner, Server, model_text
from storage.bookings import Books

Start = Callable[..., Server]


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the models, and one whose runs are held for 400 pictures at most, of which two are usual."""
    text = model_text("open-now", "plain", "now").replace('at_most = "4"', 'at_most = "400"\ntypical = "2"')
    (folder / "open-now.toml").write_text(text.replace('product = ["/n"] ', 'product = ["/limit"], bound = true '))
    return folder


@pytest.fixture
def bounding(start_server: Start) -> Server:
    """Return a server on which a hold is at most three times the typical price."""
    return start_server("server-1", {}, Decimal(3))


@pytest.mark.parametrize(
    ("body", "hold"), [({}, 60), ({"limit": 4}, 40), ({"limit": 1}, 10)], ids=["open", "limited", "below the usual"]
)
def test_run_is_held_for_a_multiple_of_its_typical_price(
    bounding: Server, caller: Caller, books: Books, run: Run, body: Mapping[str, Any], hold: int
) -> None:
    """And for no more than its body permits; what it is charged is measured as ever."""
    answer = run(bounding.answer(caller, "open-now", body))
    assert (books.state()["hold"], answer.charge) == (hold * CENT, 10 * CENT)


def test_without_the_setting_a_run_is_held_for_the_most(server: Server, caller: Caller, run: Run) -> None:
    """Four hundred pictures, which a dollar does not pay."""
    with pytest.raises(FaultError) as refused:
        run(server.answer(caller, "open-now", {}))
    assert refused.value.fault == InsufficientCredits(available=DOLLAR, needed=40 * DOLLAR)


@pytest.mark.req("X-02")
def test_what_passes_a_bounded_hold_is_the_operators(
    bounding: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The caller pays the hold, and the rest is told as where a partner reports more than a card permits."""
    partner.answers["/now"] = {**DONE, "used": 20}
    answer = run(bounding.answer(caller, "open-now", {}))
    assert answer.charge == 60 * CENT == books.state()["charge"]
    seen = PartnerReportedMore("run-1", "acme/open-now", "plain", 60 * CENT, 200 * CENT)
    assert bounding.observations_of(PartnerReportedMore) == [seen]
