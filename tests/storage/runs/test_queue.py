"""The queue as rows: who is parked, who gets a slot, who is claimed, withdrawn, found - in one batch or in many."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.domain.faults import (
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    Forbidden,
    InsufficientCredits,
    KeyConflict,
    QueueBacklogFull,
)
from fairlead.domain.ledger.books import COSTLY, UNLIMITED
from fairlead.domain.runs.entries import (
    Admission,
    CancelNoted,
    Enqueued,
    HasEnded,
    JournalEntry,
    KeyUsed,
    LiveRun,
    QueueTicket,
    Withdrawal,
    Withdrawn,
)
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Claim, Release, Superseded
from fairlead.domain.work.pools import DEFAULT_POOL
from fairlead.storage.runs import queue
from fairlead.storage.runs.entries import write_entries
from storage.bookings import LAB, NOW, SERVER, Books, acceptance, admission, failure, kept_result, key, settlement
from storage.queued_runs import BACKLOG, BASE_URL

pytestmark = pytest.mark.req("R-32")


def queued_admission(id_: str, hold: int = 100, *, backlog: int = BACKLOG, **changes: Any) -> Admission:
    """Return the admission of a queued run of the lab."""
    return admission(id_, hold, ticket=QueueTicket(backlog, BASE_URL), **changes)


def claim(id_: str, server_id: str = SERVER, at: int = NOW + 1, workspace_id: str = LAB) -> Claim:
    """Return a worker's claim to a run of the lab."""
    return Claim(id_, workspace_id, server_id, at)


def withdrawal(id_: str, reason: str = "cancelled") -> Withdrawal:
    """Return the end of a run that waits."""
    return Withdrawal(id_, LAB, reason, kept_result(), NOW + 2)


def states(books: Books) -> list[str]:
    """Return the states of the queued runs, in the order of the queue."""
    return [row["state"] for row in books.rows("SELECT state FROM runs WHERE place IS NOT NULL ORDER BY place")]


def waiting(books: Books) -> tuple[int, int, int, int]:
    """Return how many runs of the lab wait, how many are parked, what for those is held, and the last place."""
    (row,) = books.rows("SELECT waiting, parked, parked_held, last_place FROM workspaces WHERE id = :id", id=LAB)
    return row["waiting"], row["parked"], row["parked_held"], row["last_place"]


def write_released(books: Books, *entries: JournalEntry) -> Sequence[tuple[str, str]]:
    """Write a batch; which runs it says may be claimed now."""
    return [(one.id, one.workspace_id) for one in books.do(lambda c: write_entries(c, entries)).released]


def test_queued_run_with_a_free_slot_is_released_at_once(books: Books) -> None:
    """The run is released with its money held, no attempt yet and no server."""
    books.open(balance=500)
    assert write_released(books, queued_admission("run-1")) == [("run-1", LAB)]
    assert {"state": "released", "attempt": 0, "place": 1, "claimed_at": None}.items() <= books.state().items()
    assert (books.figures(), waiting(books)) == ((500, 100, 1), (1, 0, 0, 1))
    assert books.entries()[-1] == ("hold", 0, 100)


def test_run_of_a_full_workspace_is_parked(books: Books) -> None:
    """Without a slot it is parked: held for, numbered, and told how many are ahead; a call is refused as ever."""
    books.open(balance=500, in_flight_limit=1)
    assert books.write(queued_admission("run-1"), queued_admission("run-2"), queued_admission("run-3")) == [
        Enqueued(0),
        Enqueued(1),
        Enqueued(2),
    ]
    assert states(books) == ["released", "parked", "parked"]
    assert (books.figures(), waiting(books)) == ((500, 300, 1), (3, 2, 200, 3))
    assert books.write(admission("run-4")) == [ConcurrencyLimitExceeded(limit=1, current=1)]


def test_ended_run_gives_its_slot_to_the_queue(books: Books) -> None:
    """Whose run ends gives its slot to the first in the queue, in the same batch, also when it was a call's."""
    books.open(balance=500, in_flight_limit=1)
    books.write(admission("run-1"))
    books.write(queued_admission("run-2"), queued_admission("run-3"))
    assert write_released(books, settlement("run-1")) == [("run-2", LAB)]
    assert states(books) == ["released", "parked"]
    assert write_released(books, claim("run-2")) == []
    assert write_released(books, failure("run-2")) == [("run-3", LAB)]
    assert (books.figures(), waiting(books)) == ((440, 100, 1), (1, 0, 0, 2))


