"""Hosts have the node packs they were asked to have, and no others; those that check with some packs come and go."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from engine.executions import n
from engine.hosts.engines import Engine, FolderDesk, running_engine, wait_for
from fairlead.domain.deployments import PackSet, pack_set
from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.hosts.desk_host import EngineUnavailableError, Prepared
from fairlead.engine.hosts.notes import HostNotStarted
from fairlead.engine.hosts.protocol import Checked, Execute, Refused

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
_ASKS: Final = {"1": n("LoadImage", image="held.png"), "2": n("PreviewImage", images=["1", 0])}


def _of(pack: str) -> dict[str, Any]:
    """Return a workflow of one node, which a pack has."""
    return {"1": n(f"Of {pack}")}


class _HoldingDesk(FolderDesk):
    """A desk that answers no question until it is let go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def find_file(self, name: str) -> Path:
        """Find the file when it is time."""
        self.asked.set()
        await self.let_go.wait()
        return await super().find_file(name)


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
    assert [pid for pid in (*engine.desk_hosts, *engine.started) if psutil.pid_exists(pid)] == []
    assert list((engine.folder / "scratch").glob("hosts-*")) == []


def _described(engine: Engine, packs: PackSet) -> set[str]:
    """Return which of the packs' nodes editors are told of."""
    described = json.loads(engine.run(wait_for(engine.hosts.describe(packs))))
    assert "PreviewAny" in described
    return {name for name in described if name.startswith("Of ")}


def _checked(engine: Engine, graph: dict[str, Any], packs: PackSet) -> Checked | Refused:
    content, desk = json.dumps(graph).encode(), FolderDesk(engine.folder)
    return engine.run(wait_for(engine.hosts.check("c", content, None, desk, packs)))


def _prepared(engine: Engine, *packs: str) -> Prepared:
    return engine.run(wait_for(engine.hosts.prepare(pack_set(packs))))


def _failed_starts(engine: Engine) -> list[str]:
    return [note.why for note in engine.notes if isinstance(note, HostNotStarted)]


async def _until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110 -- it is about processes and what was noted of them: nothing to wait on
        await asyncio.sleep(0.01)


# What a host has.


def test_a_set_of_packs_sees_the_nodes_of_another(node_packs: Path) -> None:
    """Editors are told of the nodes of just these packs, and workflows checked with them."""
    with _engine(node_packs) as engine:
        assert _described(engine, ("a",)) == {"Of a"}
        assert _described(engine, ("b",)) == {"Of b"}
        assert _described(engine, ()) == set()
        assert _described(engine, ("a", "b")) == _described(engine, None) == {"Of a", "Of b"}
        assert isinstance(_checked(engine, _of("a"), ("a",)), Checked)
        assert isinstance(_checked(engine, _of("b"), ("a",)), Refused)
        assert isinstance(_checked(engine, _of("b"), None), Checked)
        assert len(engine.desk_hosts) == 5


def test_a_job_is_executed_by_a_host_with_other_packs(node_packs: Path) -> None:
    """An idle host is for the next job of the same workspace and packs, and makes room for any other."""
    with _engine(node_packs, places=2) as engine:
        jobs: list[tuple[str, str, PackSet]] = [
            ("a", "w", ("a",)), ("b", "w", ("b",)), ("a", "w", ("a",)), ("a", "v", ("a",)), ("a", "w", None),
        ]  # fmt: skip
        pids = [engine.execute(_of(pack), workspace, packs).texts for pack, workspace, packs in jobs]
        first, second, third, fourth = engine.started
        assert pids == [[first], [second], [first], [third], [fourth]]


def test_a_job_runs_where_its_nodes_are_not(node_packs: Path) -> None:
    """A workflow that was checked with some packs fails on a host with others."""
    with _engine(node_packs) as engine:
        checked = _checked(engine, _of("a"), ("a",))
        assert isinstance(checked, Checked)
        order = Execute("j", checked.workflow, checked.outputs)
        ending = engine.run(wait_for(engine.hosts.execute("w", order, FolderDesk(engine.folder), ("b",))))
        assert isinstance(ending, Failed)
        assert "Of a" in ending.failure.message


