"""A workflow as a file: the graph in the API format, alone or as it is submitted to a server."""

from collections.abc import Mapping
from typing import Final

import jiter
import msgspec

from fairlead.engine.graph.graph import BadGraphError, Node, read_graph

DOCUMENT_BYTES_MAX: Final = 256 * 2**20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Document(msgspec.Struct, frozen=True):
    """A graph, and what came with it for hidden inputs, by their kinds."""

    graph: Mapping[str, Node]
    hidden: Mapping[str, object] = msgspec.field(default_factory=dict)


def read_document(content: bytes) -> Document:
    """Read a workflow; BadGraphError says what is wrong with one that cannot be read.

    The document is the graph itself, or holds it under `prompt`, with `extra_data` beside it.
    """
    if len(content) > DOCUMENT_BYTES_MAX:
        raise BadGraphError(f"a workflow has at most {DOCUMENT_BYTES_MAX} bytes")
    try:
        document = jiter.from_json(
            content.removeprefix(_BYTE_ORDER_MARK), allow_inf_nan=False, catch_duplicate_keys=True
        )
    except ValueError as error:
        raise BadGraphError(f"the workflow is not JSON: {error}") from None
    match document:
        case {"nodes": list(), "links": list()}:
            raise BadGraphError("this is the editor's own format; save the workflow in the API format instead")
        case {"prompt": dict(graph), **others} if "class_type" not in graph:
            return Document(read_graph(graph), _hidden_inputs(others.get("extra_data")))
        case _:
            return Document(read_graph(document))


def _hidden_inputs(extra: object) -> dict[str, object]:
    known = extra.get("extra_pnginfo") if isinstance(extra, dict) else None
    return {"EXTRA_PNGINFO": known} if isinstance(known, dict) else {}
