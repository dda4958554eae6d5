"""Callers of a simulation: they submit, run, repeat, ask, cancel and collect, and remember what they were told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import DeadlineExceeded, FaultError, ServiceUnavailable
from fairlead.domain.runs.entries import IdempotencyKey, QueueTicket
from fairlead.domain.runs.outcomes import Completed
from fairlead.domain.runs.selection import RouteOptions
from fairlead.operations.runs.admit import RunCommand
from fairlead.operations.runs.results import Answer
from simulation.partners import USED_MAX
from simulation.servers import BASE_URL, MODELS, DiedError, SimulatedServer, World

_BACKLOG: Final = 6
_DEADLINE: Final = 20.0
_HOOK: Final = "https://hooks.example/done"


@dataclass(slots=True)
class Call:
    """A call as its caller remembers it.

    `told` is what came of it: nothing yet, `taken`, `refused`, `unheard` (a 503 that leaves it open), `broken`.
    `known_as` is the run that the server named; a key that was used before names an earlier one.
    """

    run_id: str
    caller: Caller
    model: str
    is_queued: bool
    units: int
    key: IdempotencyKey | None = None
    told: str = ""
    known_as: str | None = None
    answers: list[bytes] = field(default_factory=list)
    cancels: list[tuple[bool, int]] = field(default_factory=list)
    has_hook: bool = False

    @property
    def model_id(self) -> str:
        """What it runs."""
        return f"acme/{self.model}"


class Notebook:
    """Every call of a history, by the id of its run."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}

    def next_id(self) -> str:
        """Make the id of the next run: it has the form of real ones."""
        return f"00000000-0000-7000-8000-{len(self.calls):012x}"

    def by_key(self) -> dict[str, list[Call]]:
        """The calls that were made under each idempotency key."""
        found: dict[str, list[Call]] = {}
        for call in self.calls.values():
            if call.key is not None:
                found.setdefault(call.key.id, []).append(call)
        return found


