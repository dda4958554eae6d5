"""What nodes do to their host is their job's error; the server, other jobs and other workspaces do not notice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.executions import n
from engine.hosts.engines import PACKS, Engine, FolderCallbacks, running_engine, trouble, wait_for
from fairlead.domain.jobs.events import Executing, Failed, Interrupted, Succeeded
from fairlead.engine.hosts.execution import HostedExecution
from fairlead.engine.hosts.notes import EngineUnavailableError, HostNote, HostNotStarted, HostStarted
from fairlead.engine.hosts.pool import Hosts
from fairlead.engine.hosts.service import FRAME_BYTES_MAX, Checked, Ended, Execute, Render
from fairlead.engine.hosts.templates import HostSettings, Service
from fairlead.processes.rpc import Answer, Call, encode_frame
from servers import is_alive, kill_at_last
from waiting import until

_WORKS = {"1": n("PrimitiveInt", value=1), "2": n("PreviewAny", source=["1", 0])}


def _wait_until_gone(process: int) -> None:
    for _ in range(500):
        if not is_alive(process):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {process} lives")


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("how", "exception_type", "words"),
    [
        ("exit", "EngineCrashError", "the code 7"),
        ("segmentation fault", "EngineCrashError", "SIGSEGV"),
        ("kill", "OOMError", "memory"),
    ],
)
def test_crash_of_a_node_fails_its_job_alone(engine: Engine, how: str, exception_type: str, words: str) -> None:
    """The job fails with the node that was executing, and the workspace gets another host."""
    graph = {**_WORKS, "9": n("Dead", how=how)}
    failure = engine.execute(graph).failure
    assert (failure.exception_type, failure.place.node, failure.node_type) == (exception_type, "9", "Dead")
    assert words in failure.message
    if how == "segmentation fault":
        assert any("troubles.py" in line for line in failure.traceback)
    assert engine.execute(_WORKS).ending == Succeeded()


def test_programs_of_a_node_end_with_its_host(engine: Engine) -> None:
    """A program that a node runs ends with the host."""
    assert engine.execute(trouble("Family")).failure.exception_type == "EngineCrashError"
    _wait_until_gone(int((engine.folder / "child").read_text()))


def _frame_of(record: object) -> bytes:
    return bytes(encode_frame(record, FRAME_BYTES_MAX))


def _question(number: int, about: int) -> bytes:
    """Where a file is, asked about a call."""
    return _frame_of(Call(number, about, "find_file", ["a"]))


_JOB = 3
"""The number of the call that executes the job: the first ones had the process load packs, and made a host of it."""


@pytest.mark.parametrize(
    "said",
    [
        b"\0\0\0\1\xc1",
        b"\xff\xff\xff\xff",
        _frame_of(Answer(1, ())),
        _frame_of(Call(0, 0, "loading", ["another"])),
        _frame_of(Answer(99, Ended(Succeeded()))),
        _frame_of(Answer(_JOB, {"ending": 1})),
        _question(1, 99),
        _question(0, _JOB),
        _frame_of({"type": "Shutdown"}),
        _frame_of(Call(0, _JOB, "tell", [[Succeeded()]])),
        _frame_of(Call(7, _JOB, "tell", [[]])),
        _frame_of(Call(0, _JOB, "tell", [1])),
    ],
)
def test_host_that_sends_garbage_is_ended(engine: Engine, said: bytes) -> None:
    """A host that says what it may not is ended, and its job with it."""
    seen = engine.run(wait_for(engine.run_workflow(trouble("Garbage", said.hex()), job="garbage")))
    assert seen.failure.exception_type == "EngineCrashError"
    assert "may not" in seen.failure.message
    assert engine.execute(_WORKS).ending == Succeeded()


def test_host_that_floods_with_questions_is_ended(engine: Engine) -> None:
    """A host that asks absurdly many questions is ended."""

    class Slow(FolderCallbacks):
        async def find_file(self, name: str) -> Path:
            await asyncio.sleep(60)
            return Path(name)

    said = b"".join(_question(number, _JOB) for number in range(10**6, 10**6 + 1_100))

    async def flood() -> object:
        callbacks = Slow(engine.folder)
        checked = await engine.hosts.check(
            "flood", "w", json.dumps(trouble("Garbage", said.hex())).encode(), None, callbacks
        )
        assert isinstance(checked, Checked)
        return await engine.hosts.execute("w", Execute("flood", checked.workflow, checked.outputs, b"{}"), callbacks)

    ending = engine.run(wait_for(flood()))
    assert isinstance(ending, Failed)
    assert "questions" in ending.failure.message


# Memory and time.


@pytest.mark.req("C-12")
def test_memory_of_a_node_is_bounded(tmp_path: Path) -> None:
    """What is beyond the bound is the node's error, and the host goes on."""
    with running_engine(tmp_path, memory=2**29) as engine:
        failure = engine.execute(trouble("Greedy", str(2**27))).failure
        assert (failure.exception_type, failure.node_type) == ("OOMError", "Greedy")
        assert engine.execute(trouble("Greedy", "1000")).ending == Succeeded()
        assert len(engine.started) == 1


