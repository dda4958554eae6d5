"""WaveSpeed (api.wavespeed.ai/api/v3): the path names the model; answers are wrapped in code, message and data."""

import re
from typing import Any

from fairlead.partners.simulator import checks, keys
from fairlead.partners.simulator.answers import error_reply, identifier, rejection, said, stamp, status_of
from fairlead.partners.simulator.media import Media, clip, picture
from fairlead.partners.simulator.tasks import Task
from fairlead.partners.simulator.vendor import Call, JsonObject, Problem, Reply, Route, Vendor, json_reply

INPUTS = ("prompt", "image", "images", "video", "videos", "audio", "text")
SENSITIVE = "Content flagged as potentially sensitive. Please try different prompts or images."

_VIDEO = re.compile(r"video|[tirv]2v|flashvsr|kling|seedance|veo|sora|hailuo|wan-?\d")
_STATUSES = {"queued": "created", "running": "processing", "ended": "completed", "cancelled": "failed"}


def _problem(problem: Problem) -> Reply:
    message = said(
        problem,
        {
            "unauthorized": "Unauthorized: invalid API key",
            "rate_limited": "Too many requests, please try again later",
            "refused": SENSITIVE,
            "server_error": "Internal server error",
        },
    )
    return error_reply(problem, {"code": status_of(problem), "message": message})


def _submit(call: Call) -> Reply:
    body, model = call.json(), call.parameters["model"]
    if "/" not in model:
        raise Problem("not_found", "model not found")
    checks.present({"input": [body[name] for name in INPUTS if body.get(name)]}, "input")
    checks.text(body, "prompt", 10_000)
    checks.integer(body, "seed", -1, 2_147_483_647)
    checks.number(body, "duration", 1, 60)
    checks.one_of(body, "enable_sync_mode", {True, False})
    task = call.submit(identifier().replace("-", ""), body, model=model, seed=call.seed())
    call.notify(task, call.query.get("webhook"), lambda: _document(call, task))
    if body.get("enable_sync_mode") and not task.has("stuck"):
        task.born -= task.clock.task_seconds
    return json_reply(200, _wrapped(_document(call, task)))


def _wrapped(document: dict[str, Any]) -> dict[str, Any]:
    return {"code": 200, "message": "success", "data": document}


def _result(call: Call) -> Reply:
    return json_reply(200, _wrapped(_document(call, call.task(call.parameters["id"]))))


def _document(call: Call, task: Task) -> dict[str, Any]:
    ended = task.stage == "ended"
    document: dict[str, Any] = {
        "id": task.id,
        "model": task.facts["model"],
        "outputs": [],
        "urls": {"get": call.url(f"/api/v3/predictions/{task.id}/result")},
        "has_nsfw_contents": [],
        "status": _STATUSES[task.stage],
        "created_at": stamp(task.created),
        "error": "",
        "executionTime": 0,
        "timings": {"inference": 0},
    }
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "failed", "code": 1200, "error": SENSITIVE}
        case "failed":
            return document | {"status": "failed", "code": 1405, "error": "The task execution failed."}
        case None:
            pass
    if not ended:
        return document
    milliseconds = round((task.updated - task.created) * 1000)
    media = _media(task.facts["model"], task.request, task.facts["seed"])
    url = call.link(media, f"output.{media.extension}", task)
    shown = {"outputs": [url], "has_nsfw_contents": [False], "executionTime": milliseconds}
    return document | shown | {"timings": {"inference": milliseconds}}


def _media(model: str, body: JsonObject, seed: int) -> Media:
    if body.get("video") or body.get("videos") or _VIDEO.search(model):
        return clip()
    return picture("jpeg", seed=seed)


VENDOR = Vendor(
    name="wavespeed",
    routes=(
        Route("GET", "/api/v3/predictions/{id}/result", _result),
        Route("GET", "/api/v3/predictions/{id}", _result),
        Route("POST", "/api/v3/{model:path}", _submit),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
