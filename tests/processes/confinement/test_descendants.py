"""Everything a process has started ends with it, also what hides; and its memory is counted as a whole."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fairlead.processes.confinement.cgroups import ControlGroup, ControlGroups, find_control_groups
from fairlead.processes.confinement.descendants import FamilyWatch, descendants, end_orphans, tree_usage
from fairlead.processes.confinement.probe import with_filters
from fairlead.processes.tree import ProcessTree, watch_trees
from processes.confinement.attackers import Place, command, needs_landlock, place_in

pytestmark = [needs_landlock, pytest.mark.req("S-07")]

_HIDE = """
    def hide():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.wait()
    for _ in range(3):
        hide()
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a place for a confined process."""
    return place_in(tmp_path)


@pytest.fixture(params=["adopted", "in a control group"])
def groups(request: pytest.FixtureRequest) -> Iterator[ControlGroups | None]:
    """Return where groups can be made, and nothing to do without."""
    if request.param == "adopted":
        yield None
        return
    found = find_control_groups()
    if found is None:
        pytest.skip("this process may make no control groups")
    yield found


def _start(place: Place, code: str, groups: ControlGroups | None = None, memory: int = 0) -> "_Started":
    return _Started(subprocess.Popen(command(place.policy(), code), stdout=subprocess.PIPE, text=True), groups, memory)


class _Started:
    """A confined process that says a line when it has done what it should, and its tree."""

    def __init__(self, process: "subprocess.Popen[str]", groups: ControlGroups | None, memory: int) -> None:
        self.process = process
        self.tree = ProcessTree(process.pid)
        self.tree.bound(groups, memory, 100)
        assert process.stdout is not None
        self.said = process.stdout.readline().strip()
        self.below = [psutil.Process(one.pid) for one in descendants(process.pid)]
        process.stdout.close()

    def kill(self) -> None:
        """End it and what it has left."""
        self.tree.kill()
        self.process.wait(20)
        self.tree.clear()


def _end_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are still alive after a while."""
    until = time.monotonic() + 20
    alive = processes
    while alive and time.monotonic() < until:
        alive = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        time.sleep(0.01)
    return alive


def _survivors(place: Place) -> list[int]:
    """The processes that were started for a place and still live after a while."""
    until = time.monotonic() + 20
    while (living := _living(place)) and time.monotonic() < until:
        time.sleep(0.05)
    return living


def _living(place: Place) -> list[int]:
    found = (one.info for one in psutil.process_iter(["pid", "cmdline", "status"]))
    alive = [one for one in found if one["status"] != psutil.STATUS_ZOMBIE]
    return [one["pid"] for one in alive if any(str(place.own) in word for word in one["cmdline"] or ())]


def test_processes_that_hide_end_with_a_killed_one(place: Place, groups: ControlGroups | None) -> None:
    """They have sessions of their own and lost their parents, and are found all the same."""
    started = _start(place, _HIDE + "\n    print('ready', flush=True)\n    time.sleep(60)", groups)
    assert started.said == "ready"
    assert len(started.below) == 3
    started.kill()
    assert _end_of(started.below) == []
    assert _survivors(place) == []


def test_processes_that_hide_end_with_one_that_ends_by_itself(place: Place, groups: ControlGroups | None) -> None:
    """Nobody asked it to: what it leaves comes to the server, which knows it by its filter."""
    started = _start(place, _HIDE + "\n    print('ready', flush=True)\n    time.sleep(0.5)\n    os._exit(0)", groups)
    assert len(started.below) == 3
    started.process.wait(20)
    started.tree.clear()
    assert _end_of(started.below) == []


def test_processes_that_multiply_are_ended(place: Place, groups: ControlGroups | None) -> None:
    """Each starts another as soon as it can, in a session of its own, until there are as many as there may be."""
    code = """
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    def multiply(depth):
        while depth < 60:
            if os.fork() != 0:
                time.sleep(0.01)
                os._exit(0)
            os.setsid()
            depth += 1
        time.sleep(60)
    if os.fork() == 0:
        multiply(0)
    print("ready", flush=True)
    time.sleep(60)
    """
    started = _start(place, code, groups)
    started.kill()
    assert _end_of(started.below) == []
    assert _survivors(place) == []


def test_orphans_are_only_what_confined_processes_leave() -> None:
    """A child of ours that is not confined lives on."""
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        assert end_orphans() == 0
        assert child.poll() is None
        child.kill()


def test_memory_of_all_processes_counts(place: Place) -> None:
    """The memory of children counts too, and pages that several share count once."""
    code = """
    kept = bytearray(b"x") * (80 << 20)
    heard, told = os.pipe()
    for number in range(3):
        if os.fork() == 0:
            if number == 0:
                own = bytearray(b"y") * (60 << 20)
            os.write(told, b"x")
            time.sleep(60)
    for _ in range(3):
        os.read(heard, 1)
    print("ready", flush=True)
    time.sleep(60)
    """
    started = _start(place, code, memory=300 << 20)
    try:
        usage = started.tree.usage()
        assert usage.processes == 4
        assert 140 << 20 < usage.memory < 300 << 20
        assert tree_usage(started.tree.pid).memory > 300 << 20
        started.tree.end_excess()
        assert started.process.poll() is None
    finally:
        started.kill()


def test_every_look_sees_the_whole_tree_and_reads_strangers_once(place: Place) -> None:
    """What has hidden since the first look is seen by the next; our own parent was read by the first alone."""
    watch = FamilyWatch()
    assert {os.getpid(), os.getppid()} <= watch.look().keys()
    started = _start(place, _HIDE + "\n    print('ready', flush=True)\n    time.sleep(60)")
    try:
        for _ in range(2):
            seen = watch.look()
            below = {one.pid for one in descendants(started.process.pid, seen)}
            assert below == {one.pid for one in started.below}
            assert os.getppid() not in seen
    finally:
        started.kill()


