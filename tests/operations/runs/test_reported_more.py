"""A partner that reports more than was held for: the caller pays the hold, and the operator is told of the rest."""

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.observing.observations import PartnerReportedMore
from fairlead.operations.ledger.statements import statement
from operations.servers import CENT, DONE, Partner, Server
from storage.bookings import Books


@pytest.mark.req("S-01", "R-28")
def test_charge_stays_at_the_hold_and_the_statement_says_so(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """What passes the hold is not charged, but observed, and told in the statement with both amounts."""
    partner.answers["/now"] = {**DONE, "used": 3}
    answer = run(server.answer(caller, "plain-now", {"n": 1}))
    assert answer.charge == 10 * CENT == books.state()["charge"]
    seen = PartnerReportedMore("run-1", "acme/plain-now", "plain", 10 * CENT, 30 * CENT)
    assert server.observations_of(PartnerReportedMore) == [seen]
    (event,) = run(statement(server.database, "run-1")).events
    assert (event["kind"], event["attempt"]) == ("more reported than held", 1)
    assert event["detail"] == "0.3 dollars by what was reported, 0.1 charged"


@pytest.mark.req("S-01")
@pytest.mark.parametrize("used", [1, 0.5, "many"])
def test_report_within_the_hold_is_not_observed(
    server: Server, caller: Caller, partner: Partner, run: Run, used: object
) -> None:
    """A report of at most what was held for, or an unreadable one, is not observed."""
    partner.answers["/now"] = {**DONE, "used": used}
    run(server.answer(caller, "plain-now", {"n": 1}))
    assert server.observations_of(PartnerReportedMore) == []
    assert run(statement(server.database, "run-1")).events == []
