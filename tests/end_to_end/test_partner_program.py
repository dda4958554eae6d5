"""The built-in partner's program: started by its first call, started again after a crash, gone with its server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from servers import Server, serving, wait_until

pytestmark = pytest.mark.single_server("it looks at the child processes of one server")

MODEL = "/v2/models/local/procedural-text-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of its own, with the built-in partner available."""
    with serving(tmp_path / "data") as started:
        yield started


def _run(server: Server) -> httpx.Response:
    return httpx.post(server.url + MODEL, json={"prompt": "x"}, headers={"X-API-Key": server.key}, timeout=30)


def _partners(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


def test_server_that_runs_no_local_model_starts_no_program(server: Server) -> None:
    """No program runs until a local model is called; then one does, for all that follow."""
    assert _partners(server) == []
    assert _run(server).status_code == 200
    (first,) = _partners(server)
    assert _run(server).status_code == 200
    assert [process.pid for process in _partners(server)] == [first.pid]


def test_program_is_started_again_after_a_crash(server: Server) -> None:
    """A call after a crash waits for the program to start again, and is answered."""
    assert _run(server).status_code == 200
    (first,) = _partners(server)
    first.kill()
    wait_until(lambda: server.logged_events("PartnerStopped"), "the crash to be noticed")
    assert _run(server).status_code == 200
    (second,) = _partners(server)
    assert second.pid != first.pid


def test_program_ends_with_its_server(server: Server) -> None:
    """A server that stops takes the program with it."""
    assert _run(server).status_code == 200
    (program,) = _partners(server)
    server.stop()
    wait_until(lambda: not program.is_running(), "the program to end")
