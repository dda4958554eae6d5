"""Gemini's Interactions (generativelanguage.googleapis.com): at once, or in the background to be polled for."""

import re
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, status_of, words_of
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

PARTS = {"text", "image", "video", "audio", "document", "user_input", "model_output", "thought"}
TASKS = {"text_to_video", "image_to_video", "reference_to_video", "edit", "extend"}
BLOCKED = "The request was blocked by our safety filters."

_DURATION = re.compile(r"(?:[3-9]|10)s")
_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "API key not valid. Please pass a valid API key.",
            "rate_limited": "You exceeded your current quota, please check your plan and billing details.",
            "refused": BLOCKED,
            "server_error": "An internal error has occurred.",
        },
    )
    # A wrong key is an invalid argument here, as everywhere at Google; a missing one is forbidden.
    status = status_of(problem, {"unauthorized": 403 if problem.message.startswith("Missing") else 400})
    error = {"code": status, "message": message, "status": _STATES.get(status, "INTERNAL")}
    return error_reply(Problem(problem.kind, status=status, retry_after=problem.retry_after), {"error": error})


def _key(call: Call) -> str | None:
    return keys.check_key(call.headers.get("x-goog-api-key") or call.query.get("key", ""))


def _create(call: Call) -> Reply:
    body = call.json()
    if bool(body.get("model")) == bool(body.get("agent")):
        raise Problem("invalid", "Exactly one of model and agent is required.", field="model", code="missing")
    checks.text(body, "model", 100)
    checks.present(body, "input")
    _check_input(body["input"])
    _check_format(body)
    checks.one_of(body, "generation_config.video_config.task", TASKS)
    is_background = checks.one_of(body, "background", {True, False}, default=False)
    if body.get("stream"):
        raise Problem("invalid", "stream is not simulated.", field="stream")
    task = call.submit(f"v1_{identifier().replace('-', '')}", body)
    if is_background or call.has("stuck"):
        return json_reply(200, _document(task) | {"status": "in_progress"})
    return json_reply(200, _document(task) | _finish(call, task, _fault(call)))


def _check_input(given: object) -> None:
    if isinstance(given, str):
        return
    for part in given if isinstance(given, list) else [given]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in PARTS:
            raise Problem("invalid", f"Invalid value at 'input' (type): {kind!r}.", field="input")


def _format(body: Mapping[str, object]) -> Mapping[str, object]:
    format_ = body.get("response_format") or {}
    first = format_[0] if isinstance(format_, list) and format_ else format_
    if not isinstance(first, Mapping):
        raise Problem("invalid", "Invalid value at 'response_format'.", field="response_format", code="type")
    return first


def _check_format(body: Mapping[str, object]) -> None:
    format_ = _format(body)
    checks.one_of(format_, "aspect_ratio", {"16:9", "9:16"})
    checks.one_of(format_, "resolution", {"360p", "720p", "1080p", "4k"})
    checks.one_of(format_, "delivery", {"inline", "uri"})
    duration = checks.text(format_, "duration", 10)
    if duration and _DURATION.fullmatch(duration) is None:
        raise Problem("invalid", "Invalid value at 'response_format.duration'.", field="response_format.duration")


def _fault(call: Call) -> str | None:
    return next((name for name in ("refused", "refused-output", "failed") if call.has(name)), None)


def _get(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if task.stage == "ended" or not (task.request.get("background") or task.has("stuck")):
        return json_reply(200, _document(task) | _finish(call, task, rejection(task), inline=True))
    status = "cancelled" if task.stage == "cancelled" else "in_progress"
    return json_reply(200, _document(task) | {"status": status})


def _document(task: Task) -> dict[str, object]:
    named = "model" if task.request.get("model") else "agent"
    return {
        "id": task.id,
        "object": "interaction",
        named: task.request[named],
        "role": "model",
        "created": stamp(task.created),
        "updated": stamp(task.updated),
    }


def _finish(call: Call, task: Task, rejected: str | None, *, inline: bool = False) -> dict[str, object]:
    if rejected == "failed":
        error = {"code": "internal_error", "message": "The interaction failed."}
        return {"status": "failed", "error": error}
    if rejected is not None:
        return {"status": "failed", "error": {"code": "content_blocked", "message": BLOCKED}}
    video: dict[str, object] = {"type": "video", "mime_type": "video/mp4"}
    # The address is promised in the first answer only; anyone who asks again is given the bytes.
    if _format(task.request).get("delivery") == "uri" and not inline:
        video["uri"] = call.link(clip(), "video.mp4", task)
    else:
        video["data"] = clip().base64()
    usage = {
        "total_tokens": 5800,
        "total_input_tokens": 8,
        "input_tokens_by_modality": [{"modality": "text", "tokens": 8}],
        "total_cached_tokens": 0,
        "total_output_tokens": 5792,
        "output_tokens_by_modality": [{"modality": "video", "tokens": 5792}],
        "total_thought_tokens": 0,
    }
    return {"status": "completed", "steps": [{"type": "model_output", "content": [video]}], "usage": usage}


def _cancel(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if not task.cancel():
        raise Problem("invalid", "Only interactions in progress can be cancelled.")
    return json_reply(200, _document(task) | {"status": "cancelled"})


VENDOR = Vendor(
    name="gemini-interactions",
    routes=(
        Route("POST", "/v1beta/interactions", _create),
        Route("GET", "/v1beta/interactions/{id}", _get),
        Route("POST", "/v1beta/interactions/{id}/cancel", _cancel, creates=False),
    ),
    authorize=_key,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
