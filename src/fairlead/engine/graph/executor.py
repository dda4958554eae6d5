"""Executes a graph: the schedule picks the next node, the cache saves executions, calls run nodes, events report them.

Ordinary nodes run one after another in one thread, concurrent ones in others. Everything else happens in the caller's
event loop. A value is held while a node may still need it, then by the cache alone.
"""

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from fairlead.domain.jobs import events
from fairlead.domain.jobs.events import Ending, Event, Failed, Interrupted, Place, Succeeded
from fairlead.engine.graph.cache import Entry, ResultCache
from fairlead.engine.graph.calls import (
    Performed,
    Raised,
    Returned,
    Step,
    Wants,
    merge_results,
    merged_ui,
    perform,
    perform_concurrently,
)
from fairlead.engine.graph.failures import failure, shown_text
from fairlead.engine.graph.graph import Graph, Link, write_graph
from fairlead.engine.graph.live import LiveGraph, LiveNode
from fairlead.engine.graph.schedule import Schedule
from fairlead.engine.graph.signatures import Signature, encode, signature
from fairlead.engine.nodes.context import InterruptedByCallerError
from fairlead.engine.nodes.interface import select_named
from fairlead.engine.nodes.node import Blocked, Result
from fairlead.engine.nodes.node_context import ALONE, Files, NodeContext, Outside, Stop, current
from fairlead.engine.nodes.registry import Registry

Emit: TypeAlias = Callable[[Event], None]
_CONCURRENT_NODES_MAX: Final = 64


def fingerprints(nodes: Iterable[LiveNode], context_of: Callable[[LiveNode], object]) -> dict[str, bytes | None]:
    """The fingerprint of each node whose class has one, computed from its constants; links are passed as None.

    It is None, which equals nothing, where the class raises or returns NaN. Meant for a thread.
    """
    return {node.id: _fingerprint(node, context_of(node)) for node in nodes}


def _fingerprint(node: LiveNode, context: Any) -> bytes | None:
    context.check()
    make = node.interface.definition.fingerprint
    if make is None:
        return b""
    values = {**dict.fromkeys(node.links), **node.constants}
    if node.interface.definition.is_input_list:
        values = {path: [value] for path, value in values.items()}
    arguments = select_named(make, node.interface.nest(values, node.expected), context)
    try:
        with current(context):
            made = make(**arguments)
            return encode(asyncio.run(_await(made)) if inspect.isawaitable(made) else made)
    except (Exception, SystemExit):  # noqa: BLE001 -- without a fingerprint a class may depend on anything
        return None


async def _await(value: Awaitable[object]) -> object:
    return await value


class Work(msgspec.Struct, frozen=True):
    """A validated graph, the outputs to make, its files, hidden inputs by kind, and access to the outside.

    PROMPT, DYNPROMPT and UNIQUE_ID need not be given.
    """

    graph: Graph
    outputs: Sequence[str]
    files: Files
    hidden: Mapping[str, object] = msgspec.field(default_factory=dict)
    outside: Outside = ALONE


class Outcome(msgspec.Struct, frozen=True):
    """How an execution ended, and what its nodes displayed, by node."""

    ending: Ending
    ui: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, Place]


class Executor:
    """Executes graphs of nodes of one registry, and keeps their results in one cache.

    Where the event loop `is_spare`, which means that it has a thread of its own, ordinary nodes of the engine are
    executed in it while nothing else is: passing each to another thread and back takes longer than most of them.
    """

    def __init__(self, registry: Registry, cache: ResultCache, *, is_spare: bool = False) -> None:
        self.registry: Final = registry
        self.cache: Final = cache
        self.is_spare: Final = is_spare
        self.worker: Final = ThreadPoolExecutor(1, "engine")

    async def run(self, work: Work, emit: Emit, stop: Stop | None = None) -> Outcome:
        """Execute a graph to its end; a node's error is an outcome, and so is a request to stop.

        `emit` is called in the event loop, in the order of what happens, and must not raise.
        """
        return await _Execution(self, work, emit, stop or Stop()).run()

    def close(self) -> None:
        """Take no more work. A node that is executing ends by itself."""
        self.worker.shutdown(wait=False, cancel_futures=True)


