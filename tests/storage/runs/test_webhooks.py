"""Webhooks as rows: due when their runs end, claimed by one server at a time, recorded once, kept for a while."""

import asyncio
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.domain.runs.entries import QueueTicket
from fairlead.domain.runs.states import RunState
from fairlead.domain.runs.webhooks import DueDelivery, EndedRun, Prospect, Try
from fairlead.domain.work.entries import Claim
from fairlead.storage.db.database import Database
from fairlead.storage.runs import webhooks
from fairlead.storage.runs.entries import write_entries
from storage.bookings import LAB, NOW, SERVER, Books, admission, kept_result, settlement
from storage.queued_runs import BASE_URL, RECEIVER, end, queue, run_id, withdraw

ENDED: Final = NOW + 5
LEASE: Final = 60_000
FAILED: Final = Try(ENDED, 12, 500)
TAKEN: Final = Try(ENDED, 12, 204)


@pytest.fixture(autouse=True)
def _lab(books: Books) -> None:
    """Make the lab, with money for a hundred runs."""
    books.open(balance=10_000)


def claim(books: Books, now: int = ENDED, limit: int = 10) -> list[DueDelivery]:
    """Claim what is due."""
    claimed: list[DueDelivery] = books.do(lambda c: webhooks.claim_due(c, now, now + LEASE, limit))
    return claimed


def record(books: Books, due: DueDelivery, done: Try, **prospect: Any) -> bool:
    """Record a try."""
    counts: bool = books.do(lambda c: webhooks.record_try(c, due, done, Prospect(**prospect)))
    return counts


def test_webhook_is_due_from_the_end_of_its_run(books: Books) -> None:
    """A webhook is due from the end of its run on; a run without one makes no row."""
    queue(books, run_id(1))
    queue(books, run_id(2), url=None)
    assert books.do(webhooks.next_due) is None
    end(books, run_id(1))
    end(books, run_id(2))
    assert books.do(webhooks.next_due) == ENDED
    assert claim(books, ENDED - 1) == []
    (due,) = claim(books)
    run = EndedRun(run_id(1), "acme/one", RunState.SUCCEEDED, "completed", ENDED, BASE_URL)
    assert due == DueDelivery(LAB, RECEIVER, 0, ENDED + LEASE, 0, None, run)


def test_end_of_a_withdrawn_run_is_told(books: Books) -> None:
    """A run that was cancelled in the queue has ended, too."""
    queue(books, run_id(1))
    withdraw(books, run_id(1), "cancelled", NOW + 2)
    (due,) = claim(books)
    assert (due.run.state, due.run.reason, due.run.finished_at) == (RunState.FAILED, "cancelled", NOW + 2)


def test_runs_of_one_batch_have_their_own_webhooks(books: Books) -> None:
    """Admissions, claims and ends that are written together each find their own."""
    ids = [run_id(number) for number in range(1, 6)]
    tickets = {id_: QueueTicket(1000, BASE_URL, f"https://receiver.example/{id_}") for id_ in ids}
    books.do(lambda c: write_entries(c, [admission(id_, ticket=tickets[id_]) for id_ in ids]))
    books.do(lambda c: write_entries(c, [Claim(id_, LAB, SERVER, NOW + 1) for id_ in ids]))
    books.do(lambda c: write_entries(c, [settlement(id_, result=kept_result()) for id_ in ids[1:]]))
    assert sorted(due.url for due in claim(books)) == [f"https://receiver.example/{id_}" for id_ in ids[1:]]


def test_delivery_is_claimed_once_within_its_lease(books: Books) -> None:
    """Within its lease nobody else gets it; when that has run out, it is claimed again, with as many tries."""
    queue(books, run_id(1))
    end(books, run_id(1))
    (first,) = claim(books)
    assert claim(books, ENDED + LEASE - 1) == []
    (again,) = claim(books, ENDED + LEASE)
    assert (again.tries, again.lease, again.run) == (first.tries, ENDED + 2 * LEASE, first.run)


def test_delivery_goes_to_one_of_two_servers(books: Books, database: Database, run: Run) -> None:
    """Of many that are due each goes to one claimer, however close together they ask; the longest overdue go first."""
    for number in range(1, 21):
        queue(books, run_id(number))
        end(books, run_id(number), finished_at=ENDED + number)

    async def work() -> list[list[DueDelivery]]:
        claims = (database.write(lambda c: webhooks.claim_due(c, ENDED + 50, ENDED + LEASE, 5)) for _ in range(4))
        return list(await asyncio.gather(*claims))

    claimed = [due.run.run_id for some in run(work()) for due in some]
    assert len(claimed) == len(set(claimed))
    rest = [due.run.run_id for due in claim(books, ENDED + 50, 100)]
    assert sorted(claimed + rest) == [run_id(number) for number in range(1, 21)]
    assert rest == sorted(rest)


