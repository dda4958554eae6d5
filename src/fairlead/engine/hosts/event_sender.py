"""Sends the events of a job to the server in batches while it is executed.

Events are sent before the next node begins, so the server knows which node was executed if the process dies.
"""

import asyncio
from typing import Final

import msgspec

from fairlead.domain.jobs.errors import TOO_MUCH
from fairlead.domain.jobs.events import Ending, Event, Executed, Executing, Failed, Place, Progress
from fairlead.domain.jobs.outputs import SHOWN_BYTES_MAX, SHOWS_TOO_MUCH
from fairlead.engine.graph.failures import failure
from fairlead.engine.graph.graph import Graph
from fairlead.engine.hosts.plain import PlainValues, TooManyBytesError
from fairlead.engine.hosts.server import JobConnection
from fairlead.engine.hosts.service import JobCalls
from fairlead.engine.nodes.context import NamedFaultError

_BATCH_SECONDS: Final = 0.002
_BATCH_MAX: Final = 1_000
_NOBODY: Final = Place("", "")
_UNSENDABLE: Final = (NamedFaultError, ValueError, TypeError, OverflowError, RecursionError, MemoryError)
"""The errors for a value that is too large to display or to send, or cannot be encoded."""


class EventSender:
    """Gathers the events of one execution. It belongs to the execution's event loop.

    An event that cannot be sent ends the execution: `fault` is then its ending. A timer is not cancelled when events
    are sent before it fires: one timer for each node took 7 % of the time of a long chain.
    """

    def __init__(self, graph: Graph, connection: JobConnection) -> None:
        self._graph = graph
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._shown = PlainValues(SHOWN_BYTES_MAX)
        self._waiting: list[Event] = []
        self._is_timed = False
        self.fault: Failed | None = None

    def emit(self, event: Event) -> None:
        """Send an event soon. The ending is sent by the caller of the executor."""
        if isinstance(event, Ending):
            return
        try:
            self._waiting.append(self._sendable(event))
        except _UNSENDABLE as error:
            self._give_up(event, error)
            return
        if isinstance(event, Executing | Progress) or len(self._waiting) >= _BATCH_MAX:
            self.flush()
        elif not self._is_timed:
            self._is_timed = True
            self._loop.call_later(_BATCH_SECONDS, self._flush_in_time)

    def flush(self) -> None:
        """Send the events that wait."""
        batch, self._waiting = self._waiting, []
        if batch:
            self._send(batch)

    def _flush_in_time(self) -> None:
        self._is_timed = False
        self.flush()

    def _send(self, batch: list[Event]) -> None:
        """Send a batch, in halves where it is too large."""
        try:
            self._connection.tell(JobCalls.tell, batch)
        except _UNSENDABLE as error:
            if len(batch) == 1:
                self._give_up(batch[0], error)
                return
            half = len(batch) // 2
            self._send(batch[:half])
            self._send(batch[half:])

    def _give_up(self, event: Event, error: Exception) -> None:
        if self.fault is None:
            place: Place = getattr(event, "place", _NOBODY)
            node = self._graph.get(place.real_node)
            self.fault = Failed(failure(place, (node and node.class_type) or "", error, {}, []))
            self._connection.stop.set()

    def _sendable(self, event: Event) -> Event:
        """The event in a form that can be sent.

        The server, too, refuses more than the nodes of a job may display together.
        """
        if not isinstance(event, Executed):
            return event
        try:
            return msgspec.structs.replace(event, ui=self._shown.add(event.ui))
        except TooManyBytesError as error:
            raise NamedFaultError(TOO_MUCH, SHOWS_TOO_MUCH) from error
