"""What a host asks is checked against the signature of its method, before anything is done for it."""

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from engine.hosts.engines import FolderCallbacks
from fairlead.engine.hosts.callbacks import CHECK_QUESTIONS, JOB_QUESTIONS
from fairlead.engine.hosts.frames import BadFrameError, FrameReader, framed, read_from_host
from fairlead.engine.hosts.host_call import HostCall
from fairlead.engine.hosts.notes import HostNote
from fairlead.engine.hosts.protocol import Answer, Checked, Declined, Ended, Question
from fairlead.engine.hosts.rpc import BadArgumentsError

_LONG: Final = "a" * 8_193


async def _asked(folder: Path, method: str, arguments: Any, expected: type = Ended) -> Any:
    """Ask as a host does, and return what it is answered."""
    reply = asyncio.get_running_loop().create_future()
    notes: list[HostNote] = []
    call = HostCall((expected,), FolderCallbacks(folder), folder, notes.append)
    [content] = FrameReader(2**20).feed(bytes(framed(Question(7, "j", method, arguments))))
    call.hear(read_from_host(content), reply.set_result)
    return await reply


def test_only_declared_methods_can_be_called() -> None:
    """Neither what takes events nor anything else of an implementation can be called by a host."""
    assert set(CHECK_QUESTIONS) == {"find_file", "list_files"}
    assert set(JOB_QUESTIONS) - set(CHECK_QUESTIONS) == {"name_file", "keep_file", "keep_bytes", "run_model"}


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
    assert isinstance(declined := asyncio.run(_asked(tmp_path, method, arguments)), Declined)
    assert (declined.question, declined.exception_type) == (7, "ValueError")
    with pytest.raises(BadArgumentsError):
        asyncio.run(JOB_QUESTIONS[method].call(None, msgspec.Raw(msgspec.msgpack.encode(arguments)), Path))


@pytest.mark.parametrize("where", ["../secret", "folder/file", "link", "folder", "missing", "\0"])
def test_only_files_right_in_the_folder_of_the_host_are_kept(tmp_path: Path, where: str) -> None:
    """A path of another folder, a link, a folder, and what is no path are declined."""
    own = tmp_path / "own"
    (own / "folder").mkdir(parents=True)
    for path in (tmp_path / "secret", own / "folder" / "file"):
        path.write_bytes(b"a")
    (own / "link").symlink_to(tmp_path / "secret")
    declined = asyncio.run(_asked(own, "keep_file", [f"{own}/{where}", "a", "output"]))
    assert isinstance(declined, Declined)
    assert "only a file that was written for the job" in declined.message


def test_answer_is_read_as_its_method_returns_it(tmp_path: Path) -> None:
    """A path travels as a text and is a path again."""
    (tmp_path / "a.png").write_bytes(b"a")
    answer = asyncio.run(_asked(tmp_path, "find_file", ["a.png"]))
    assert answer == Answer(7, tmp_path / "a.png")
    sent = msgspec.msgpack.encode(str(tmp_path / "a.png"))
    assert JOB_QUESTIONS["find_file"].read_result(sent) == tmp_path / "a.png"


@pytest.mark.parametrize("method", ["name_file", "keep_bytes", "run_model", "tell", "_own_file", "__init__"])
def test_check_asks_for_nothing_but_files(tmp_path: Path, method: str) -> None:
    """A host that asks for more while it checks a workflow is ended."""
    with pytest.raises(BadFrameError):
        asyncio.run(_asked(tmp_path, method, [], Checked))


def test_declined_question_keeps_its_kind_and_words(tmp_path: Path) -> None:
    """What an implementation declines is told to the node."""
    declined = asyncio.run(_asked(tmp_path, "find_file", ["missing"]))
    assert declined == Declined(7, "FileNotFoundError", "there is no file missing")
