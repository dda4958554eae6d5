"""Luma Agents (agents.lumalabs.ai): Uni-1 images and Ray 3.2 clips; states and outputs have new names."""

import datetime as dt
import uuid
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"})
_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 422}
_RATIOS = {"3:1", "2:1", "16:9", "3:2", "1:1", "2:3", "9:16", "1:2", "1:3"}
_RATIOS_OF_CLIPS = {"9:16", "3:4", "1:1", "4:3", "16:9", "21:9"}
_FAILURES = {
    "refused": ("content_moderated", "The request was rejected by content moderation."),
    "refused-output": ("content_moderated", "The generated image was rejected by content moderation."),
    "failed": ("internal_error", "The generation failed."),
}


def _problem(problem: Problem) -> Reply:
    message = problem.message
    if problem.kind == "unauthorized":
        message = "Invalid or missing API key"
    elif problem.kind == "not_found":
        message = "Generation not found"
    return json_reply(problem.status or _STATUSES.get(problem.kind, 500), {"detail": message}, *retry_headers(problem))


def _submit(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "prompt", 6000, required=True)
    if checks.one_of(body, "model", {"uni-1", "uni-1-max", "ray-3.2"}) == "ray-3.2":
        return _submit_clip(call, body)
    type_ = checks.one_of(body, "type", {"image", "image_edit"}, "image")
    checks.one_of(body, "aspect_ratio", _RATIOS)
    checks.one_of(body, "style", {"auto", "manga"})
    checks.one_of(body, "output_format", {"png", "jpeg"})
    checks.one_of(body, "web_search", {True, False})
    for number, reference in enumerate(checks.items(body, "image_ref", 9)):
        _check_reference(f"image_ref.{number}", reference)
    if type_ == "image_edit":
        checks.present(body, "source")
        _check_reference("source", body["source"])
    elif body.get("source") is not None:
        raise Problem("invalid", "source must be null for type image", field="source")
    return json_reply(201, _document(call, call.submit(str(uuid.uuid4()), body, type=type_)))


def _submit_clip(call: Call, body: Mapping[str, object]) -> Reply:
    type_ = checks.one_of(body, "type", {"video", "video_edit"}, "video")
    checks.one_of(body, "aspect_ratio", _RATIOS_OF_CLIPS)
    checks.one_of(body, "video.resolution", {"360p", "540p", "720p", "1080p"})
    checks.one_of(body, "video.duration", {"5s", "10s"})
    if type_ == "video_edit":
        checks.present(body, "source")
        _check_reference("source", body["source"])
    return json_reply(201, _document(call, call.submit(str(uuid.uuid4()), body, type=type_)))


def _check_reference(name: str, reference: object) -> None:
    if not isinstance(reference, Mapping) or bool(reference.get("url")) == bool(reference.get("data")):
        raise Problem("invalid", f"{name} must provide url or data, not both", field=name)
    if reference.get("data") and not reference.get("media_type"):
        raise Problem("invalid", f"{name}.media_type is required with data", field=name)


def _query(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    states = {"queued": "queued", "running": "processing", "ended": "completed", "cancelled": "failed"}
    document: dict[str, object] = {
        "id": task.id,
        "type": task.facts["type"],
        "state": states[task.stage],
        "model": task.request.get("model") or "uni-1",
        "created_at": dt.datetime.fromtimestamp(task.created, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "output": [],
        "failure_reason": None,
        "failure_code": None,
    }
    if task.stage != "ended":
        return document
    for fault, (code, reason) in _FAILURES.items():
        if task.has(fault):
            return document | {"state": "failed", "failure_reason": reason, "failure_code": code}
    if task.request.get("model") == "ray-3.2":
        return document | {"output": [{"type": "video", "url": call.link(clip(), "video.mp4", task)}]}
    media = picture(task.request.get("output_format") or "png", 1024, 1024, 5)
    return document | {"output": [{"type": "image", "url": call.link(media, task=task)}]}


VENDOR = Vendor(
    name="luma_2",
    routes=(
        Route("POST", "/v1/generations", _submit),
        Route("GET", "/v1/generations/{id}", _query),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
