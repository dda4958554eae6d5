"""A run of the tests that is ended by a signal leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

import server_template
from servers import is_alive, wait_until

_TESTS = Path(__file__).parent
_SECONDS = 150
_TEMPLATE = server_template.__file__


@pytest.mark.parametrize(
    ("ended_by", "workers"),
    [
        pytest.param(signal.SIGTERM, "0", id="SIGTERM"),
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
    # What is started inherits what is ignored: SIGINT in background jobs of shells, SIGHUP beneath nohup.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    with log.open("wb") as output:
        tests = subprocess.Popen(command, cwd=_TESTS, stdout=output, stderr=output, env=environment)
    for number, handler in before.items():
        signal.signal(number, handler)
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


@pytest.mark.parametrize("program", ["attack.py", "catalog_run.py"])
@pytest.mark.timeout(3 * _SECONDS)
def test_attacks_and_runs_of_the_catalog_leave_no_server_when_they_are_ended(tmp_path: Path, program: str) -> None:
    """The signal is meant for the program alone; its servers end with it."""
    arguments = ["--short", "--database", "sqlite"] if program == "attack.py" else []
    command = [sys.executable, program, *arguments]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # its name is short enough for sockets
        with (tmp_path / "log").open("wb") as output:
            environment = {**os.environ, "TMPDIR": folder}
            run = subprocess.Popen(command, cwd=_TESTS, stdout=output, stderr=output, env=environment)
        try:
            wait_until(lambda: _servers_of(run.pid) or run.poll() is not None, "a server", _SECONDS)
            servers = _servers_of(run.pid)
            assert servers, (tmp_path / "log").read_text("utf-8")
            run.terminate()
            wait_until(lambda: not any(is_alive(number) for number in servers), "the end of its servers", _SECONDS)
        finally:
            run.kill()
            run.wait()


def test_benchmarks_leave_no_program_when_they_are_ended(tmp_path: Path) -> None:
    """What a benchmark measures ends with it."""
    told = tmp_path / "held"
    run = subprocess.Popen([sys.executable, "held_bench.py", str(told)], cwd=_TESTS)
    try:
        wait_until(told.exists, "its program", _SECONDS)
        number = int(told.read_text("utf-8"))
        assert is_alive(number)
        run.terminate()
        wait_until(lambda: not is_alive(number), "the end of its program", _SECONDS)
    finally:
        run.kill()
        run.wait()


def _servers_of(parent: int) -> list[int]:
    """The servers that a process has started, which are forks of its template."""
    try:
        templates = [child for child in psutil.Process(parent).children() if _TEMPLATE in child.cmdline()]
        return [server.pid for template in templates for server in template.children()]
    except psutil.NoSuchProcess:
        return []
