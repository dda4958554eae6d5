"""Black Forest Labs (api.bfl.ai): every model is one submit address; results are polled for at `polling_url`."""

import uuid
from typing import Any

from fairlead.partners.simulator import checks, keys
from fairlead.partners.simulator.answers import retry_headers
from fairlead.partners.simulator.details import details
from fairlead.partners.simulator.media import clip, picture
from fairlead.partners.simulator.tasks import Task
from fairlead.partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_STATUSES = {"invalid": 422, "not_found": 404, "rate_limited": 429, "unauthorized": 403}
_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})


def _problem(problem: Problem) -> Reply:
    status = problem.status or _STATUSES.get(problem.kind, 500)
    if status == 422:
        return json_reply(422, {"detail": details(problem)})
    message = "Not authenticated" if problem.kind == "unauthorized" else problem.message
    return json_reply(status, {"detail": message}, *retry_headers(problem))


def _submit(call: Call) -> Reply:
    body = call.json()
    _check(call.parameters["model"], body)
    seed = checks.integer(body, "seed", 0, 2**63) or call.seed()
    task = call.submit(str(uuid.uuid4()), body, model=call.parameters["model"], seed=seed)
    call.notify(task, body.get("webhook_url"), lambda: _document(call, task))
    width, height = _size(body)
    return json_reply(
        200,
        {
            "id": task.id,
            "polling_url": call.url(f"/v1/get_result?id={task.id}"),
            "cost": 3.0,
            "input_mp": sum(1.0 for name in body if name.startswith("input_image") and body[name]),
            "output_mp": round(width * height / 1_000_000, 2),
        },
    )


def _check(model: str, body: Any) -> None:
    checks.text(body, "prompt", 32_000, required=model.startswith(("flux-2", "flux-3", "flux-pro-1.1", "flux-kontext")))
    checks.integer(body, "width", 64, 2048)
    checks.integer(body, "height", 64, 2048)
    checks.one_of(body, "output_format", {"jpeg", "png", "webp", "mp4"})
    checks.integer(body, "safety_tolerance", 0, 6)
    checks.integer(body, "seed", 0, 2**63)
    checks.text(body, "input_image", 40_000_000)


def _size(body: Any) -> tuple[int, int]:
    return checks.integer(body, "width", 64, 2048, 1024), checks.integer(body, "height", 64, 2048, 1024)


def _result(call: Call) -> Reply:
    id_ = call.query.get("id", "")
    task = call.desk.tasks.get(call.vendor, id_)
    if task is None:
        return json_reply(404, {"id": id_, "status": "Task not found", "result": None, "progress": None})
    return json_reply(200, _document(call, task))


def _document(call: Call, task: Task) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": task.id,
        "status": "Pending",
        "result": None,
        "progress": None if task.stage == "queued" else task.progress,
        "details": None,
        "preview": None,
    }
    if task.stage != "ended":
        return document
    if task.has("refused"):
        return document | {"status": "Request Moderated", "details": {"Moderation Reasons": ["Safety Filter"]}}
    if task.has("refused-output"):
        reasons = {"Moderation Reasons": ["Derivative Works Filter"]}
        return document | {"status": "Content Moderated", "details": reasons}
    if task.has("failed"):
        return document | {"status": "Error", "details": {"error": "Generation failed."}}
    return document | {"status": "Ready", "result": _outcome(call, task)}


def _outcome(call: Call, task: Task) -> dict[str, Any]:
    if "video" in task.facts["model"]:
        media = clip()
    else:
        format_ = task.request.get("output_format") or "jpeg"
        media = picture(format_ if format_ in ("png", "webp") else "jpeg", *_size(task.request), task.facts["seed"])
    start = task.created
    return {
        "sample": call.link(media, f"sample.{media.extension}", task),
        "prompt": task.request.get("prompt", ""),
        "seed": task.facts["seed"],
        "start_time": start,
        "end_time": task.updated,
        "duration": round(task.updated - start, 3),
    }


VENDOR = Vendor(
    name="bfl",
    routes=(
        Route("GET", "/v1/get_result", _result),
        Route("POST", "/v1/{model}", _submit),
    ),
    authorize=keys.header_key("x-key"),
    problem=_problem,
    supports=_FAULTS,
)
