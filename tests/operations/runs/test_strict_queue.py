"""Strict bodies through the queue: priced at their submission, and held to their leg again when they are sent."""

from pathlib import Path
from typing import Final

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InputRejected
from fairlead.domain.runs.selection import RouteOptions
from operations.queueing import claim, enqueue
from operations.servers import CENT, DOLLAR, Partner, Server, leg_text, model_text
from storage.bookings import Books
from storage.queued_runs import run_id

_STRICT: Final = RouteOptions(provider="spare", is_strict=True)
_MODEL: Final = model_text("lent", "plain", "now", more=leg_text("spare"))


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the folder with a model that an alternate serves."""
    (folder / "lent.toml").write_text(_MODEL)
    return folder


@pytest.mark.req("S-01", "R-32")
def test_queued_strict_run_is_held_for_the_providers_own_fields(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The hold and the charge follow the provider's own quantity, and the body goes out as it came."""
    run(enqueue(server, caller, "lent", {"n": 1, "count": 3}, options=_STRICT))
    assert books.state(run_id())["hold"] == 30 * CENT
    partner.answers["/spare/now"] = {"data": "x", "used": 9}
    assert run(claim(server, caller))
    assert partner.bodies == [b'{"n": 1, "count": 3}']
    assert books.state(run_id())["charge"] == 30 * CENT


@pytest.mark.req("S-01", "R-32")
@pytest.mark.parametrize("body", [{"count": 5}, {"units": 1}, {"n": [1]}])
def test_strict_body_without_a_price_is_never_queued(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, body: dict[str, object]
) -> None:
    """More than the card prices, and fields that it does not know, are refused at the submission."""
    with pytest.raises(FaultError) as caught:
        run(enqueue(server, caller, "lent", body, options=_STRICT))
    assert isinstance(caught.value.fault, InputRejected)
    assert (partner.calls, books.figures(caller.workspace_id)) == ([], (DOLLAR, 0, 0))


@pytest.mark.req("S-01", "R-29")
def test_strict_run_that_its_leg_takes_no_more_is_never_sent(
    server: Server, caller: Caller, partner: Partner, books: Books, folder: Path, run: Run
) -> None:
    """A model file that was mended while a run waited holds for it too: it ends without a call or a charge."""
    run(enqueue(server, caller, "lent", {"count": 1}, options=_STRICT))
    (folder / "lent.toml").write_text(
        _MODEL.replace('fields = ["/n", "/count"]', 'fields = ["/n"]').replace("/count", "/n")
    )
    server.catalog.reload()
    assert not run(claim(server, caller))
    assert (partner.calls, books.state(run_id())["state"]) == ([], "failed")
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
