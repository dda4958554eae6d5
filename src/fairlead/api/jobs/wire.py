"""The jobs API's answers, made from domain records (docs/jobs.md)."""

import base64
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from fairlead.api.http.schemas import as_time
from fairlead.api.jobs.addresses import PREFIX
from fairlead.api.jobs.documents import (
    FailureOfNode,
    JobFailure,
    JobList,
    JobListed,
    JobLog,
    JobMetrics,
    JobOutputShown,
    JobProgress,
    JobShown,
    JobUrls,
    JobWorkflow,
)
from fairlead.api.jobs.queries import make_cursor
from fairlead.domain.jobs import errors
from fairlead.domain.jobs.events import Ending, Failed, Failure, Preview
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.listing import JobPage, ListedJob
from fairlead.domain.jobs.outputs import JobOutput
from fairlead.domain.jobs.states import STATUSES, WAITING, WORKING, JobState
from fairlead.domain.jobs.updates import LogLine, OutputUpdate, ProgressReport, ProgressUpdate, StatusUpdate, Update
from fairlead.operations.jobs.watch import progress_of

ERROR_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        errors.VALIDATION: "invalid_workflow",
        errors.MODEL_DOWNLOAD: "model_download_failed",
        errors.IMAGE_DOWNLOAD: "image_download_failed",
        errors.OUT_OF_MEMORY: "out_of_memory",
        errors.INSUFFICIENT_FUNDS: "insufficient_credits",
        errors.INACTIVE_SUBSCRIPTION: "subscription_inactive",
        errors.TIMEOUT: "timeout",
        errors.CRASH: "engine_crashed",
        errors.TOO_MUCH: "too_much_output",
        errors.DEPLOYMENT_DELETED: "deployment_deleted",
    }
)
"""The codes for kinds of errors that are not a node's own; a node's own are `execution_failed`."""
EXECUTION_FAILED: Final = "execution_failed"
EXPIRED: Final = "expired"
OUTPUTS_LOST: Final = "outputs_lost"
_FAILED: Final = frozenset({JobState.FAILED, JobState.EXPIRED})
_WAITED: Final = "The job has waited for too long, and was never executed."
_UNCACHED: Final = MappingProxyType({"Cache-Control": "no-store"})
CLASSES_READ_MAX: Final = 2**20
"""The largest workflow that is read for the classes of its nodes, in bytes."""
_NAMED_MAX: Final = 10
_NOTHING: Final = msgspec.Raw(b"null")
_encode: Final = msgspec.json.Encoder().encode
_endings: Final = msgspec.json.Decoder(Ending)


class _Node(msgspec.Struct):
    class_type: str = ""


class _Drawn(msgspec.Struct):
    workflow: msgspec.Raw = msgspec.Raw(b"null")


class _Extra(msgspec.Struct):
    extra_pnginfo: msgspec.Raw = msgspec.Raw(b"null")


_nodes: Final = msgspec.json.Decoder(dict[str, _Node])
_extra: Final = msgspec.json.Decoder(_Extra)
_drawn: Final = msgspec.json.Decoder(_Drawn)


def answer(document: object, status: int = 200) -> Response:
    """A document as it is sent."""
    return Response(_encode(document), status, _UNCACHED, "application/json")


class JobAnswer(NamedTuple):
    """A job to be sent: with its outputs, the time at which it expires, and how many wait before it."""

    job: Job
    outputs: Sequence[JobOutput]
    expires_at: int
    ahead: int | None = None


