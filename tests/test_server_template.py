"""Servers that are forked from a process with their modules loaded (server_template.py)."""

import signal
import subprocess
from pathlib import Path

import pytest

from server_template import ForkedServer, fork_server, is_forkable
from servers import environment


def _fork(*words: str) -> ForkedServer:
    with Path("/dev/null").open("wb") as nowhere:
        return fork_server(words, environment(), nowhere.fileno())


def test_forked_command_has_its_own_words_output_and_status() -> None:
    """What ends well says 0, and what fails says what the command says."""
    for word, said, status in (("--version", b"fairlead, version ", 0), ("no-such-command", b"", 2)):
        command = _fork(word)
        assert command.stdout is not None
        with command.stdout:
            assert command.stdout.read().startswith(said)
        assert command.wait(20) == status


def test_forked_server_follows_its_environment(tmp_path: Path) -> None:
    """Settings are those of the caller of this server, not those that the template was started with."""
    words = ("serve", "--data", str(tmp_path / "data"), "--json")
    with (tmp_path / "log").open("wb") as log:
        refused = fork_server(words, environment({"FAIRLEAD_PORT": "none"}), log.fileno())
    assert refused.stdout is not None
    with refused.stdout:
        assert refused.wait(20) == 1
    assert "FAIRLEAD_PORT" in (tmp_path / "log").read_text("utf-8")


def test_signal_that_ended_a_forked_server_is_told(tmp_path: Path) -> None:
    """It runs until then, is a process of its own, and its status says which signal it was."""
    server = _fork("serve", "--data", str(tmp_path / "data"), "--port", "0", "--json", "--no-local-partner")
    assert server.stdout is not None
    with server.stdout:
        assert b'"url"' in server.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0)
        server.kill()
        assert (server.wait(20), server.poll(), server.returncode) == ((-signal.SIGKILL,) * 3)
    server.terminate()  # of what has ended nothing is asked


def test_server_of_another_python_environment_is_no_fork() -> None:
    """What Python and libraries read while they are loaded cannot be given to a fork."""
    assert is_forkable(environment({"FAIRLEAD_PORT": "1"}))
    assert not is_forkable(environment({"PYTHONDEVMODE": "1"}))