def test_queue_goes_before_newcomers(books: Books) -> None:
    """Ends come before the queue and the queue before what has just arrived, wherever they stand in a batch."""
    books.open(balance=500, in_flight_limit=1)
    books.write(admission("run-1"))
    books.write(queued_admission("run-2"))
    verdicts = books.write(admission("run-3"), queued_admission("run-4"), settlement("run-1", charge=0))
    assert verdicts == [ConcurrencyLimitExceeded(limit=1, current=1), Enqueued(1), None]
    assert states(books) == ["released", "parked"]


def test_as_many_runs_are_released_as_slots_are_free(books: Books) -> None:
    """As many runs are released as slots are free, in the order of the queue."""
    books.open(balance=5000, in_flight_limit=3)
    books.write(*(admission(f"run-{number}") for number in range(3)))
    books.write(*(queued_admission(f"queued-{number}") for number in range(5)))
    assert states(books) == ["parked"] * 5
    freed = write_released(books, settlement("run-0"), settlement("run-2"))
    assert freed == [("queued-0", LAB), ("queued-1", LAB)]
    assert states(books) == ["released"] * 2 + ["parked"] * 3


@pytest.mark.req("R-23")
def test_costly_run_without_room_is_skipped(books: Books) -> None:
    """Costly runs without room are passed by, keep their places, and go first when there is room for them."""
    books.open(balance=100 * COSTLY, in_flight_limit=4)
    books.write(
        queued_admission("costly-1", COSTLY),
        queued_admission("costly-2", COSTLY),
        queued_admission("cheap-1"),
        queued_admission("cheap-2"),
    )
    assert states(books) == ["released", "parked", "released", "released"]
    books.write(queued_admission("cheap-3"), queued_admission("cheap-4"))
    assert states(books) == ["released", "parked", "released", "released", "released", "parked"]
    books.write(claim("cheap-1"))
    assert write_released(books, settlement("cheap-1")) == [("cheap-4", LAB)]
    books.write(claim("costly-1"))
    assert write_released(books, settlement("costly-1")) == [("costly-2", LAB)]
    assert books.costly() == 1


@pytest.mark.req("R-23")
def test_cheap_run_does_not_pass_a_run_that_waits_for_the_cap(books: Books) -> None:
    """What is committed decides in order: the first that does not fit holds the others up, however cheap they are."""
    books.open(balance=5000, commitment_limit=250)
    books.write(queued_admission("run-1", 200), queued_admission("run-2", 200), queued_admission("run-3", 10))
    assert states(books) == ["released", "parked", "parked"]
    assert waiting(books) == (3, 2, 210, 3)
    books.write(claim("run-1"))
    assert write_released(books, settlement("run-1", charge=1)) == [("run-2", LAB), ("run-3", LAB)]


@pytest.mark.req("R-23")
def test_costly_run_without_room_does_not_block_the_cap(books: Books) -> None:
    """One that waits for another costly one to end holds nobody up, though what is committed has no room for it."""
    books.open(balance=100 * COSTLY, in_flight_limit=0, commitment_limit=2 * COSTLY - 1)
    books.sql("UPDATE workspaces SET in_flight_limit = 1")
    books.write(
        queued_admission("run-0", 1),
        queued_admission("costly-1", COSTLY),
        queued_admission("costly-2", COSTLY),
        queued_admission("cheap-1"),
    )
    books.sql("UPDATE workspaces SET in_flight_limit = 4")
    assert write_released(books, Release(LAB)) == [("costly-1", LAB), ("cheap-1", LAB)]


@pytest.mark.req("R-23")
def test_run_that_can_never_fit_is_refused(books: Books) -> None:
    """More than the cap can ever be is refused; so is what the rest of the money does not pay, parked runs included."""
    books.open(balance=300, in_flight_limit=1, commitment_limit=150)
    assert books.write(queued_admission("run-1", 151)) == [CommittedSpendExceeded(limit=150, committed=0, needed=151)]
    assert books.write(queued_admission("run-2", 150), queued_admission("run-3", 150)) == [Enqueued(0), Enqueued(1)]
    assert books.write(queued_admission("run-4", 1)) == [InsufficientCredits(available=0, needed=1)]
    assert books.figures() == (300, 300, 1)


def test_blocked_workspace_queues_nothing(books: Books) -> None:
    """A limit of 0 refuses new runs and releases none that wait."""
    books.open(balance=500, in_flight_limit=1)
    books.write(queued_admission("run-1"), queued_admission("run-2"))
    books.sql("UPDATE workspaces SET in_flight_limit = 0")
    (verdict,) = books.write(queued_admission("run-3"))
    assert isinstance(verdict, Forbidden)
    books.write(claim("run-1"))
    assert write_released(books, settlement("run-1"), Release(LAB)) == []
    assert states(books) == ["succeeded", "parked"]