def test_packs_are_counted_that_are_none(node_packs: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["../custom_nodes", "troubles/../troubles", "", ".", "troubles.py", "/", "Troubles"])
def test_a_name_of_a_pack_is_taken_for_a_path(engine: Engine, name: str) -> None:
    """A name is that of a pack that was found, or there is no such pack: no host is started to look."""
    before = len(engine.desk_hosts)
    assert _prepared(engine, name) == Prepared((), (name,), f"there is no node pack {name!r}")
    assert len(engine.desk_hosts) == before


# Hosts that check with some packs.


def test_a_host_that_checks_with_some_packs_lives_for_ever(node_packs: Path) -> None:
    """It ends when nobody has asked for a while, and comes again; the one for all packs stays."""
    with _engine(node_packs, idle_seconds=0.05) as engine:
        assert _described(engine, ("a",)) == {"Of a"}
        first, of_a = engine.desk_hosts
        engine.run(wait_for(_until(lambda: of_a in engine.ended)))
        assert engine.ended == {of_a: "it was idle"}
        assert isinstance(_checked(engine, _of("a"), ("a",)), Checked)
        assert len(engine.desk_hosts) == 3
        assert first not in engine.ended


def test_hosts_that_check_with_some_packs_pile_up(node_packs: Path) -> None:
    """There are as many as may be: the one that was idle for longest makes room."""
    with _engine(node_packs, desk_hosts=2) as engine:
        for packs in (("a",), ("b",), ("a",), ("a", "b")):
            _described(engine, packs)
        _, of_a, of_b, _ = engine.desk_hosts
        engine.run(wait_for(_until(lambda: of_b in engine.ended)))
        assert engine.ended == {of_b: "its place was wanted for other node packs"}
        assert _described(engine, ("a",)) == {"Of a"}
        assert len(engine.desk_hosts) == 4
        assert of_a not in engine.ended


def test_who_asks_with_other_packs_waits_for_ever(node_packs: Path) -> None:
    """While every host is at work there is no room, and soon a refusal; the work goes on, and leaves room."""
    with _engine(node_packs, desk_hosts=1, room_seconds=0.05) as engine:

        async def full() -> None:
            desk = _HoldingDesk(engine.folder)
            held = asyncio.ensure_future(engine.hosts.check("h", json.dumps(_ASKS).encode(), None, desk, ("a",)))
            await desk.asked.wait()
            with pytest.raises(EngineUnavailableError, match="too many sets of node packs"):
                await engine.hosts.describe(("b",))
            described = json.loads(await engine.hosts.describe(("a",)))
            assert "Of a" in described
            desk.let_go.set()
            assert isinstance(await held, Refused)

        engine.run(wait_for(full()))
        assert _described(engine, ("b",)) == {"Of b"}


def test_room_that_comes_free_is_given_to_nobody(node_packs: Path) -> None:
    """All who wait for it get it in turn; who leaves meanwhile takes nothing with him."""
    with _engine(node_packs, desk_hosts=1, room_seconds=30) as engine:

        async def full() -> list[set[str]]:
            desk = _HoldingDesk(engine.folder)
            held = asyncio.ensure_future(engine.hosts.check("h", json.dumps(_ASKS).encode(), None, desk, ("a",)))
            await desk.asked.wait()
            sets: list[PackSet] = [("b",), ("b",), (), ("a", "b"), ("b",)]
            waiting = [asyncio.ensure_future(engine.hosts.describe(packs)) for packs in sets]
            await asyncio.sleep(0)
            waiting.pop(0).cancel()
            desk.let_go.set()
            assert isinstance(await held, Refused)
            return [{name for name in json.loads(await one) if name.startswith("Of ")} for one in waiting]

        assert engine.run(wait_for(full())) == [{"Of b"}, set(), {"Of a", "Of b"}, {"Of b"}]


