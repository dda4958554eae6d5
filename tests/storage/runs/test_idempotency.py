"""Idempotency keys: one call a key, one run a call, and what is kept of it for as long as it is."""

import asyncio
from functools import partial
from typing import Any

import pytest

from conftest import Run
from databases import opened_database
from fairlead.domain.faults import InsufficientCredits, KeyConflict, Unauthorized
from fairlead.domain.runs.entries import Admission, KeptResult, KeyUsed, Verdict
from fairlead.domain.runs.replays import key_id
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Superseded
from fairlead.storage.db.database import Database
from fairlead.storage.runs import idempotency
from fairlead.storage.runs.entries import write_entries
from storage.bookings import NOW, Books, acceptance, admission, failure, kept_result, key, settlement

pytestmark = pytest.mark.req("R-18")
CONFLICT = KeyConflict("This idempotency key was used for another call; use a new key.")


@pytest.fixture
def rich(books: Books) -> Books:
    """Return books of a workspace with money."""
    books.open(balance=10_000)
    return books


def keys(books: Books) -> dict[str, str]:
    """Return which run took which key."""
    held = books.rows("SELECT idempotency_id, id FROM runs WHERE idempotency_id IS NOT NULL")
    return {row["idempotency_id"]: row["id"] for row in held}


def read_end(books: Books, run_id: str = "run-1") -> idempotency.EndedRun | None:
    """Return how a run ended."""
    found: idempotency.EndedRun | None = books.do(lambda c: idempotency.ended_run(c, run_id))
    return found


def in_use(books: Books, id_: str, now: int) -> bool:
    """Whether a key is in use."""
    return bool(books.do(lambda c: idempotency.key_in_use(c, id_, now)))


def test_same_call_finds_its_first_run(rich: Books) -> None:
    """The same key with the same call finds the first run, while it lives and after."""
    assert rich.write(admission("run-1", key=key())) == [None]
    assert rich.write(admission("run-2", key=key())) == [KeyUsed("run-1")]
    rich.write(settlement("run-1", key_id="key", result=kept_result()))
    assert rich.write(admission("run-3", key=key())) == [KeyUsed("run-1")]
    assert rich.figures() == (9940, 0, 0)
    assert [row["id"] for row in rich.rows("SELECT id FROM runs")] == ["run-1"]


def test_key_with_another_call_is_a_conflict(rich: Books) -> None:
    """The same key with another call is a conflict, and changes nothing."""
    rich.write(admission("run-1", key=key()))
    assert rich.write(admission("run-2", key=key(fingerprint="other"))) == [CONFLICT]
    assert (rich.figures(), keys(rich)) == ((10_000, 100, 1), {"key": "run-1"})


def test_each_key_is_its_own_call(rich: Books) -> None:
    """Each key is its own call, and a call without one is never asked."""
    batch = (admission("run-1", key=key("a")), admission("run-2", key=key("b")), admission("run-3"), admission("run-4"))
    assert rich.write(*batch) == [None] * 4
    assert keys(rich) == {"a": "run-1", "b": "run-2"}


def test_expired_key_is_free(rich: Books) -> None:
    """An expired key is free, for any call, in the very moment it expires."""
    rich.write(admission("run-1", key=key(expires_at=NOW + 10)))
    late = {"created_at": NOW + 9}
    assert rich.write(admission("run-2", key=key(), **late)) == [KeyUsed("run-1")]
    fresh = key(fingerprint="other", expires_at=NOW + 500)
    assert rich.write(admission("run-3", key=fresh, created_at=NOW + 10)) == [None]
    assert keys(rich) == {"key": "run-3"}
    assert rich.write(admission("run-4", key=key(), created_at=NOW + 11)) == [CONFLICT]


def test_key_is_taken_by_the_first_call_of_a_batch(rich: Books) -> None:
    """In one batch the first takes the key; the second finds it, or conflicts with it."""
    batch = (
        admission("run-1", key=key()),
        admission("run-2", key=key()),
        admission("run-3", key=key(fingerprint="other")),
    )
    assert rich.write(*batch) == [None, KeyUsed("run-1"), CONFLICT]
    assert (rich.figures(), keys(rich)) == ((10_000, 100, 1), {"key": "run-1"})


