"""References to assets in a workflow: found, and replaced by the names of files (J-14).

A reference is `{"__type": "core/ASSET", "info": {"id": …, "hash": …, "file_path": …}}` as a value of an input, or in a
list of such values. Everything else of a workflow stays as it was sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.assets.records import is_asset_id, read_hash
from fairlead.domain.jobs.faults import SubmissionRefused
from fairlead.domain.jobs.findings import NODES_MAX

ASSET_TYPE: Final = "core/ASSET"
REFERENCES_MAX: Final = 1_000
_MARK: Final = b"__type"
_SEARCHED_AT_ONCE: Final = 64 * 1024
_DEPTH_MAX: Final = 4
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list: Final = msgspec.json.Decoder(list[msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode


class AssetReference(msgspec.Struct, frozen=True):
    """An asset that a node names: by its id, and by its hash where it has one. `id` is None where it has none."""

    node_id: str
    class_type: str | None
    id: str | None
    hash: str | None = None


class _Info(msgspec.Struct):
    id: str
    hash: str | None = None
    file_path: str | None = None


class _Reference(msgspec.Struct):
    info: _Info


class _Typed(msgspec.Struct):
    type: msgspec.Raw = msgspec.field(name="__type", default=msgspec.Raw(b"null"))


class _Node(msgspec.Struct):
    class_type: str


_typed: Final = msgspec.json.Decoder(_Typed)
_reference: Final = msgspec.json.Decoder(_Reference)
_node: Final = msgspec.json.Decoder(_Node)
_Replace = Callable[[AssetReference], bytes]


def references_in(workflow: bytes) -> Sequence[AssetReference]:
    """The references of a workflow, at most one more than REFERENCES_MAX; none in what is not a workflow."""
    found: list[AssetReference] = []

    def note(reference: AssetReference) -> bytes:
        if len(found) <= REFERENCES_MAX:
            found.append(reference)
        return b"null"

    _rewritten(workflow, note)
    return found


def with_names(workflow: bytes, names: Mapping[str, str]) -> bytes:
    """The workflow with names of files in place of references, by the ids of their assets, which are all known."""
    return _rewritten(workflow, lambda reference: _encode(names[reference.id or ""]))


def refusal_of_assets(missing: Sequence[AssetReference]) -> SubmissionRefused:
    """The refusal of a workflow that names missing assets; it lists up to fifty of its nodes."""
    nodes: dict[str, dict[str, object]] = {}
    found: dict[str, list[dict[str, str]]] = {}
    for reference in missing:
        shown = (reference.id or "an asset without an id")[:100]
        error = {"type": "missing_asset", "message": f"There is no such asset: {shown}.", "details": ""}
        errors = found.setdefault(reference.node_id, [])
        if not errors:
            nodes[reference.node_id] = {"class_type": reference.class_type, "errors": errors}
        errors.append(error)
    details: dict[str, object] = {"node_errors": dict(list(nodes.items())[:NODES_MAX])}
    if len(nodes) > NODES_MAX:
        details["node_errors_truncated"] = True
    return SubmissionRefused("missing_asset", "The workflow names assets that there are not.", details)


def _is_marked(workflow: bytes) -> bool:
    """Whether a document has the mark. A search holds the interpreter lock, in 16 MiB for up to 100 ms."""
    starts = range(0, len(workflow), _SEARCHED_AT_ONCE)
    return any(workflow.find(_MARK, at, at + _SEARCHED_AT_ONCE + len(_MARK) - 1) >= 0 for at in starts)


def _rewritten(workflow: bytes, replace: _Replace) -> bytes:
    if not _is_marked(workflow):
        return workflow
    try:
        return _encode({node_id: _rewritten_node(node_id, raw, replace) for node_id, raw in _nodes(workflow)})
    except (msgspec.DecodeError, RecursionError):
        return workflow  # which its reader refuses


def _nodes(workflow: bytes) -> Iterator[tuple[str, msgspec.Raw]]:
    yield from _object.decode(workflow).items()


def _rewritten_node(node_id: str, raw: msgspec.Raw, replace: _Replace) -> msgspec.Raw:
    if _MARK not in bytes(raw) or not bytes(raw).startswith(b"{"):
        return raw
    members = _object.decode(raw)
    inputs = members.get("inputs")
    if inputs is None or not bytes(inputs).startswith(b"{"):
        return raw
    try:
        class_type = _node.decode(raw).class_type
    except msgspec.ValidationError:
        return raw  # it is not a node
    given = _object.decode(inputs).items()
    made = {name: _rewritten_value(value, node_id, class_type, replace, _DEPTH_MAX) for name, value in given}
    members["inputs"] = msgspec.Raw(_encode(made))
    return msgspec.Raw(_encode(members))


def _rewritten_value(raw: msgspec.Raw, node_id: str, class_type: str, replace: _Replace, depth: int) -> msgspec.Raw:
    """A value with every reference in it replaced. What is nested more deeply than a reference can be stays."""
    value = bytes(raw)
    if _MARK not in value or depth == 0:
        return raw
    if value.startswith(b"["):
        items = [_rewritten_value(item, node_id, class_type, replace, depth - 1) for item in _list.decode(value)]
        return msgspec.Raw(_encode(items))
    if value.startswith(b"{") and _is_reference(value):
        return msgspec.Raw(replace(_read(value, node_id, class_type)))
    return raw


def _is_reference(value: bytes) -> bool:
    return bytes(_typed.decode(value).type) == _encode(ASSET_TYPE)


def _read(value: bytes, node_id: str, class_type: str) -> AssetReference:
    try:
        info = _reference.decode(value).info
    except msgspec.ValidationError:
        return AssetReference(node_id, class_type, None)
    digest = None if info.hash is None else read_hash(info.hash)
    can_be_one = is_asset_id(info.id) and (info.hash is None or digest is not None)
    return AssetReference(node_id, class_type, info.id if can_be_one else None, digest)
