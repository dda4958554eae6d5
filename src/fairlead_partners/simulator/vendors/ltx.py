"""LTX (api.ltx.io): version 2, a task for each clip, asked about below the address that took it."""

from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, words_of
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, ProblemKind, Reply, Route, Vendor, json_reply

DURATIONS = {None, 6, 8, 10, 12, 14, 16, 18, 20}
RESOLUTIONS = {
    "1280x720",
    "720x1280",
    "1920x1080",
    "1080x1920",
    "2560x1440",
    "1440x2560",
    "3840x2160",
    "2160x3840",
}
CAMERAS = {"dolly_in", "dolly_out", "dolly_left", "dolly_right", "jib_up", "jib_down", "static", "focus_shift"}

_TYPES = {
    "unauthorized": "authentication_error",
    "invalid": "invalid_request_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "refused": "content_filtered_error",
    "refused_output": "content_filtered_error",
}


_MESSAGES: Mapping[ProblemKind, str] = {
    "unauthorized": "Invalid API key",
    "rate_limited": "Rate limit exceeded. Please retry later.",
    "refused": "Content was rejected by safety filters",
    "refused_output": "Generated content was rejected by safety filters",
    "failed": "Video generation failed",
    "server_error": "An internal error occurred",
}
_STATUSES = {"queued": "pending", "running": "processing", "ended": "completed", "cancelled": "failed"}


def _problem(problem: Problem) -> Reply:
    error = {"type": _TYPES.get(problem.kind, "api_error"), "message": words_of(problem, _MESSAGES)}
    statuses: Mapping[ProblemKind, int] = {"refused": 422, "refused_output": 422}
    return error_reply(problem, {"type": "error", "error": error}, statuses)


def _text_to_video(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "prompt", 10_000, required=True)
    return _video(call, body)


def _image_to_video(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "image_uri", 40_000_000, required=True)
    checks.text(body, "prompt", 10_000)
    if body.get("last_frame_uri") and body.get("duration") is None:
        raise Problem("invalid", "duration must be given with last_frame_uri", field="duration", code="missing")
    return _video(call, body)


def _video(call: Call, body: Mapping[str, object]) -> Reply:
    model = checks.text(body, "model", 60, required=True)
    if not model.startswith("ltx-"):
        raise Problem("invalid", f"model '{model}' is not supported", field="model", code="enum")
    if "duration" not in body:
        raise Problem("invalid", "duration is required", field="duration", code="missing")
    checks.present(body, "resolution")
    checks.one_of(body, "duration", DURATIONS)
    checks.one_of(body, "resolution", RESOLUTIONS)
    checks.one_of(body, "fps", {24, 25, 48, 50})
    checks.one_of(body, "generate_audio", {True, False})
    checks.one_of(body, "camera_motion", CAMERAS)
    task = call.submit(identifier(), body, path=call.path)
    return json_reply(202, {"id": task.id, "status": "pending", "created_at": stamp(task.created)})


def _query(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if f"{task.facts['path']}/{task.id}" != call.path:
        raise Problem("not_found", f"Job {task.id} not found")
    return json_reply(200, _document(call, task))


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
        "id": task.id,
        "status": _STATUSES[task.stage],
        "created_at": stamp(task.created),
    }
    if task.stage != "ended":
        return document
    document["completed_at"] = stamp(task.updated)
    rejected = rejection(task)
    if rejected is None:
        return document | {"result": {"video_url": call.link(clip(), task=task)}}
    kind: ProblemKind = "refused" if rejected == "refused" else "refused_output"
    kind = "failed" if rejected == "failed" else kind
    error = {"type": _TYPES.get(kind, "api_error"), "message": _MESSAGES[kind]}
    return document | {"status": "failed", "error": error}


VENDOR = Vendor(
    name="ltx",
    routes=(
        Route("POST", "/v2/text-to-video", _text_to_video),
        Route("POST", "/v2/image-to-video", _image_to_video),
        Route("GET", "/v2/text-to-video/{id}", _query),
        Route("GET", "/v2/image-to-video/{id}", _query),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
    raises=frozenset({"refused"}),
)
