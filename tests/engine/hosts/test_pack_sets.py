"""Hosts have the packs of the graphs they were started for, and no others, and load them themselves."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from engine.executions import n
from engine.hosts.engines import Engine, FolderCallbacks, running_engine, wait_for
from fairlead.domain.deployments import PackSet, pack_set
from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.hosts.notes import ClassesShadowed, EngineUnavailableError, HostNotStarted
from fairlead.engine.hosts.pool import Prepared
from fairlead.engine.hosts.service import Checked, Execute, Refused
from waiting import until

_PACK: Final = """
import os

class Node:
    RETURN_TYPES = ()
    FUNCTION = "run"
    OUTPUT_NODE = True
    NOT_IDEMPOTENT = True
    CATEGORY = "made up"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    def run(self):
        return {"ui": {"text": [os.getpid()]}}

NODE_CLASS_MAPPINGS = {"Of %s": Node}
"""
_CRASHES: Final = "import os\nos._exit(5)\n"


def _of(*packs: str) -> dict[str, Any]:
    """Return a workflow of one node of each pack."""
    return {str(number): n(f"Of {pack}") for number, pack in enumerate(packs, 1)}


@pytest.fixture
def node_packs(tmp_path: Path) -> Path:
    """Return a folder with the packs a, a folder, and b, a file."""
    folder = tmp_path / "node_packs"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "__init__.py").write_text(_PACK % "a")
    (folder / "b.py").write_text(_PACK % "b")
    return folder


@contextmanager
def _engine(node_packs: Path, **settings: Any) -> Iterator[Engine]:
    """Start hosts for the folder; when they have ended, nothing of them is left."""
    with running_engine(node_packs.parent / "engine", packs=(str(node_packs),), **settings) as engine:
        yield engine
    assert [
        pid
        for kind in ("template", "probe", "check", "execute")
        for pid in engine.of_kind(kind)
        if psutil.pid_exists(pid)
    ] == []
    assert list((engine.folder / "scratch").glob("hosts-*")) == []


def _node_names(engine: Engine, packs: PackSet) -> set[str]:
    """Return which of the packs' nodes editors are told of."""
    described = json.loads(engine.run(wait_for(engine.hosts.describe(packs))))
    assert "PreviewAny" in described
    return {name for name in described if name.startswith("Of ")}


def _check(engine: Engine, graph: dict[str, Any], packs: PackSet, workspace: str = "w") -> Checked[bytes] | Refused:
    content, callbacks = json.dumps(graph).encode(), FolderCallbacks(engine.folder)
    return engine.run(wait_for(engine.hosts.check("c", workspace, content, None, callbacks, packs)))


def _prepare(engine: Engine, *packs: str, again: bool = False) -> Prepared:
    return engine.run(wait_for(engine.hosts.prepare(pack_set(packs), again=again)))


def _failed_starts(engine: Engine) -> list[str]:
    return [note.why for note in engine.notes if isinstance(note, HostNotStarted)]


# What a host has.


def test_set_of_packs_sees_only_its_own_nodes(node_packs: Path) -> None:
    """Editors are told of the nodes of just these packs, and workflows checked with them."""
    with _engine(node_packs) as engine:
        assert _node_names(engine, ("a",)) == {"Of a"}
        assert _node_names(engine, ("b",)) == {"Of b"}
        assert _node_names(engine, ()) == set()
        assert _node_names(engine, ("a", "b")) == _node_names(engine, None) == {"Of a", "Of b"}
        assert isinstance(_check(engine, _of("a"), ("a",)), Checked)
        assert isinstance(_check(engine, _of("b"), ("a",)), Refused)
        assert isinstance(_check(engine, _of("b"), None), Checked)


@pytest.mark.req("S-04")
def test_host_has_exactly_the_packs_that_its_graph_names(node_packs: Path) -> None:
    """Whatever packs there are, a graph is checked and executed by hosts with those that give its classes."""
    with _engine(node_packs) as engine:
        assert engine.execute({"1": n("PreviewAny", source="built in")}).ending == Succeeded()
        assert engine.execute(_of("b")).ending == Succeeded()
        assert engine.execute(_of("a", "b")).ending == Succeeded()
        for kind in ("check", "execute"):
            [plain, of_b, of_both] = engine.of_kind(kind)
            assert engine.of_kind(kind, "b") == [of_b]
            assert engine.of_kind(kind, "a", "b") == [of_both]
            assert plain not in (of_b, of_both)


