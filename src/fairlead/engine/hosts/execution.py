"""A job at a host: from the order to its end, within its time, however the host behaves."""

import asyncio
from typing import Any, Final

from fairlead.domain.jobs.errors import TIMEOUT
from fairlead.domain.jobs.events import Ending, Failed, Interrupted, Place
from fairlead.engine.hosts.callbacks import HostCallbacks
from fairlead.engine.hosts.classes import class_of
from fairlead.engine.hosts.conversation import Conversation
from fairlead.engine.hosts.frames import FrameTooLargeError
from fairlead.engine.hosts.losses import fault, loss_fault
from fairlead.engine.hosts.process import EngineProcess
from fairlead.engine.hosts.protocol import Ended, Execute, Interrupt
from fairlead.processes.exits import Exit

_KILL_SECONDS: Final = 10.0
_NOWHERE: Final = Place("", "")


class HostedExecution:
    """One job, and the wish that it ends: after `seconds` it is ours; a host has `grace` seconds to hear of it."""

    def __init__(self, order: Execute, callbacks: HostCallbacks, seconds: float, grace: float) -> None:
        self.wish: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Set when the job is not wanted any more."""
        self.descriptors = 0
        """How many the host has open after the job, as far as it has said so."""
        self._order = order
        self._callbacks = callbacks
        self._seconds = seconds
        self._grace = grace

    def interrupt(self) -> None:
        """Wish that the job ends."""
        if not self.wish.done():
            self.wish.set_result(None)

    async def held(self, host: EngineProcess) -> Ending | Exit:
        """Have a host execute the job; returns how it ended, or how the host did without a word from us."""
        if self.wish.done():
            return Interrupted(None, None, [])
        conversation = host.open(self._order.job, (Ended,), self._callbacks)
        try:
            host.send(self._order)
            await _first(conversation.result, host.lost, self.wish, seconds=self._seconds)
            if not conversation.result.done() and not host.lost.done():
                return await self._stopped(host, conversation)
            return _told(conversation) or host.lost.result()
        except FrameTooLargeError as error:
            host.kill("it was given an order that is too large")
            return fault(_NOWHERE, "", "ValidationError", str(error))
        finally:
            self.executing, self.executed = _last(conversation), list(conversation.executed)
            self.descriptors = _descriptors(conversation)
            await conversation.close()

    async def failed(self, loss: Exit) -> Failed:
        """The end of the job, after the host was lost."""
        place = self.executing or _NOWHERE
        return loss_fault(loss, place, await self._class_of(place), self.executed)

    async def _stopped(self, host: EngineProcess, conversation: Conversation) -> Ending | Exit:
        """End the job: by a word, and when that is not heard by force."""
        is_late = not self.wish.done()
        host.send(Interrupt(self._order.job))
        await _first(conversation.result, host.lost, seconds=self._grace)
        if not conversation.result.done() and not host.lost.done():
            host.kill("it did not end a job that was not wanted any more")
            await _first(host.lost, seconds=_KILL_SECONDS)
        told, place = _told(conversation), _last(conversation)
        if told is not None and not (is_late and isinstance(told, Interrupted)):
            return told
        if told is not None:
            place = told.place
        if is_late:
            words = f"the job was ended after {self._seconds:.0f} seconds"
            node_type = await self._class_of(place)
            late = fault(place or _NOWHERE, node_type, TIMEOUT, words, conversation.executed)
            return Failed(late.failure, is_late=True)
        return Interrupted(place, await self._class_of(place) if place else None, list(conversation.executed))

    async def _class_of(self, place: Place | None) -> str:
        if place is None:
            return ""
        return await asyncio.to_thread(class_of, self._order.workflow, place.real_node)


async def _first(*futures: "asyncio.Future[Any]", seconds: float) -> None:
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def _told(conversation: Conversation) -> Ending | None:
    result = conversation.result.result() if conversation.result.done() else None
    return result.ending if isinstance(result, Ended) else None


def _descriptors(conversation: Conversation) -> int:
    result = conversation.result.result() if conversation.result.done() else None
    return result.descriptors if isinstance(result, Ended) else 0


def _last(conversation: Conversation) -> Place | None:
    """The node that began last of those that are not through."""
    return next(reversed(conversation.executing.values()), None)
