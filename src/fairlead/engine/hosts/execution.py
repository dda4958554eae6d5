"""A job at a host: from the order to its end, within its time, however the host behaves."""

import asyncio
from typing import Any, Final

from fairlead.domain.jobs.errors import TIMEOUT
from fairlead.domain.jobs.events import Ending, Failed, Interrupted, Place
from fairlead.engine.hosts.callbacks import HostCallbacks
from fairlead.engine.hosts.classes import class_of
from fairlead.engine.hosts.document_files import Document
from fairlead.engine.hosts.host_call import HostCall
from fairlead.engine.hosts.host_failures import failed, host_failure, not_started
from fairlead.engine.hosts.process import EngineProcess
from fairlead.engine.hosts.protocol import Ended, Execute, Interrupt
from fairlead.processes.exits import Exit

_KILL_SECONDS: Final = 10.0
_NOWHERE: Final = Place("", "")


class HostedExecution:
    """One job at a host. After `seconds` we request a stop; the host is killed `grace` seconds after any request."""

    def __init__(self, order: Execute[bytes], callbacks: HostCallbacks, seconds: float, grace: float) -> None:
        self.cancellation: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Set when the job is cancelled."""
        self.descriptors = 0
        """How many the host has open after the job, as far as it has said so."""
        self._order = order
        self._callbacks = callbacks
        self._seconds = seconds
        self._grace = grace

    def interrupt(self) -> None:
        """Request that the job ends."""
        if not self.cancellation.done():
            self.cancellation.set_result(None)

    async def held(self, host: EngineProcess) -> Ending | Exit:
        """Have a host execute the job; returns how it ended, or how the host did without a word from us."""
        if self.cancellation.done():
            return Interrupted(None, None, [])
        call = host.open(self._order.job, (Ended,), self._callbacks)
        try:
            host.send(await _handed_over(self._order, host))
            await _first(call.result, host.lost, self.cancellation, seconds=self._seconds)
            if not call.result.done() and not host.lost.done():
                return await self._stopped(host, call)
            return _told(call) or host.lost.result()
        except OSError as error:
            host.kill("it could not be given its order")
            return not_started(f"the workflow could not be given to an engine host: {error.strerror}")
        finally:
            self.executing, self.executed = _last(call), list(call.executed)
            self.descriptors = _descriptors(call)
            await call.close()

    async def failed(self, exit_: Exit) -> Failed:
        """The end of the job, after the host was lost."""
        place = self.executing or _NOWHERE
        return host_failure(exit_, place, await self._class_of(place), self.executed)

    async def _stopped(self, host: EngineProcess, call: HostCall) -> Ending | Exit:
        """End the job: by a word, and when that is not heard by force."""
        is_late = not self.cancellation.done()
        host.send(Interrupt(self._order.job))
        await _first(call.result, host.lost, seconds=self._grace)
        if not call.result.done() and not host.lost.done():
            host.kill("it did not end a job that was not wanted any more")
            await _first(host.lost, seconds=_KILL_SECONDS)
        told, place = _told(call), _last(call)
        if told is not None and not (is_late and isinstance(told, Interrupted)):
            return told
        if told is not None:
            place = told.place
        if is_late:
            words = f"the job was ended after {self._seconds:.0f} seconds"
            node_type = await self._class_of(place)
            late = failed(place or _NOWHERE, node_type, TIMEOUT, words, call.executed)
            return Failed(late.failure, is_late=True)
        return Interrupted(place, await self._class_of(place) if place else None, list(call.executed))

    async def _class_of(self, place: Place | None) -> str:
        if place is None:
            return ""
        return await asyncio.to_thread(class_of, self._order.workflow, place.real_node)


async def _handed_over(order: Execute[bytes], host: EngineProcess) -> Execute[Document]:
    workflow, hidden = await host.hand_over(order.workflow), await host.hand_over(order.hidden)
    return Execute(order.job, workflow, order.outputs, hidden)


async def _first(*futures: "asyncio.Future[Any]", seconds: float) -> None:
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _told(call: HostCall) -> Ending | None:
    result = call.result.result() if call.result.done() else None
    return result.ending if isinstance(result, Ended) else None


def _descriptors(call: HostCall) -> int:
    result = call.result.result() if call.result.done() else None
    return result.descriptors if isinstance(result, Ended) else 0


def _last(call: HostCall) -> Place | None:
    """The node that began last of those that are not through."""
    return next(reversed(call.executing.values()), None)