def job_document(told: JobAnswer, base: str, api: str) -> JobShown:
    """A whole job. Links to its outputs begin with `base`, others with `api`."""
    job, outputs, expires_at, ahead = told
    progress, classes = progress_of(job), class_names(job)
    # The workflow of a job that ended between two reads was read, that of others was not: all get the same answer.
    class_type = classes.get(progress.current_node or "") if job.state in WORKING else None
    far = progress_document(progress, class_type)
    document: JobShown = {
        "id": job.public_id,
        "status": STATUSES[job.state],
        "created_at": as_time(job.created_at),
        "started_at": _time(job.started_at),
        "completed_at": _time(job.finished_at),
        "expires_at": as_time(expires_at),
        "queue_position": ahead,
        "progress": None if job.state in WAITING else far,
        "outputs": [output_document(output, base) for output in outputs],
        "error": with_lost_outputs(error_document(job), outputs, classes),
        "urls": _urls(job.public_id, api),
        "metrics": _metrics(job),
    }
    if job.labels is not None:
        document["metadata"] = msgspec.Raw(job.labels.encode())
    if job.deployment_id is not None and job.release_version is not None:
        document["deployment_id"], document["release_version"] = job.deployment_id, job.release_version
    return document


def page_document(page: JobPage) -> JobList:
    """A page of a list; the last one has no cursor."""
    document: JobList = {"jobs": [_list_entry(job) for job in page.jobs]}
    if page.next_before is not None:
        document["next_cursor"] = make_cursor(page.next_before)
    return document


def workflow_document(job: Job) -> JobWorkflow:
    """The workflow of a job that was read whole: as its author has drawn it, where an editor had sent that."""
    sent = bytes(_extra.decode(job.extra or b"{}").extra_pnginfo)
    drawn = _drawn.decode(sent).workflow if sent.startswith(b"{") else _NOTHING
    if bytes(drawn).startswith(b"{"):
        return {"workflow": drawn, "format": "save"}
    return {"workflow": msgspec.Raw(job.workflow or b"{}"), "format": "api"}


def log_document(lines: Sequence[LogLine], *, truncated: bool, complete: bool) -> JobLog:
    """The log of a job, which has a line at least."""
    text = "".join(f"{as_time(line.at)} {line.level} {line.message}\n" for line in lines)
    return {
        "text": text,
        "truncated": truncated,
        "captured_at": as_time(lines[-1].at),
        "complete": complete,
    }


def progress_document(
    progress: ProgressReport, class_type: str | None = None, message: str | None = None
) -> JobProgress:
    """The progress of a job: nodes that are done, and the node that is executed, with its own steps."""
    done, total = progress.nodes_done, progress.nodes_total
    share = progress.step / progress.steps if progress.step and progress.steps else 0.0
    value = 1.0 if total == 0 or done >= total else (done + min(max(share, 0.0), 1.0)) / total
    return {
        "value": min(value, 1.0),
        "nodes_done": done,
        "nodes_total": total,
        "current_node": progress.current_node,
        "current_node_class": class_type,
        "step": _whole(progress.step),
        "steps": _whole(progress.steps),
        "message": message,
    }


def output_document(output: JobOutput, base: str) -> JobOutputShown:
    """An output of a job; the beginning of a text is in the answer itself."""
    document: JobOutputShown = {
        "node_id": output.node_id,
        "name": output.name,
        "type": output.type,
        "content_type": output.content_type,
        "size_bytes": output.size,
        "id": output.id,
        "hash": f"blake3:{output.blob}",
        "url": base + output.link,
        "url_expires_at": as_time(output.link_expires_at),
        "job_id": output.job_id,
    }
    if output.text is not None:
        document["text"] = output.text
    return document


def error_document(job: Job) -> JobFailure | None:
    """Why a job has failed, or was never executed; None for any other."""
    if job.state is JobState.EXPIRED and job.failure is None:
        return {"code": EXPIRED, "message": _WAITED}
    if job.state not in _FAILED or job.failure is None:
        return None
    ending = _endings.decode(job.failure)
    return _failure(ending.failure) if isinstance(ending, Failed) else None