def test_every_try_is_recorded(books: Books) -> None:
    """The log has every try in order, and the delivery what is left to do."""
    queue(books, run_id(1))
    end(books, run_id(1))
    (due,) = claim(books)
    assert record(books, due, FAILED, next_at=ENDED + 100)
    (due,) = claim(books, ENDED + 100)
    assert due.tries == 1
    slow = Try(ENDED + 100, 15_000, None, "too_slow")
    assert record(books, due, slow, next_at=ENDED + 200)
    (due,) = claim(books, ENDED + 200)
    assert record(books, due, TAKEN, delivered_at=ENDED + 212)
    assert claim(books, ENDED + 10**9) == []
    assert books.do(webhooks.next_due) is None
    found = books.do(lambda c: webhooks.delivery_of(c, run_id(1)))
    assert (found.url, found.tries, found.prospect) == (
        RECEIVER, [FAILED, slow, TAKEN], Prospect(delivered_at=ENDED + 212),
    )  # fmt: skip
    assert [row["number"] for row in books.rows("SELECT number FROM webhook_tries ORDER BY id")] == [1, 2, 3]


def test_failure_after_its_lease_does_not_move_the_next_try(books: Books) -> None:
    """Another server has the delivery by then, and says what comes of it."""
    queue(books, run_id(1))
    end(books, run_id(1))
    (late,) = claim(books)
    (other,) = claim(books, ENDED + LEASE)
    assert not record(books, late, FAILED, next_at=ENDED + 100)
    assert not record(books, late, Try(ENDED, 1, 410), gave_up_at=ENDED + LEASE)
    assert record(books, other, FAILED, next_at=ENDED + 10 * LEASE)
    assert [row["number"] for row in books.rows("SELECT number FROM webhook_tries")] == [1]


def test_success_after_its_lease_ends_the_delivery(books: Books) -> None:
    """A receiver that was told was told: nothing is posted again, and what the other server says comes too late."""
    queue(books, run_id(1))
    end(books, run_id(1))
    (late,) = claim(books)
    (other,) = claim(books, ENDED + LEASE)
    assert record(books, late, TAKEN, delivered_at=ENDED + LEASE)
    assert not record(books, other, FAILED, next_at=ENDED + 10 * LEASE)
    assert not record(books, other, TAKEN, delivered_at=ENDED + 10 * LEASE)
    assert claim(books, ENDED + 10**9) == []


def test_log_has_the_tries_of_its_own_run(books: Books) -> None:
    """Each run has its own, and a run without a webhook none."""
    for number in (1, 2):
        queue(books, run_id(number))
        end(books, run_id(number))
    queue(books, run_id(3), url=None)
    first, _ = claim(books)
    record(books, first, FAILED, next_at=ENDED + 100)
    other = run_id(2) if first.run.run_id == run_id(1) else run_id(1)
    assert len(books.do(lambda c: webhooks.delivery_of(c, first.run.run_id)).tries) == 1
    assert books.do(lambda c: webhooks.delivery_of(c, other)).tries == []
    assert books.do(lambda c: webhooks.delivery_of(c, run_id(3))) is None


def test_rotation_changes_the_secret_of_its_own_workspace(books: Books) -> None:
    """A rotation counts one up, for its workspace alone, and deliveries know of it."""
    books.open(id_="other")
    assert books.do(lambda c: webhooks.secret_number(c, LAB)) == (0, None)
    assert books.do(lambda c: webhooks.rotate_secret(c, LAB, NOW + 1)) == (1, NOW + 1)
    assert books.do(lambda c: webhooks.rotate_secret(c, LAB, NOW + 2)) == (2, NOW + 2)
    assert books.do(lambda c: webhooks.secret_number(c, "other")) == (0, None)
    queue(books, run_id(1))
    end(books, run_id(1))
    (due,) = claim(books)
    assert (due.secret, due.rotated_at) == (2, NOW + 2)


def test_ended_logs_are_forgotten_in_batches(books: Books) -> None:
    """What ended before a time goes with its tries, a bounded number at once; what goes on stays."""
    for number in range(1, 8):
        queue(books, run_id(number))
    for number in range(1, 7):
        end(books, run_id(number))
    for due in claim(books):
        number = int(due.run.run_id[-1])
        ending = {"delivered_at": NOW + number} if number % 2 else {"gave_up_at": NOW + number}
        record(books, due, FAILED, **(ending if number < 6 else {"next_at": NOW}))
    assert books.do(lambda c: webhooks.forget_deliveries(c, NOW + 4, 2)) == 2
    assert books.do(lambda c: webhooks.forget_deliveries(c, NOW + 4, 2)) == 1
    assert books.do(lambda c: webhooks.forget_deliveries(c, NOW + 4, 2)) == 0
    left = [row["run_id"] for row in books.rows("SELECT run_id FROM webhook_deliveries ORDER BY run_id")]
    assert left == [run_id(number) for number in (4, 5, 6, 7)]
    tried = {row["run_id"] for row in books.rows("SELECT run_id FROM webhook_tries")}
    assert tried == {run_id(number) for number in (4, 5, 6)}
    assert books.do(lambda c: webhooks.forget_deliveries(c, NOW + 100, 100)) == 2
