"""The engine host: a process that belongs to one workspace, executes its nodes for a server, and ends with it.

The main thread reads what the server says, so that an answer, a request to stop or a ping is heard whatever nodes do.
Workflows are executed in one thread with an event loop of its own, checked in a few others, pictures rendered in one.
"""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from fairlead.engine.hosts import rendering
from fairlead.engine.hosts.descriptors import open_descriptors
from fairlead.engine.hosts.document_files import Document
from fairlead.engine.hosts.host_service import HostService
from fairlead.engine.hosts.loading import Loaded
from fairlead.engine.hosts.protocol import (
    Begin,
    Check,
    Execute,
    FromHost,
    Interrupt,
    Load,
    Ping,
    Pong,
    Preload,
    Ready,
    Reap,
    Render,
    Serve,
    Survey,
    ToHost,
)
from fairlead.engine.hosts.quiet import be_quiet
from fairlead.engine.hosts.rpc_connection import RpcConnection
from fairlead.engine.hosts.template import Template, use_folder
from fairlead.engine.nodes.node_context import Stop
from fairlead.processes.confinement.applying import narrow
from fairlead.processes.confinement.limits import die_with_parent
from fairlead.processes.confinement.policy import ConfinementError, Policy

_CHECKS_AT_ONCE: Final = 4
_BROKEN: Final = 3
UNCONFINED: Final = 4
"""The code of a host that could not be confined as it has to be, and has loaded nothing."""


def main(server: int, forks: int) -> None:
    """Be an engine process of the server at the other end of two sockets, until it goes away. Does not return."""
    die_with_parent()
    try:
        Template(server, forks, _serve).run()
    except ConfinementError as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        os._exit(UNCONFINED)
    except ValueError:
        os._exit(1)
    finally:
        os._exit(0)


def _serve(order: Serve, policy: Policy | None, loaded: Loaded, server: socket.socket) -> None:
    if policy is not None:
        readable = (*policy.readable, order.loaded) if order.loaded else policy.readable
        narrow(msgspec.structs.replace(policy, readable=readable, writable=(order.folder,), is_forked=False))
    use_folder(order.folder)
    be_quiet()
    _Host(order, loaded, RpcConnection(server)).serve()


class _Host:
    """The threads of a host, and which of them does what."""

    def __init__(self, order: Serve, loaded: Loaded, connection: RpcConnection) -> None:
        self._connection = connection
        self._service = HostService(order, loaded, connection)
        self._loop = asyncio.new_event_loop()
        self._stops: dict[str, Stop] = {}
        self._executions: set[asyncio.Task[None]] = set()
        self._checks = ThreadPoolExecutor(_CHECKS_AT_ONCE, "check")
        self._renders = ThreadPoolExecutor(1, "render")
        threading.Thread(target=self._execute_for_ever, name="jobs", daemon=True).start()
        connection.send(Ready(loaded.packs, descriptors=open_descriptors()))

    def serve(self) -> None:
        """Do what the server says, until it has gone."""
        while (record := self._connection.read()) is not None:
            self._take(record)

    def _take(self, record: ToHost) -> None:
        match record:
            case Execute():
                stop = self._stops[record.job] = Stop()
                self._loop.call_soon_threadsafe(self._begin, record, stop)
            case Interrupt(job=job):
                if job in self._stops:
                    self._stops[job].set()
            case Check():
                self._checks.submit(self._reply, self._service.check, record)
            case Survey():
                self._checks.submit(self._reply, self._service.survey, record)
            case Ping():
                self._connection.send(Pong())
            case Render():
                self._renders.submit(self._reply, rendering.render, record)
            case Begin() | Preload() | Load() | Serve() | Reap():
                pass  # it has done with all that
            case _:
                self._connection.answer(record)

    def _execute_for_ever(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            os._exit(_BROKEN)

    def _begin(self, order: Execute[Document], stop: Stop) -> None:
        task = self._loop.create_task(self._execute(order, stop))
        self._executions.add(task)
        task.add_done_callback(self._executions.discard)

    async def _execute(self, order: Execute[Document], stop: Stop) -> None:
        with _last_resort():
            await self._service.execute(order, stop)
        self._stops.pop(order.job, None)

    def _reply(self, work: Callable[[Any], FromHost], order: Check[Document] | Survey[Document] | Render) -> None:
        """Send what came of an order."""
        with _last_resort():
            self._connection.send(work(order))


@contextmanager
def _last_resort() -> Iterator[None]:
    """A fault of ours ends the process: the server hears of that, and does not wait for ever."""
    try:
        yield
    except BaseException:  # noqa: BLE001 -- whatever it is, nobody else would hear of it
        os._exit(_BROKEN)