@pytest.mark.req("C-07")
@pytest.mark.parametrize("name", ["Endless", "Gripping"])
def test_endless_node_can_be_interrupted(tmp_path: Path, name: str) -> None:
    """A host that does not end the job by itself is ended, also when it lets no other thread have a turn."""
    with running_engine(tmp_path, interrupt_seconds=0.2) as engine:
        ending = engine.run(wait_for(_interrupt(engine, trouble(name))))
        assert isinstance(ending, Interrupted)
        assert ending.place is not None
        assert (ending.place.node, ending.node_type) == ("1", name)
        assert engine.execute(_WORKS).ending == Succeeded()


async def _interrupt(engine: Engine, graph: dict[str, object]) -> object:
    """Interrupt a job when its first node begins."""

    class Impatient(FolderCallbacks):
        def tell(self, events: object) -> None:
            if any(isinstance(event, Executing) for event in events):  # type: ignore[attr-defined]
                engine.hosts.interrupt("endless")

    callbacks = Impatient(engine.folder)
    checked = await engine.hosts.check("endless", "w", json.dumps(graph).encode(), None, callbacks)
    assert isinstance(checked, Checked)
    return await engine.hosts.execute("w", Execute("endless", checked.workflow, checked.outputs, b"{}"), callbacks)


def test_interrupt_that_comes_after_the_end_leaves_the_host_alone(engine: Engine) -> None:
    """It may have the next job already."""

    async def late() -> None:
        callbacks = FolderCallbacks(engine.folder)
        host = await engine.hosts._templates.host((), Service("execute"))
        order = Execute("late", json.dumps(_WORKS).encode(), ["2"], b"{}")
        execution = HostedExecution(order, callbacks, 30.0, 0.0)
        assert await execution.run_on(host) == Succeeded()
        execution.interrupt()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not host.is_gone
        await host.end("the test is over")

    engine.run(wait_for(late()))


@pytest.mark.req("C-12")
def test_endless_node_has_a_time_limit(tmp_path: Path) -> None:
    """A job that takes too long is ended, with the node that was executing."""
    with running_engine(tmp_path, job_seconds=2.0, interrupt_seconds=0.2) as engine:
        ending = engine.execute(trouble("Endless")).ending
        assert isinstance(ending, Failed)
        assert ending.is_late
        assert (ending.failure.exception_type, ending.failure.node_type) == ("TimeoutError", "Endless")


def test_job_that_was_given_up_ends_its_host(tmp_path: Path) -> None:
    """Who cancels the execution ends the host."""
    with running_engine(tmp_path) as engine:

        async def cancel_job() -> None:
            task = asyncio.ensure_future(engine.run_workflow(trouble("Endless")))
            await until(lambda: engine.started)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()

        engine.run(wait_for(cancel_job()))
        assert engine.execute(_WORKS).ending == Succeeded()
        _wait_until_gone(engine.started[0])


def test_host_that_starts_for_nobody_is_ended(tmp_path: Path) -> None:
    """A host that is ready in the moment in which nobody wants it any more is ended."""
    tasks: list[asyncio.Future[Any]] = []

    def give_up(note: HostNote) -> None:
        if isinstance(note, HostStarted) and note.kind == "execute":
            tasks.pop().cancel()

    with running_engine(tmp_path, give_up) as engine:

        async def cancel_job() -> None:
            task = asyncio.ensure_future(engine.run_workflow(_WORKS))
            tasks.append(task)
            await asyncio.wait({task})
            assert task.cancelled()

        engine.run(wait_for(cancel_job()))
        engine.run(wait_for(until(lambda: engine.started[0] in engine.ended)))
        assert not is_alive(engine.started[0])


# Places.


