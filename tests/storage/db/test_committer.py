"""The thread that commits: one thing after the other, and nothing of it is lost on the way back."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from fairlead.storage.db.sqlite import Committer
from servers import wait_until


@pytest.fixture
def committer() -> Iterator[Committer]:
    """One that is closed in the end."""
    made = Committer("test-commits")
    yield made
    made.close()


def test_work_is_done_in_order_outside_the_event_loop(committer: Committer) -> None:
    """All of it is done in one thread that is not the loop's, in the order it was asked for."""
    done: list[tuple[int, int]] = []

    def note(number: int) -> None:
        done.append((number, threading.get_ident()))

    async def ask() -> None:
        await asyncio.gather(*(committer.run(partial(note, number)) for number in range(9)))

    asyncio.run(ask())
    assert [number for number, _ in done] == list(range(9))
    threads = {thread for _, thread in done}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_thread_survives_work_that_fails(committer: Committer) -> None:
    """Who asked for it is told, and what comes next is done."""

    def fail() -> None:
        raise OSError("disk full")

    async def ask() -> None:
        with pytest.raises(OSError, match="disk full"):
            await committer.run(fail)
        await committer.run(lambda: None)

    asyncio.run(ask())


def test_abandoned_work_is_done_all_the_same(committer: Committer) -> None:
    """It is done all the same, also where it ends after the loop that asked for it was closed."""
    may_go_on, done = threading.Event(), []

    def work() -> None:
        may_go_on.wait(60)
        done.append("committed")

    async def ask_and_leave() -> None:
        committer.run(work).cancel()
        committer.run(work)

    async def ask_again() -> None:
        await committer.run(lambda: done.append("the next"))

    asyncio.run(ask_and_leave())
    may_go_on.set()
    asyncio.run(ask_again())
    assert done == ["committed", "committed", "the next"]


def test_closing_finishes_all_work(committer: Committer) -> None:
    """Whatever was asked for is done before it is closed, and it can be asked again."""
    may_go_on, done = threading.Event(), []

    async def ask() -> None:
        asked = committer.run(lambda: done.append(may_go_on.wait(60)))
        closing = asyncio.get_running_loop().run_in_executor(None, committer.close)
        may_go_on.set()
        await closing
        assert done == [True]
        await asked
        await committer.run(lambda: done.append(True))

    asyncio.run(ask())
    assert done == [True, True]


def test_nothing_is_kept_of_finished_work(committer: Committer) -> None:
    """A thread that waits for work holds nothing of the work before: neither a connection nor an error."""

    class Connection:
        def commit(self) -> None:
            """Do nothing."""

        def fail(self) -> None:
            """Fail."""
            raise OSError("disk full")

    async def ask() -> list[weakref.ref[Connection]]:
        connections = [Connection(), Connection()]
        await committer.run(connections[0].commit)
        with pytest.raises(OSError, match="disk full"):
            await committer.run(connections[1].fail)
        return [weakref.ref(connection) for connection in connections]

    def all_gone() -> bool:
        gc.collect()  # an error and its traceback keep each other
        return all(connection() is None for connection in known)

    known = asyncio.run(ask())
    wait_until(all_gone, "the thread lets go of what it did")
