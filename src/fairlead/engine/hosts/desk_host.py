"""A host that checks workflows, tells of nodes and renders pictures for everybody, kept alive.

It executes nothing. When it dies, what it was asked is asked once more of the next one, now one by one, so that a
question that kills it takes no other with it.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from fairlead.engine.hosts.child import Host, HostNotStartedError
from fairlead.engine.hosts.conversation import Result
from fairlead.engine.hosts.desk import Desk
from fairlead.engine.hosts.protocol import (
    Check,
    Checked,
    Describe,
    Described,
    PackReport,
    Refused,
    Render,
    Rendered,
)
from fairlead.engine.packs.finding import absence

AT_ONCE_MAX: Final = 8
_WAITING_MAX: Final = 1_000
_HOST_SECONDS: Final = 15.0
_STARTS_MAX: Final = 2
_PREPARE_SECONDS: Final = 150.0
"""More than those starts take when hosts come as late as they may."""
_RESTART_FIRST: Final = 0.1
_RESTART_MAX: Final = 10.0
_STEADY_SECONDS: Final = 10.0
_BEING_STARTED: Final = "the engine is being started"

R = TypeVar("R", bound=Result)
_Order: TypeAlias = Callable[[str, Host], Check | Describe | Render]
"""What is asked, given the name it goes by and the host that is asked."""


class EngineUnavailableError(Exception):
    """No engine host does what was asked of one right now; the words say why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """How each node pack of a set fared when a host loaded them, and which of them there are not.

    `error` says why no host has them, or is None where one does, whatever errors some of the packs may have. A pack
    that ended the hosts that loaded it has the only report.
    """

    packs: Sequence[PackReport]
    missing: tuple[str, ...] = ()
    error: str | None = None


