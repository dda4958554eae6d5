"""A silent, leaking or greedy host is the trouble of its workspace alone; what is forked has run no code of a pack."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image

from engine.executions import n
from engine.hosts.engines import Engine, FolderCallbacks, confining, running_engine, trouble, wait_for
from fairlead.domain.jobs.events import Failed, Succeeded
from fairlead.engine.hosts.service import Checked, Render
from fairlead.processes.confinement.landlock import landlock_version
from waiting import until

_WORKS: Final = {"1": n("PrimitiveInt", value=1), "2": n("PreviewAny", source=["1", 0])}
_PACK: Final = """
import os, random, tempfile, threading, time
import numpy
import folder_paths

IMPORTED_BY = os.getpid()
%s

class Node:
    RETURN_TYPES = ()
    FUNCTION = "run"
    OUTPUT_NODE = True
    NOT_IDEMPOTENT = True
    CATEGORY = "made up"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"how": ("STRING", {"default": ""})}}

    def run(self, how):
        %s
        return {"ui": {"text": [[IMPORTED_BY, os.getpid()], random.random(), float(numpy.random.rand())]}}

NODE_CLASS_MAPPINGS = {"Made": Node}
"""


_HOSTILE: Final = Path(__file__).parents[2] / "attacks" / "node_packs" / "hostile"


def _packs(folder: Path, at_import: str = "", at_run: str = "pass") -> tuple[str]:
    (folder / "packs").mkdir()
    (folder / "packs" / "made.py").write_text(_PACK % (at_import, at_run))
    return (str(folder / "packs"),)


async def _check(engine: Engine, graph: dict[str, Any], workspace: str = "w") -> object:
    content = json.dumps(graph).encode()
    return await engine.hosts.check("c", workspace, content, None, FolderCallbacks(engine.folder))


# Heartbeats.


@pytest.mark.req("S-07")
def test_frozen_host_is_noticed_long_before_its_job_is_late(tmp_path: Path) -> None:
    """The job fails with the true reason, and the next of the workspace is executed by another host."""
    with running_engine(tmp_path, heartbeat_seconds=2.0, job_seconds=3_000) as engine:

        async def freeze() -> object:
            job = asyncio.ensure_future(engine.run_workflow(trouble("Endless")))
            await until(lambda: engine.started)
            os.kill(engine.started[0], signal.SIGSTOP)
            return (await job).ending

        ending = engine.run(wait_for(freeze()))
        assert isinstance(ending, Failed)
        assert ending.failure.message == "the engine process was ended: it did not answer any more"
        assert engine.execute(_WORKS).ending == Succeeded()


@pytest.mark.req("S-07")
@pytest.mark.parametrize("kind", ["template", "check"])
def test_frozen_process_is_replaced_while_somebody_waits_for_it(tmp_path: Path, kind: str) -> None:
    """What is asked of it is answered by the next, whether hosts are forked from it or it checks graphs."""
    with running_engine(tmp_path, heartbeat_seconds=2.0) as engine:
        workspace = "w" if kind == "check" else "another"
        assert isinstance(engine.run(_check(engine, _WORKS)), Checked)
        frozen = engine.of_kind(kind)[0]
        os.kill(frozen, signal.SIGSTOP)
        assert isinstance(engine.run(wait_for(_check(engine, _WORKS, workspace))), Checked)
        engine.run(wait_for(until(lambda: frozen in engine.ended)))
        assert engine.ended[frozen] == "it did not answer any more"


# Descriptors.


@pytest.mark.req("S-07")
def test_host_that_leaks_descriptors_is_replaced(tmp_path: Path) -> None:
    """A few are its cache's business; many would have the workspace's later jobs fail one day."""
    leak = "IMPORTED.extend(open(os.devnull) for _ in range(int(how)))"
    with running_engine(tmp_path / "e", packs=_packs(tmp_path, "IMPORTED = []", leak)) as engine:
        job = {"1": n("Made", how="10")}
        assert [engine.execute(job).ending for _ in range(3)] == [Succeeded()] * 3
        [kept] = engine.started
        assert engine.execute({"1": n("Made", how="100")}).ending == Succeeded()
        engine.run(wait_for(until(lambda: kept in engine.ended)))
        assert engine.ended[kept] == "it leaves descriptors open"
        assert engine.execute(job).ending == Succeeded()
        assert len(engine.started) == 2


# Forking.


@pytest.mark.req("S-04", "T-03")
def test_pack_is_imported_by_each_host_itself(tmp_path: Path) -> None:
    """What its code has done to a process stays with one workspace; random numbers differ all the same."""
    with running_engine(tmp_path / "e", packs=_packs(tmp_path), places=2) as engine:
        one, other = (engine.execute({"1": n("Made", how="")}, workspace).texts for workspace in "vw")
        assert one[0] == [engine.started[0]] * 2
        assert other[0] == [engine.started[1]] * 2
        assert one[1] != other[1]
        assert one[2] != other[2]


@pytest.mark.req("T-03")
def test_pack_that_takes_its_process_over_reaches_no_other_workspace(tmp_path: Path) -> None:
    """It would have each fork of its process share a pipe, into which a victim's host writes what it is given."""
    takes_over = f"import sys\nsys.path.append({str(_HOSTILE)!r})\nimport taking_over"
    listen = "return {'ui': {'text': [taking_over.heard() if how == 'listen' else '']}}"
    with running_engine(tmp_path / "e", packs=_packs(tmp_path, takes_over, listen), places=2) as engine:
        assert engine.execute({"1": n("Made", how="a secret of the victim")}, "victim").texts == [""]
        [heard] = engine.execute({"1": n("Made", how="listen")}, "attacker").texts
        assert "listen" in heard
        assert "a secret of the victim" not in heard


