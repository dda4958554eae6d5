"""The API format is read strictly, and written as it was."""

from typing import Any

import pytest

from engine.executions import chain, n
from fairlead.engine.graph import graph as graph_module
from fairlead.engine.graph.documents import read_document
from fairlead.engine.graph.graph import BadGraphError, BadLink, Link, read_graph, write_graph


def test_link_is_a_list_of_an_id_and_a_slot() -> None:
    """A list of an id and a slot is one; another list is noted as a bad one; a wrapped list is itself."""
    inputs = {"a": ["7", 1], "b": ["7"], "c": [7, 1], "d": {"__value__": ["7", 1]}, "e": {"x": 1}, "f": ["7", True]}
    read = read_graph({"1": {"class_type": "X", "inputs": inputs}})["1"].inputs
    assert read == {
        "a": Link("7", 1),
        "b": BadLink(["7"]),
        "c": BadLink([7, 1]),
        "d": ["7", 1],
        "e": {"x": 1},
        "f": BadLink(["7", True]),
    }


def test_graph_is_written_as_it_was_read() -> None:
    """Links, wrapped lists, wrapped wrappings, titles."""
    inputs: dict[str, Any] = {"a": ["7", 1], "b": {"__value__": [1, 2, 3]}, "c": 5, "d": ["7"]}
    document = {"1": {"inputs": inputs, "class_type": "X", "_meta": {"title": "T"}}, "2": n("Y")}
    assert write_graph(read_graph(document)) == document


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {"1": None},
        {"1": {"class_type": "X"}},
        {"1": {"class_type": "X", "inputs": []}},
        {"1": {"class_type": 5, "inputs": {}}},
        {"1" * 1001: n("X")},
        {"1": n("X" * 1001)},
    ],
)
def test_document_of_another_shape_is_refused(document: Any) -> None:
    """Whatever is not an object of nodes is refused in words."""
    with pytest.raises(BadGraphError):
        read_graph(document)


def test_size_of_a_graph_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and inputs have bounds."""
    monkeypatch.setattr(graph_module, "NODES_MAX", 10)
    with pytest.raises(BadGraphError, match="at most 10 nodes"):
        read_graph(chain(10))
    monkeypatch.setattr(graph_module, "INPUTS_MAX", 3)
    with pytest.raises(BadGraphError, match="at most 3 inputs"):
        read_graph(chain(2))


def test_submitted_body_is_a_workflow_file() -> None:
    """The graph may stand under `prompt`, and what came with it reaches hidden inputs."""
    body = (
        b'\xef\xbb\xbf{"prompt": {"1": {"class_type": "X", "inputs": {}}}, "extra_data": {"extra_pnginfo": {"a": 1}}}'
    )
    document = read_document(body)
    assert (list(document.graph), document.hidden) == (["1"], {"EXTRA_PNGINFO": {"a": 1}})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b'{"1": {}, "1": {}}', "is not JSON"),
        (b'{"1": NaN}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"nodes": [], "links": [], "version": 0.4}', "the editor's own format"),
        (b"[1]", "an object of nodes"),
    ],
)
def test_file_that_is_no_workflow_is_refused(content: bytes, words: str) -> None:
    """It is refused in words that say what it is."""
    with pytest.raises(BadGraphError, match=words):
        read_document(content)
