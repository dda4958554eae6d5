"""What code of nodes finds around it, in a host and without one; and by which names its errors are told."""

import asyncio
import errno
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
import pytest

from engine.executions import n
from fairlead.domain.jobs.events import Failed, Place, Succeeded
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.failures import failure
from fairlead.engine.graph.faults import no_outputs
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.nodes.context import Context, NamedFaultError, NoSuchFileError
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node import Result, integer, node
from fairlead.engine.nodes.node_context import current_context, looking_context
from fairlead.engine.nodes.registry import Registry


class _Seen:
    """Nodes that note the context they find, and what they are given."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Any]] = []
        self.given: list[Any] = []

    def note(self, where: str) -> bool:
        """Note what is found."""
        self.found.append((where, current_context()))
        return True

    def registry(self) -> Registry:
        """Return an ordinary node and a concurrent one."""

        def check(value: int) -> bool:
            del value
            return self.note("check")

        def fingerprint(value: int) -> int:
            self.note("fingerprint")
            return value

        @node("Plain", "Plain", "", is_output=True, validate=check, fingerprint=fingerprint)
        def plain(value: Annotated[int, integer()], context: Context) -> Result:
            self.note("plain")
            self.given.append(context)
            return Result(ui={"values": [value]})

        @node("Concurrent", "Concurrent", "", is_output=True)
        async def concurrent(value: Annotated[int, integer()], context: Context) -> Result:
            await asyncio.sleep(0)
            self.note("concurrent")
            self.given.append(context)
            return Result(ui={"values": [value]})

        @node("Model", "Model", "", is_output=True)
        async def model(value: Annotated[int, integer()], context: Context) -> Result:
            await context.run_model("a/model", b"{}")
            return Result(ui={"values": [value]})

        return Registry([plain, concurrent, model])


async def _execute(registry: Registry, graph: dict[str, Any], folder: Path) -> Outcome:
    files = Folders(folder, folder, folder)
    validated = await validate(read_graph(graph), registry, None, looking_context(files))
    executor = Executor(registry, ResultCache(1 << 20))
    try:
        return await executor.run(Work(validated.graph, validated.outputs, files), lambda _: None)
    finally:
        executor.close()


def test_code_of_a_node_finds_its_context(tmp_path: Path) -> None:
    """Ordinary, concurrent, checking and fingerprinting code finds it, and none is left behind."""
    seen = _Seen()
    graph = {"1": n("Plain", value=1), "2": n("Concurrent", value=2)}
    outcome = asyncio.run(_execute(seen.registry(), graph, tmp_path))
    assert outcome.ending == Succeeded()
    found = dict(seen.found)
    assert set(found) == {"check", "fingerprint", "plain", "concurrent"}
    assert all(context is not None for context in found.values())
    assert {id(found["plain"]), id(found["concurrent"])} == {id(context) for context in seen.given}
    assert current_context() is None


@pytest.mark.req("C-11")
def test_model_needs_a_server(tmp_path: Path) -> None:
    """There is nobody to pay: the node's error says so."""
    ending = asyncio.run(_execute(_Seen().registry(), {"1": n("Model", value=1)}, tmp_path)).ending
    assert isinstance(ending, Failed)
    assert "server" in ending.failure.message


def test_preview_must_be_a_bounded_picture(tmp_path: Path) -> None:
    """Only pictures that editors know, and no endless ones."""
    context = looking_context(Folders(tmp_path, tmp_path, tmp_path))
    with pytest.raises(ValueError, match="image/jpeg"):
        context.preview("image/svg+xml", b"")
    with pytest.raises(ValueError, match="bytes"):
        context.preview("image/png", bytes(2**24 + 1))


def _of_numpy() -> BaseException:
    with pytest.raises(MemoryError) as caught:
        np.empty(2**55, np.float64)
    return caught.value


def _of_opencv() -> BaseException:
    error = cv2.error("Insufficient memory")
    error.code = -4
    return error


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("error", "exception_type"),
    [
        (MemoryError(), "OOMError"),
        (_of_numpy(), "OOMError"),
        (_of_opencv(), "OOMError"),
        (cv2.error("something else"), "cv2.error"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "OOMError"),
        (OSError(errno.ENOSPC, "No space left on device"), "OSError"),
        (NamedFaultError("ImageDownloadError", "no"), "ImageDownloadError"),
        (NoSuchFileError("no"), "ValidationError"),
        (InvalidGraphError(no_outputs()), "ValidationError"),
        (ValueError("no"), "ValueError"),
    ],
)
def test_error_is_told_by_its_documented_name(error: BaseException, exception_type: str) -> None:
    """Those of C-12 by theirs, others by the names of their classes."""
    assert failure(Place("1", "1"), "A", error, {}, []).exception_type == exception_type


def test_error_with_unencodable_values_is_put_in_words() -> None:
    """Halves of characters, numbers that are none, and endless ones are put in words."""
    record = failure(
        Place("1", "1"), "A", ValueError("half \ud800"), {"a": float("nan"), "b": 2**60, "c": "\udfff"}, []
    )
    assert record.message == "half ?"
    assert record.current_inputs == {"a": ["nan"], "b": [str(2**60)], "c": ["?"]}