def test_a_server_that_ends_keeps_who_waits_for_room(node_packs: Path) -> None:
    """Who waits is told, and who asks then is, too."""
    with _engine(node_packs, desk_hosts=1) as engine:

        async def closed() -> None:
            desk = _HoldingDesk(engine.folder)
            held = asyncio.ensure_future(engine.hosts.check("h", json.dumps(_ASKS).encode(), None, desk, ("a",)))
            await desk.asked.wait()
            waiting = asyncio.ensure_future(engine.hosts.describe(("b",)))
            await asyncio.sleep(0)
            await engine.hosts.close()
            asked = asyncio.ensure_future(engine.hosts.describe(("a",)))
            ended = await asyncio.gather(held, waiting, asked, return_exceptions=True)
            assert [type(one) for one in ended] == [EngineUnavailableError] * 3

        engine.run(wait_for(closed()))


def test_who_leaves_has_a_host_given_up_that_is_being_started(node_packs: Path) -> None:
    """It is there for who comes next."""
    with _engine(node_packs, idle_seconds=30) as engine:

        async def left() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(engine.hosts.describe(("a",)), 0.01)
            await _until(lambda: len(engine.desk_hosts) == 2)

        engine.run(wait_for(left()))
        assert _described(engine, ("a",)) == {"Of a"}
        assert len(engine.desk_hosts) == 2


@pytest.mark.req("C-11")
def test_hosts_with_some_packs_keep_nodes_that_are_out_of_date(node_packs: Path) -> None:
    """With new partner nodes all that check are replaced."""
    with _engine(node_packs) as engine:
        _described(engine, ("a",))
        _described(engine, ("b",))
        before = engine.desk_hosts
        engine.hosts.set_partner_nodes(b"[]")
        engine.run(wait_for(_until(lambda: set(before) <= engine.ended.keys())))
        assert _described(engine, ("a",)) == {"Of a"}
        assert len(engine.desk_hosts) == 6


def test_a_host_that_was_replaced_outlives_the_server(node_packs: Path) -> None:
    """One that still works on a question when the server ends is ended with the others."""
    with _engine(node_packs) as engine:

        async def closed() -> None:
            desk = _HoldingDesk(engine.folder)
            held = asyncio.ensure_future(engine.hosts.check("h", json.dumps(_ASKS).encode(), None, desk, ("a",)))
            await desk.asked.wait()
            engine.hosts.set_partner_nodes(b"[]")
            await _until(lambda: len(engine.desk_hosts) == 4)
            await engine.hosts.close()
            [ended] = await asyncio.gather(held, return_exceptions=True)
            assert isinstance(ended, EngineUnavailableError)
            assert set(engine.desk_hosts) == engine.ended.keys()

        engine.run(wait_for(closed()))


# Making a set ready.


def test_a_set_is_not_said_to_be_ready(node_packs: Path) -> None:
    """Each pack is reported, and the host that has loaded them is asked from then on."""
    with _engine(node_packs) as engine:
        prepared = _prepared(engine, "b", "a")
        assert [(report.name, report.nodes, report.error) for report in prepared.packs] == [
            ("a", 1, None),
            ("b", 1, None),
        ]
        assert (prepared.missing, prepared.error) == ((), None)
        assert _prepared(engine, "a", "b") == prepared
        assert _described(engine, ("a", "b")) == {"Of a", "Of b"}
        assert len(engine.desk_hosts) == 2
        assert _prepared(engine) == Prepared([])
        assert [report.name for report in engine.run(engine.hosts.prepare(None)).packs] == ["a", "b"]


def test_a_broken_pack_cannot_be_mended(node_packs: Path) -> None:
    """Its error is told, and its host has the others; when it is prepared again it is looked at again."""
    (node_packs / "broken.py").write_text("raise ValueError('not yet')\n")
    with _engine(node_packs) as engine:
        good, broken = _prepared(engine, "a", "broken").packs
        assert (good.nodes, good.error) == (1, None)
        assert broken.error == "ValueError: not yet (broken.py, line 1)"
        assert _described(engine, ("a", "broken")) == {"Of a"}
        (node_packs / "broken.py").write_text(_PACK % "broken")
        assert [report.error for report in _prepared(engine, "a", "broken").packs] == [None, None]
        assert _described(engine, ("a", "broken")) == {"Of a", "Of broken"}


