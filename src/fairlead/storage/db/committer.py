"""The thread in which a COMMIT of SQLite waits for the disk, while the event loop goes on."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

_Order: TypeAlias = tuple[Callable[[], None], asyncio.Future[None]]


class Committer:
    """Does one piece of work after the other in a thread of its own, which begins with the first.

    An executor of the standard library does the same by way of a future, two locks and a semaphore, each of which the
    thread has to win the interpreter's lock for while the loop is busy: at every batch, three hundredths of what a run
    costs.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Have work done; the future is of the running loop, and raises what the work raises."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._orders.put((work, future))
        return future

    def close(self) -> None:
        """Wait until all that was ordered has been done."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            _do(*order)
            del order  # while the thread waits for the next it would keep a connection that was dropped meanwhile


def _do(work: Callable[[], None], future: asyncio.Future[None]) -> None:
    failure: BaseException | None = None
    try:
        work()
    except BaseException as error:  # noqa: BLE001 -- its waiter has to judge
        failure = error
    with suppress(RuntimeError):  # the loop may have been closed meanwhile: nobody waits any more
        future.get_loop().call_soon_threadsafe(_tell, future, failure)


def _tell(future: asyncio.Future[None], failure: BaseException | None) -> None:
    if future.done():  # its waiter was cancelled
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
