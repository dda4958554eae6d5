"""Events of jobs as they go over the socket: messages of JSON, and frames of bytes for previews (C-08, C-09).

A broadcast is encoded once, however many sockets it goes to, down to the frames of the WebSocket protocol: a server
does not mask its frames, so they are the same bytes for every client.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

import msgspec

from fairlead.domain.jobs.events import (
    Cached,
    Counted,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Notice,
    Preview,
    Progress,
    ProgressText,
    QueueChanged,
    ShownValues,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.messaging.event_hub import Broadcast, NodeProgress

_PREVIEW: Final = 1
_TEXT: Final = 3
_PREVIEW_WITH_METADATA: Final = 4
_IMAGE_TYPES: Final = {"image/jpeg": 1, "image/png": 2}
_BLOCKED: Final = "ExecutionBlocked"
_FINAL_TEXT: Final = 0x81
_FINAL_BINARY: Final = 0x82
_LENGTH_IN_ONE_BYTE: Final = 125
_LENGTH_IN_TWO_BYTES: Final = 0xFFFF
_encode: Final = msgspec.json.Encoder().encode
_Shown: TypeAlias = Preview | ProgressText
"""The events that clients get in the form that they can read."""
_Untold: TypeAlias = Finished | Counted
"""Events of which sockets get the progress alone, or which are for those who watch one job."""


class Reading(msgspec.Struct, frozen=True):
    """What a socket's client can read, by its own account: previews with metadata, texts with the id of their job."""

    reads_preview_metadata: bool = False
    reads_text_metadata: bool = False


PLAIN: Final = Reading()


class Payload(NamedTuple):
    """What one frame carries."""

    is_text: bool
    content: bytes


def pack_broadcast(broadcast: Broadcast, reading: Reading) -> bytes:
    """The frames of a broadcast for a client, which may be written to its connection as they are."""
    variant = _variant(broadcast, reading)
    encoded = broadcast.encoded.get(variant)
    if encoded is None:
        encoded = broadcast.encoded[variant] = b"".join(pack_frame(payload) for payload in payloads(broadcast, variant))
    return encoded


def payloads(broadcast: Broadcast, reading: Reading) -> Sequence[Payload]:
    """The messages of a broadcast for a client, in the order in which clients expect them (engine-wire, 2.3)."""
    found: list[Payload] = []
    progress = [] if not broadcast.progress or broadcast.envelope is None else [_progress_state(broadcast)]
    if broadcast.envelope is not None:
        told = _payload(broadcast.envelope, reading)
        is_change = isinstance(broadcast.envelope.event, Executing)
        found = [*progress, *told] if is_change else [*told, *progress]
    return [*found, *(message("executing", {"node": None, "prompt_id": job}) for job in broadcast.ended_jobs)]


def hello(remaining: int, sid: str) -> Payload:
    """The first message of a socket."""
    return message("status", {**_status(remaining), "sid": sid})


def message(kind: str, data: Mapping[str, object]) -> Payload:
    """A message of JSON."""
    return Payload(is_text=True, content=_encode({"type": kind, "data": data}))


def pack_frame(payload: Payload) -> bytes:
    """One frame of the WebSocket protocol as a server sends it (RFC 6455, 5.2)."""
    first = _FINAL_TEXT if payload.is_text else _FINAL_BINARY
    length = len(payload.content)
    if length <= _LENGTH_IN_ONE_BYTE:
        head = struct.pack(">BB", first, length)
    elif length <= _LENGTH_IN_TWO_BYTES:
        head = struct.pack(">BBH", first, 126, length)
    else:
        head = struct.pack(">BBQ", first, 127, length)
    return head + payload.content


def _variant(broadcast: Broadcast, reading: Reading) -> Reading:
    """The abilities of a client that make a difference to an event: most messages are the same bytes for all."""
    is_special = broadcast.envelope is not None and isinstance(broadcast.envelope.event, _Shown)
    return reading if is_special else PLAIN


def _payload(envelope: EventEnvelope, reading: Reading) -> Sequence[Payload]:
    event = envelope.event
    if isinstance(event, Preview):
        if event.image_type not in _IMAGE_TYPES:
            return []  # the text of a node may be anything
        return [_preview(envelope.public_id, event, reading)]
    if isinstance(event, ProgressText):
        return [_text(envelope.public_id, event, reading)]
    if isinstance(event, _Untold):
        return []
    kind, data = message_of(envelope)
    return [message(kind, data)]


