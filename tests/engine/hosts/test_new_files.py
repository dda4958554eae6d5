"""How the new files of a job reach the server: small ones in a message, large ones in the scratch folder."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from fairlead.engine.hosts.server import FilesClient, JobConnection, Scratch
from fairlead.engine.hosts.service import JobQuestions

_SMALL = b"a small picture"
_LARGE = bytes(300_000)


class Kept(NamedTuple):
    """A new file as the server was given it."""

    path: str
    content: bytes | None
    filename: str
    kind: str


class Server:
    """Answers every question at once, and remembers what it was given to keep."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.kept: list[Kept] = []

    def call(self, question: Callable[..., Any], *given: Any, exact: bool = False) -> "Future[Any]":
        """Answer."""
        answer = Future[Any]()
        if question is JobQuestions.name_file:
            assert not exact
            answer.set_result(f"{given[0]}_00001_.{given[1]}")
        else:
            made, filename, kind = given
            is_sent = question is JobQuestions.keep_bytes
            assert is_sent or question is JobQuestions.keep_file
            self.kept.append(Kept("" if is_sent else str(made), made if is_sent else None, filename, kind))
            answer.set_result(None)
        return answer


@pytest.fixture
def server() -> Server:
    """Return a server without a socket."""
    return Server()


@pytest.fixture
def files(server: Server, tmp_path: Path) -> FilesClient:
    """Return the files of a job of that server."""
    return FilesClient(cast("JobConnection", server), Scratch(tmp_path))


def test_small_file_is_sent_and_never_written(files: FilesClient, server: Server, tmp_path: Path) -> None:
    """A file that is handed over as bytes costs no file of the host's."""
    path, saved = files.new_file("p", "png", "output", {})
    files.write(path, _SMALL)
    assert list(tmp_path.iterdir()) == []
    files.keep(path)
    (kept,) = server.kept
    assert (kept.content, kept.path, kept.filename, kept.kind) == (_SMALL, "", saved.filename, "output")


def test_large_file_is_written_and_named_by_its_path(files: FilesClient, server: Server) -> None:
    """A large file does not pass through the socket."""
    path, _ = files.new_file("p", "png", "temp", {})
    files.write(path, _LARGE)
    files.keep(path)
    (kept,) = server.kept
    assert (kept.content, kept.path) == (None, str(path))
    assert path.read_bytes() == _LARGE


def test_job_holds_a_bounded_number_of_bytes(files: FilesClient, server: Server) -> None:
    """Of many small files the later ones are written, until those before are kept or discarded."""
    paths = [files.new_file("p", "png", "output", {})[0] for _ in range(100)]
    for path in paths:
        files.write(path, _LARGE[:250_000])
    assert [path.exists() for path in paths] == [False] * 68 + [True] * 32
    for path in paths[:68]:
        files.discard(path)
    for path in paths[68:]:
        files.keep(path)
    assert all(kept.content is None for kept in server.kept)
    path, _ = files.new_file("p", "png", "output", {})
    files.write(path, _SMALL)
    assert not path.exists()


def test_discarded_file_is_not_kept(files: FilesClient, server: Server, tmp_path: Path) -> None:
    """Nothing is left of a file whose node has failed, however it was made."""
    for content in (_SMALL, _LARGE):
        path, _ = files.new_file("p", "png", "output", {})
        files.write(path, content)
        files.discard(path)
    assert (server.kept, list(tmp_path.iterdir())) == ([], [])
