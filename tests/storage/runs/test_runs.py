"""How a batch of entries becomes rows: admissions on what is left, ends that happen once, takeovers."""

from functools import partial

import pytest
from sqlalchemy.exc import IntegrityError

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import ConcurrencyLimitExceeded, Forbidden, InsufficientCredits, Unauthorized
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.runs.entries import Acceptance, BookedRun, KeptResult, Stray
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Superseded
from fairlead.domain.work.pools import WorkedPools
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.migrate import HEAD
from fairlead.storage.runs import runs
from fairlead.storage.runs.queue import QUEUE
from fairlead.storage.work.table import OwnedWork, announce_server
from storage.bookings import (
    LAB,
    NOW,
    SERVER,
    Books,
    acceptance,
    admission,
    failure,
    kept_result,
    key,
    new_key,
    redirection,
    settlement,
)


def test_admitted_run_takes_a_slot_and_a_hold(books: Books) -> None:
    """An admission takes a slot and its hold, and writes one run and one entry."""
    books.open(balance=500)
    assert books.write(admission()) == [None]
    assert books.figures() == (500, 100, 1)
    assert books.entries() == [("credit", 500, 0), ("hold", 0, 100)]
    assert {"state": "dispatched", "attempt": 1, "request": b"{}"}.items() <= books.state().items()


@pytest.mark.req("R-29")
def test_settled_run_is_charged_what_it_cost(books: Books) -> None:
    """A success releases its hold and takes its charge, and the request is kept no longer."""
    books.open(balance=500)
    books.write(admission())
    assert books.write(settlement(charge=60)) == [None]
    assert books.figures() == (440, 0, 0)
    row = books.state()
    assert (row["state"], row["charge"], row["reason"], row["request"]) == ("succeeded", 60, "completed", None)


@pytest.mark.req("M-07")
@pytest.mark.parametrize("result", [None, kept_result()], ids=["answered", "kept"])
def test_settled_run_keeps_what_its_price_was_made_of(books: Books, result: KeptResult | None) -> None:
    """In the statement that ends it, whether its result is kept or not."""
    books.open(balance=500)
    books.write(admission(key=key()))
    assert books.write(settlement(facts='{"/size":[2]}', result=result)) == [None]
    assert books.state()["price_facts"] == '{"/size":[2]}'


@pytest.mark.req("R-29")
def test_failed_run_is_not_charged(books: Books) -> None:
    """A failure gives the whole hold back."""
    books.open(balance=500)
    books.write(admission())
    assert books.write(failure()) == [None]
    assert books.figures() == (500, 0, 0)
    assert books.entries()[-1] == ("void", 0, -100)


def test_prepaid_workspace_can_spend_its_last_unit(books: Books) -> None:
    """A balance that is exactly enough is enough."""
    books.open(balance=100)
    assert books.write(admission(hold=100)) == [None]


def test_prepaid_workspace_spends_no_more_than_it_has(books: Books) -> None:
    """One unit short is too little, and leaves nothing behind."""
    books.open(balance=99)
    assert books.write(admission(hold=100)) == [InsufficientCredits(available=99, needed=100)]
    assert books.figures() == (99, 0, 0)
    assert books.rows("SELECT id FROM runs") == []


def test_held_money_is_promised_once(books: Books) -> None:
    """Two runs of one batch cannot both hold the same money."""
    books.open(balance=150)
    refused = InsufficientCredits(available=50, needed=100)
    assert books.write(admission("run-1"), admission("run-2")) == [None, refused]
    assert books.figures() == (150, 100, 1)


def test_postpaid_workspace_never_passes_its_cap(books: Books) -> None:
    """A postpaid workspace owes at most its cap, what it holds included."""
    books.open(billing=Billing.POSTPAID, cap=250)
    first, second, third = books.write(admission("run-1"), admission("run-2"), admission("run-3"))
    assert (first, second, third) == (None, None, InsufficientCredits(available=50, needed=100))


