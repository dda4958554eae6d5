"""A run of the tests that is ended by a signal leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from servers import is_alive, wait_until

_TESTS = Path(__file__).parent
_SECONDS = 50


@pytest.mark.parametrize(
    ("ended_by", "workers"),
    [
        pytest.param(signal.SIGTERM, "0", id="SIGTERM"),
        pytest.param(signal.SIGHUP, "0", id="SIGHUP"),
        pytest.param(signal.SIGINT, "1", id="SIGINT with a worker"),
        pytest.param(signal.SIGKILL, "1", id="SIGKILL with a worker"),
    ],
)
@pytest.mark.timeout(3 * _SECONDS)
def test_run_ended_by_a_signal_leaves_no_process_and_no_database(
    tmp_path: Path, ended_by: signal.Signals, workers: str
) -> None:
    """Servers, PostgreSQL with its own processes, and a process that ignores signals end, and the folder is removed."""
    told, log = tmp_path / "held", tmp_path / "log"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "held_servers.py"]
    environment = {**os.environ, "HELD_SERVERS": str(told), "COVERAGE": ""}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background jobs ignore it
    with log.open("wb") as output:
        tests = subprocess.Popen(command, cwd=_TESTS, stdout=output, stderr=output, env=environment)
    signal.signal(signal.SIGINT, before)
    try:
        wait_until(lambda: told.exists() or tests.poll() is not None, "the servers", _SECONDS)
        assert told.exists(), log.read_text("utf-8")
        folder, *numbers = told.read_text("utf-8").splitlines()
        assert all(is_alive(int(number)) for number in numbers)
        tests.send_signal(ended_by)
        wait_until(lambda: not any(is_alive(int(number)) for number in numbers), "the end of all", _SECONDS)
        wait_until(lambda: not Path(folder).exists(), "the end of the databases", _SECONDS)
    finally:
        tests.kill()
        tests.wait()