@pytest.mark.req("S-04")
@pytest.mark.parametrize("confined", [False, True], ids=["as we are", "confined"])
def test_folders_of_a_pack_are_those_of_its_host(tmp_path: Path, *, confined: bool) -> None:
    """Two workspaces' hosts with one pack have folders of their own, and one does not see the other's."""
    ask = "return {'ui': {'text': [folder_paths.get_output_directory(), tempfile.gettempdir()]}}"
    packs = _packs(tmp_path, at_run=ask)
    policies = confining(Path(packs[0])) if confined else None
    with running_engine(tmp_path / "e", packs=packs, places=2, policies=policies) as engine:
        seen = [engine.execute({"1": n("Made", how="")}, workspace).texts for workspace in "vw"]
        (output, temporary), (other_output, other_temporary) = seen
        assert Path(output).is_relative_to(temporary)
        assert Path(other_output).is_relative_to(other_temporary)
        assert not Path(output).is_relative_to(other_temporary)
        assert not Path(other_output).is_relative_to(temporary)


@pytest.mark.req("S-04")
def test_host_cannot_look_into_the_folder_of_another(tmp_path: Path) -> None:
    """What a host with the same pack has written is out of reach, where the system can see to that."""
    if not landlock_version():
        pytest.skip("the system has no Landlock")
    write = "open('secret', 'w').write('mine') if not how else None"
    look = "how = open(how).read() if how else os.path.abspath('secret')"
    ask = f"{write}; {look}; return {{'ui': {{'text': [how]}}}}"
    packs = _packs(tmp_path, at_run=ask)
    with running_engine(tmp_path / "e", packs=packs, places=2, policies=confining(Path(packs[0]))) as engine:
        [secret] = engine.execute({"1": n("Made", how="")}, "v").texts
        assert Path(secret).read_text() == "mine"
        assert engine.execute({"1": n("Made", how=secret)}, "v").texts == ["mine"]
        assert engine.execute({"1": n("Made", how=secret)}, "w").failure.exception_type == "PermissionError"


@pytest.mark.req("T-03")
def test_pack_sees_no_other_process_while_it_is_imported(tmp_path: Path) -> None:
    """It is confined to its own folder and its own /proc before its first line is executed."""
    if not landlock_version():
        pytest.skip("the system has no Landlock")
    look = (
        "SEEN = []\n"
        "above = f'/proc/{os.getppid()}'\n"
        "for path in ('/proc', above, above + '/cmdline', os.path.dirname(os.getcwd())):\n"
        "    try:\n        SEEN.append(len(os.listdir(path) if os.path.isdir(path) else open(path).read()))\n"
        "    except OSError as error:\n        SEEN.append(type(error).__name__)"
    )
    packs = _packs(tmp_path, look, "return {'ui': {'text': SEEN}}")
    with running_engine(tmp_path / "e", packs=packs, policies=confining(Path(packs[0]))) as engine:
        assert engine.execute({"1": n("Made", how="")}).texts == ["PermissionError"] * 4


# Shares.


@pytest.mark.req("S-03")
def test_pictures_of_one_workspace_keep_no_other_waiting(tmp_path: Path) -> None:
    """While a workspace has large pictures made, another has a graph checked and a picture made, each in its turn."""
    with running_engine(tmp_path, check_seconds=300.0) as engine:  # the last of the crowd waits for all others
        Image.effect_noise((1_200, 1_200), 90).save(engine.folder / "large.png")
        Image.new("RGB", (8, 8)).save(engine.folder / "small.png")

        async def render_picture(workspace: str, name: str, number: int) -> None:
            target = engine.folder / f"{workspace}-{number}"
            order = Render("webp", str(engine.folder / name), str(target), quality=100)
            assert (await engine.hosts.render(workspace, order)).error is None

        async def together() -> None:
            crowd = [asyncio.ensure_future(render_picture("greedy", "large.png", number)) for number in range(9)]
            await until(lambda: engine.of_kind("render"))
            assert isinstance(await _check(engine, _WORKS, "modest"), Checked)
            await render_picture("modest", "small.png", 0)
            assert not all(one.done() for one in crowd)
            await asyncio.gather(*crowd)

        engine.run(wait_for(together(), 300.0))
        assert len(engine.of_kind("render")) == 2


@pytest.mark.req("S-03")
def test_endless_checks_of_one_workspace_end_no_process_of_another(tmp_path: Path) -> None:
    """They run into their limit, and only the hosts of their workspace are ended for it."""
    with running_engine(tmp_path, check_seconds=2.0) as engine:
        assert isinstance(engine.run(_check(engine, _WORKS, "modest")), Checked)
        [modest] = engine.checking

        async def together() -> None:
            endless = [asyncio.ensure_future(_check(engine, trouble("Unwilling", "endless"), "greedy")) for _ in "123"]
            while not all(one.done() for one in endless):
                assert isinstance(await _check(engine, _WORKS, "modest"), Checked)
            await asyncio.gather(*endless, return_exceptions=True)

        engine.run(wait_for(together()))
        assert modest not in engine.ended
        assert engine.checking[0] == modest
