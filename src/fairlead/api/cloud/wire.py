"""The cloud API's answers, made from domain records (docs/cloud.md)."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from starlette.responses import Response

from fairlead.api.cloud.documents import (
    CloudJob,
    CloudJobListed,
    ExecutionStatus,
    HistoryEntry,
    HistoryV2Entry,
    JobStatusShown,
    NodeMeta,
    QueueEntry,
    Shown,
)
from fairlead.api.cloud.frames import message_of
from fairlead.api.http.schemas import as_time
from fairlead.domain.jobs.events import (
    Ending,
    Event,
    EventEnvelope,
    Failed,
    Failure,
    Interrupted,
    Place,
    Started,
    Succeeded,
)
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.states import LIVE, JobState

_UPLOAD_BYTES: Final = 100 * 2**20
FEATURES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "supports_preview_metadata": True,
        "supports_progress_text_metadata": True,
        "max_upload_size": _UPLOAD_BYTES,
        "extension": {"manager": {"supports_v4": False}},
        "node_replacements": False,
        "assets": False,
    }
)
"""What a server can do, as editors ask for it over HTTP and over the socket."""

STATUSES: Final[Mapping[JobState, str]] = MappingProxyType(
    {
        JobState.PARKED: "pending",
        JobState.RELEASED: "pending",
        JobState.RUNNING: "in_progress",
        JobState.CANCELING: "in_progress",
        JobState.SUCCEEDED: "completed",
        JobState.FAILED: "failed",
        JobState.EXPIRED: "failed",
        JobState.CANCELED: "cancelled",
    }
)
"""The five statuses of the cloud API, each of which stands for some states (C-05)."""

_PREVIEWED: Final = ("images", "video", "audio", "3d", "text", "gifs", "files")
_EXPIRED: Final = Failure(Place("", ""), "", "TimeoutError", "The job has waited for too long.", (), {}, ())
_UNCACHED: Final = MappingProxyType({"Cache-Control": "no-store"})
_encode: Final = msgspec.json.Encoder().encode
_endings: Final = msgspec.json.Decoder(Ending)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Shown(msgspec.Struct, frozen=True):
    """The output of a node."""

    ui: dict[str, object]
    place: Place


_shown: Final = msgspec.json.Decoder(dict[str, _Shown])


def features_of(upload_bytes: int) -> Mapping[str, object]:
    """What a server can do that takes uploads of some size."""
    return {**FEATURES, "max_upload_size": upload_bytes}


def answer(document: object, status: int = 200) -> Response:
    """A document as it is sent."""
    return Response(_encode(document), status, _UNCACHED, "application/json")


def states_of(statuses: Sequence[str]) -> frozenset[JobState]:
    """The states behind some of the five statuses; unknown statuses stand for none."""
    return frozenset(state for state, status in STATUSES.items() if status in statuses)


def job_status(job: Job) -> JobStatusShown:
    """The status of a job (C-05)."""
    status: JobStatusShown = {
        "id": job.public_id,
        "status": STATUSES[job.state],
        "created_at": as_time(job.created_at),
        "updated_at": as_time(job.updated_at),
        "last_state_update": as_time(job.finished_at or job.started_at or job.created_at),
    }
    failed = _ending(job)
    if isinstance(failed, Failed):
        status["error_message"] = failed.failure.message
    return status


def job_entry(job: Job) -> CloudJobListed:
    """A job in a list. What it does not have yet is absent."""
    entry: CloudJobListed = {
        "id": job.public_id,
        "status": STATUSES[job.state],
        "priority": job.number,
        "create_time": job.created_at,
        "update_time": job.updated_at,
        "outputs_count": 0,
    }
    if job.started_at is not None:
        entry["execution_start_time"] = job.started_at
    if job.finished_at is not None:
        entry["execution_end_time"] = job.finished_at
    ending = _ending(job)
    if isinstance(ending, Failed):
        entry["execution_error"] = message_of(_envelope(job, ending, job.finished_at))[1]
    files = list(_files(job))
    if files:
        entry["outputs_count"] = len(files)
        entry["preview_output"] = _preview(files)
    return entry


def job_detail(job: Job, events: Sequence[tuple[Event, int]]) -> CloudJob:
    """A whole job: its workflow, the outputs of its nodes, and its events."""
    detail = cast("CloudJob", job_entry(job))  # a new object, which becomes the whole job
    extra = _extra(job)
    if job.workflow is not None:
        detail["workflow"] = {"prompt": msgspec.Raw(job.workflow), "extra_data": extra}
    if workflow_id := _workflow_id(extra):
        detail["workflow_id"] = workflow_id
    if job.state not in LIVE:
        detail["outputs"], detail["execution_meta"] = _outputs(job)
        detail["execution_status"] = _status(job, events)
    return detail


def queue_entry(job: Job) -> QueueEntry:
    """A job in the queue, as editors read it (decisions: queue entry)."""
    return QueueEntry(job.number, job.public_id, msgspec.Raw(job.workflow or b"{}"), _extra(job), job.wanted)


def history_entry(job: Job, events: Sequence[tuple[Event, int]] = ()) -> HistoryEntry:
    """An ended job, in the history as ComfyUI has it."""
    outputs, meta = _outputs(job)
    return {"prompt": queue_entry(job), "outputs": outputs, "meta": meta, "status": _status(job, events)}


def history_v2_entry(job: Job) -> HistoryV2Entry:
    """An ended job in the cloud's history, without its workflow and without the one that an editor has drawn."""
    outputs, meta = _outputs(job)
    extra = _extra(job)
    entry: HistoryV2Entry = {
        "prompt_id": job.public_id,
        "create_time": job.created_at,
        "prompt": {"priority": job.number, "prompt_id": job.public_id, "extra_data": _without_drawing(extra)},
        "outputs": outputs,
        "meta": meta,
        "status": _status(job, ()),
    }
    if workflow_id := _workflow_id(extra):
        entry["workflow_id"] = workflow_id
    if isinstance(ending := _ending(job), Failed):
        entry["error_message"] = _sentence(ending.failure)
    return entry