def test_backlog_is_bounded(books: Books) -> None:
    """What waits for a slot or a worker counts, and what was claimed does not; one batch is counted as many are."""
    books.open(balance=5000, in_flight_limit=1)
    full = QueueBacklogFull(2)
    entries = [queued_admission(f"run-{number}", backlog=2) for number in range(3)]
    assert books.write(*entries) == [Enqueued(0), Enqueued(1), full]
    claimed, taken_in = books.write(claim("run-0"), queued_admission("run-3", backlog=2))
    assert (type(claimed), taken_in) == (LiveRun, Enqueued(1))
    assert books.write(queued_admission("run-4", backlog=2)) == [full]
    assert waiting(books)[0] == 2


def test_claim_answers_with_the_run_as_it_is(books: Books) -> None:
    """A claim is answered with the run as it is now: whose, at which attempt, by which card, under which key."""
    books.open(balance=500)
    books.write(queued_admission("run-1", key=key("once"), operation="edit", strict=True, created_at=NOW))
    (found,) = books.write(claim("run-1", "server-2", NOW + 7))
    assert found == LiveRun(
        run_id="run-1",
        workspace_id=LAB,
        workspace="lab-id-name",
        model_id="acme/one",
        provider="acme",
        state=RunState.DISPATCHED,
        attempt=1,
        handle=None,
        hold=100,
        rate_version="v1",
        request=b"{}",
        operation="edit",
        strict=True,
        key_id="once",
        base_url=BASE_URL,
        place=1,
        created_at=NOW,
    )
    row = books.state()
    assert (row["server_id"], row["claimed_at"], row["attempt"]) == ("server-2", NOW + 7, 1)
    assert (books.figures(), waiting(books)) == ((500, 100, 1), (0, 0, 0, 1))


@pytest.mark.req("R-29")
@pytest.mark.parametrize("is_one_batch", [True, False])
def test_run_is_claimed_once(books: Books, *, is_one_batch: bool) -> None:
    """The first of two claims gets the run, and the figures change once."""
    books.open(balance=500)
    books.write(queued_admission("run-1"))
    entries = (claim("run-1", "server-1"), claim("run-1", "server-2"))
    first, second = books.write(*entries) if is_one_batch else [books.write(entry)[0] for entry in entries]
    assert isinstance(first, LiveRun)
    assert second == Superseded()
    assert books.state()["server_id"] == "server-1"
    assert waiting(books) == (0, 0, 0, 1)


@pytest.mark.req("R-29")
def test_repeated_claim_is_answered_as_before(books: Books) -> None:
    """The very claim that was written is answered as before, so that a lost answer loses no run."""
    books.open(balance=500)
    books.write(queued_admission("run-1"))
    first = books.write(claim("run-1"))
    assert [getattr(one, "run_id", None) for one in books.write(claim("run-1"))] == ["run-1"]
    assert isinstance(first[0], LiveRun)
    assert waiting(books) == (0, 0, 0, 1)
    assert books.state()["attempt"] == 1
    assert books.write(claim("run-1", at=NOW + 9)) == [Superseded()]


@pytest.mark.parametrize("state", ["parked", "dispatched", "succeeded"])
def test_only_a_released_run_can_be_claimed(books: Books, state: str) -> None:
    """Only a run with a slot and without a worker can be claimed."""
    books.open(balance=500, in_flight_limit=1)
    if state == "parked":
        books.write(queued_admission("other"))
    books.write(queued_admission("run-1"))
    if state != "parked":
        books.write(claim("run-1", "server-2"))
    if state == "succeeded":
        books.write(settlement())
    assert books.write(claim("run-1")) == [Superseded()]
    assert books.state()["state"] == state
    assert books.write(claim("nothing")) == [Superseded()]


