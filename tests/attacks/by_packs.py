"""What a node pack tries that the attacker brought along: to read, change, reach, outlive and starve."""

import json
import os
import socket
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from attacks.witness import GRAPH
from attacks.world import Attack, Verdict, World, environment
from end_to_end.workflow_clients import ENDED, WorkflowClient, graph_showing
from servers import serving, wait_until

BROKEN: Final = Path(__file__).with_name("broken") / "node_packs"
_SHARED_MIB: Final = 2_048
"""More than the 1,500 MiB that a host of the attacked server may take."""
_PATIENCE: Final = 60.0
_NOTICED_SECONDS: Final = 100.0
"""Ten times the heartbeat's ten seconds: on a busy machine the server is late itself, and then judges nobody."""


def _answers_of(client: WorkflowClient, class_type: str, given: Any = None) -> Any:
    """What a hostile node tells; None where its job failed."""
    job = client.run(graph_showing(class_type, given=json.dumps(given), turn=uuid.uuid4().hex))
    if job["status"] != "completed":
        return None
    (text,) = job["outputs"]["2"]["text"]
    return json.loads(text)


def read_the_server(world: World) -> Verdict:
    """Read the secret key, the first key, the database and other workspaces' files; also of a server in /opt."""
    data = world.server.data
    paths = [data / "secret-key", data / "first-key", data / "fairlead.db", data / "blobs", data]
    with _install_in_opt() as secret:
        told = _answers_of(world.attacker, "ReadPaths", [str(path) for path in (*paths, *secret)])
    return Verdict(told == [], f"could read {told}")


@contextmanager
def _install_in_opt() -> Iterator[list[Path]]:
    """Lay a secret where a server installed in /opt would have it; nothing where we may not."""
    if not os.access("/opt", os.W_OK):
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="fairlead-", dir="/opt") as folder:
        secret = Path(folder) / "secret-key"
        secret.write_text("a secret", encoding="ascii")
        yield [secret, Path(folder)]


def change_the_server(world: World) -> Verdict:
    """Change the mode or the bytes of the database and of the secret key; a pack may be told that it has."""
    data = world.server.data
    paths = [path for path in (data / "fairlead.db", data / "secret-key", data) if path.exists()]
    before = [(path.stat().st_mode, path.stat().st_uid) for path in paths]
    told = _answers_of(world.attacker, "ChangePaths", [str(path) for path in paths])
    opened = [path for path, change in told or () if change == "write"]
    is_unchanged = before == [(path.stat().st_mode, path.stat().st_uid) for path in paths]
    return Verdict(is_unchanged and not opened, f"opened {opened} to write; modes are as they were: {is_unchanged}")


def listen_to_others(world: World) -> Verdict:
    """Capture other workspaces' calls, with their API keys, from the loopback device."""
    told = _answers_of(world.attacker, "Listen")
    return Verdict(told == 0, f"heard {told} packets")


def reach_others(world: World) -> Verdict:
    """Connect to the server's port, to the partner's, and to a Unix socket of the machine."""
    ports = [int(world.server.url.rpartition(":")[2]), int(world.partner.url.rpartition(":")[2])]
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder) / "socket")
        listener.bind(path)
        listener.listen()
        told = _answers_of(world.attacker, "Connect", {"ports": ports, "paths": [path]})
    return Verdict(told == [], f"could reach {told}")


def escape(world: World) -> Verdict:
    """Trace or signal the parent, make a user namespace, mount, become another user."""
    told = _answers_of(world.attacker, "Escape")
    return Verdict(told == [], f"succeeded: {told}")


def take_shared_memory(world: World) -> Verdict:
    """Take more shared memory than a host may have memory."""
    told = _answers_of(world.attacker, "Allocate", _SHARED_MIB)
    return Verdict(told is None or told < _SHARED_MIB, "ended" if told is None else f"took {told} MiB")


def take_kernel_memory(world: World) -> Verdict:
    """Have the kernel keep more in sockets than a host may have memory, with buffers as large as they can be made."""
    told = _answers_of(world.attacker, "FillSockets", _SHARED_MIB)
    return Verdict(told is None, "ended" if told is None else f"filled {told} MiB")


def hide_in_the_kernel(world: World) -> Verdict:
    """Enlarge the buffers of sockets and pipes, send descriptors to where nobody sees them, move pages into a pipe."""
    told = _answers_of(world.attacker, "EvadeBounds")
    return Verdict(told == [], f"could {told}")


def outlive_the_host(world: World) -> Verdict:
    """Leave a child in a session of its own, then end the host."""
    mark = Path(world.folder) / f"sleeper-{uuid.uuid4().hex}"
    mark.symlink_to("/bin/sleep")
    told = _answers_of(world.attacker, "LeaveChild", str(mark))
    world.attacker.run(graph_showing("EndHost", given="3"))
    try:
        wait_until(lambda: not _running(mark), "the end of the child", 15)
    except AssertionError:
        for process in _running(mark):
            process.kill()
        return Verdict(held=False, found="the child lives on")
    return Verdict(held=True, found="the child has ended with it" if told else "no child could be started")


def _running(program: Path) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if str(program) in " ".join(process.info["cmdline"] or ())]