@pytest.mark.parametrize(("memory", "threads"), [(100, 1), (0, 120)])
def test_tree_that_takes_too_much_is_ended(place: Place, memory: int, threads: int) -> None:
    """The sum of its memory counts, though each process keeps to its own bound, and so do its threads."""
    code = f"""
    heard, told = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            own = bytearray(b"y") * (80 << 20)
            os.write(told, b"x")
            time.sleep(60)
    for _ in range({threads}):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    for _ in range(2):
        os.read(heard, 1)
    print("", flush=True)
    time.sleep(60)
    """
    started = _start(place, code, memory=memory << 20)

    async def watch_and_end() -> None:
        watching = asyncio.ensure_future(watch_trees())
        await asyncio.to_thread(started.process.wait, 30)
        watching.cancel()

    asyncio.run(watch_and_end())
    started.tree.clear()
    assert started.tree.has_run_out_of_memory == bool(memory)
    assert (started.tree.reason is None) == bool(memory)
    assert _end_of(started.below) == []


_FILL = """
    import contextlib, select, struct
    def fill(one):
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.send(bytes(65_536))
    """
_KERNEL_MEMORY = {
    "sockets": """
    kept = [socket.socketpair() for _ in range(150)]
    for pair in kept:
        for one in pair:
            fill(one)
    """,
    "pipes": """
    kept = [os.pipe() for _ in range(1_900)]
    for _, sending in kept:
        os.set_blocking(sending, False)  # beyond so many of a user, pipes are small
        os.write(sending, bytes(65_536))
    """,
    "watches": """
    pipes = [os.pipe() for _ in range(500)]
    kept = [select.epoll() for _ in range(500)]
    for watch in kept:
        for ends in pipes:
            watch.register(ends[0])
            watch.register(ends[1])
    """,
    "page tables": """
    kept = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    for start in range(0, 64 << 30, 2 << 20):
        kept[start]
    """,
}


@pytest.mark.parametrize("kind", _KERNEL_MEMORY)
def test_tree_for_which_the_kernel_keeps_too_much_is_ended(place: Place, kind: str) -> None:
    """Buffers of sockets and pipes, watched descriptors and page tables count, though no page of the process does."""
    code = f"{_FILL}{_KERNEL_MEMORY[kind]}\n    print('', flush=True)\n    time.sleep(60)"
    started = _start(place, code, memory=100 << 20)
    try:
        resident = psutil.Process(started.process.pid).memory_info().rss
        started.tree.end_excess()
        assert started.process.wait(30) == -9
        assert (started.tree.has_run_out_of_memory, resident < 100 << 20) == (True, True)
    finally:
        started.kill()


def test_what_the_kernel_keeps_counts_once_and_at_least(place: Place) -> None:
    """Processes that share sockets count them once, at no less than the kernel says; a few are within the bound."""
    code = f"""{_FILL}
    kept = [one for _ in range(20) for one in socket.socketpair()]
    for one in kept:
        fill(one)
    held = sum(struct.unpack("9I", one.getsockopt(socket.SOL_SOCKET, 55, 36))[2] for one in kept)
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(60)
    print(held, flush=True)
    time.sleep(60)
    """
    started = _start(place, code, memory=150 << 20)
    try:
        usage = started.tree.usage()
        assert int(started.said) < usage.memory < 150 << 20 < tree_usage(started.tree.pid).memory
        started.tree.end_excess()
        assert started.process.poll() is None
    finally:
        started.kill()


def test_control_group_is_told_its_bounds(tmp_path: Path) -> None:
    """Memory without swapping, and one end for all where it runs out."""
    for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.procs", "cgroup.kill"):
        (tmp_path / name).touch()
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    group = ControlGroup(tmp_path)
    group.bound(1 << 30, 50)
    group.add(7)
    group.kill()
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != "memory.events"} == {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "50",
        "cgroup.procs": "7",
        "cgroup.kill": "1",
    }
    assert group.has_run_out_of_memory


def test_control_group_bounds_memory_that_is_shared(place: Place) -> None:
    """What no process's own bound counts; the whole tree ends by it."""
    found = find_control_groups()
    group = None if found is None else found.create()
    if group is None or not group.counts_memory:
        if group is not None:
            group.remove()
        pytest.skip("memory is not counted by control groups (version 2) here")
    group.remove()
    code = """
    print("ready", flush=True)
    time.sleep(1)
    kept = mmap.mmap(-1, 400 << 20)
    kept.write(b"x" * (400 << 20))
    """
    policy = with_filters(place.policy(), shared_memory=True)
    process = subprocess.Popen(command(policy, code), stdout=subprocess.PIPE, text=True)
    started = _Started(process, found, 100 << 20)
    assert process.wait(30) == -9
    assert started.tree.has_run_out_of_memory
    started.tree.clear()


def test_processes_of_a_dead_server_are_ended() -> None:
    """They are found by their control group, whose name has the number of a process that is gone."""
    found = find_control_groups()
    if found is None:
        pytest.skip("this process may make no control groups")
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    sample = found.create()
    sample.remove()
    left = ControlGroup(sample.folder.with_name(f"fairlead-{gone.pid}-0"))
    left.folder.mkdir()
    with subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as child:
        left.add(child.pid)
        found.end_left()
        assert child.wait(20) == -9
    found.end_left()
    assert not left.folder.exists()