def test_expired_key_is_taken_once_in_a_batch(rich: Books) -> None:
    """An expired key is freed once and taken once."""
    rich.write(admission("run-1", key=key(expires_at=NOW)))
    fresh = key(expires_at=NOW + 500)
    assert rich.write(admission("run-2", key=fresh), admission("run-3", key=fresh)) == [None, KeyUsed("run-2")]
    assert keys(rich) == {"key": "run-2"}


def test_key_is_taken_by_one_of_two_servers(database_url: str, run: Run, rich: Books) -> None:
    """Of calls that two servers write at the same moment, one is admitted, and the others find it."""

    async def write(database: Database, entry: Admission) -> Verdict:
        (verdict,) = (await database.write(lambda c: write_entries(c, [entry]))).verdicts
        return verdict

    async def both() -> list[Verdict]:
        async with opened_database(database_url) as one, opened_database(database_url) as two:
            calls = [
                write(server, admission(f"run-{number}-{index}", key=key(f"key-{number}")))
                for number in range(10)
                for index, server in enumerate((one, two))
            ]
            return await asyncio.gather(*calls)

    verdicts = run(both())
    assert verdicts.count(None) == 10
    used = keys(rich)
    assert sorted(found.run_id for found in verdicts if isinstance(found, KeyUsed)) == sorted(used.values())


def test_refused_call_leaves_its_key_free(rich: Books) -> None:
    """A run that is not admitted leaves its key free."""
    verdicts = rich.write(admission("run-1", hold=99_999, key=key()), admission("run-2", key=key()))
    assert verdicts == [InsufficientCredits(available=10_000, needed=99_999), None]
    assert keys(rich) == {"key": "run-2"}


def test_unknown_workspace_is_told_of_no_key(rich: Books) -> None:
    """A workspace nobody knows is not told of any key."""
    rich.write(admission("run-1", key=key()))
    (verdict,) = rich.write(admission("run-2", key=key(), workspace_id="nobody"))
    assert isinstance(verdict, Unauthorized)


def test_used_key_is_told_although_the_money_is_gone(books: Books) -> None:
    """A call that ran before is told its run, whatever the workspace could pay now."""
    books.open(balance=100, in_flight_limit=1)
    books.write(admission("run-1", key=key()))
    assert books.write(admission("run-2", key=key())) == [KeyUsed("run-1")]


def test_run_without_a_result_frees_its_key(rich: Books) -> None:
    """A run that ends without anything to tell again sets its key free, also for the batch it ends in."""
    rich.write(admission("run-1", key=key()))
    again = admission("run-2", key=key(fingerprint="other"))
    assert rich.write(again, failure("run-1", key_id="key")) == [None, None]
    assert keys(rich) == {"key": "run-2"}
    assert rich.write(failure("run-2", key_id="key")) == [None]
    assert keys(rich) == {}


def test_run_frees_only_its_own_key(rich: Books) -> None:
    """A run whose key expired while it ran leaves alone the run that took it since."""
    rich.write(admission("run-1", key=key(expires_at=NOW)))
    rich.write(admission("run-2", key=key()))
    assert rich.write(failure("run-1", key_id="key"), admission("run-3", key=key())) == [None, KeyUsed("run-2")]
    assert keys(rich) == {"key": "run-2"}


def test_late_failure_does_not_set_the_key_free(rich: Books) -> None:
    """What an old attempt has failed for is not kept: the new one may yet succeed."""
    rich.write(admission("run-1", key=key()))
    (taken,) = rich.take_over()
    assert taken.key_id == "key"
    assert rich.write(failure("run-1", key_id="key")) == [Superseded()]
    assert (keys(rich), read_end(rich)) == ({"key": "run-1"}, None)
    assert rich.write(settlement("run-1", attempt=2, key_id="key", result=kept_result(content=b"[2]"))) == [None]
    found = read_end(rich)
    assert found is not None
    assert found.result == kept_result(content=b"[2]")