def test_runs_in_flight_never_pass_the_limit(books: Books) -> None:
    """The run after the last slot is refused, and told the figures."""
    books.open(balance=1000, in_flight_limit=2)
    verdicts = books.write(admission("run-1"), admission("run-2"), admission("run-3"))
    assert verdicts == [None, None, ConcurrencyLimitExceeded(limit=2, current=2)]


def test_blocked_workspace_runs_nothing(books: Books) -> None:
    """A limit of 0 blocks, which is not a matter of waiting."""
    books.open(balance=1000, in_flight_limit=0)
    (verdict,) = books.write(admission())
    assert isinstance(verdict, Forbidden)


def test_workspace_without_a_limit_is_unlimited(books: Books) -> None:
    """A limit of -1 is none."""
    books.open(balance=10_000, in_flight_limit=UNLIMITED)
    assert books.write(*(admission(f"run-{n}") for n in range(50))) == [None] * 50


def test_run_that_ends_in_the_same_batch_makes_room(books: Books) -> None:
    """Ends come before admissions, wherever they stand in a batch: they free slot and money."""
    books.open(balance=100, in_flight_limit=1)
    books.write(admission("run-1"))
    assert books.write(admission("run-2", hold=40), settlement("run-1", charge=60)) == [None, None]
    assert books.figures() == (40, 40, 1)


def test_batch_charges_each_workspace_for_its_own_runs(books: Books) -> None:
    """Each entry moves the money of its own workspace."""
    books.open(balance=100)
    books.open(id_="office-id", balance=300)
    books.write(admission("run-1"), admission("run-2", hold=200, workspace_id="office-id"))
    assert (books.figures(), books.figures("office-id")) == ((100, 100, 1), (300, 200, 1))


@pytest.mark.req("R-37")
def test_revoked_key_of_a_remembered_caller_is_refused(books: Books) -> None:
    """Admission looks at the key again, in the transaction that takes the money."""
    books.open(balance=1000)
    for key_id in ("key-1", "key-2"):
        books.do(partial(workspaces.create_key, new=new_key(key_id)))
    books.do(lambda c: workspaces.revoke_key(c, "key-1", NOW))
    refused, admitted = books.write(admission("run-1", key_id="key-1"), admission("run-2", key_id="key-2"))
    assert isinstance(refused, Unauthorized)
    assert admitted is None


@pytest.mark.req("R-37")
def test_keys_are_looked_at_again_where_runs_end_in_the_same_batch(books: Books) -> None:
    """Ends of both kinds are written, one that fits nothing is superseded, and a revoked key admits nothing."""
    books.open(balance=1000)
    for key_id in ("key-1", "key-2"):
        books.do(partial(workspaces.create_key, new=new_key(key_id)))
    books.write(*(admission(f"run-{n}", key_id="key-1") for n in range(3)))
    books.do(lambda c: workspaces.revoke_key(c, "key-1", NOW))
    booked = BookedRun(100, "key-1", "acme/one")
    verdicts = books.write(
        admission("run-3", key_id="key-1"),
        admission("run-4", key_id="key-2"),
        settlement("run-0", booked=booked),
        settlement("run-1", booked=booked, result=kept_result()),
        failure("run-2", booked=booked, attempt=2),
    )
    assert isinstance(verdicts[0], Unauthorized)
    assert verdicts[1:] == [None, None, None, Superseded()]
    assert books.figures() == (1000 - 2 * 60, 2 * 100, 2)


def test_run_of_an_unknown_workspace_is_refused(books: Books) -> None:
    """A workspace that is not in the books has no money to hold."""
    (verdict,) = books.write(admission(workspace_id="nobody"))
    assert isinstance(verdict, Unauthorized)