def test_stuck_workspace_does_not_block_another(tmp_path: Path) -> None:
    """While one workspace's job goes on forever, another's are executed; and one more waits for a place."""
    with running_engine(tmp_path, places=2, interrupt_seconds=0.2) as engine:

        async def wait_meanwhile() -> None:
            stuck = asyncio.ensure_future(engine.run_workflow(trouble("Endless"), "stuck", job="stuck"))
            await until(lambda: engine.started)
            seen = await asyncio.gather(*(engine.run_workflow(_WORKS, name) for name in "aba"))
            assert [one.ending for one in seen] == [Succeeded()] * 3
            assert not stuck.done()
            engine.hosts.interrupt("stuck")
            assert isinstance((await stuck).ending, Interrupted)

        engine.run(wait_for(wait_meanwhile()))


def test_job_that_waits_for_a_host_can_be_interrupted(tmp_path: Path) -> None:
    """It ends as if it had never begun, and anyone who waits behind it has not lost the turn."""
    with running_engine(tmp_path, places=1, interrupt_seconds=0.2) as engine:

        async def waiting() -> None:
            stuck = asyncio.ensure_future(engine.run_workflow(trouble("Endless"), "a", job="stuck"))
            await until(lambda: engine.started)
            second = asyncio.ensure_future(engine.run_workflow(_WORKS, "b", job="second"))
            third = asyncio.ensure_future(engine.run_workflow(_WORKS, "c", job="third"))
            await until(lambda: {"second", "third"} <= engine.hosts._executions.keys())
            engine.hosts.interrupt("second")
            assert (await second).ending == Interrupted(None, None, [])
            engine.hosts.interrupt("stuck")
            assert isinstance((await stuck).ending, Interrupted)
            assert (await third).ending == Succeeded()

        engine.run(wait_for(waiting()))


def test_idle_host_is_ended_after_a_while(tmp_path: Path) -> None:
    """It is ended after a while, and the next job gets another."""
    with running_engine(tmp_path, idle_seconds=0.05) as engine:
        assert engine.execute(_WORKS).ending == Succeeded()
        first = engine.started[0]

        async def end_host() -> None:
            await until(lambda: first in engine.ended)

        engine.run(wait_for(end_host()))
        assert engine.ended[first] == "it was idle"
        assert engine.execute(_WORKS).ending == Succeeded()


def test_host_that_died_while_idle_is_replaced(engine: Engine) -> None:
    """The job gets another."""
    assert engine.execute(_WORKS, "idle").ending == Succeeded()
    os.kill(engine.started[-1], signal.SIGKILL)
    _wait_until_gone(engine.started[-1])
    engine.run(asyncio.sleep(0.1))
    assert engine.execute(_WORKS, "idle").ending == Succeeded()


@pytest.mark.req("C-11")
def test_hosts_with_outdated_nodes_are_replaced(tmp_path: Path) -> None:
    """New partner nodes replace every host, a busy one after its job; questions that were asked are answered."""
    with running_engine(tmp_path) as engine:
        engine.execute(_WORKS)
        before = [*engine.started, *engine.checking, *engine.of_kind("template")]

        async def replace() -> None:
            busy = asyncio.ensure_future(engine.run_workflow(trouble("Talkative", "1000"), "busy"))
            await until(lambda: len(engine.started) > 1)
            engine.hosts.set_partner_nodes(b"[]")
            while not (set(before) <= engine.ended.keys()):
                assert (await engine.run_workflow(_WORKS)).ending == Succeeded()
            assert (await busy).ending == Succeeded()
            await until(lambda: engine.started[1] in engine.ended)

        engine.run(wait_for(replace()))


# The host that checks.


def test_check_that_kills_its_host_fails_alone(engine: Engine) -> None:
    """A workflow whose check kills the host twice fails; those that were checked beside it are checked."""

    async def check_graph(graph: Mapping[str, object]) -> object:
        return await engine.hosts.check("c", "w", json.dumps(graph).encode(), None, FolderCallbacks(engine.folder))

    async def together() -> list[object]:
        graphs = [trouble("Unwilling", "die"), *[_WORKS] * 5]
        return await asyncio.gather(*map(check_graph, graphs), return_exceptions=True)

    poisoned, *others = engine.run(wait_for(together()))
    assert isinstance(poisoned, EngineUnavailableError)
    assert all(isinstance(one, Checked) for one in others), others
    assert isinstance(engine.run(wait_for(check_graph(_WORKS))), Checked)


