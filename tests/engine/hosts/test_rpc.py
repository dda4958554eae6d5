"""What a host asks is checked against the signature of its method, before anything is done for it."""

import asyncio
import socket
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from engine.hosts.engines import FolderCallbacks
from fairlead.engine.hosts.connection import HostConnection
from fairlead.engine.hosts.service import FRAME_BYTES_MAX, HOST_SERVICE, JOB_CALLS, HostService
from fairlead.processes.rpc import Answer, BadArgumentsError, Call, Declined, FrameReader, encode_frame, read_record

_LONG: Final = "a" * 8_193


class _Silent:
    """A process that tells nothing of itself."""

    def loading(self, pack: str) -> None:
        """Never called."""
        raise AssertionError(pack)

    def child_ended(self, pid: int, status: int) -> None:
        """Never called."""
        raise AssertionError(pid, status)


async def _ask(folder: Path, method: str, arguments: Any, *, checks: bool = False) -> Any:
    """Ask as a host does while it executes or `checks`; return what it is answered, or why it is ended."""
    ended, notes = asyncio.get_running_loop().create_future(), list[object]()
    connection = HostConnection(folder, notes.append, _Silent(), ended.set_result)
    ours, theirs = socket.socketpair()
    theirs.settimeout(0)
    callbacks = FolderCallbacks(folder)
    await connection.connect(ours)
    if checks:
        connection.call(HostService.check, b"", None, callbacks)
    else:
        connection.call(HostService.execute, b"", [], b"", callbacks)
    loop, reader = asyncio.get_running_loop(), FrameReader(FRAME_BYTES_MAX)

    async def answer_host() -> object:
        heard: list[bytes] = []
        while len(heard) < 2:  # the first is the call itself
            heard += reader.feed(await loop.sock_recv(theirs, 2**16))
        return read_record(heard[1])

    await loop.sock_sendall(theirs, encode_frame(Call(7, 1, method, arguments), FRAME_BYTES_MAX))
    answering = asyncio.ensure_future(answer_host())
    await asyncio.wait([answering, ended], return_when=asyncio.FIRST_COMPLETED)
    result = ended.result() if ended.done() else answering.result()
    answering.cancel()
    connection.abort()
    await connection.closed
    theirs.close()
    return result


def test_only_declared_methods_can_be_called() -> None:
    """Nothing else of an implementation can be called by a host; a check only reads files."""
    assert set(HOST_SERVICE["check"].callbacks or ()) == {"find_file", "list_files"}
    questions = {name for name, method in (HOST_SERVICE["execute"].callbacks or {}).items() if method.is_answered}
    assert questions - {"find_file", "list_files"} == {"name_file", "keep_file", "keep_bytes", "run_model"}
    assert set(HOST_SERVICE["execute"].callbacks or ()) - questions == {"tell", "show"}
    assert [name for name, method in HOST_SERVICE.items() if method.callbacks] == ["check", "execute"]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("find_file", [_LONG]),
        ("find_file", [1]),
        ("find_file", []),
        ("find_file", ["a", "b"]),
        ("find_file", {"name": "a"}),
        ("list_files", [_LONG]),
        ("name_file", ["a", "png", "input", False]),
        ("name_file", [_LONG, "png", "output", False]),
        ("name_file", ["a", _LONG, "output", False]),
        ("name_file", ["a", "png", "output", 1]),
        ("keep_bytes", [b"a", _LONG, "output"]),
        ("keep_bytes", [b"a", "a", "input"]),
        ("keep_bytes", ["a", "a", "output"]),
        ("keep_file", [b"a", "a", "output"]),
        ("run_model", [_LONG, 0, "m", b""]),
        ("run_model", ["1", 0, _LONG, b""]),
        ("run_model", ["1", "0", "m", b""]),
    ],
)
def test_arguments_that_a_method_does_not_take_are_declined(tmp_path: Path, method: str, arguments: list[Any]) -> None:
    """They reach no implementation."""
    assert isinstance(declined := asyncio.run(_ask(tmp_path, method, arguments)), Declined)
    assert (declined.number, declined.exception_type) == (7, "ValueError")
    with pytest.raises(BadArgumentsError):
        JOB_CALLS[method].call(None, msgspec.Raw(msgspec.msgpack.encode(arguments)))


@pytest.mark.parametrize("where", ["../secret", "folder/file", "link", "folder", "missing", "\0"])
def test_only_files_right_in_the_folder_of_the_host_are_kept(tmp_path: Path, where: str) -> None:
    """A path of another folder, a link, a folder, and what is not a path are declined."""
    own = tmp_path / "own"
    (own / "folder").mkdir(parents=True)
    for path in (tmp_path / "secret", own / "folder" / "file"):
        path.write_bytes(b"a")
    (own / "link").symlink_to(tmp_path / "secret")
    declined = asyncio.run(_ask(own, "keep_file", [f"{own}/{where}", "a", "output"]))
    assert isinstance(declined, Declined)
    assert "only a file that was written for the job" in declined.message


def test_answer_is_read_as_its_method_returns_it(tmp_path: Path) -> None:
    """A path travels as a text and is a path again."""
    (tmp_path / "a.png").write_bytes(b"a")
    answer = asyncio.run(_ask(tmp_path, "find_file", ["a.png"]))
    assert isinstance(answer, Answer)
    assert (answer.number, msgspec.msgpack.decode(answer.value)) == (7, str(tmp_path / "a.png"))
    sent = msgspec.msgpack.encode(str(tmp_path / "a.png"))
    assert JOB_CALLS["find_file"].read_result(sent) == tmp_path / "a.png"


@pytest.mark.parametrize("method", ["name_file", "keep_bytes", "run_model", "tell", "_own_file", "__init__"])
def test_check_asks_for_nothing_but_files(tmp_path: Path, method: str) -> None:
    """A host that asks for more while it checks a workflow is ended."""
    assert "may not" in asyncio.run(_ask(tmp_path, method, [], checks=True))


@pytest.mark.parametrize("method", ["tell", "show", "catch_up", "_own_file", "__init__"])
def test_job_asks_for_nothing_but_what_is_declared(tmp_path: Path, method: str) -> None:
    """A host that calls anything else while it executes a job, or wants an answer to a notice, is ended."""
    assert "may not" in asyncio.run(_ask(tmp_path, method, []))


def test_declined_question_keeps_its_kind_and_words(tmp_path: Path) -> None:
    """What an implementation declines is told to the node."""
    declined = asyncio.run(_ask(tmp_path, "find_file", ["missing"]))
    assert declined == Declined(7, "FileNotFoundError", "there is no file missing")