class DeskHost:
    """Supervises one host at a time. `start_host` starts one that knows all nodes, or raises HostNotStartedError.

    A host that works longer than `seconds` on one question is ended. Where it `may_fail`, no more are started once
    two in a row could not be; otherwise somebody mends it, and it is tried for ever.
    """

    def __init__(self, start_host: Callable[[], Awaitable[Host]], seconds: float, *, may_fail: bool = False) -> None:
        self.failed_at: float | None = None
        """When it was given up, by the loop's clock."""
        self._start_host = start_host
        self._seconds = seconds
        self._may_fail = may_fail
        self._failure: HostNotStartedError | None = None
        """Why the last host could not be started."""
        self._failures = 0
        """How many in a row could not be."""
        self._outdated: Host | None = None
        """A host that somebody waits to see replaced."""
        self._host: Host | None = None
        self._is_there = asyncio.Event()
        self._wanted = asyncio.Event()
        self._supervising: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._alone = asyncio.Lock()
        self._waiting = 0
        self._numbers = itertools.count()
        self._described: bytes | None = None
        self._generation = 0
        """Counts the replacements that were asked for."""
        self._generation_there = 0
        """Which of them the host is of."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retiring: dict[Host, asyncio.Task[None]] = {}
        """Those whose place was taken and that still answer what they were asked."""
        self._closed_for: str | None = None

    def begin(self) -> None:
        """Have a host there from now on; who asks before it is waits for it."""
        self._wanted.set()
        self._supervising = asyncio.create_task(self._supervise())

    async def close(self, reason: str) -> None:
        """End the host; whoever still waits for it gets EngineUnavailableError with the reason."""
        self._closed_for = reason
        self._is_there.set()
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.wait({self._supervising})
        await asyncio.gather(*(host.end(reason) for host in (self._host, *self._retiring) if host is not None))
        for task in (*self._tasks, *self._retiring.values()):
            task.cancel()
        if self._tasks or self._retiring:
            await asyncio.wait({*self._tasks, *self._retiring.values()})

    def replace(self) -> None:
        """Have another host take the place of this one, whose nodes are out of date; it serves until then."""
        self._generation += 1
        self._wanted.set()

    @property
    def is_current(self) -> bool:
        """Whether no replacement is still to come: what is said from now on is not out of date."""
        return self._generation_there == self._generation

    async def check(self, job: str, workflow: bytes, targets: Sequence[str] | None, desk: Desk) -> Checked | Refused:
        """Check a workflow. EngineUnavailableError when no host lives to say something about it."""
        kinds: tuple[type[Checked | Refused], ...] = (Checked, Refused)
        result = await self._asked(lambda name, _: Check(name, workflow, targets), kinds, desk)
        return msgspec.structs.replace(result, job=job)

    async def render(self, order: Render) -> Rendered:
        """Have a picture rendered. EngineUnavailableError as for checks."""
        made = Path()

        def ordered(name: str, host: Host) -> Render:
            nonlocal made
            made = host.folder / f"render-{name}"  # a host writes nowhere else
            return msgspec.structs.replace(order, job=name, target=str(made))

        result = await self._asked(ordered, (Rendered,), None)
        if result.error is None:
            try:
                await asyncio.to_thread(made.replace, order.target)
            except OSError as error:
                raise EngineUnavailableError("the picture was lost on its way") from error
        return msgspec.structs.replace(result, job=order.job)

    async def describe(self) -> bytes:
        """The classes of nodes there are, as JSON. EngineUnavailableError as for checks."""
        if self._described is not None:
            return self._described
        host = self._host
        result = await self._asked(lambda name, _: Describe(name), (Described,), None)
        if self._host is host:  # the next one may know others
            self._described = result.object_info
        return result.object_info

    async def prepared(self, *, anew: bool = False) -> Prepared:
        """What a host makes of the packs, or why there is none. EngineUnavailableError when no pack is to blame.

        With `anew` it is another host; so it is where packs had errors and hosts may fail, to see if they are mended.
        """
        host = self._host
        has_errors = self._may_fail and host is not None and any(one.error for one in host.ready.packs)
        if host is not None and host is not self._outdated and (anew or has_errors):
            self._outdated = host
            self._wanted.set()
        try:
            async with asyncio.timeout(_PREPARE_SECONDS):
                await self.settled()
        except TimeoutError:
            raise EngineUnavailableError(_BEING_STARTED) from None
        if self._closed_for is not None:
            raise EngineUnavailableError(self._closed_for)
        if self._failure is not None and (self._failures >= _STARTS_MAX or self._is_over):
            return _failed(self._failure)
        return Prepared(cast("Host", self._host).ready.packs)

    async def settled(self) -> None:
        """Return when a host is there, or no more is to be expected of starting one than that it fails."""
        while not self._is_settled:
            self._is_there.clear()
            await self._is_there.wait()

    # What is asked.

    async def _asked(self, order: _Order, expected: tuple[type[R], ...], desk: Desk | None) -> R:
        """The result of an order. Who has asked may leave: the host is then still at work, and takes up room."""
        if self._waiting >= _WAITING_MAX:
            raise EngineUnavailableError("too much is asked of the engine right now")
        task = asyncio.ensure_future(self._result(order, expected, desk))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who has left does not ask for it

    async def _result(self, order: _Order, expected: tuple[type[R], ...], desk: Desk | None) -> R:
        self._waiting += 1
        try:
            async with self._room:
                result = await self._try(order, expected, desk)
            if result is None:
                async with self._alone:
                    result = await self._try(order, expected, desk)
        finally:
            self._waiting -= 1
        if result is None:
            raise EngineUnavailableError("the engine stopped twice while it worked on this")
        return result

    async def _try(self, order: _Order, expected: tuple[type[R], ...], desk: Desk | None) -> R | None:
        """The result of an order, or None when the host has died over it, or beside it."""
        host = await self._present()
        name = str(next(self._numbers))
        conversation = host.open(name, expected, desk)
        try:
            host.send(order(name, host))
            waits: set[asyncio.Future[Any]] = {conversation.result, host.lost}
            await asyncio.wait(waits, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await conversation.close()
        if conversation.result.done():
            return cast("R", conversation.result.result())
        if host.lost.done():
            return None
        host.kill(f"it worked for more than {self._seconds:.0f} seconds on one question")
        raise EngineUnavailableError(f"the engine took more than {self._seconds:.0f} seconds")

    async def _present(self) -> Host:
        try:
            async with asyncio.timeout(_HOST_SECONDS):
                while not (self._is_up or self._is_over):
                    self._is_there.clear()
                    await self._is_there.wait()
        except TimeoutError:
            raise EngineUnavailableError(_BEING_STARTED) from None
        if self._is_over:
            raise EngineUnavailableError(self._closed_for or str(self._failure))
        return cast("Host", self._host)

    @property
    def _is_up(self) -> bool:
        return self._host is not None and not self._host.is_gone

    @property
    def _is_over(self) -> bool:
        """Whether no host is to come any more."""
        return self._closed_for is not None or self.failed_at is not None

    @property
    def _is_settled(self) -> bool:
        is_new = self._is_up and self._host is not self._outdated
        return is_new or self._is_over or self._failures >= _STARTS_MAX

    # Who is asked.

    def _take(self, host: Host) -> None:
        self._host, self._described = host, None
        self._failure, self._failures = None, 0
        self._is_there.set()

    def _fail(self, error: HostNotStartedError) -> None:
        self._failure, self._failures = error, self._failures + 1
        if self._may_fail and (error.missing or self._failures >= _STARTS_MAX):
            self._host, self._described = None, None
            self.failed_at = asyncio.get_running_loop().time()
        else:
            self._wanted.set()
        self._is_there.set()

    async def _supervise(self) -> None:
        """Start the next host when this one is gone or out of date; ever more slowly when it does not last."""
        loop = asyncio.get_running_loop()
        pause, is_first = 0.0, True
        while self.failed_at is None:
            began, before = loop.time(), self._host
            await self._until_needed()
            lasted = is_first or loop.time() - began > _STEADY_SECONDS
            is_first = False
            pause = 0.0 if lasted else min(max(2 * pause, _RESTART_FIRST), _RESTART_MAX)
            await asyncio.sleep(pause)
            self._wanted.clear()
            generation = self._generation
            try:
                self._take(await self._start_host())
                self._generation_there = generation
            except HostNotStartedError as error:
                self._fail(error)
            if before is not None and before is not self._host:
                self._retiring[before] = asyncio.create_task(self._retire(before))

    async def _until_needed(self) -> None:
        wanted = asyncio.ensure_future(self._wanted.wait())
        waits: set[asyncio.Future[Any]] = {wanted}
        if self._host is not None and not self._wanted.is_set():
            waits.add(self._host.lost)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wanted.cancel()

    async def _retire(self, host: Host) -> None:
        """End a host when it has answered what it was asked."""
        try:
            await host.settled(self._seconds)
            await host.end("its nodes are out of date")
        finally:
            del self._retiring[host]


def _failed(error: HostNotStartedError) -> Prepared:
    if error.missing:
        return Prepared((), error.missing, absence(error.missing))
    if error.loading is None:
        raise EngineUnavailableError(str(error)) from error
    return Prepared([PackReport(error.loading, 0, str(error))], error=str(error))
