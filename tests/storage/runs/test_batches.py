"""How close batches of entries follow each other, on a clock that goes on only while everybody waits."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from fairlead.storage.work.journal import BatchSpacing, Journal, WrittenWork
from simulation.timing import SimulatedLoop

_SPACING = BatchSpacing(least_entries=2, seconds=0.2)


class _Database:
    """Notes when each batch was begun, and what was in it."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, Sequence[str]]] = []

    async def write(self, work: Any, *, durable: bool = True) -> WrittenWork[Any]:
        assert durable
        written: WrittenWork[Any] = work(None)
        self.batches.append((asyncio.get_running_loop().time(), written.verdicts))
        return written


def _journal(database: Any) -> Journal[str, WrittenWork[Any], str]:
    return Journal(database, lambda _, entries: WrittenWork(entries), lambda _, __: None, _SPACING)


def _play(scenario: Coroutine[Any, Any, _Database]) -> _Database:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(scenario)


def test_entries_that_come_within_a_moment_of_a_batch_share_the_next() -> None:
    """After a batch of two the journal waits, and what comes meanwhile is one batch."""

    async def scenario() -> _Database:
        database = _Database()
        journal = _journal(database)
        await asyncio.gather(journal.write("a"), journal.write("b"))
        later = [journal.write("c")]
        await asyncio.sleep(0.02)
        later.append(journal.write("d"))
        assert await asyncio.gather(*later) == ["c", "d"]
        return database

    (first, ab), (second, cd) = _play(scenario()).batches
    assert (ab, cd) == (("a", "b"), ("c", "d"))
    assert second - first == pytest.approx(_SPACING.seconds)


def test_lone_entries_follow_each_other_at_once() -> None:
    """A caller who writes one after the other waits for nobody."""

    async def scenario() -> _Database:
        database = _Database()
        journal = _journal(database)
        for name in "abcde":
            await journal.write(name)
        return database

    batches = _play(scenario()).batches
    assert [entries for _, entries in batches] == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert batches[-1][0] == batches[0][0]
