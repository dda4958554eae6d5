"""Sync (api.sync.so): lip sync of one picture or video to one sound."""

from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, status_of, words_of
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

MODELS = {"sync-3", "lipsync-2", "lipsync-2-pro", "lipsync-1.9.0-beta", "react-1"}

_STATUSES = {"queued": "PENDING", "running": "PROCESSING", "ended": "COMPLETED", "cancelled": "CANCELLED"}
_TITLES = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "Invalid API key",
            "rate_limited": "ThrottlerException: Too Many Requests",
            "server_error": "Internal server error",
        },
    )
    status = status_of(problem)
    body = {"message": message, "statusCode": status, "error": _TITLES.get(status, "Internal Server Error")}
    return error_reply(problem, body)


def _generate(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 60, required=True)
    checks.one_of(body, "model", MODELS)
    kinds = [_kind(one) for one in checks.items(body, "input", 10, required=True)]
    if len([kind for kind in kinds if kind in ("video", "image")]) != 1:
        raise Problem("invalid", "input must contain exactly one video or image", field="input")
    if not {"audio", "text"} & set(kinds):
        raise Problem("invalid", "input must contain an audio or a text", field="input")
    checks.one_of(body, "options.sync_mode", {"cut_off", "bounce", "loop", "silence", "remap"})
    checks.number(body, "options.temperature", 0, 1)
    task = call.submit(identifier(), body)
    call.notify(task, body.get("webhookUrl"), lambda: _document(call, task))
    return json_reply(201, _document(call, task))


def _kind(given: Any) -> str:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in ("video", "image", "audio", "text"):
        raise Problem("invalid", "input.type must be one of video, image, audio, text", field="input")
    if kind != "text" and not any(given.get(name) for name in ("url", "assetId")):
        raise Problem("invalid", f"input of type {kind} needs a url or an assetId", field="input", code="missing")
    return str(kind)


def _get(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
        "id": task.id,
        "createdAt": stamp(task.created),
        "status": _STATUSES[task.stage],
        "model": task.request["model"],
        "input": task.request["input"],
        "options": task.request.get("options"),
        "webhookUrl": task.request.get("webhookUrl"),
        "outputUrl": None,
        "outputDuration": None,
        "error": None,
        "errorCode": None,
    }
    match rejection(task):
        case "refused" | "refused-output":
            error = "The input was rejected by content moderation."
            return document | {"status": "REJECTED", "error": error, "errorCode": "generation_content_moderation"}
        case "failed":
            error = "An unexpected error occurred while processing the generation."
            return document | {"status": "FAILED", "error": error, "errorCode": "generation_pipeline_failed"}
        case None:
            pass
    if task.stage == "ended":
        document |= {"outputUrl": call.link(clip(), "output.mp4", task), "outputDuration": 0.5}
    return document


VENDOR = Vendor(
    name="synclabs",
    routes=(Route("POST", "/v2/generate", _generate), Route("GET", "/v2/generate/{id}", _get)),
    authorize=keys.header_key("x-api-key"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