@pytest.mark.req("R-35", "R-29")
@pytest.mark.parametrize("state", ["released", "parked"])
def test_withdrawn_run_frees_its_hold_and_keeps_its_key(books: Books, state: str) -> None:
    """It ends as failed with its reason, its hold is voided once, its request is gone, and its key stays taken."""
    books.open(balance=500, in_flight_limit=1 if state == "parked" else UNLIMITED)
    books.write(admission("other"))
    books.write(queued_admission("run-1", key=key("once")))
    assert books.state()["state"] == state
    assert books.write(withdrawal("run-1", "queue_timeout")) == [Withdrawn()]
    row = books.state()
    assert (row["state"], row["charge"], row["reason"], row["request"]) == ("failed", 0, "queue_timeout", None)
    assert row["finished_at"] == NOW + 2
    assert (books.figures(), waiting(books)) == ((500, 100, 1), (0, 0, 0, 1))
    assert books.entries()[-1] == ("void", 0, -100)
    assert books.write(withdrawal("run-1")) == [HasEnded()]
    assert books.write(queued_admission("run-2", key=key("once"))) == [KeyUsed("run-1")]
    assert isinstance(books.write(queued_admission("run-2", key=key("once", "another call")))[0], KeyConflict)


@pytest.mark.req("R-35")
def test_withdrawn_run_frees_its_slot(books: Books) -> None:
    """The slot of a released run that is withdrawn goes to the next, in the same batch."""
    books.open(balance=500, in_flight_limit=1)
    books.write(queued_admission("run-1"), queued_admission("run-2"), queued_admission("run-3"))
    assert write_released(books, withdrawal("run-1"), withdrawal("run-2")) == [("run-3", LAB)]
    assert (books.figures(), waiting(books)) == ((500, 100, 1), (1, 0, 0, 3))


@pytest.mark.req("R-35")
def test_run_under_way_is_not_withdrawn(books: Books) -> None:
    """A request to cancel is noted once, where it was cancelled; what became too old has then been in time."""
    books.open(balance=500)
    books.write(queued_admission("run-1"))
    books.write(claim("run-1", "server-2"))
    assert books.write(withdrawal("run-1", "queue_timeout")) == [CancelNoted("server-2")]
    assert books.state()["cancel_requested_at"] is None
    assert books.write(acceptance(), withdrawal("run-1"), withdrawal("run-1")) == [
        None, CancelNoted("server-2"), CancelNoted("server-2"),
    ]  # fmt: skip
    assert (books.state()["state"], books.state()["cancel_requested_at"]) == ("accepted", NOW + 2)
    assert books.do(lambda c: queue.QUEUE.find_cancelled(c, "server-2")) == ["run-1"]
    assert books.do(lambda c: queue.QUEUE.find_cancelled(c, "server-1")) == []
    assert books.write(settlement()) == [None]
    assert books.do(lambda c: queue.QUEUE.find_cancelled(c, "server-2")) == []
    assert books.write(withdrawal("run-1")) == [HasEnded()]


@pytest.mark.req("R-35", "R-29")
@pytest.mark.parametrize("is_claimed_first", [True, False])
def test_claim_and_cancellation_never_both_win(books: Books, *, is_claimed_first: bool) -> None:
    """In one batch the first decides: a claimed run is noted, a withdrawn one is not claimed."""
    books.open(balance=500)
    books.write(queued_admission("run-1"))
    entries: list[JournalEntry] = [claim("run-1"), withdrawal("run-1")]
    verdicts = books.write(*(entries if is_claimed_first else reversed(entries)))
    if is_claimed_first:
        assert [type(one) for one in verdicts] == [LiveRun, CancelNoted]
        assert (books.state()["state"], books.state()["cancel_requested_at"]) == ("dispatched", NOW + 2)
        assert waiting(books) == (0, 0, 0, 1)
    else:
        assert verdicts == [Withdrawn(), Superseded()]
        assert (books.state()["state"], books.state()["attempt"]) == ("failed", 0)
        assert (books.figures(), waiting(books)) == ((500, 0, 0), (0, 0, 0, 1))


@pytest.mark.req("R-23")
def test_raised_limit_is_noticed(books: Books) -> None:
    """A workspace with runs parked and a slot free is found, and given as many as it has room for."""
    books.open(balance=5000, in_flight_limit=1)
    books.write(*(queued_admission(f"run-{number}") for number in range(5)))
    assert books.do(lambda c: queue.QUEUE.room(c, 10, NOW).workspace_ids) == []
    books.sql("UPDATE workspaces SET in_flight_limit = 3")
    assert books.do(lambda c: queue.QUEUE.room(c, 10, NOW).workspace_ids) == [LAB]
    assert write_released(books, Release(LAB)) == [("run-1", LAB), ("run-2", LAB)]
    assert books.do(lambda c: queue.QUEUE.room(c, 10, NOW).workspace_ids) == []
    books.sql("UPDATE workspaces SET in_flight_limit = -1")
    assert write_released(books, Release(LAB), Release(LAB)) == [("run-3", LAB), ("run-4", LAB)]


