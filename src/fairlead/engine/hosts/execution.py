"""A job at a host: from the order to its end, within its time limit, however the host behaves."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.jobs.errors import CRASH, OUT_OF_MEMORY, TIMEOUT
from fairlead.domain.jobs.events import (
    Ending,
    Event,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Interrupted,
    Place,
    Preview,
    ProgressText,
    ShownValues,
)
from fairlead.engine.hosts.classes import class_of
from fairlead.engine.hosts.connection import HostCall, Listener, ProcessLostError
from fairlead.engine.hosts.process import EngineProcess
from fairlead.engine.hosts.service import Ended, Execute, HostCallbacks, HostService
from fairlead.processes.exits import Exit
from fairlead.processes.rpc import BadFrameError

_KILL_SECONDS: Final = 10.0
_LINES_MAX: Final = 100
_NOWHERE: Final = Place("", "")
_UNHEARD: Final = "it did not end a job that was not wanted any more"
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png"})


class HostedExecution:
    """One job at a host. After `seconds` we request a stop; the host is killed `grace` seconds after any request."""

    def __init__(self, order: Execute, callbacks: HostCallbacks, seconds: float, grace: float) -> None:
        self.cancellation: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Set when the job is cancelled."""
        self.descriptors = 0
        """How many descriptors the host has open after the job, by its own report."""
        self._order = order
        self._callbacks = callbacks
        self._seconds = seconds
        self._grace = grace
        self._events = _Events(callbacks)
        self._host: EngineProcess | None = None
        self._call: HostCall[Ended] | None = None
        self._is_stopping = self._is_late = False

    def interrupt(self) -> None:
        """Request that the job ends."""
        if not self.cancellation.done():
            self.cancellation.set_result(None)
            self._stop()

    async def run_on(self, host: EngineProcess) -> Ending | Exit:
        """Have a host execute the job; returns how the job ended, or how the host ended by itself."""
        if self.cancellation.done():
            return Interrupted(None, None, [])
        self._host, order = host, self._order
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._stop)
        try:
            workflow, hidden = await host.hand_over(order.workflow), await host.hand_over(order.hidden)
            call = host.connection.call(HostService.execute, workflow, order.outputs, hidden, self._callbacks)
            self._call, call.listener = call, self._events
            # A stop was requested while the documents were handed over.
            if self._is_stopping:
                call.cancel()
            ended = await call.result
        except ProcessLostError as error:
            return await self._ending_after_stop(None) if self._is_stopping else error.exit
        except OSError as error:
            host.kill("it could not be given its order")
            return not_started(f"the workflow could not be given to an engine host: {error.strerror}")
        finally:
            self._host = None  # which may have another job soon
            self._timer.cancel()
            if self._call is not None:
                await self._call.close()
        self.descriptors = ended.descriptors
        return await self._ending_after_stop(ended.ending) if self._is_stopping else ended.ending

    async def failure(self, exit_: Exit) -> Failed:
        """The end of the job, after the host was lost. A kill by the system means that memory ran out."""
        place, executed = self._events.last or _NOWHERE, self._events.executed
        lines = exit_.last_words.splitlines()[:_LINES_MAX]
        node_type = await self._class_of(place)
        if exit_.reason is None and exit_.is_out_of_memory:
            words = "the engine process was killed by the system, most likely because memory ran out"
            return failure(place, node_type, OUT_OF_MEMORY, words, executed, lines)
        died = exit_.words if exit_.reason is None else f"was ended: {exit_.reason}"
        return failure(place, node_type, CRASH, f"the engine process {died}", executed, lines)

    # The end of its time.

    def _wait(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    @property
    def _is_answered(self) -> bool:
        return self._call is not None and self._call.result.done()

    def _stop(self) -> None:
        """End the job: by a request, and by force when that has no effect."""
        if self._host is None or self._is_stopping or self._is_answered:
            return
        self._is_stopping, self._is_late = True, not self.cancellation.done()
        if self._call is not None:
            self._call.cancel()
        self._wait(self._grace, self._kill)

    def _kill(self) -> None:
        if self._host is not None and not self._is_answered:
            self._host.kill(_UNHEARD)
            self._wait(_KILL_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Stop waiting for a process that the system does not end."""
        if self._call is not None:
            self._call.fail(Exit(None, None, _UNHEARD))

    async def _ending_after_stop(self, ending: Ending | None) -> Ending:
        """How the job has ended after a stop was requested: by itself, if it has reported so."""
        if ending is not None and not (self._is_late and isinstance(ending, Interrupted)):
            return ending
        place = ending.place if isinstance(ending, Interrupted) else self._events.last
        node_type = "" if place is None else await self._class_of(place)
        if self._is_late:
            words = f"the job was ended after {self._seconds:.0f} seconds"
            late = failure(place or _NOWHERE, node_type, TIMEOUT, words, self._events.executed)
            return msgspec.structs.replace(late, is_late=True)
        return Interrupted(place, node_type or None, list(self._events.executed))

    async def _class_of(self, place: Place) -> str:
        return await asyncio.to_thread(class_of, self._order.workflow, place.real_node)


class _Events(Listener):
    """The events that a host sends of a job: checked, and passed on in the batches in which they came."""

    def __init__(self, callbacks: HostCallbacks) -> None:
        self.executed: Final[list[str]] = []
        self._executing: dict[str, Place] = {}
        """The nodes that have begun and not finished, the latest last."""
        self._callbacks = callbacks
        self._told: list[Event] = []

    @property
    def last(self) -> Place | None:
        """The node that began last of those that have not finished."""
        return next(reversed(self._executing.values()), None)

    def tell(self, events: Sequence[Event]) -> None:
        """Take events. BadFrameError for what a host may not send."""
        for event in events:
            told = event
            match event:
                case Executing(place=place):
                    self._executing.pop(place.node, None)
                    self._executing[place.node] = place
                case Finished(place=place):
                    self._executing.pop(place.node, None)
                    self.executed.append(place.node)
                case Executed(ui=ui):
                    told = msgspec.structs.replace(event, ui=_encode_shown(ui))
                case _ if isinstance(event, Ending):
                    raise BadFrameError("an ending among the events")
                case _:
                    pass
            self._told.append(told)

    def show(self, shown: Preview | ProgressText) -> None:
        """Pass on a preview at once. BadFrameError for a picture of another kind."""
        if isinstance(shown, Preview) and shown.image_type not in _IMAGE_TYPES:
            raise BadFrameError("a preview of an unknown type")
        self.flush()
        self._callbacks.show(shown)

    def flush(self) -> None:
        """Pass on the events that came together."""
        told, self._told = self._told, []
        if told:
            self._callbacks.tell(told)

    async def catch_up(self) -> None:
        """Return when the callbacks can take more events."""
        await self._callbacks.catch_up()


def _encode_shown(ui: Mapping[str, object]) -> ShownValues:
    try:
        return ShownValues.encode(ui)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFrameError("a value that JSON does not have") from error


def failure(
    place: Place,
    node_type: str,
    exception_type: str,
    words: str,
    executed: Sequence[str] = (),
    traceback: Sequence[str] = (),
) -> Failed:
    """A failure with a message of ours."""
    return Failed(Failure(place, node_type, exception_type, words, list(traceback), {}, list(executed)))


def not_started(words: str) -> Failed:
    """The end of a job for which no host could be started."""
    return failure(_NOWHERE, "", CRASH, words)