def message_of(envelope: EventEnvelope) -> tuple[str, Mapping[str, object]]:  # noqa: C901, PLR0911 -- one case a kind
    """The type and the data of the message for an event; the history repeats some of them."""
    job, at = {"prompt_id": envelope.public_id}, {"timestamp": envelope.at}
    match envelope.event:
        case Executing(place):
            return "executing", {"node": place.node, "display_node": place.display, **job}
        case QueueChanged(remaining):
            return "status", _status(remaining)
        case Notice(text):
            return "notification", {"value": text, **job}
        case Started():
            return "execution_start", {**job, **at}
        case Cached(nodes):
            return "execution_cached", {"nodes": nodes, **job, **at}
        case Progress(place, value, most):
            return "progress", {"value": _number(value), "max": _number(most), **job, "node": place.node}
        case Executed() as executed:
            return "executed", {**_output_of(executed), **job}
        case Stopped() | Failed() as failed:
            return "execution_error", {**job, **_failure(failed), **at}
        case Succeeded():
            return "execution_success", {**job, **at}
        case Interrupted(interrupted_place, node_type, executed):
            node = None if interrupted_place is None else interrupted_place.real_node
            return "execution_interrupted", {
                **job,
                "node_id": node,
                "node_type": node_type,
                "executed": executed,
                **at,
            }
        case Finished() | Counted() | Preview() | ProgressText():
            raise AssertionError("no message of its own")
        case _ as never:
            assert_never(never)


def _output_of(executed: Executed) -> Mapping[str, object]:
    place, ui = executed.place, ShownValues.encode(executed.ui)
    return {"node": place.node, "display_node": place.display, "output": ui.raw}


def _status(remaining: int) -> dict[str, object]:
    """Nested, as editors read it, and also flat, as the specification has it."""
    return {"status": {"exec_info": {"queue_remaining": remaining}}, "queue_remaining": remaining}


def _failure(failed: Stopped | Failed) -> dict[str, object]:
    """A node that could not be executed, or was not because a value blocks it; the latter does not end the job."""
    if isinstance(failed, Stopped):
        return {
            "node_id": failed.place.real_node,
            "node_type": failed.node_type,
            "executed": (),
            "exception_message": failed.message,
            "exception_type": _BLOCKED,
            "traceback": (),
            "current_inputs": {},
            "current_outputs": (),
        }
    failure = failed.failure
    return {
        "node_id": failure.place.real_node,
        "node_type": failure.node_type,
        "executed": failure.executed,
        "exception_message": failure.message,
        "exception_type": failure.exception_type,
        "traceback": failure.traceback,
        "current_inputs": failure.current_inputs,
        "current_outputs": failure.executed,
    }


def _progress_state(broadcast: Broadcast) -> Payload:
    """The node whose state has changed and those that run: all nodes each time would make the traffic quadratic."""
    job = None if broadcast.envelope is None else broadcast.envelope.public_id
    nodes = {progress.place.node: _node_progress(job, progress) for progress in broadcast.progress}
    return message("progress_state", {"prompt_id": job, "nodes": nodes})


def _node_progress(public_id: str | None, progress: NodeProgress) -> dict[str, object]:
    place = progress.place
    return {
        "value": _number(progress.value),
        "max": _number(progress.most),
        "state": "running" if progress.is_running else "finished",
        "node_id": place.node,
        "prompt_id": public_id,
        "display_node_id": place.display,
        "parent_node_id": place.parent,
        "real_node_id": place.real_node,
    }


def _preview(public_id: str | None, preview: Preview, reading: Reading) -> Payload:
    if not reading.reads_preview_metadata:
        head = struct.pack(">II", _PREVIEW, _IMAGE_TYPES[preview.image_type])
        return Payload(is_text=False, content=head + preview.image)
    place = preview.place
    metadata = _encode(
        {
            "node_id": place.node,
            "prompt_id": public_id,
            "display_node_id": place.display,
            "parent_node_id": place.parent,
            "real_node_id": place.real_node,
            "image_type": preview.image_type,
        }
    )
    head = struct.pack(">II", _PREVIEW_WITH_METADATA, len(metadata))
    return Payload(is_text=False, content=b"".join((head, metadata, preview.image)))


def _text(public_id: str | None, said: ProgressText, reading: Reading) -> Payload:
    names = [(public_id or "").encode(), said.place.node.encode()]
    parts = [struct.pack(">I", _TEXT)]
    for name in names if reading.reads_text_metadata else names[1:]:
        parts += (struct.pack(">I", len(name)), name)
    return Payload(is_text=False, content=b"".join((*parts, said.text.encode())))


def _number(value: float) -> float:
    """Steps are whole numbers, and are written as such."""
    return int(value) if float(value).is_integer() else value