def test_endless_check_is_given_up(tmp_path: Path) -> None:
    """It is given up, and what was checked beside it is checked by another host."""
    with running_engine(tmp_path, check_seconds=2.0) as engine:

        async def together() -> list[object]:
            callbacks = FolderCallbacks(engine.folder)
            graphs = [trouble("Unwilling", "endless"), *[_WORKS] * 3]
            checks = [engine.hosts.check("c", "w", json.dumps(graph).encode(), None, callbacks) for graph in graphs]
            return await asyncio.gather(*checks, return_exceptions=True)

        endless, *others = engine.run(wait_for(together()))
        assert isinstance(endless, EngineUnavailableError)
        assert all(isinstance(one, Checked) for one in others), others
        assert isinstance(engine.check(json.dumps(_WORKS).encode()), Checked)


def test_abandoned_check_harms_no_other(engine: Engine) -> None:
    """A check nobody waits for any more harms no other."""

    async def leave() -> None:
        callbacks = FolderCallbacks(engine.folder)
        many = [
            asyncio.ensure_future(engine.hosts.check("c", "w", json.dumps(_WORKS).encode(), None, callbacks))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        for task in many[::2]:
            task.cancel()
        done = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(one, Checked) for one in done) == 10

    engine.run(wait_for(leave()))


# The end.


def test_hosts_end_with_their_server(tmp_path: Path) -> None:
    """However the server dies, its hosts end; what they left is removed by the next server."""
    script = textwrap.dedent(
        f"""
        import asyncio, json
        from pathlib import Path
        from fairlead.engine.hosts.pool import Hosts
        from fairlead.engine.hosts.templates import HostSettings
        from fairlead.engine.hosts.service import Execute

        class Callbacks:
            def tell(self, events): pass
            async def catch_up(self): pass

        async def main():
            notes = []
            settings = HostSettings(Path({str(tmp_path / "scratch")!r}), packs=({str(PACKS)!r},))
            hosts = Hosts(settings, b"[]", notes.append)
            await hosts.begin()
            for name in ("Endless", "Gripping"):
                workflow = json.dumps({{"1": {{"class_type": name, "inputs": {{"how": ""}}}}}}).encode()
                asyncio.ensure_future(hosts.execute(name, Execute(name, workflow, ["1"], b"{{}}"), Callbacks()))
            while sum(getattr(note, "kind", "") == "execute" for note in notes) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            print(*(process.pid for process in hosts._templates.living), flush=True)
            await asyncio.sleep(100)

        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        with kill_at_last(server):
            processes = [int(word) for word in server.stdout.readline().split()]
    assert len(processes) >= 4  # two hosts, their template, and the one that it was forked from
    for process in processes:
        _wait_until_gone(process)
    [left] = (tmp_path / "scratch").glob("hosts-*")
    with running_engine(tmp_path) as engine, running_engine(tmp_path) as other:
        assert not left.exists()
        assert engine.execute(_WORKS).ending == other.execute(_WORKS).ending == Succeeded()
    assert list((tmp_path / "scratch").glob("hosts-*")) == []


def test_pack_that_kills_its_host_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """The server is told that no host comes and what it has said last; nothing is left of it."""
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "bad.py").write_text(
        "import os, sys\nsys.stderr.write('on purpose')\nsys.stderr.flush()\nos._exit(5)"
    )
    notes: list[HostNote] = []

    async def start() -> None:
        is_noted = asyncio.Event()

        def note(one: HostNote) -> None:
            notes.append(one)
            if isinstance(one, HostNotStarted):
                is_noted.set()

        hosts = Hosts(HostSettings(tmp_path / "scratch", packs=(str(tmp_path / "packs"),)), b"[]", note)
        await hosts.begin()
        await is_noted.wait()
        await hosts.close()

    asyncio.run(start())
    said = [(note.why, note.last_words) for note in notes if isinstance(note, HostNotStarted)]
    assert "the code 5" in said[0][0]
    assert said[0][1] == "on purpose"
    assert list((tmp_path / "scratch").glob("hosts-*")) == []


def test_job_of_a_stopping_server_has_not_failed(tmp_path: Path) -> None:
    """A job that is executed then has not ended: another server may execute it."""
    with running_engine(tmp_path, places=1) as engine:

        async def close_hosts() -> None:
            tasks = [asyncio.ensure_future(engine.run_workflow(trouble("Endless"), name)) for name in "ab"]
            await until(lambda: engine.started)
            await engine.hosts.close()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one) for one in ended] == [EngineUnavailableError] * 2
            with pytest.raises(EngineUnavailableError):
                await engine.hosts.render("a", Render("rgb", "", ""))

        engine.run(wait_for(close_hosts()))


def test_server_loads_nothing_that_only_hosts_need() -> None:
    """The pool brings no library of pictures or numbers into the server."""
    script = "import sys, fairlead.engine.hosts.pool; print(sorted({'numpy', 'cv2', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