class Actor:
    """One caller, who does one thing after another for as long as the history goes on."""

    def __init__(
        self, world: World, notebook: Notebook, caller: Caller, servers: Callable[[], list[SimulatedServer]]
    ) -> None:
        self._world = world
        self._scenario = world.scenario
        self._notebook = notebook
        self._caller = caller
        self._servers = servers
        self._mine: list[Call] = []

    async def act(self, until: float) -> None:
        """Do things until a second of the history."""
        chance = self._scenario.chance
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(chance.choice((0.0, 0.1, 0.5, 2.0, 6.0)))
            server = self._server()
            if server is None:
                continue
            step = chance.choices(_STEPS, _WEIGHTS)[0]
            try:
                await step(self, server)
            except DiedError:
                pass  # the connection broke: what came of it is asked later
            except FaultError as error:
                self._scenario.tell(f"{server.name}: answers {type(error.fault).__name__}")

    async def submit(self, server: SimulatedServer) -> None:
        """Put a run into the queue, now and then under a key."""
        await self.queue(server, self._new_call(is_queued=True))

    async def run(self, server: SimulatedServer) -> None:
        """Run a model while waiting for it."""
        await self.call(server, self._new_call(is_queued=False))

    async def repeat(self, server: SimulatedServer) -> None:
        """Make an earlier call under its key again."""
        earlier = [call for call in self._mine if call.key is not None]
        if earlier:
            first = self._scenario.chance.choice(earlier)
            again = self._note(first.model, first.units, first.key, is_queued=first.is_queued)
            await (self.queue if again.is_queued else self.call)(server, again)

    async def cancel(self, server: SimulatedServer) -> None:
        """Ask that a queued run may stop."""
        call = self._queued_calls()
        if call is not None and call.known_as is not None:
            is_asked = await server.ask(server.canceller.cancel(self._caller, call.model_id, call.known_as))
            self._scenario.tell(f"{server.name}: {call.known_as} is cancelled: {is_asked}")
            self._notebook.calls[call.known_as].cancels.append((is_asked, self._world.clock.now_ms()))

    async def look(self, server: SimulatedServer) -> None:
        """Ask how a queued run stands, or for what it ended in."""
        call = self._queued_calls()
        if call is None or call.known_as is None:
            return
        await server.ask(server.collector.status(self._caller, call.model_id, call.known_as))
        found = await server.ask(server.collector.collect(self._caller, call.model_id, call.known_as))
        if isinstance(found, Answer) and isinstance(found.outcome, Completed):
            call.answers.append(found.outcome.content)

    async def queue(self, server: SimulatedServer, call: Call) -> None:
        """Submit a queued run and remember what was said."""
        options = RouteOptions(may_fall_back=False)
        ticket = QueueTicket(_BACKLOG, BASE_URL, _HOOK if call.has_hook else None)
        checked = server.admitter.checks.check_headers(self._caller, call.model_id, lambda: options)
        queued = await self._make_call(call, server, server.admitter.enqueue(checked, _command(call), ticket))
        call.known_as = queued.run_id
        self._scenario.tell(f"{server.name}: {call.run_id} is queued as {queued.run_id}, position {queued.position}")

    async def call(self, server: SimulatedServer, call: Call) -> None:
        """Run synchronously and remember what was answered."""
        options = RouteOptions(may_fall_back=self._scenario.happens(0.7))

        async def answer_call() -> Answer:
            checked = server.admitter.checks.check_headers(self._caller, call.model_id, lambda: options)
            admitted = await server.admitter.admit(checked, _command(call))
            if isinstance(admitted, Answer):
                return admitted
            self._scenario.tell(f"{server.name}: {call.run_id} is admitted")
            call.known_as = call.run_id
            return await server.executor.answer_in_time(server.executor.start(admitted), _DEADLINE)

        answer = await self._make_call(call, server, answer_call())
        if isinstance(answer.outcome, Completed):
            call.answers.append(answer.outcome.content)

    async def _make_call(self, call: Call, server: SimulatedServer, work: Any) -> Any:
        try:
            result = await server.ask(work)
        except DiedError:
            call.told = "broken"
            raise
        except FaultError as error:
            is_open = isinstance(error.fault, ServiceUnavailable | DeadlineExceeded)
            call.told = "unheard" if is_open else "refused"
            raise
        call.told = "taken"
        return result

    def _new_call(self, *, is_queued: bool) -> Call:
        chance = self._scenario.chance
        model = chance.choice(tuple(MODELS))
        key = None
        if chance.random() < 0.4:
            name = f"key-{len(self._notebook.calls)}"
            key = IdempotencyKey(name, f"call-of-{name}", 2**60)
        return self._note(model, chance.randint(1, USED_MAX), key, is_queued=is_queued)

    def _note(self, model: str, units: int, key: IdempotencyKey | None, *, is_queued: bool) -> Call:
        call = Call(self._notebook.next_id(), self._caller, model, is_queued, units, key)
        call.has_hook = is_queued and self._scenario.happens(0.3)
        self._notebook.calls[call.run_id] = call
        self._mine.append(call)
        return call

    def _queued_calls(self) -> Call | None:
        queued = [call for call in self._mine if call.is_queued and call.known_as is not None]
        return self._scenario.chance.choice(queued) if queued else None

    def _server(self) -> SimulatedServer | None:
        servers = self._servers()
        return self._scenario.chance.choice(servers) if servers else None


_STEPS: Final = (Actor.submit, Actor.run, Actor.repeat, Actor.cancel, Actor.look)
_WEIGHTS: Final = (6, 4, 2, 2, 3)


def _command(call: Call) -> RunCommand:
    body = json.dumps({"n": call.units, "tag": call.run_id}).encode()
    return RunCommand(call.run_id, body, call.key, BASE_URL)
