"""Hosts that answer questions of their workspaces: whether a graph is valid, or what a picture looks like.

A host belongs to one workspace, and has exactly the packs of what it is asked. Workspaces share a number of places, so
that none holds up the others, and a question that kills its host or never ends harms only its own workspace. When a
host dies, its questions are asked once more of the next one, now one by one, so that a question that kills a host
affects no other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, TypeAlias, TypeVar

import msgspec

from fairlead.engine.hosts.connection import ProcessLostError
from fairlead.engine.hosts.kept_process import KeptProcess
from fairlead.engine.hosts.notes import EngineUnavailableError
from fairlead.engine.hosts.process import EngineProcess, HostNotStartedError
from fairlead.engine.hosts.templates import HostSettings, Packs, Start
from fairlead.fair_shares import FairShares, NoRoomError

R = TypeVar("R")
Question: TypeAlias = Callable[[EngineProcess], Awaitable[R]]
"""Asks a host, and returns its answer, which is never None."""
_WAITING_MAX: Final = 1_000
_OUT_OF_DATE: Final = "its nodes are out of date"
_TWICE: Final = "the engine stopped twice while it worked on this"


class _Validator(msgspec.Struct, eq=False):
    """The host of a workspace with some packs, and the state of these when it was started."""

    host: KeptProcess[EngineProcess]
    stamp: Hashable
    alone: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    expiry: asyncio.TimerHandle | None = None


class ValidatorPool:
    """A server's validators. `start` starts one for a workspace; `stamp` changes when its packs are out of date.

    They answer `places` questions at a time; one workspace has at most all but one of these. Waiting for a place has
    the same time limit as an answer.
    """

    def __init__(self, places: int, settings: HostSettings, start: Start, stamp: Callable[[Packs], Hashable]) -> None:
        self._start = start
        self._stamp = stamp
        self._settings = settings
        self._shares = FairShares(places, _WAITING_MAX, max(1, places - 1))
        self._validators: dict[tuple[str, Packs], _Validator] = {}
        """By workspace and packs, the longest idle first."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed_for: str | None = None

    async def close(self, reason: str) -> None:
        """Answer nothing more: waiting callers get EngineUnavailableError. The hosts end with their templates."""
        self._closed_for = reason
        for validator in self._validators.values():
            validator.host.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def ask(self, workspace_id: str, packs: Packs, question: Question[R]) -> R:
        """The answer to a question. EngineUnavailableError.

        The caller may be cancelled; the host then still works and occupies a place.
        """
        task = asyncio.ensure_future(self._answer(workspace_id, packs, question))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._closed_for is not None and task.cancelled():
                raise EngineUnavailableError(self._closed_for) from None
            raise

    def refresh(self) -> None:
        """End the idle hosts whose packs are out of date; others end when they have answered."""
        for key, validator in list(self._validators.items()):
            if validator.host.is_idle and validator.stamp != self._stamp(key[1]):
                self._end(key, _OUT_OF_DATE)

    # A question.

    async def _answer(self, workspace_id: str, packs: Packs, question: Question[R]) -> R:
        if self._closed_for is not None:
            raise EngineUnavailableError(self._closed_for)
        try:
            async with self._shares.place(workspace_id, self._settings.check_seconds):
                result = await self._try(workspace_id, packs, question)
                if result is None:
                    async with self._validator(workspace_id, packs).alone:
                        result = await self._try(workspace_id, packs, question)
        except NoRoomError as error:
            raise EngineUnavailableError("too much is asked of the engine right now") from error
        except HostNotStartedError as error:
            raise EngineUnavailableError(str(error)) from error
        if result is None:
            raise EngineUnavailableError(_TWICE)
        return result

    async def _try(self, workspace_id: str, packs: Packs, question: Question[R]) -> R | None:
        """The answer, or None when the host has died while it answered this question or others."""
        key = workspace_id, packs
        validator = self._validator(workspace_id, packs)
        try:
            async with validator.host.use() as process:
                return await self._ask(process, question)
        finally:
            if validator.host.is_idle:
                self._rest(key, validator)

    async def _ask(self, process: EngineProcess, question: Question[R]) -> R | None:
        seconds = self._settings.check_seconds
        try:
            async with asyncio.timeout(seconds):
                return await question(process)
        except ProcessLostError:
            return None
        except TimeoutError:
            process.kill(f"it worked for more than {seconds:g} seconds on one question")
            raise EngineUnavailableError(f"the engine took more than {seconds:g} seconds") from None
        except OSError as error:
            process.kill("it could not be given a question")
            raise EngineUnavailableError("the workflow could not be given to the engine") from error

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a cancelled caller must not start it

    # Hosts.

    def _validator(self, workspace_id: str, packs: Packs) -> _Validator:
        """The host of a workspace with some packs, as they are now; it may not be started yet."""
        key = workspace_id, packs
        stamp = self._stamp(packs)
        validator = self._validators.pop(key, None)
        if validator is not None and validator.stamp != stamp:
            self._retire(validator, _OUT_OF_DATE)
            validator = None
        if validator is None:
            validator = _Validator(KeptProcess(lambda: self._start(packs), rest_seconds=0.0), stamp)
        self._validators[key] = validator
        if validator.expiry is not None:
            validator.expiry.cancel()
        return validator

    def _rest(self, key: tuple[str, Packs], validator: _Validator) -> None:
        """Keep an idle host for a while; too many are not kept."""
        if self._validators.get(key) is not validator or self._closed_for is not None:
            return
        if validator.expiry is not None:
            validator.expiry.cancel()
        loop = asyncio.get_running_loop()
        validator.expiry = loop.call_later(self._settings.idle_seconds, self._expire, key, validator)
        idle = [one for one, other in self._validators.items() if other.host.is_idle]
        for one in idle[: max(0, len(idle) - self._settings.kept)]:
            self._end(one, "its place was wanted for another workspace, or other node packs")

    def _expire(self, key: tuple[str, Packs], validator: _Validator) -> None:
        if self._validators.get(key) is validator and validator.host.is_idle:
            self._end(key, "it was idle")

    def _end(self, key: tuple[str, Packs], reason: str) -> None:
        self._retire(self._validators.pop(key), reason)

    def _retire(self, validator: _Validator, reason: str) -> None:
        if validator.expiry is not None:
            validator.expiry.cancel()
        task = asyncio.ensure_future(_end_when_idle(validator, reason))
        self._tasks.add(task)
        task.add_done_callback(self._forget)


async def _end_when_idle(validator: _Validator, reason: str) -> None:
    """End a host when it has answered its questions."""
    process = await validator.host.last()
    if process is not None:
        await validator.host.until_idle()
        await process.end(reason)
