"""The engine host: a process of its own that executes nodes for a server and ends with it.

The main thread reads what the server says, so that an answer or a wish to stop is heard whatever nodes do. Workflows
are executed in one thread with an event loop of its own, checked in a few others, pictures rendered in one more.
"""

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fairlead.engine.hosts import rendering
from fairlead.engine.hosts.confinement import be_quiet, confine, die_with_parent
from fairlead.engine.hosts.line import Line
from fairlead.engine.hosts.loading import load
from fairlead.engine.hosts.protocol import (
    Check,
    Describe,
    Execute,
    FromHost,
    Interrupt,
    Loading,
    Order,
    Ready,
    Render,
    ToHost,
)
from fairlead.engine.hosts.sandbox import restrict
from fairlead.engine.hosts.work import Workbench
from fairlead.engine.node_context import Stop

_CHECKS_AT_ONCE: Final = 4
_BROKEN: Final = 3


def main(descriptor: int) -> None:
    """Serve the server at the other end of a socket, until it goes away. Does not return."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 -- the only way to call it
    die_with_parent()
    line = Line(socket.socket(fileno=descriptor))
    try:
        order = line.read()
        if isinstance(order, Order):
            _Program(order, line).serve()
    except ValueError:
        os._exit(1)
    finally:
        os._exit(0)


class _Program:
    """The threads of a host, and which of them does what."""

    def __init__(self, order: Order, line: Line) -> None:
        confine(order.memory)
        if order.confined:
            restrict(Path(order.scratch), order.packs, order.blobs)
        os.chdir(Path(order.scratch))
        loaded = load(order, lambda pack: line.send(Loading(pack)))
        be_quiet()
        gc.collect()
        gc.freeze()  # what is loaded stays: no need to look at it again and again
        self._line = line
        self._bench = Workbench(order, loaded, line)
        self._loop = asyncio.new_event_loop()
        self._stops: dict[str, Stop] = {}
        self._checks = ThreadPoolExecutor(_CHECKS_AT_ONCE, "check")
        self._renders = ThreadPoolExecutor(1, "render")
        threading.Thread(target=self._execute_for_ever, name="jobs", daemon=True).start()
        line.send(Ready(len(loaded.registry), loaded.packs))

    def serve(self) -> None:
        """Do what the server says, until it has gone."""
        while (record := self._line.read()) is not None:
            self._take(record)

    def _take(self, record: ToHost) -> None:
        match record:
            case Execute():
                stop = self._stops[record.job] = Stop()
                asyncio.run_coroutine_threadsafe(self._execute(record, stop), self._loop)
            case Interrupt(job=job):
                if job in self._stops:
                    self._stops[job].set()
            case Check():
                self._checks.submit(self._reply, self._bench.check, record)
            case Describe():
                self._checks.submit(self._reply, self._bench.describe, record)
            case Render():
                self._renders.submit(self._reply, rendering.render, record)
            case Order():
                pass  # there is only one, and it was the first
            case _:
                self._line.answer(record)

    def _execute_for_ever(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            os._exit(_BROKEN)

    async def _execute(self, order: Execute, stop: Stop) -> None:
        with _last_resort():
            await self._bench.execute(order, stop)
        self._stops.pop(order.job, None)

    def _reply(self, work: Callable[[Any], FromHost], order: Check | Describe | Render) -> None:
        """Send what came of an order."""
        with _last_resort():
            self._line.send(work(order))


@contextmanager
def _last_resort() -> Iterator[None]:
    """A fault of ours ends the process: the server hears of that, and does not wait for ever."""
    try:
        yield
    except BaseException:  # noqa: BLE001 -- whatever it is, nobody else would hear of it
        os._exit(_BROKEN)