def test_run_id_is_admitted_once(books: Books) -> None:
    """The database refuses a second run of an id, and with it the whole batch."""
    books.open(balance=1000)
    books.write(admission())
    with pytest.raises(IntegrityError):
        books.write(admission(), admission("run-2"))
    assert books.figures() == (1000, 100, 1)


@pytest.mark.req("R-29")
def test_second_settlement_charges_nothing(books: Books) -> None:
    """What has ended stays as it ended."""
    books.open(balance=500)
    books.write(admission())
    books.write(settlement(charge=60))
    assert books.write(settlement(charge=80)) == [Superseded()]
    assert books.write(failure()) == [Superseded()]
    assert (books.figures(), books.state()["charge"]) == ((440, 0, 0), 60)


def test_repeated_settlement_is_booked_once(books: Books) -> None:
    """The very same end, written once and handed in again, is answered as written and booked once."""
    books.open(balance=500)
    books.write(admission())
    assert [books.write(settlement(charge=60)), books.write(settlement(charge=60))] == [[None], [None]]
    assert books.figures() == (440, 0, 0)


@pytest.mark.req("R-29")
def test_second_settlement_of_a_batch_is_superseded(books: Books) -> None:
    """The second end of a run comes too late, also in the very batch of the first."""
    books.open(balance=500)
    books.write(admission())
    assert books.write(settlement(charge=60), settlement(charge=60)) == [None, Superseded()]
    assert books.figures() == (440, 0, 0)


def test_end_of_an_unknown_run_changes_nothing(books: Books) -> None:
    """A settlement without its run changes nothing."""
    books.open(balance=500)
    assert books.write(settlement("run-nobody-knows")) == [Superseded()]
    assert books.figures() == (500, 0, 0)


def test_acceptance_stores_the_handle(books: Books) -> None:
    """An acceptance stores the partner's handle, and the run can still end."""
    books.open(balance=500)
    books.write(admission())
    assert books.write(acceptance(handle="task-7")) == [None]
    assert (books.state()["state"], books.state()["handle"]) == ("accepted", "task-7")
    assert books.write(settlement()) == [None]


def test_first_handle_is_kept(books: Books) -> None:
    """A run that is accepted has no place for another acceptance."""
    books.open(balance=500)
    books.write(admission())
    books.write(acceptance(handle="task-7"))
    books.write(acceptance(handle="task-8"))
    assert books.state()["handle"] == "task-7"


def test_ended_run_accepts_nothing(books: Books) -> None:
    """A run that has ended accepts nothing."""
    books.open(balance=500)
    books.write(admission())
    books.write(failure())
    assert books.write(acceptance()) == [Superseded()]
    assert books.state()["state"] == "failed"


def test_takeover_brings_all_it_needs(books: Books) -> None:
    """A claimed run comes with its next attempt, its handle, its hold and its request."""
    books.open(balance=500)
    books.write(admission(request=b'{"n":1}'))
    books.write(acceptance())
    (taken,) = books.take_over()
    assert (taken.run_id, taken.attempt, taken.state, taken.handle) == ("run-1", 2, RunState.ACCEPTED, "task-7")
    assert (taken.hold, taken.request, taken.workspace_id, taken.rate_version) == (100, b'{"n":1}', LAB, "v1")
    assert books.state()["server_id"] == "server-2"


@pytest.mark.req("M-02")
def test_failure_of_a_server_presumed_dead_settles_nothing(books: Books) -> None:
    """The old attempt neither accepts nor fails; the new one may yet succeed."""
    books.open(balance=500)
    books.write(admission())
    books.take_over()
    failure = settlement(charge=0, state=RunState.FAILED, is_billed=False)
    assert books.write(acceptance(), failure) == [Superseded(), Superseded()]
    assert books.figures() == (500, 100, 1)
    assert books.write(settlement(charge=60, attempt=2)) == [None]