def test_long_queue_is_released_in_order_and_in_bounded_steps(books: Books) -> None:
    """However many wait when a limit falls, all of them get their slots: some at a time, and nobody passes them."""
    books.open(balance=10**6, in_flight_limit=1)
    count = 1100
    books.write(*(queued_admission(f"run-{number:04d}", 1, backlog=count) for number in range(count)))
    books.sql("UPDATE workspaces SET in_flight_limit = -1")
    in_turn: list[str] = []
    while len(in_turn) < count - 1:
        some = write_released(books, Release(LAB), queued_admission(f"new-{len(in_turn)}", 1, backlog=2 * count))
        assert 0 < len(some) <= 256
        in_turn += [id_ for id_, _ in some]
    assert in_turn[: count - 1] == [f"run-{number:04d}" for number in range(1, count)]


def test_each_workspace_has_its_own_queue(books: Books) -> None:
    """Each queue has its own places, slots and money."""
    books.open(balance=500, in_flight_limit=1)
    books.open(id_="office-id", balance=500, in_flight_limit=1)
    books.write(
        queued_admission("run-1"), queued_admission("run-2"), queued_admission("run-3", workspace_id="office-id")
    )
    assert books.state("run-3")["state"] == "released"
    assert books.state("run-3")["place"] == 1
    books.write(claim("run-3", workspace_id="office-id"))
    assert write_released(books, settlement("run-3", workspace_id="office-id")) == []
    assert states(books).count("parked") == 1


@pytest.mark.req("R-33")
def test_position_counts_the_runs_ahead(books: Books) -> None:
    """How many wait that were queued before, with a slot or without; none once a worker has it, and for nobody else."""
    books.open(balance=5000, in_flight_limit=2)
    books.open(id_="office-id", balance=500)
    books.write(
        *(queued_admission(f"run-{number}") for number in range(5)),
        queued_admission("theirs", workspace_id="office-id"),
    )

    def places() -> list[int | None]:
        return [place_of(f"run-{number}") for number in range(5)]

    def place_of(id_: str) -> int | None:
        found: queue.QueuedRun = books.do(lambda c: queue.queued_run(c, LAB, id_))
        return found.position

    assert places() == [0, 1, 2, 3, 4]
    books.write(withdrawal("run-3"))
    assert places() == [0, 1, 2, None, 3]
    books.write(claim("run-1"))
    assert places() == [0, None, 1, None, 2]
    assert books.do(lambda c: queue.queued_run(c, "office-id", "run-0")) is None
    books.write(admission("called", workspace_id="office-id"))
    assert books.do(lambda c: queue.queued_run(c, "office-id", "called")) is None


def test_waiting_runs_are_found_oldest_first(books: Books) -> None:
    """What waits is found by its age, the oldest first; what waits for a worker by its number."""
    books.open(balance=5000, in_flight_limit=2)
    for number in (3, 1, 2):
        books.write(queued_admission(f"run-{number}", created_at=NOW + number))
    assert books.do(lambda c: queue.QUEUE.waiting_since(c, NOW + 3, 10)) == [("run-1", LAB), ("run-2", LAB)]
    assert books.do(lambda c: queue.QUEUE.waiting_since(c, NOW + 9, 1)) == [("run-1", LAB)]
    assert books.do(lambda c: queue.QUEUE.find_released(c, DEFAULT_POOL, "", 10)) == [
        ("run-3", LAB, DEFAULT_POOL), ("run-1", LAB, DEFAULT_POOL),
    ]  # fmt: skip
    books.write(claim("run-1"))
    assert books.do(lambda c: queue.QUEUE.find_released(c, DEFAULT_POOL, "", 10)) == [("run-3", LAB, DEFAULT_POOL)]
    assert books.do(lambda c: queue.QUEUE.waiting_since(c, NOW + 9, 10)) == [("run-2", LAB), ("run-3", LAB)]
    assert books.do(lambda c: queue.QUEUE.room(c, 10, NOW)).depth == (2, 1)


def test_waiting_run_is_not_taken_over(books: Books) -> None:
    """Nobody works on what waits, so there is nothing to take over; what was claimed is taken like any other."""
    books.open(balance=500, in_flight_limit=2)
    books.write(queued_admission("run-1"), queued_admission("run-2"), queued_admission("run-3"))
    assert books.take_over() == []
    books.write(claim("run-1"))
    (taken,) = books.take_over()
    assert (taken.run_id, taken.attempt, taken.is_queued) == ("run-1", 2, True)