@pytest.mark.req("M-02")
def test_late_result_is_the_only_one_that_is_kept(rich: Books) -> None:
    """Of an old attempt and a new one the first to bring a result is told again under the key."""
    rich.write(admission("run-1", key=key()))
    rich.take_over()
    late = settlement("run-1", key_id="key", result=kept_result(content=b"[1]"))
    second = settlement("run-1", attempt=2, key_id="key", result=kept_result(content=b"[2]"))
    assert rich.write(late, second) == [None, Superseded()]
    found = read_end(rich)
    assert found is not None
    assert (keys(rich), found.result) == ({"key": "run-1"}, kept_result(content=b"[1]"))


_RESULTS: dict[str, KeptResult] = {
    "a result": kept_result(),
    "a failure": kept_result(fault=b'["InternalError",{}]', content_type=None, content=None),
    "a blob": kept_result(content=None, blob="b" * 64, size=5_000_000_000, replayable_until=0),
    "all": kept_result(fallback_provider="fal", dropped='["seed: no"]', replayable_until=NOW + 50, content=b"\x00\xff"),
}


@pytest.mark.parametrize("result", _RESULTS.values(), ids=_RESULTS.keys())
def test_result_is_found_as_it_was_kept(rich: Books, result: KeptResult) -> None:
    """What was kept is found as it was, with the run's state and charge."""
    rich.write(admission("run-1", key=key()))
    rich.write(settlement("run-1", charge=60, key_id="key", result=result))
    assert read_end(rich) == idempotency.EndedRun(
        "run-1", RunState.SUCCEEDED, 60, byok=False, created_at=NOW, result=result
    )


def test_only_an_ended_run_has_a_result(rich: Books) -> None:
    """There is nothing to tell of a run that lives, or of none; an ended one without a result says so."""
    rich.write(admission("run-1", key=key(), byok=True, hold=0), admission("run-2"))
    rich.write(acceptance("run-1"), failure("run-2", state=RunState.LOST))
    assert (read_end(rich, "run-1"), read_end(rich, "run-9")) == (None, None)
    lost = read_end(rich, "run-2")
    assert lost == idempotency.EndedRun("run-2", RunState.LOST, 0, byok=False, created_at=NOW, result=None)
    rich.write(settlement("run-1", charge=0))
    own = read_end(rich, "run-1")
    assert own is not None
    assert own.byok


def test_key_is_in_use_until_its_time_is_up(rich: Books) -> None:
    """A key counts until its time is up."""
    rich.write(admission("run-1", key=key(expires_at=NOW + 10)))
    assert in_use(rich, "key", NOW + 9)
    assert not in_use(rich, "key", NOW + 10)
    assert not in_use(rich, "other", NOW)


def test_same_key_of_two_workspaces_is_two_keys(rich: Books) -> None:
    """The same key of two workspaces is two keys."""
    rich.open(id_="office", balance=1000)
    mine, theirs = (key(key_id(id_, "k")) for id_ in ("lab-id", "office"))
    verdicts = rich.write(admission("run-1", key=mine), admission("run-2", key=theirs, workspace_id="office"))
    assert verdicts == [None, None]


def test_expired_keys_and_results_are_deleted_in_batches(rich: Books) -> None:
    """What is old goes in batches of a bounded size, and what is not old stays."""
    rich.write(*(admission(f"run-{n}", key=key(f"key-{n}", expires_at=NOW + n)) for n in range(7)))
    rich.write(*(settlement(f"run-{n}", key_id=f"key-{n}", result=kept_result(expires_at=NOW + n)) for n in range(7)))
    forget = partial(idempotency.forget_expired, now=NOW + 4, limit=3)
    assert [rich.do(forget) for _ in range(3)] == [6, 4, 0]
    assert set(keys(rich)) == {"key-5", "key-6"}
    results: list[dict[str, Any]] = rich.rows("SELECT id FROM runs WHERE result_expires_at IS NOT NULL")
    assert {row["id"] for row in results} == {"run-5", "run-6"}
