"""Luma Dream Machine (api.lumalabs.ai/dream-machine/v1): Ray videos and Photon images as generations."""

import datetime as dt
import uuid
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_BASE = "/dream-machine/v1"
_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})
_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 400}
_RATIOS = {"1:1", "16:9", "9:16", "4:3", "3:4", "21:9", "9:21"}
_REASONS = {
    "refused": "400: prompt not allowed because advanced moderation failed",
    "refused-output": "400: frame moderation failed",
    "failed": "Internal error: generation failed",
}
_ECHOED = {
    "image": ("aspect_ratio", "callback_url", "character_ref", "image_ref", "modify_image_ref", "prompt", "style_ref"),
    "video": ("aspect_ratio", "callback_url", "keyframes", "prompt"),
}
"""What a generation says of its request: null where nothing was asked."""


def _problem(problem: Problem) -> Reply:
    message = "Not authenticated" if problem.kind == "unauthorized" else problem.message
    status = problem.status or _STATUSES.get(problem.kind, 500)
    return json_reply(status, {"detail": message}, *retry_headers(problem))


def _video(call: Call) -> Reply:
    body = call.json()
    checks.one_of(body, "model", {"ray-1-6", "ray-2", "ray-flash-2"})
    checks.present(body, "model")
    checks.one_of(body, "resolution", {"540p", "720p", "1080p", "4k"})
    checks.one_of(body, "duration", {"5s", "9s", "10s"})
    checks.one_of(body, "loop", {True, False})
    frames = body.get("keyframes") or {}
    if not body.get("prompt") and not frames:
        raise Problem("invalid", "Prompt is required when no keyframes are given")
    return _submit(call, body, "video")


def _image(call: Call) -> Reply:
    body = call.json()
    checks.one_of(body, "model", {"photon-1", "photon-flash-1"})
    checks.one_of(body, "format", {"jpg", "png"})
    for name, most in (("image_ref", 4), ("style_ref", 4)):
        checks.items(body, name, most)
    return _submit(call, body, "image")


def _submit(call: Call, body: Mapping[str, object], kind: str) -> Reply:
    is_shown = any(body.get(name) for name in ("image_ref", "style_ref", "character_ref", "modify_image_ref"))
    words = checks.text(body, "prompt", 5000, required=kind == "image" and not is_shown)
    if 0 < len(words) < 3:
        raise Problem("invalid", "Prompt is too short, minimum length is 3 characters", field="prompt")
    checks.one_of(body, "aspect_ratio", _RATIOS)
    task = call.submit(str(uuid.uuid4()), body, kind=kind)
    call.notify(task, body.get("callback_url"), lambda: _document(call, task))
    return json_reply(201, _document(call, task))


def _query(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    states = {"queued": "queued", "running": "dreaming", "ended": "completed", "cancelled": "failed"}
    kind = task.facts["kind"]
    created = dt.datetime.fromtimestamp(task.created, dt.UTC)
    document: dict[str, object] = {
        "id": task.id,
        "generation_type": kind,
        "state": states[task.stage],
        "failure_reason": None,
        "created_at": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "assets": None,
        "model": task.request.get("model"),
        "request": {"generation_type": kind, **dict.fromkeys(_ECHOED[kind]), **task.request},
    }
    if task.stage != "ended":
        return document
    for fault, reason in _REASONS.items():
        if task.has(fault):
            return document | {"state": "failed", "failure_reason": reason}
    return document | {"assets": _assets(call, task)}


def _assets(call: Call, task: Task) -> dict[str, object]:
    still = call.link(picture("jpg", 512, 512, 7), "image.jpg", task)
    if task.facts["kind"] == "image":
        return {"video": None, "image": still, "progress_video": None}
    return {"video": call.link(clip(), "video.mp4", task), "image": still, "progress_video": None}


def _delete(call: Call) -> Reply:
    call.task(call.parameters["id"]).cancel()
    return Reply(204, b"")


VENDOR = Vendor(
    name="luma",
    routes=(
        Route("POST", _BASE + "/generations", _video),
        Route("POST", _BASE + "/generations/video", _video),
        Route("POST", _BASE + "/generations/image", _image),
        Route("GET", _BASE + "/generations/{id}", _query),
        Route("DELETE", _BASE + "/generations/{id}", _delete),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
