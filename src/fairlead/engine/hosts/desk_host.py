"""The host that checks workflows, tells of nodes and renders pictures for everybody, kept alive.

It executes nothing. When it dies, what it was asked is asked once more of the next one, now one by one, so that a
question that kills it takes no other with it.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
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
    Refused,
    Render,
    Rendered,
)

AT_ONCE_MAX: Final = 8
_WAITING_MAX: Final = 1_000
_HOST_SECONDS: Final = 15.0
_TRIES: Final = 2
_RESTART_FIRST: Final = 0.1
_RESTART_MAX: Final = 10.0
_STEADY_SECONDS: Final = 10.0

R = TypeVar("R", bound=Result)
_Order: TypeAlias = Callable[[str, Host], Check | Describe | Render]
"""What is asked, given the name it goes by and the host that is asked."""


class EngineUnavailableError(Exception):
    """No engine host does what was asked of one right now; the words say why."""


class DeskHost:
    """Supervises one host at a time. `start_host` starts one that knows all nodes, or raises HostNotStartedError.

    A host that works longer than `seconds` on one question is ended.
    """

    def __init__(self, start_host: Callable[[], Awaitable[Host]], seconds: float) -> None:
        self._start_host = start_host
        self._seconds = seconds
        self._host: Host | None = None
        self._is_there = asyncio.Event()
        self._wanted = asyncio.Event()
        self._supervising: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._alone = asyncio.Lock()
        self._waiting = 0
        self._numbers = itertools.count()
        self._described: bytes | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def begin(self) -> None:
        """Have a host there from now on; who asks before it is waits for it."""
        self._wanted.set()
        self._supervising = asyncio.create_task(self._supervise())

    async def close(self) -> None:
        """End the host; whoever still waits for it gets EngineUnavailableError."""
        self._is_closed = True
        self._is_there.set()
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.wait({self._supervising})
        if self._host is not None:
            await self._host.end("the server ends")
        for task in (*self._tasks, *self._retiring):
            task.cancel()
        if self._tasks or self._retiring:
            await asyncio.wait({*self._tasks, *self._retiring})

    def replace(self) -> None:
        """Have another host take the place of this one, whose nodes are out of date; it serves until then."""
        self._wanted.set()

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
        if self._described is None:
            result = await self._asked(lambda name, _: Describe(name), (Described,), None)
            self._described = result.object_info
        return self._described

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
                while not self._is_closed and (self._host is None or self._host.is_gone):
                    self._is_there.clear()
                    await self._is_there.wait()
        except TimeoutError:
            raise EngineUnavailableError("the engine is being started") from None
        if self._is_closed or self._host is None:
            raise EngineUnavailableError("the server ends")
        return self._host

    # Who is asked.

    def _take(self, host: Host) -> None:
        self._host, self._described = host, None
        self._is_there.set()

    async def _supervise(self) -> None:
        """Start the next host when this one is gone or out of date; ever more slowly when it does not last."""
        loop = asyncio.get_running_loop()
        pause, is_first = 0.0, True
        while True:
            began, before = loop.time(), self._host
            await self._until_needed()
            lasted = is_first or loop.time() - began > _STEADY_SECONDS
            is_first = False
            pause = 0.0 if lasted else min(max(2 * pause, _RESTART_FIRST), _RESTART_MAX)
            await asyncio.sleep(pause)
            self._wanted.clear()
            try:
                self._take(await self._start_host())
            except HostNotStartedError:
                self._wanted.set()
                continue
            if before is not None:
                retiring = asyncio.ensure_future(self._retire(before))
                self._retiring.add(retiring)
                retiring.add_done_callback(self._retiring.discard)

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
        await host.settled(self._seconds)
        await host.end("its nodes are out of date")