@pytest.mark.req("S-04")
def test_pack_is_not_loaded_where_none_of_its_nodes_was_submitted(node_packs: Path) -> None:
    """Code of a pack runs in no process that is given a graph without it: neither to check nor to execute it."""
    spy = node_packs.parent / "loaded by"
    (node_packs / "spy.py").write_text(
        f"import os\nopen({str(spy)!r}, 'a').write(f'{{os.getpid()}} ')\n" + _PACK % "spy"
    )
    with _engine(node_packs) as engine:
        loaded = set(spy.read_text().split())
        assert engine.execute(_of("a"), "another").ending == Succeeded()
        assert isinstance(_check(engine, {"1": n("No such class")}, None, "another"), Refused)
        assert set(spy.read_text().split()) == loaded
        given = {str(pid) for pid in (*engine.checking, *engine.started)}
        assert not given & loaded
        assert engine.execute(_of("spy")).ending == Succeeded()


@pytest.mark.req("S-04")
def test_host_never_serves_another_workspace(node_packs: Path) -> None:
    """Two workspaces with the same graph have different processes, to check it and to execute it."""
    with _engine(node_packs, places=4) as engine:
        seen = [engine.execute(_of("a"), workspace).texts for workspace in ("v", "w", "v", "w")]
        assert seen == [[engine.started[0]], [engine.started[1]]] * 2
        assert len(engine.checking) == 2


def test_job_is_executed_by_a_host_with_its_packs(node_packs: Path) -> None:
    """An idle host is for the next job of the same workspace and packs, and makes room for any other."""
    with _engine(node_packs, places=2) as engine:
        jobs: list[tuple[str, str, PackSet]] = [
            ("a", "w", ("a",)), ("b", "w", ("b",)), ("a", "w", ("a",)), ("a", "v", ("a",)), ("a", "v", None),
        ]  # fmt: skip
        pids = [engine.execute(_of(pack), workspace, packs).texts for pack, workspace, packs in jobs]
        first, second, third = engine.started
        assert pids == [[first], [second], [first], [third], [third]]


def test_job_fails_where_its_nodes_are_not(node_packs: Path) -> None:
    """A workflow that was checked with some packs fails on a host with others."""
    with _engine(node_packs) as engine:
        checked = _check(engine, _of("a"), ("a",))
        assert isinstance(checked, Checked)
        order = Execute("j", checked.workflow, checked.outputs, b"{}")
        ending = engine.run(wait_for(engine.hosts.execute("w", order, FolderCallbacks(engine.folder), ("b",))))
        assert isinstance(ending, Failed)
        assert "Of a" in ending.failure.message


def test_packs_are_counted_once_and_only_packs(node_packs: Path, tmp_path: Path) -> None:
    """The names are those of packs right below the folders, each once, whether a folder is there or not."""
    for name in ("_private", ".hidden", "off.disabled", "plain"):
        (node_packs / name).mkdir()
    more = tmp_path / "more"
    more.mkdir()
    (more / "a.py").write_text(_PACK % "a")
    (more / "other-pack.py").write_text(_PACK % "other")
    with running_engine(tmp_path / "engine", packs=(str(tmp_path / "gone"), str(node_packs), str(more))) as engine:
        assert engine.run(engine.hosts.pack_names()) == ["a", "b", "other-pack"]
        shutil.rmtree(more)
        assert engine.run(engine.hosts.pack_names()) == ["a", "b"]


def test_class_that_another_pack_gives_is_reported(node_packs: Path) -> None:
    """Where two packs have a class of one name, the first gives it, and that the other does not is noted once."""
    (node_packs / "c.py").write_text(_PACK % "a")
    with _engine(node_packs) as engine:
        assert _node_names(engine, None) == {"Of a", "Of b"}
        assert [note for note in engine.notes if isinstance(note, ClassesShadowed)] == [
            ClassesShadowed("c", "a", ["Of a"])
        ]


@pytest.mark.parametrize("name", ["../custom_nodes", "troubles/../troubles", "", ".", "troubles.py", "/", "Troubles"])
def test_name_of_a_pack_is_never_taken_for_a_path(engine: Engine, name: str) -> None:
    """A name is that of a pack that was found, or there is no such pack: no process is started to look."""
    before = len(engine.of_kind("probe"))
    assert _prepare(engine, name) == Prepared((), (name,), f"there is no node pack {name!r}")
    assert len(engine.of_kind("probe")) == before


# Processes come and go.


