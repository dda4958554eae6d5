"""Node packs on a real server: what they try comes to nothing, and where nobody can see to that they are not loaded."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from end_to_end.workflow_clients import WorkflowClient, graph_showing
from fairlead.processes.confinement.landlock import landlock_version
from servers import COMMAND, PLAIN, Server, ServerFailedError, environment, serving, wait_until

PACKS: Final = Path(__file__).with_name("node_packs")
ENV: Final = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_NODE_PACKS": str(PACKS), "FAIRLEAD_ENGINE_HOSTS": "1"}
ALL: Final = {"landlock", "seccomp", "capabilities", "network", "limits", "descendants", "memory"}

pytestmark = pytest.mark.skipif(landlock_version() < 1, reason="the kernel has no Landlock")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that lies where everything of it may be read, as one that is installed in /opt does."""
    folder = tmp_path_factory.mktemp("opt") / "fairlead"
    folder.mkdir()
    with serving(folder / "data", env=ENV) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[WorkflowClient]:
    """Return a client of a workspace that runs nodes of packs."""
    name = f"w{os.urandom(4).hex()}"
    made = WorkflowClient(server, server.new_workspace(name), name)
    yield made
    made.http.close()


@pytest.mark.req("S-05")
def test_hostile_pack_reads_none_of_the_servers_files(server: Server, client: WorkflowClient) -> None:
    """It reads neither the secret nor the database, lists no folder, and reads nothing of the server's process."""
    (words,) = client.run(graph_showing("Burglar", data=str(server.data.resolve())))["outputs"]["2"]["text"]
    assert words == ""


@pytest.mark.req("S-05", "S-07")
def test_hostile_pack_reaches_nobody_changes_nothing_and_leaves_nothing(
    server: Server, client: WorkflowClient, tmp_path: Path
) -> None:
    """No packet, no port, no socket, no mode, no memory that is not counted; what it left ends with its host."""
    mode = (server.data / "secret-key").stat().st_mode
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as port:
        unix.bind(str(path))
        unix.listen()
        graph = graph_showing("Hostile", data=str(server.data.resolve()), port=port.getsockname()[1], socket=str(path))
        (words,) = client.run(graph)["outputs"]["2"]["text"]
    *succeeded, left = words.split()
    assert succeeded == []
    assert (server.data / "secret-key").stat().st_mode == mode
    hidden = psutil.Process(int(left.removeprefix("left:")))
    job = client.submit(graph_showing("Crash", value=7))
    assert client.wait_for_end(job)["status"] == "failed"
    wait_until(lambda: not hidden.is_running() or hidden.status() == psutil.STATUS_ZOMBIE, "what hid has ended")


@pytest.mark.req("S-05")
def test_state_of_confinement_is_told_everywhere(server: Server) -> None:
    """The log of the start, the readiness check, the metrics and `doctor` all tell it."""
    ready = httpx.get(f"{server.url}/readyz", verify=PLAIN).json()
    assert ready["status"] == "ready"
    assert ready["engine_confinement"] == {"mode": "required", "mechanisms": dict.fromkeys(ALL, True)}
    wait_until(lambda: len(server.logged_events("EngineConfined")) == server.size, "it to be logged")
    assert [(set(line["held"]), line["missing"]) for line in server.logged_events("EngineConfined")] == [
        (ALL, [])
    ] * server.size
    holding = {name: server.metric("fairlead_engine_confinement", mechanism=name) for name in ALL}
    assert holding == dict.fromkeys(ALL, server.size)
    rows = {row["check"]: row for row in server.cli("doctor", "--json")}
    assert {f"confinement: {name}" for name in ALL} <= set(rows)


@pytest.mark.req("S-05")
@pytest.mark.skipif(os.getuid() != 0, reason="only root runs a server as root")
def test_root_loads_no_packs_unless_a_setting_allows_it(tmp_path: Path) -> None:
    """The server serves everything else, nodes of its own too, and says why in what an operator looks at."""
    with serving(tmp_path / "data", env={**ENV, "FAIRLEAD_ENGINE_ALLOW_ROOT": "false"}) as running:
        state = running.client.get("/readyz").json()
        assert state["status"] == "ready"
        assert "FAIRLEAD_ENGINE_ALLOW_ROOT=true" in state["engine_confinement"]["node_packs_refused"]
        assert len(running.logged_events("NodePacksRefused")) == running.size
        client = WorkflowClient(running, running.key, "default")
        refused = client.post(graph_showing("Slowly", value=1))
        assert refused.status_code == 400
        assert client.run(graph_showing("PrimitiveInt", value=3))["outputs"]["2"]["text"] == ["3"]
        client.http.close()


@pytest.mark.req("S-05")
def test_packs_are_refused_where_a_required_mechanism_is_missing(tmp_path: Path) -> None:
    """Without libseccomp the message says what to install; where nothing is required, packs are loaded."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "seccomp.py").write_text("raise ImportError('libseccomp.so.2: cannot open shared object file')\n")
    env = {**ENV, "PYTHONPATH": str(library)}
    with serving(tmp_path / "data", env=env) as running:
        state = running.client.get("/readyz").json()["engine_confinement"]
        assert state["mechanisms"]["seccomp"] is False
        assert "seccomp" in state["node_packs_refused"]
        warned = [
            line["level"] for line in running.logged_events("ConfinementMissing") if line["mechanism"] == "seccomp"
        ]
        assert warned == ["warning"] * running.size
    with serving(tmp_path / "lax", env={**env, "FAIRLEAD_ENGINE_CONFINEMENT": "available"}) as running:
        client = WorkflowClient(running, running.key, "default")
        assert client.run(graph_showing("Slowly", value=1))["status"] == "completed"
        assert "node_packs_refused" not in running.client.get("/readyz").json()["engine_confinement"]
        client.http.close()


@pytest.mark.req("S-05")
def test_server_does_not_start_where_packs_could_read_its_data(tmp_path: Path) -> None:
    """One line says what lies below what; without packs it starts."""
    packs = tmp_path / "packs"
    shutil.copytree(PACKS, packs)
    with (
        pytest.raises(ServerFailedError) as failed,
        serving(packs / "data", env={**ENV, "FAIRLEAD_NODE_PACKS": str(packs)}),
    ):
        pass
    (line,) = [line for line in str(failed.value).splitlines() if "lies below" in line]
    assert f"{packs / 'data'} lies below {packs}, which confined processes can read; move it somewhere else" in line


def test_doctor_names_what_would_keep_packs_from_being_loaded(tmp_path: Path) -> None:
    """Each mechanism has a line, and so has the refusal."""
    env = environment({**ENV, "FAIRLEAD_ENGINE_ALLOW_ROOT": "false"})
    words = [*COMMAND, "doctor", "--data", str(tmp_path / "data"), "--json"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    assert {rows[f"confinement: {name}"]["result"] for name in ALL} == {"ok"}
    assert ("node packs" in rows) == (os.getuid() == 0)