@pytest.mark.req("M-02")
def test_result_of_a_server_presumed_dead_settles_what_nobody_has(books: Books) -> None:
    """What the partner has made is paid once, whichever server it answered; written again, it changes nothing."""
    books.open(balance=500)
    books.write(admission())
    books.take_over()
    late = settlement(charge=90)
    assert [books.write(late), books.write(late)] == [[None], [None]]
    assert books.figures() == (410, 0, 0)
    assert books.write(settlement(charge=60, attempt=2)) == [Superseded()]
    assert (books.state()["state"], books.state()["charge"], books.state()["attempt"]) == ("succeeded", 90, 2)


@pytest.mark.req("M-02")
def test_late_result_at_another_price_settles_nothing(books: Books) -> None:
    """A run that was redirected since is the new provider's: what the first one made is priced by another card."""
    books.open(balance=500)
    books.write(admission())
    books.take_over()
    assert books.write(settlement(charge=90, rate_version="v2")) == [Superseded()]
    assert books.figures() == (500, 100, 1)


def test_stale_settlement_leaves_the_good_one_of_its_batch_alone(books: Books) -> None:
    """Entries of one run are judged one by one: a failure of the old attempt says nothing about the new."""
    books.open(balance=500)
    books.write(admission())
    books.take_over()
    stale = settlement(charge=0, state=RunState.FAILED, is_billed=False)
    assert books.write(stale, settlement(charge=60, attempt=2)) == [Superseded(), None]
    assert books.figures() == (440, 0, 0)


def test_runs_of_living_servers_are_not_taken_over(books: Books) -> None:
    """A server that was seen lately keeps its runs, and no server takes over its own."""
    books.open(balance=500)
    books.write(admission("run-1", server_id="alive"), admission("run-2", server_id="silent"))
    books.do(lambda c: announce_server(c, "alive", NOW + 1, 0))
    books.do(lambda c: announce_server(c, "silent", NOW - 1, 0))
    assert [run.run_id for run in books.take_over("server-2", NOW)] == ["run-2"]
    assert books.take_over("server-2", NOW) == []


def test_ended_run_is_not_taken_over(books: Books) -> None:
    """Only live runs have an owner to lose."""
    books.open(balance=500)
    books.write(admission())
    books.write(settlement())
    assert books.take_over() == []


def test_takeover_claims_no_more_than_its_limit(books: Books) -> None:
    """A takeover takes the oldest runs first, and no more than its limit."""
    books.open(balance=500)
    books.write(*(admission(f"run-{n}") for n in range(3)))
    assert [run.run_id for run in books.take_over(limit=2)] == ["run-0", "run-1"]


def test_each_takeover_raises_the_attempt(books: Books) -> None:
    """Each takeover raises the attempt."""
    books.open(balance=500)
    books.write(admission())
    attempts = [books.take_over(f"server-{n}")[0].attempt for n in (2, 3, 4)]
    assert attempts == [2, 3, 4]


def test_silent_servers_without_runs_are_forgotten(books: Books) -> None:
    """A server long silent is forgotten, unless it left runs behind."""
    books.open(balance=500)
    books.write(admission(server_id="owner"))
    books.do(lambda c: announce_server(c, "owner", NOW, 0))
    books.do(lambda c: announce_server(c, "empty", NOW, 0))
    books.do(lambda c: announce_server(c, "fresh", NOW + 10, NOW + 5))
    assert [row["id"] for row in books.rows("SELECT id FROM servers ORDER BY id")] == ["fresh", "owner"]


def test_announcement_updates_the_servers_row(books: Books) -> None:
    """Announcing again moves the time it was seen; the pools it works for are those of its start."""
    for now in (NOW, NOW + 7):
        books.do(
            partial(announce_server, server_id="server-1", now=now, forget_before=0, pools=WorkedPools(("a",), ()))
        )
    announced = '{"runs":["a"],"jobs":[]}'
    assert books.rows("SELECT * FROM servers") == [
        {"id": "server-1", "seen_at": NOW + 7, "pools": announced, "revision": HEAD}
    ]