@pytest.mark.parametrize("packs", [("a",), None], ids=["some", "all"])
def test_packs_that_were_changed_are_prepared_as_they_were(node_packs: Path, packs: PackSet) -> None:
    """Loaded anew, they check and execute as they are now; hosts with other packs are left alone."""
    with _engine(node_packs, places=2) as engine:
        before = engine.execute(_of("a"), "w", packs).texts
        other = engine.execute(_of("b"), "w", ("b",)).texts
        (node_packs / "a" / "__init__.py").write_text(_PACK % "another")
        assert isinstance(_checked(engine, _of("a"), packs), Checked)
        prepared = engine.run(wait_for(engine.hosts.prepare(packs, anew=True)))
        assert [report.error for report in prepared.packs if report.name == "a"] == [None]
        assert isinstance(_checked(engine, _of("a"), packs), Refused)
        after = engine.execute(_of("another"), "w", packs).texts
        assert after not in (before, other)
        assert engine.execute(_of("b"), "w", ("b",)).texts == other


def test_packs_that_are_not_there_are_left_out_in_silence(node_packs: Path) -> None:
    """They are named, and nothing is started."""
    with _engine(node_packs) as engine:
        prepared = _prepared(engine, "a", "gone", "lost")
        assert prepared == Prepared((), ("gone", "lost"), "there are no node packs 'gone', 'lost'")
        assert len(engine.desk_hosts) == 1


def test_a_pack_that_ends_its_host_is_loaded_for_ever(node_packs: Path) -> None:
    """After two hosts it is told which pack it was; nobody else tries for a while, but who prepares does."""
    with _engine(node_packs) as engine:
        (node_packs / "crashing.py").write_text(_CRASHES)
        prepared = _prepared(engine, "a", "crashing")
        [report] = prepared.packs
        assert (report.name, report.nodes, report.error) == ("crashing", 0, prepared.error)
        assert prepared.error is not None
        assert "the code 5 while it loaded the node pack 'crashing'" in prepared.error
        assert len(_failed_starts(engine)) == 2
        with pytest.raises(EngineUnavailableError, match="crashing"):
            _described(engine, ("a", "crashing"))
        assert len(_failed_starts(engine)) == 2
        assert isinstance(_checked(engine, _of("a"), ("a",)), Checked)
        (node_packs / "crashing.py").write_text(_PACK % "crashing")
        assert _prepared(engine, "a", "crashing").error is None
        assert _described(engine, ("a", "crashing")) == {"Of a", "Of crashing"}


def test_a_pack_that_ended_its_host_once_is_given_up(node_packs: Path) -> None:
    """The next host may load it, as when memory was short."""
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
        assert _prepared(engine, "weak").error is None
        assert len(_failed_starts(engine)) == 1


def test_the_host_for_all_packs_is_waited_for_in_vain(node_packs: Path) -> None:
    """When a pack ends it again and again, who prepares all packs is told."""
    with _engine(node_packs) as engine:
        (node_packs / "crashing.py").write_text(_CRASHES)
        psutil.Process(engine.desk_hosts[0]).kill()
        engine.run(wait_for(_until(lambda: _failed_starts(engine))))
        prepared = engine.run(wait_for(engine.hosts.prepare(None)))
        assert [report.name for report in prepared.packs] == ["crashing"]
        assert prepared.error is not None


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_host_starts_without_a_pack_that_has_vanished(node_packs: Path, *, is_killed: bool) -> None:
    """Neither a check nor a job goes on without it, and the words say which pack it is."""
    with _engine(node_packs) as engine:
        checked = _checked(engine, _of("a"), ("a",))
        assert isinstance(checked, Checked)
        shutil.rmtree(node_packs / "a")
        order = Execute("j", checked.workflow, checked.outputs)
        ending = engine.run(wait_for(engine.hosts.execute("w", order, FolderDesk(engine.folder), ("a",))))
        assert isinstance(ending, Failed)
        assert ending.failure.message == "an engine host could not be started: there is no node pack 'a'"
        of_a = engine.desk_hosts[1]
        if is_killed:
            psutil.Process(of_a).kill()
        else:
            engine.hosts.set_partner_nodes(b"[]")
        engine.run(wait_for(_until(lambda: of_a in engine.ended)))
        with pytest.raises(EngineUnavailableError, match="there is no node pack 'a'"):
            _checked(engine, _of("a"), ("a",))
        assert engine.execute(_of("b"), packs=("b",)).ending == Succeeded()
