"""An execution that is not wanted any more ends between nodes and within them, and leaves nothing behind."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from engine.conftest import Execute
from engine.executions import Bench, Seen, chain, n
from fairlead.domain.jobs.events import Event, Executing, Interrupted, Progress, Succeeded
from fairlead.engine.graph.executor import Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import validate
from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.node import Result, definition_of, integer, node
from fairlead.engine.nodes.node_context import Stop


def _stopped_when(bench: Bench, document: dict[str, Any], is_due: Callable[[Event], bool]) -> Seen:
    """Execute a graph, and ask it to stop from another thread at an event."""

    async def execution() -> Seen:
        stop, events = Stop(), list[Event]()

        def note(event: Event) -> None:
            events.append(event)
            if is_due(event) and not stop.is_wanted:
                threading.Thread(target=stop.set).start()

        graph = await validate(read_graph(document), bench.registry)
        outcome = await bench.executor.run(Work(graph.graph, graph.outputs, bench.files), note, stop)
        return Seen(outcome, events)

    return asyncio.run(execution())


def test_interruption_stops_between_nodes(bench: Bench) -> None:
    """Between nodes: of a long chain only the beginning is executed, and what was done stays known."""
    document = chain(5000)
    seen = _stopped_when(bench, document, lambda event: isinstance(event, Executing) and event.place.node == "10")
    assert isinstance(seen.outcome.ending, Interrupted)
    assert len(seen.executed) < 5000
    assert "9" in seen.outcome.ending.executed


def test_interruption_stops_a_node_at_its_next_progress(bench: Bench) -> None:
    """Within an ordinary node, at its next word of progress; the node is named."""
    document = {"w": n("Work", steps=100_000), "s": n("Show", value=["w", 0])}
    seen = _stopped_when(bench, document, lambda event: isinstance(event, Progress))
    ending = seen.outcome.ending
    assert isinstance(ending, Interrupted)
    assert ending.place is not None
    assert (ending.place.node, ending.node_type, ending.executed) == ("w", "Work", [])


def test_interruption_cancels_concurrent_nodes(bench: Bench) -> None:
    """Concurrent nodes are cancelled, however long they would have waited."""
    document = {"a": n("Nap", value=1, seconds=3600.0), "s": n("Show", value=["a", 0])}
    seen = _stopped_when(bench, document, lambda event: isinstance(event, Executing))
    assert isinstance(seen.outcome.ending, Interrupted)


def test_interruption_before_the_start_executes_nothing(bench: Bench, execute: Execute) -> None:
    """Nothing is executed; and an executor that was stopped once executes the next graph."""
    stop = Stop()
    stop.set()
    seen = execute(chain(10), stop=stop)
    assert isinstance(seen.outcome.ending, Interrupted)
    assert seen.outcome.ending.executed == []
    assert isinstance(execute(chain(10)).outcome.ending, Succeeded)
    assert bench.executor.cache.bytes > 0


@pytest.mark.parametrize("bench", [False], indirect=True, ids=["in a thread"])
def test_execution_ends_with_its_task(bench: Bench) -> None:
    """When its task is cancelled, a node that works hears of it and ends. In a spare loop nobody else runs."""

    async def cancel_job() -> None:
        document = {"w": n("Work", steps=1_000_000), "s": n("Show", value=["w", 0])}
        running = asyncio.ensure_future(bench.run(document))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(bench.executor.worker, lambda: None), 5)

    asyncio.run(cancel_job())


def test_progress_is_thinned_out(execute: Execute) -> None:
    """The first word, the last, and a few in between of very many."""
    seen = execute({"w": n("Work", steps=1000), "s": n("Show", value=["w", 0])})
    told = [(event.value, event.most) for event in seen.of(Progress)]
    assert (told[0], told[-1]) == ((0, 1000), (1000, 1000))
    assert len(told) < 200


@node("Write", "Write", "samples", is_output=True)
def _write(context: Context, steps: Annotated[int, integer(2)]) -> Result:
    path, file = context.new_file("made/it", "txt")
    path.write_text("half")
    for step in range(steps):
        context.progress(step, steps)
        time.sleep(0.001)
    if steps == 0:
        raise ArithmeticError
    return Result(ui={"files": [file.as_ui()]})


def test_no_half_file_is_left_behind(bench: Bench, tmp_path: Path, execute: Execute) -> None:
    """A file is there when its node has ended, and not when it failed or was interrupted."""
    bench.registry.add(definition_of(_write))
    execute({"w": n("Write", steps=0)})
    _stopped_when(bench, {"w": n("Write", steps=100_000)}, lambda event: isinstance(event, Progress))
    assert list((tmp_path / "output" / "made").iterdir()) == []
    seen = execute({"w": n("Write", steps=1)})
    assert seen.output_of("w", "files") == [
        {"filename": seen.output_of("w", "files")[0]["filename"], "subfolder": "made", "type": "output"}
    ]
    assert [path.read_text() for path in (tmp_path / "output" / "made").iterdir()] == ["half"]
