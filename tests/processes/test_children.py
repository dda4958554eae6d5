"""Child processes: real programs that end in every way a program can, and leave what programs leave."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import Run
from fairlead.processes.child import Child, Program
from fairlead.processes.exits import Exit, Restarts
from fairlead.processes.tree import NICENESS
from servers import is_alive, wait_until_async

_SPEAKS = """
import argparse, json, os, socket, subprocess, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--fd", type=int)
parser.add_argument("how")
given = parser.parse_args()
line = socket.socket(fileno=given.fd)
if given.how == "starts another":
    line.sendall(str(subprocess.Popen(["sleep", "1000"]).pid).encode())
    os._exit(4)
if given.how == "tells":
    line.sendall(json.dumps({"environment": dict(os.environ), "folder": os.getcwd()}).encode())
if given.how == "dies":
    sys.stderr.write("last words")
    sys.stderr.flush()
    os.kill(os.getpid(), 11)
line.recv(1)
time.sleep(1000)
"""


async def _start(tmp_path: Path, how: str) -> tuple[Child, asyncio.StreamReader, asyncio.StreamWriter]:
    (tmp_path / "speaks.py").write_text(_SPEAKS)
    folder = tmp_path / "own"
    program = Program("speaks", (how,), {"PYTHONPATH": str(tmp_path), "TMPDIR": str(folder)}, folder=folder)
    child, line = await Child.start_connected(program)
    return child, *await asyncio.open_unix_connection(sock=line)


def test_start_that_is_cancelled_leaves_no_process(run: Run) -> None:
    """A caller that is cancelled while a program is being started goes on once that has ended again."""
    before = psutil.Process().children()

    async def check() -> None:
        starting = asyncio.ensure_future(Child.start(Program("this")))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
        assert psutil.Process().children() == before

    run(check())


@pytest.mark.req("S-07")
def test_processes_started_by_a_child_end_with_it(tmp_path: Path, run: Run) -> None:
    """When it ends by itself, and nobody has asked it to; its folder is removed."""

    async def check() -> None:
        child, reader, writer = await _start(tmp_path, "starts another")
        other = int(await reader.read())
        ended = await asyncio.wait_for(asyncio.shield(child.exited), 20)
        assert ended == Exit(None, 4)
        await wait_until_async(lambda: not is_alive(other), "what it has started has ended")
        await wait_until_async(lambda: not (tmp_path / "own").exists(), "its folder is removed")
        writer.close()

    run(check())


@pytest.mark.req("S-02")
def test_child_gives_way_to_the_server(tmp_path: Path, run: Run) -> None:
    """Processors that are short go to the process that answers everybody."""

    async def check() -> None:
        child, _, writer = await _start(tmp_path, "waits")
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == min(own + NICENESS, 19)
        child.tree.give_way(2 * NICENESS)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == min(own + 2 * NICENESS, 19)
        await child.end("it is wanted no more", seconds=0)
        writer.close()

    run(check())


@pytest.mark.req("S-07")
def test_exit_reason_is_the_true_one(tmp_path: Path, run: Run) -> None:
    """A signal and the last words; the first reason we gave; a SIGKILL that was not ours means memory."""

    async def end_child(how: str, end: Any) -> Exit:
        child, _, writer = await _start(tmp_path, how)
        end(child)
        exit_ = await asyncio.wait_for(asyncio.shield(child.exited), 20)
        await child.end("too late to be the reason")
        writer.close()
        return exit_

    async def check() -> None:
        assert await end_child("dies", lambda _: None) == Exit("SIGSEGV", -11, None, "last words")
        killed = await end_child("waits", lambda child: (child.kill("it was slow"), child.kill("another reason")))
        assert killed == Exit("SIGKILL", -9, "it was slow")
        foreign = await end_child("waits", lambda child: os.kill(child.pid, 9))
        assert foreign == Exit("SIGKILL", -9, None, is_out_of_memory=True)

    run(check())


def test_child_is_given_time_to_end_by_itself(tmp_path: Path, run: Run) -> None:
    """Asked by a signal it ends by that; a child that does not listen is killed for the same reason."""

    async def check() -> None:
        child, _, writer = await _start(tmp_path, "waits")
        assert await child.end("the server ends", by_signal=True) == Exit("SIGTERM", -15, "the server ends")
        writer.close()
        deaf, _, writer = await _start(tmp_path, "waits")
        assert await deaf.end("the server ends", 0.01) == Exit("SIGKILL", -9, "the server ends")
        writer.close()

    run(check())


@pytest.mark.req("S-10")
def test_child_sees_no_secret_of_ours(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment holds only what every program needs, and it works in its own folder."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", "secret")

    async def check() -> None:
        child, reader, writer = await _start(tmp_path, "tells")
        told = json.loads(await reader.read(2**16))
        assert set(told["environment"]) <= {"LANG", "LC_ALL", "LC_CTYPE", "PATH", "PYTHONPATH", "TMPDIR"}
        assert told["folder"] == str(tmp_path / "own")
        await child.end("it has told", 0)
        writer.close()

    run(check())


def test_nothing_is_left_of_a_child_that_cannot_be_started(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is gone, and who wanted it is told."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "no such program"))

    async def check() -> None:
        with pytest.raises(FileNotFoundError):
            await Child.start(Program("speaks", folder=tmp_path / "own"))

    run(check())
    assert list(tmp_path.iterdir()) == []


def test_each_start_is_later_than_the_one_before_until_a_child_has_lasted() -> None:
    """The pause doubles up to a bound; there is none after a child that has lasted."""
    restarts = Restarts(first=1, most=5, steady=10)
    assert [restarts.pause_after(lasted) for lasted in (0, 0, 9, 10, 11, 0)] == [1, 2, 4, 5, 0, 1]