def overhear_workflows(world: World) -> Verdict:
    """Look for the bystander's workflow in everything a process of the pack has ever seen."""
    for number in range(3):
        world.bystander.run(GRAPH | {"3": {"class_type": "PrimitiveInt", "inputs": {"value": number}}})
    checked = world.attacker.post(graph_showing("Overhear", given="null"))
    if "heard" in checked.text:
        return Verdict(held=False, found=f"while it was checked: {checked.text[:300]}")
    told = _answers_of(world.attacker, "Overhear")
    return Verdict(told == 0, f"found the bystander's words {told} times")


def take_processes_over(world: World) -> Verdict:
    """Replace what forks and serves in the process that imports the pack; the bystander has a node of it executed."""
    for number in range(3):
        world.bystander.run(graph_showing("Keep", given=f"a word of the witness {number}"))
    told = _answers_of(world.attacker, "ListenIn")
    return Verdict(told == [0, 1], f"heard the bystander, and itself: {told} times")


def rewrite_a_file(world: World) -> Verdict:
    """Keep a descriptor of a file that was handed over, and rewrite another workspace's identical file with it."""
    content = f"the same bytes {uuid.uuid4().hex}"
    name = world.bystander.upload(content.encode(), "same.bin")
    world.attacker.run({"1": {"class_type": "Keep", "inputs": {"given": content}}})
    told = _answers_of(world.attacker, "Rewrite", "OVERWRITTEN!")
    kept = world.bystander.http.get("/api/view", params={"filename": name, "type": "input"}, follow_redirects=True)
    return Verdict(kept.content == content.encode(), f"wrote {told} times; the file is {kept.content[:16]!r}")


def freeze_the_host(world: World) -> Verdict:
    """Stop the host's process in the middle of a job; the next job must do without it."""
    return _ends(world, "Freeze", 600)


def hold_the_lock(world: World) -> Verdict:
    """Hold the interpreter's lock for ten minutes."""
    return _ends(world, "HoldLock", 600)


def _ends(world: World, class_type: str, given: Any) -> Verdict:
    job = world.attacker.submit(graph_showing(class_type, given=json.dumps(given)))
    try:
        wait_until(lambda: world.attacker.status(job) in ENDED, "its end", _NOTICED_SECONDS)
    except AssertionError:
        world.attacker.http.post(f"/api/jobs/{job}/cancel")
        return Verdict(held=False, found="the job goes on")
    ended = world.attacker.wait_for_end(job)
    said = str(ended.get("execution_error", ended))[:200]
    after = world.attacker.run(GRAPH)["status"]
    return Verdict(ended["status"] == "failed" and after == "completed", f"{ended['status']}: {said}; next: {after}")


def leak_descriptors(world: World) -> Verdict:
    """Open descriptors until there are no more; later jobs of the workspace must not suffer."""
    told = _answers_of(world.attacker, "LeakDescriptors")
    after = [world.attacker.run({"1": {"class_type": "Keep", "inputs": {"given": text}}})["status"] for text in "abc"]
    return Verdict(set(after) == {"completed"}, f"opened {told}; next: {after}")


def break_the_import(world: World) -> Verdict:
    """Have packs that end the process that imports them, never end their import, or raise."""
    settings: Mapping[str, str] = {"FAIRLEAD_NODE_PACKS": str(BROKEN), "FAIRLEAD_ENGINE_PACK_SECONDS": "3"}
    with serving(world.folder / f"broken-{uuid.uuid4().hex}", env=environment(settings)) as server:
        client = WorkflowClient(server)
        try:
            own = client.run(GRAPH)["status"]
            wait_until(lambda: client.http.get("/api/object_info/GoodNode").json(), "the good pack", _PATIENCE)
            good = client.run({"1": {"class_type": "GoodNode", "inputs": {}}, "2": _show("1")})["status"]
        finally:
            client.http.close()
    return Verdict((own, good) == ("completed", "completed"), f"the engine's nodes: {own}; the good pack's: {good}")


def _show(node: str) -> Mapping[str, Any]:
    return {"class_type": "PreviewAny", "inputs": {"source": [node, 0]}}


ATTACKS: Final = (
    Attack("read the server", "a pack reads secrets, the database and others' files", read_the_server),
    Attack("change the server", "a pack changes the database's mode and bytes", change_the_server),
    Attack("listen to others", "a pack captures API keys from the loopback device", listen_to_others),
    Attack("reach others", "a pack connects to local ports and Unix sockets", reach_others),
    Attack("escape", "a pack traces, mounts, becomes somebody else", escape),
    Attack("shared memory", "a pack takes 2 GiB of shared memory", take_shared_memory),
    Attack("kernel memory", "a pack has the kernel keep 2 GiB in sockets", take_kernel_memory),
    Attack("hidden memory", "a pack enlarges and hides buffers of the kernel", hide_in_the_kernel),
    Attack("outlive the host", "a pack leaves a child in a session of its own", outlive_the_host),
    Attack("overhear workflows", "a pack looks for what others have submitted", overhear_workflows),
    Attack("take over", "a pack replaces the engine in the process that imports it", take_processes_over),
    Attack("rewrite a file", "a pack writes to a file that it handed over", rewrite_a_file),
    Attack("freeze the host", "a pack stops its process", freeze_the_host),
    Attack("hold the lock", "a pack holds the interpreter's lock for ten minutes", hold_the_lock),
    Attack("leak descriptors", "a pack opens descriptors until there are no more", leak_descriptors),
    Attack(
        "break the import",
        "packs that crash, hang or raise when they are imported",
        break_the_import,
        is_elsewhere=True,
    ),
)