def test_lost_runs_are_listed_newest_first(books: Books) -> None:
    """Lost runs are voided and listed, newest first, as many as asked for."""
    books.open(balance=500)
    books.write(*(admission(f"run-{n}") for n in range(4)))
    lost = [failure(f"run-{n}", state=RunState.LOST, reason="lost", finished_at=NOW + n) for n in range(3)]
    assert books.write(*lost, failure("run-3")) == [None] * 4
    listed = books.do(lambda c: runs.lost_runs(c, 2))
    assert [(row["id"], row["hold"], row["workspace_id"]) for row in listed] == [
        ("run-2", 100, LAB),
        ("run-1", 100, LAB),
    ]


@pytest.mark.req("R-25")
def test_departed_caller_is_recorded(books: Books) -> None:
    """Whether the caller left is kept with the run, beside what it was charged."""
    books.open(balance=500)
    books.write(admission())
    books.write(settlement(caller_left=True))
    row = books.state()
    assert (bool(row["caller_left"]), row["charge"], row["upstream_status"]) == (True, 60, 200)


@pytest.mark.req("R-16")
def test_draft_is_found_in_its_own_workspace_alone(books: Books) -> None:
    """A draft is found by the partner's name for it, in its own workspace only, the newest where there are two."""
    books.open(balance=500)
    books.open(id_="office", balance=500)
    books.write(
        admission("run-1", operation="text-to-video"),
        admission("run-2", operation="image-to-video"),
        admission("run-3"),
        admission("run-4", operation="video-to-video", workspace_id="office"),
    )
    books.write(acceptance("run-1", "task-7"), acceptance("run-2", "task-7"), acceptance("run-3", "task-9"))
    books.write(acceptance("run-4", "task-8"), settlement("run-2"))

    def find_operation(workspace_id: str, handle: str) -> str | None:
        operation: str | None = books.do(lambda c: runs.operation_of_work(c, workspace_id, handle))
        return operation

    assert find_operation(LAB, "task-7") == "image-to-video"
    assert [find_operation(LAB, handle) for handle in ("task-8", "task-9", "task-1")] == [None, None, None]
    assert (find_operation("office", "task-8"), find_operation("office", "task-7")) == ("video-to-video", None)


def test_takeover_remembers_how_a_run_is_run(books: Books) -> None:
    """Whether a run is strict, unbilled, under a key or an operation is claimed with it, and its credential."""
    books.open(balance=500)
    books.write(admission("run-1", strict=True, byok=True, operation="edit", key=key("k"), hold=0), admission("run-2"))
    books.write(Acceptance("run-1", 1, "task-7", "label-2"))
    own, plain = books.take_over()
    assert (own.strict, own.byok, own.operation, own.key_id, own.credential) == (True, True, "edit", "k", "label-2")
    assert (plain.strict, plain.byok, plain.operation, plain.key_id, plain.credential) == (False, False, None, None, "")


@pytest.mark.req("R-29")
def test_end_frees_the_recorded_hold(books: Books) -> None:
    """An end frees what the books hold for its run."""
    books.open(balance=500)
    books.write(admission())
    books.write(redirection(hold=150))
    assert books.write(failure()) == [None]
    assert books.figures() == (500, 0, 0)


def test_stray_is_listed_with_its_key(books: Books) -> None:
    """A server's unfinished runs from before a time come with what voiding them needs."""
    books.open(balance=500)
    books.write(
        admission("run-1", key=key("k")), admission("run-2", created_at=NOW + 9), admission("run-3", server_id="x")
    )
    strays = books.do(lambda c: QUEUE.find_owned(c, SERVER, NOW + 1))
    assert strays == [OwnedWork("run-1", LAB, 1)]
    assert books.do(lambda c: runs.find_stray(c, "run-1")) == Stray("run-1", LAB, 1, "v1", "k")