def history_v2_detail(job: Job, events: Sequence[tuple[Event, int]]) -> HistoryV2Entry:
    """An ended job in the cloud's history, whole."""
    entry = history_v2_entry(job)
    entry["prompt"]["prompt"] = msgspec.Raw(job.workflow or b"{}")
    entry["prompt"]["extra_data"] = _extra(job)
    entry["prompt"]["outputs_to_execute"] = job.wanted
    entry["status"] = _status(job, events)
    return entry


def _status(job: Job, events: Sequence[tuple[Event, int]]) -> ExecutionStatus:
    """How a job has ended; without events, this is made of the job's own record."""
    told = events or list(_shown_events(job))
    succeeded = job.state is JobState.SUCCEEDED
    messages = [message_of(_envelope(job, event, at)) for event, at in told]
    return {"status_str": "success" if succeeded else "error", "completed": succeeded, "messages": messages}


def _shown_events(job: Job) -> Iterator[tuple[Event, int]]:
    if job.started_at is not None:
        yield Started(), job.started_at
    ending = _ending(job)
    if ending is not None:
        yield ending, job.finished_at or job.updated_at


def _ending(job: Job) -> Ending | None:
    match job.state:
        case JobState.SUCCEEDED:
            return Succeeded()
        case JobState.EXPIRED if job.failure is None:
            return Failed(_EXPIRED)
        case JobState.EXPIRED | JobState.FAILED | JobState.CANCELED:
            return Interrupted(None, None, ()) if job.failure is None else _endings.decode(job.failure)
        case _:
            return None


def _sentence(failure: Failure) -> str:
    """Why a job has failed, with the node it failed in: command lines print nothing else of it (K-06)."""
    node = failure.place.real_node
    return f"{failure.node_type} (node {node}): {failure.message}" if node else failure.message


def _envelope(job: Job, event: Event, at: int | None) -> EventEnvelope:
    return EventEnvelope(job.workspace_id, job.id, job.public_id, at or job.updated_at, event)


def _extra(job: Job) -> dict[str, object]:
    """The data sent with a workflow, and the time; it holds no key, because none was stored."""
    return {**_fields.decode(job.extra or b"{}"), "create_time": job.created_at}


def _without_drawing(extra: Mapping[str, object]) -> dict[str, object]:
    raw = extra.get("extra_pnginfo")
    if not isinstance(raw, msgspec.Raw) or not bytes(raw).startswith(b"{"):
        return dict(extra)
    kept = {name: value for name, value in _fields.decode(raw).items() if name != "workflow"}
    return {**extra, "extra_pnginfo": kept}


def _workflow_id(extra: Mapping[str, object]) -> str | None:
    """The id an editor has given to the workflow it has drawn."""
    raw = extra.get("extra_pnginfo")
    try:
        found = msgspec.json.decode(raw, type=_Drawn) if isinstance(raw, msgspec.Raw) else _Drawn()
    except msgspec.DecodeError:
        return None
    return found.workflow.id


class _Drawing(msgspec.Struct):
    id: str | None = None


class _Drawn(msgspec.Struct):
    workflow: _Drawing = msgspec.field(default_factory=_Drawing)


def _outputs(job: Job) -> tuple[Shown, Mapping[str, NodeMeta]]:
    """The outputs of nodes, by node, and which nodes they are."""
    shown = _shown.decode(job.outputs or b"{}")
    meta: Mapping[str, NodeMeta] = {
        node: {
            "node_id": found.place.node,
            "display_node": found.place.display,
            "parent_node": found.place.parent,
            "real_node_id": found.place.real_node,
        }
        for node, found in shown.items()
    }
    return {node: found.ui for node, found in shown.items()}, meta


def _files(job: Job) -> Iterator[dict[str, object]]:
    """The files among the outputs, each with its node and the kind of media it is shown as."""
    for node, ui in _outputs(job)[0].items():
        for media, items in ui.items():
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict) and "filename" in item:
                    yield {**item, "nodeId": node, "mediaType": media}


def _preview(files: Sequence[dict[str, object]]) -> dict[str, Any]:
    """The file to show for a job: a final one before a temporary one, a picture before any other file."""
    order = {media: place for place, media in enumerate(_PREVIEWED)}
    return min(files, key=lambda file: (file.get("type") != "output", order.get(file["mediaType"], len(order))))