def test_hosts_end_when_they_are_idle_and_probes_at_once(node_packs: Path) -> None:
    """They end when nobody has come for a while, and come again; the templates, which have no packs, stay."""
    with _engine(node_packs, idle_seconds=0.05) as engine:
        assert isinstance(_check(engine, _of("a"), ("a",)), Checked)
        [host] = engine.checking
        probes = engine.of_kind("probe", "a") + engine.of_kind("probe", "b")
        engine.run(wait_for(until(lambda: {host, *probes} <= engine.ended.keys())))
        assert engine.ended[host] == "it was idle"
        assert {engine.ended[probe] for probe in probes} == {"its node pack was probed"}
        assert isinstance(_check(engine, _of("a"), ("a",)), Checked)
        assert [pid for pid in engine.of_kind("template") if not psutil.pid_exists(pid)] == []


@pytest.mark.req("C-11")
def test_hosts_with_packs_are_replaced_when_partner_nodes_change(node_packs: Path) -> None:
    """New partner nodes replace all validators, and the templates they are forked from."""
    with _engine(node_packs) as engine:
        _check(engine, _of("a"), None)
        _check(engine, _of("b"), None)
        before = {*engine.checking, *engine.of_kind("template")}
        engine.hosts.set_partner_nodes(b"[]")
        engine.run(wait_for(until(lambda: before <= engine.ended.keys())))
        assert _node_names(engine, ("a",)) == {"Of a"}
        assert isinstance(_check(engine, _of("a"), None), Checked)


# Making a set ready.


def test_each_pack_of_a_set_is_reported(node_packs: Path) -> None:
    """What was tried once is not tried again without need."""
    with _engine(node_packs) as engine:
        before = len(engine.of_kind("probe"))
        prepared = _prepare(engine, "b", "a")
        assert [(report.name, report.nodes, report.error) for report in prepared.packs] == [
            ("a", 1, None),
            ("b", 1, None),
        ]
        assert (prepared.missing, prepared.error) == ((), None)
        assert _prepare(engine, "a", "b") == prepared
        assert _node_names(engine, ("a", "b")) == {"Of a", "Of b"}
        assert _prepare(engine) == Prepared([])
        assert [report.name for report in engine.run(engine.hosts.prepare(None)).packs] == ["a", "b"]
        assert len(engine.of_kind("probe")) == before


def test_broken_pack_can_be_mended(node_packs: Path) -> None:
    """Its error is told, and the others are used; when it is prepared again it is looked at again."""
    (node_packs / "broken.py").write_text("raise ValueError('not yet')\n")
    with _engine(node_packs) as engine:
        good, broken = _prepare(engine, "a", "broken").packs
        assert (good.nodes, good.error) == (1, None)
        assert broken.error == "ValueError: not yet (broken.py, line 1)"
        assert _node_names(engine, ("a", "broken")) == {"Of a"}
        (node_packs / "broken.py").write_text(_PACK % "broken")
        assert [report.error for report in _prepare(engine, "a", "broken").packs] == [None, None]
        assert _node_names(engine, ("a", "broken")) == {"Of a", "Of broken"}


@pytest.mark.parametrize("packs", [("a",), None], ids=["some", "all"])
def test_packs_that_were_changed_are_loaded_again(node_packs: Path, packs: PackSet) -> None:
    """Loaded again, they check and execute as they are now; hosts with other packs are left alone."""
    with _engine(node_packs, places=2) as engine:
        before = engine.execute(_of("a"), "w", packs).texts
        other = engine.execute(_of("b"), "w", ("b",)).texts
        (node_packs / "a" / "__init__.py").write_text(_PACK % "another")
        assert isinstance(_check(engine, _of("a"), packs), Checked)
        prepared = engine.run(wait_for(engine.hosts.prepare(("a",), again=True)))
        assert [report.error for report in prepared.packs] == [None]
        assert isinstance(_check(engine, _of("a"), packs), Refused)
        after = engine.execute(_of("another"), "w", packs).texts
        assert after not in (before, other)
        assert engine.execute(_of("b"), "w", ("b",)).texts == other


def test_packs_that_are_not_there_are_named(node_packs: Path) -> None:
    """Nothing is started for them."""
    with _engine(node_packs) as engine:
        before = len(engine.of_kind("probe"))
        prepared = _prepare(engine, "a", "gone", "lost")
        assert prepared == Prepared((), ("gone", "lost"), "there are no node packs 'gone', 'lost'")
        assert len(engine.of_kind("probe")) == before