def with_lost_outputs(
    error: JobFailure | None, outputs: Sequence[JobOutput], classes: Mapping[str, str]
) -> JobFailure | None:
    """An error that also names, by node, the outputs whose stored bytes are lost, which is an error by itself."""
    lost = [output for output in outputs if output.is_lost]
    if not lost:
        return error
    if error is None:
        names = ", ".join(output.name for output in lost[:_NAMED_MAX]) + (", …" if len(lost) > _NAMED_MAX else "")
        error = {"code": OUTPUTS_LOST, "message": f"The stored bytes of {len(lost)} outputs are lost: {names}."}
    failures = dict(error.get("node_errors", {}))
    for output in lost:
        told: FailureOfNode = {"type": "blob_not_found", "message": f"The stored bytes of {output.name} are lost."}
        known = failures.get(output.node_id, {"class_type": classes.get(output.node_id, ""), "errors": ()})
        failures[output.node_id] = {"class_type": known["class_type"], "errors": [*known["errors"], told]}
    return {**error, "node_errors": failures}


def class_names(job: Job) -> Mapping[str, str]:
    """The classes of a job's nodes, where it was read with a workflow that is not very large."""
    if job.workflow is None or len(job.workflow) > CLASSES_READ_MAX:
        return {}
    return {node_id: node.class_type for node_id, node in _nodes.decode(job.workflow).items()}


def event(update: Update | None, class_type: str | None, base: str) -> bytes:
    """An update as a server-sent event; a comment where there is nothing to say."""
    match update:
        case None:
            return b": waiting\n\n"
        case StatusUpdate(job=job, ahead=ahead):
            position = {} if ahead is None else {"queue_position": ahead}
            return _event(b"status", {"status": STATUSES[job.state], **position})
        case ProgressUpdate(progress=progress, message=message):
            return _event(b"progress", progress_document(progress, class_type, message))
        case Preview(place=place, image_type=image_type, image=image):
            data = base64.b64encode(image).decode("ascii")
            return _event(b"preview", {"node_id": place.real_node, "content_type": image_type, "data_base64": data})
        case OutputUpdate(output=output):
            return _event(b"output", output_document(output, base))
        case LogLine(level=level, message=message):
            return _event(b"log", {"level": level, "message": message})


def _event(name: bytes, data: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, _encode(data))


def _list_entry(job: ListedJob) -> JobListed:
    entry: JobListed = {
        "id": job.public_id,
        "status": STATUSES[job.state],
        "create_time": as_time(job.created_at),
        "update_time": as_time(job.updated_at),
    }
    if job.labels is not None:
        entry["metadata"] = msgspec.Raw(job.labels.encode())
    if job.release_version is not None:
        entry["release_version"] = job.release_version
    return entry


def _failure(failure: Failure) -> JobFailure:
    document: JobFailure = {
        "code": ERROR_CODES.get(failure.exception_type, EXECUTION_FAILED),
        "message": f"{failure.exception_type}: {failure.message}",
    }
    node = failure.place.real_node
    if node:
        document["node_id"] = node
        document["class_type"] = failure.node_type
        told: FailureOfNode = {"type": failure.exception_type, "message": failure.message}
        document["node_errors"] = {node: {"class_type": failure.node_type, "errors": [told]}}
    if failure.traceback:
        document["traceback"] = "".join(failure.traceback)
    return document


def _metrics(job: Job) -> JobMetrics | None:
    if job.started_at is None:
        return None
    executed = None if job.finished_at is None else max(0, job.finished_at - job.started_at)
    return {"queue_ms": max(0, job.started_at - job.created_at), "execution_ms": executed}


def _urls(public_id: str, base: str) -> JobUrls:
    url = f"{base}{PREFIX}/jobs/{public_id}"
    return {
        "self": url,
        "workflow": f"{url}/workflow",
        "events": f"{url}/events",
        "cancel": f"{url}/cancel",
        "logs": f"{url}/logs",
    }


def _whole(step: float | None) -> int | None:
    """A step as released clients read it; nodes may count in fractions."""
    return None if step is None or not math.isfinite(step) else math.floor(step)


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else as_time(milliseconds)