class _Execution:
    """The state of one execution."""

    def __init__(self, executor: Executor, work: Work, emit: Emit, stop: Stop) -> None:
        self._executor = executor
        self._cache = executor.cache
        self._work = work
        self._emit = emit
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._live = LiveGraph(work.graph, executor.registry)
        self._schedule = Schedule()
        self._signatures: dict[str, Signature | None] = {}
        self._values: dict[str, Sequence[Sequence[object]]] = {}
        self._claims: Counter[str] = Counter()
        self._claimed: dict[str, Sequence[str]] = {}
        self._expanded: dict[str, Sequence[Result | Blocked]] = {}
        self._tasks: dict[asyncio.Future[object], Step] = {}
        self._at_hand: Step | None = None
        self._thread = threading.get_ident()
        self._executed: list[str] = []
        self._ui: dict[str, Mapping[str, object]] = {}
        self._places: dict[str, Place] = {}
        self._ending: Ending | None = None
        self._holds_all = False

    async def run(self) -> Outcome:
        """Execute the graph; nothing it has started goes on when this ends."""
        self._emit(events.Started())
        self._stop.tell(self._wake)
        try:
            await self._prepare()
            await self._go_on()
        except InterruptedByCallerError:
            self._interrupt()
        finally:
            self._stop.forget(self._wake)
            self._end(Interrupted(None, None, self._executed))
            for task in self._tasks:
                task.cancel()
        assert self._ending is not None  # noqa: S101 -- set three lines above; a type checker cannot know
        self._emit(self._ending)
        return Outcome(self._ending, self._ui, self._places)

    # What is to be done.

    async def _prepare(self) -> None:
        reached = await self._enter(self._work.outputs)
        self._emit(events.Cached([node.id for node in reached if self._is_cached(node)]))
        self._plan(self._work.outputs)

    async def _go_on(self) -> None:
        while True:
            self._launch()
            if self._at_hand is not None:
                step, self._at_hand = self._at_hand, None
                await self._heed(perform(step), step.node)
                if self._stop.is_wanted:  # the event loop, which would report the end, has not had a turn
                    self._interrupt()
                continue
            if not self._tasks:
                break
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await self._settle(task, self._tasks.pop(task))
        # Nothing runs and something is left, so what is left waits for itself.
        if self._ending is None and self._schedule:
            error = self._schedule.cycle()
            self._fail(self._live[self._live[error.nodes[0]].place.real_node], error)
        self._end(Succeeded())

    async def _enter(self, roots: Iterable[str]) -> list[LiveNode]:
        """Compute the signatures of newly reached nodes, and count the users of each value."""
        reached = self._live.reach(roots, self._signatures)
        makers = [node for node in reached if node.interface.definition.fingerprint is not None]
        made: dict[str, bytes | None] = {}
        if makers:
            made = await self._loop.run_in_executor(self._executor.worker, fingerprints, makers, self._context)
        for node in reached:
            self._signatures[node.id] = self._sign(node, made.get(node.id, b""))
            # A node that sees the live graph may ask for the value of any node.
            self._holds_all = self._holds_all or node.interface.wants_live_graph
            if not self._is_cached(node):
                self._claim(node.id, node.sources)
        return reached

    def _sign(self, node: LiveNode, fingerprint: bytes | None) -> Signature | None:
        if fingerprint is None:
            return None
        interface = node.interface
        # The result of a node that depends on its id is of no use to another one.
        own = "" if interface.definition.is_idempotent and not interface.wants_id else node.id
        head = f"{interface.definition.name}\0{own}"
        return signature(head, fingerprint, node.constants, {**node.links, **node.raw}, self._signatures)

    def _plan(self, roots: Iterable[str]) -> None:
        """Schedule some nodes and what they need, except for what is cached."""
        # Taken from the end, so in reverse: what was named first is executed first.
        waiting = [node for node in roots if not self._is_known(node)][::-1]
        while waiting:
            id_ = waiting.pop()
            if id_ in self._schedule:
                continue
            node = self._live[id_]
            self._claim(id_, node.sources)
            sources = dict.fromkeys(link.node for path, link in node.links.items() if path not in node.lazy)
            needs = [source for source in sources if not self._is_known(source)]
            is_output = node.interface.definition.is_output
            self._schedule.add(id_, needs, is_output=is_output, is_concurrent=node.interface.is_concurrent)
            waiting.extend(reversed(needs))

    def _is_cached(self, node: LiveNode) -> bool:
        return self._cache.get(self._signatures[node.id]) is not None

    def _is_known(self, node: str) -> bool:
        """Whether the values of a node are available, held or cached."""
        if node in self._values:
            return True
        entry = None if node in self._schedule else self._cache.get(self._signatures.get(node))
        if entry is not None:
            self._recall(self._live[node], entry)
        return entry is not None

    # One node.

    def _launch(self) -> None:
        while self._ending is None and self._at_hand is None:
            concurrent = sum(step.node.interface.is_concurrent for step in self._tasks.values())
            node = self._schedule.take(is_concurrent=True) if concurrent < _CONCURRENT_NODES_MAX else None
            # Of ordinary nodes one runs at a time.
            if node is None and concurrent == len(self._tasks):
                node = self._schedule.take(is_concurrent=False)
            if node is None:
                return
            self._begin(self._live[node])

    def _begin(self, node: LiveNode) -> None:
        results = self._expanded.pop(node.id, None)
        entry = self._cache.get(self._signatures[node.id]) if results is None else None
        try:
            if results is not None:
                self._finish(node, results)
            elif entry is not None:
                self._recall(node, entry)
                self._schedule.finish(node.id)
            else:
                self._start(node)
        except Exception as error:  # noqa: BLE001 -- a generated link may lead nowhere, and a node may return anything
            self._fail(node, error)

    def _start(self, node: LiveNode) -> None:
        inputs: dict[str, Sequence[object]] = {path: [value] for path, value in node.constants.items()}
        inputs |= {path: [[link.node, link.slot]] for path, link in node.raw.items()}
        missing = [path for path, link in node.links.items() if link.node not in self._values]
        inputs |= {path: self._value(link) for path, link in node.links.items() if link.node in self._values}
        step = Step(node, inputs, missing, self._context(node))
        self._emit(events.Executing(node.place))
        if node.interface.is_concurrent:
            self._tasks[asyncio.ensure_future(perform_concurrently(step))] = step
        elif self._executor.is_spare and node.interface.definition.is_own and not self._tasks and not missing:
            self._at_hand = step
        else:
            self._tasks[self._loop.run_in_executor(self._executor.worker, perform, step)] = step

    async def _settle(self, task: asyncio.Future[Any], step: Step) -> None:
        await self._heed(None if task.cancelled() else task.result(), step.node)

    async def _heed(self, performed: Performed | None, node: LiveNode) -> None:
        """Handle the end of a node's call."""
        match performed:
            case Returned(results=results, blockers=blockers):
                for message in blockers:
                    self._emit(events.Stopped(node.place, node.interface.definition.name, shown_text(message)))
                await self._take(node, results)
            case Raised(error=InterruptedByCallerError()):
                self._interrupt(node)
            case Raised(error=error, inputs=inputs):
                self._fail(node, error, inputs)
            case Wants(paths=paths) if self._ending is None:
                self._wait(node, [node.links[path].node for path in paths])
            case Wants() | None:
                pass  # the execution has ended, and this node was not executed
            case _:
                assert_never(performed)

    async def _take(self, node: LiveNode, results: Sequence[Result | Blocked]) -> None:
        """Finish a node with its result, or replace it by the graphs that it returned."""
        try:
            if all(isinstance(result, Blocked) or result.expand is None for result in results):
                self._finish(node, results)
            elif self._ending is None:
                await self._expand(node, results)
        except InterruptedByCallerError:
            raise
        except Exception as error:  # noqa: BLE001 -- a node may return something that is not a graph, or no list where one is declared
            self._fail(node, error)

    async def _expand(self, node: LiveNode, results: Sequence[Result | Blocked]) -> None:
        roots: dict[str, None] = {}
        made: list[str] = []
        kept: list[Result | Blocked] = []
        for call, result in enumerate(results):
            if isinstance(result, Blocked) or result.expand is None:
                kept.append(result)
                continue
            ids = self._live.expand(node, call, result.expand)
            values = [self._live.read_link(value, ids) for value in result.values]
            links = [value.node for value in values if isinstance(value, Link)]
            roots.update(dict.fromkeys(links))
            made.extend(ids.values())
            kept.append(Result(tuple(values), result.ui))
        await self._enter([*made, *roots])
        self._claim(node.id, [*self._claimed.get(node.id, ()), *roots])
        self._plan(id_ for id_ in made if self._live[id_].interface.definition.is_output)
        self._expanded[node.id] = kept
        self._wait(node, roots)

    def _wait(self, node: LiveNode, sources: Iterable[str]) -> None:
        wanted = list(sources)
        self._plan(wanted)
        self._schedule.wait(node.id, [source for source in wanted if source not in self._values])

    def _finish(self, node: LiveNode, results: Sequence[Result | Blocked]) -> None:
        outputs = merge_results(node.interface.definition, results, self._value)
        ui = merged_ui(results)
        self._values[node.id] = outputs
        self._executed.append(node.id)
        self._cache.put(self._signatures[node.id], Entry(outputs, ui))
        if ui:
            self._show(node, ui)
        self._emit(events.Finished(node.place))
        self._schedule.finish(node.id)
        self._release(node.id)

    def _recall(self, node: LiveNode, entry: Entry) -> None:
        self._values[node.id] = entry.outputs
        definition = node.interface.definition
        if entry.ui and (definition.is_output or definition.shows_again):
            self._show(node, entry.ui)
        self._release(node.id)

    def _show(self, node: LiveNode, ui: Mapping[str, object]) -> None:
        self._ui[node.id], self._places[node.id] = ui, node.place
        self._emit(events.Executed(node.place, ui))

    # Values, for as long as they are wanted.

    def _value(self, link: Link) -> Sequence[object]:
        outputs = self._values[link.node]
        if not 0 <= link.slot < len(outputs):
            raise IndexError(f"node {link.node} has {len(outputs)} outputs, and none with the number {link.slot}")
        return outputs[link.slot]

    def _claim(self, node: str, sources: Sequence[str]) -> None:
        """Hold the values of a node's sources until it has finished."""
        self._claims.subtract(self._claimed.get(node, ()))
        self._claims.update(sources)
        self._claimed[node] = sources

    def _release(self, node: str) -> None:
        """Release the values that only this node needed, and its own where nobody needs them."""
        sources = self._claimed.pop(node, ())
        self._claims.subtract(sources)
        for freed in (*sources, node):
            if self._claims[freed] <= 0 and not self._holds_all:
                del self._claims[freed]
                self._values.pop(freed, None)

    # The end, and the world outside.

    def _fail(self, node: LiveNode, error: BaseException, inputs: Mapping[str, object] | None = None) -> None:
        name = node.interface.definition.name
        self._end(Failed(failure(node.place, name, error, inputs or {}, self._executed)))

    def _interrupt(self, node: LiveNode | None = None) -> None:
        running = node or next((step.node for step in self._tasks.values()), None)
        name = None if running is None else running.interface.definition.name
        self._end(Interrupted(None if running is None else running.place, name, self._executed))

    def _end(self, ending: Ending) -> None:
        """Start nothing more; the first ending counts. Ordinary nodes notice it at their next check."""
        if self._ending is None:
            self._ending = ending
            for task, step in self._tasks.items():
                if step.node.interface.is_concurrent:
                    task.cancel()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._interrupt)

    def _context(self, node: LiveNode) -> NodeContext:
        work, report = self._work, self._report
        return NodeContext(node.place, work.files, self._hidden_inputs(node), self._is_wanted, report, work.outside)

    def _is_wanted(self) -> bool:
        return self._ending is None and not self._stop.is_wanted

    def _report(self, progress: events.Progress) -> None:
        if threading.get_ident() == self._thread:
            self._emit(progress)
        else:
            self._loop.call_soon_threadsafe(self._emit, progress)

    def _hidden_inputs(self, node: LiveNode) -> dict[str, object]:
        return {name: self._hidden_value(kind, node) for name, kind in node.interface.hidden.items()}

    def _hidden_value(self, kind: str, node: LiveNode) -> object:
        match kind:
            case "PROMPT":
                return self._prompt
            case "DYNPROMPT":
                return self._live
            case "UNIQUE_ID":
                return node.id
            case _:
                return self._work.hidden.get(kind)

    @cached_property
    def _prompt(self) -> dict[str, object]:
        return write_graph(self._work.graph)
