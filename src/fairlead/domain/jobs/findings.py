"""Why a workflow was refused, node by node and within bounds (J-08).

What a refusal names is bounded: fifty nodes, ten unknown classes. Further ones are counted.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.jobs.faults import InvalidWorkflow, SubmissionRefused

NODES_MAX: Final = 50
CLASSES_MAX: Final = 10
BROWSER_CLASSES: Final = frozenset({"RecordAudio"})
"""Classes whose nodes wait for a person at a browser."""
_NAME_MAX: Final = 1_000
_nodes: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Node(msgspec.Struct, frozen=True):
    """The part of a node that shows whether it is one."""

    class_type: msgspec.Raw = msgspec.Raw(b"null")
    inputs: msgspec.Raw = msgspec.Raw(b"null")


_node: Final = msgspec.json.Decoder(_Node)


class Finding(msgspec.Struct, frozen=True):
    """What is wrong with a node."""

    node_id: str
    class_type: str | None
    type: str
    message: str


def findings_of(workflow: bytes, known: Container[str]) -> SubmissionRefused | None:
    """What is wrong with the nodes of a refused workflow, each by itself; None where nothing is.

    `known` are the classes of nodes that exist. Malformed nodes come first, then those that wait for a browser, then
    those of unknown classes: one kind is reported at a time.
    """
    try:
        nodes = _nodes.decode(workflow)
    except (msgspec.DecodeError, RecursionError):
        return None
    malformed: list[Finding] = []
    classes: dict[str, str] = {}
    for node_id, raw in nodes.items():
        found = _read(node_id[:_NAME_MAX], raw)
        if isinstance(found, Finding):
            malformed.append(found)
        else:
            classes[node_id] = found
    if malformed:
        message = "The workflow has nodes that are none."
        return SubmissionRefused("invalid_workflow", message, _details(malformed, "malformed_node_count"))
    return _waiting(classes) or _unknown(classes, known)


def refusal_of_engine(fault: InvalidWorkflow) -> SubmissionRefused:
    """The engine's own refusal; its code says so where only files are missing."""
    errors = list(_engine_errors(fault.node_errors))
    message = str(fault.error.get("message", "The workflow cannot be executed."))
    shown = {node_id: told for node_id, told, _ in errors[:NODES_MAX]}
    details: dict[str, object] = {"node_errors": shown} if shown else {}
    if len(errors) > NODES_MAX:
        details["node_errors_truncated"] = True
    values = [value for _, _, given in errors for value in given]
    if values and all(isinstance(value, str) and value in fault.missing for value in values):
        return SubmissionRefused("missing_asset", "The workflow names files that there are not.", details)
    if not shown and (words := fault.error.get("details")):
        message = f"{message}: {words}"
    return SubmissionRefused("invalid_workflow", message, details)


def _engine_errors(node_errors: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, object], Sequence[object]]]:
    """Each node with what is wrong with it, and the values that its own check has refused (None for another fault)."""
    for node_id, told in node_errors.items():
        errors = [
            {"type": error["type"], "message": error["message"], "details": error.get("details", "")}
            for error in told["errors"]
        ]
        given = [
            error["extra_info"].get("received_value") if error["type"] == "custom_validation_failed" else None
            for error in told["errors"]
        ]
        yield node_id, {"class_type": told["class_type"], "errors": errors}, given


def _read(node_id: str, raw: msgspec.Raw) -> Finding | str:
    """The class of a node, or why it has none."""
    if not bytes(raw).startswith(b"{"):
        return Finding(node_id, None, "invalid_node", "A node must be an object.")
    try:
        node = _node.decode(raw)
        class_type = msgspec.json.decode(node.class_type, type=str | None)
    except (msgspec.DecodeError, RecursionError):
        class_type = None
    if class_type is None or not 1 <= len(class_type) <= _NAME_MAX:
        return Finding(node_id, None, "invalid_class_type", "A node must name its class as class_type.")
    if not bytes(node.inputs).startswith(b"{"):
        return Finding(node_id, class_type, "invalid_inputs", "The inputs of a node must be an object.")
    return class_type


def _waiting(classes: Mapping[str, str]) -> SubmissionRefused | None:
    waiting = [
        Finding(node_id, name, "waits_for_browser", "A node of this class waits for somebody in front of a browser.")
        for node_id, name in classes.items()
        if name in BROWSER_CLASSES
    ]
    if not waiting:
        return None
    details = _details(waiting, "browser_wait_node_count")
    details["browser_wait_node_classes"] = sorted({name for name in classes.values() if name in BROWSER_CLASSES})
    return SubmissionRefused("invalid_workflow", "The workflow has nodes that wait for a browser.", details)


def _unknown(classes: Mapping[str, str], known: Container[str]) -> SubmissionRefused | None:
    """Nodes of the first ten unknown classes; those of further ones are neither named nor counted."""
    listed = _first(CLASSES_MAX, (name for name in classes.values() if name not in known))
    unknown = [
        Finding(node_id, name, "unknown_node_class", f"There is no class of nodes {name[:100]!r} here.")
        for node_id, name in classes.items()
        if name in listed
    ]
    if not unknown:
        return None
    details = _details(unknown, "unknown_node_count")
    details["unknown_node_classes"] = listed
    return SubmissionRefused("invalid_workflow", "The workflow has nodes of unknown classes.", details)


def _first(most: int, names: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        if len(found) == most and name not in found:
            break
        found[name] = None
    return list(found)


def _details(findings: Sequence[Finding], count: str) -> dict[str, object]:
    details: dict[str, object] = {
        "node_errors": {
            finding.node_id: {
                "class_type": finding.class_type,
                "errors": [{"type": finding.type, "message": finding.message}],
            }
            for finding in findings[:NODES_MAX]
        }
    }
    if len(findings) > NODES_MAX:
        details |= {"node_errors_truncated": True, count: len(findings)}
    return details