@pytest.mark.req("S-06")
@pytest.mark.parametrize(
    ("source", "why", "tries"),
    [
        (_CRASHES, "it ended by itself with the code 5 while it loaded the node pack 'bad'", 2),
        ("import os\nos.kill(os.getpid(), 11)\n", "it was ended by SIGSEGV while it loaded the node pack 'bad'", 2),
        ("import time\ntime.sleep(1000)\n", "it took more than 3 seconds to load the node pack 'bad'", 1),
        ("raise ValueError('no')\n", "ValueError: no (bad.py, line 1)", 0),
    ],
    ids=["exit", "signal", "slow", "exception"],
)
def test_pack_that_cannot_be_loaded_disables_itself_alone(node_packs: Path, source: str, why: str, tries: int) -> None:
    """It is reported with the reason, the others serve, and so do the engine's own nodes."""
    (node_packs / "bad.py").write_text(source)
    with _engine(node_packs, pack_seconds=3.0) as engine:
        [good, other, bad] = engine.packs
        assert (good.error, bad.name, bad.nodes, bad.error, other.error) == (None, "bad", 0, why, None)
        assert len(_failed_starts(engine)) == tries
        assert _node_names(engine, None) == {"Of a", "Of b"}
        assert engine.execute(_of("a")).ending == Succeeded()
        assert _prepare(engine, "bad").packs[0].error == why
        (node_packs / "bad.py").write_text(_PACK % "bad")
        assert _prepare(engine, "bad").packs[0].error is None
        assert engine.execute(_of("bad")).ending == Succeeded()


@pytest.mark.req("S-06")
def test_nodes_are_used_while_a_slow_pack_is_still_being_loaded(node_packs: Path) -> None:
    """The engine's own nodes and those of other packs do not wait for it; a graph that may need it does."""
    let_go = node_packs.parent / "let go"
    (node_packs / "slow.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(let_go)!r}):\n    time.sleep(0.01)\n" + _PACK % "slow"
    )
    with _engine(node_packs, loading_seconds=0.5) as engine:
        assert engine.execute({"1": n("PreviewAny", source="built in")}).ending == Succeeded()
        assert [pack.error for pack in _prepare(engine, "a", "b").packs] == [None, None]
        assert engine.execute(_of("b")).ending == Succeeded()
        assert _node_names(engine, None) == {"Of a", "Of b"}
        with pytest.raises(EngineUnavailableError, match="still being loaded"):
            _check(engine, _of("slow"), None)
        let_go.touch()
        assert _prepare(engine, "slow").packs[0].error is None
        assert engine.execute(_of("slow")).ending == Succeeded()


@pytest.mark.req("S-06")
def test_pack_that_waits_for_its_probe_is_not_late(node_packs: Path) -> None:
    """A few begin at a time; the time limit of the others begins with them, so all healthy ones are used."""
    begun, let_go = node_packs.parent / "begun", node_packs.parent / "let go"
    begun.mkdir()
    names = [f"slow{number}" for number in range(6)]
    for name in names:
        (node_packs / f"{name}.py").write_text(
            f"import os, time\nopen({str(begun / name)!r}, 'w').close()\n"
            f"while not os.path.exists({str(let_go)!r}):\n    time.sleep(0.01)\n" + _PACK % name
        )
    with _engine(node_packs, loading_seconds=0.1, turn_seconds=1_000.0) as engine:
        engine.run(wait_for(until(lambda: len(list(begun.iterdir())) >= 2)))
        assert _node_names(engine, None) <= {"Of a", "Of b"}
        assert len(list(begun.iterdir())) == 2
        let_go.touch()
        assert {report.error for report in _prepare(engine, "a", "b", *names).packs} == {None}


@pytest.mark.req("S-06")
def test_pack_that_ended_its_process_once_is_tried_again(node_packs: Path) -> None:
    """The next process may load it, as when memory was short."""
    marker = node_packs.parent / "marker"
    lines = [
        "import os, pathlib",
        f"marker = pathlib.Path({str(marker)!r})",
        "if not marker.exists():",
        "    marker.touch()",
        "    os._exit(5)",
    ]
    with _engine(node_packs) as engine:
        (node_packs / "weak.py").write_text("\n".join(lines) + _PACK % "weak")
        assert _prepare(engine, "weak").packs[0].error is None
        assert len(_failed_starts(engine)) == 1


def test_vanished_pack_is_named_by_what_needs_it(node_packs: Path) -> None:
    """Neither a check nor a job goes on without it; other packs serve."""
    with _engine(node_packs) as engine:
        checked = _check(engine, _of("a"), ("a",))
        assert isinstance(checked, Checked)
        shutil.rmtree(node_packs / "a")
        order = Execute("j", checked.workflow, checked.outputs, b"{}")
        ending = engine.run(wait_for(engine.hosts.execute("w", order, FolderCallbacks(engine.folder), ("a",))))
        assert isinstance(ending, Failed)
        assert ending.failure.message == "an engine host could not be started: there is no node pack 'a'"
        with pytest.raises(EngineUnavailableError, match="there is no node pack 'a'"):
            _check(engine, _of("a"), ("a",))
        assert engine.execute(_of("b"), packs=("b",)).ending == Succeeded()
