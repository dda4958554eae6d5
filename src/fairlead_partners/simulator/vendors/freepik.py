"""Freepik (api.freepik.com): upscaling and skin, as tasks that are polled for."""

from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

UPSCALER = "/v1/ai/image-upscaler-precision-v2"
SKIN = "/v1/ai/skin-enhancer"
SKIN_TARGETS = {"enhance_skin", "improve_lighting", "enhance_everything", "transform_to_real", "no_make_up"}

_STATUSES = {"queued": "CREATED", "running": "IN_PROGRESS", "ended": "COMPLETED", "cancelled": "FAILED"}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "Invalid API key",
            "invalid": "Your request parameters didn't validate.",
            "rate_limited": "You have exceeded your rate limit. Please try again later.",
            "server_error": "Internal Server Error",
        },
    )
    body: dict[str, object] = {"message": message}
    if problem.kind == "invalid":
        body["invalid_params"] = [{"name": problem.field or "body", "reason": problem.message}]
    return error_reply(problem, body)


def _upscale(call: Call) -> Reply:
    body = call.json()
    for name in ("sharpen", "smart_grain", "ultra_detail"):
        checks.integer(body, name, 0, 100)
    checks.one_of(body, "flavor", {"sublime", "photo", "photo_denoiser"})
    checks.integer(body, "scale_factor", 2, 16)
    return _create(call, body)


def _enhance(call: Call) -> Reply:
    body, mode = call.json(), call.parameters["mode"]
    if mode not in ("creative", "faithful", "flexible"):
        raise Problem("not_found", "Not found")
    for name in ("sharpen", "smart_grain", *(("skin_detail",) if mode == "faithful" else ())):
        checks.integer(body, name, 0, 100)
    if mode == "flexible":
        checks.one_of(body, "optimized_for", SKIN_TARGETS)
    return _create(call, body)


def _create(call: Call, body: Any) -> Reply:
    checks.text(body, "image", 40_000_000, required=True)
    place = UPSCALER if call.path == UPSCALER else SKIN
    task = call.submit(identifier(), body, place=place, seed=call.seed())
    call.notify(task, body.get("webhook_url"), lambda: _document(call, task))
    return json_reply(200, {"data": _document(call, task)})


def _get(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if not call.path.startswith(task.facts["place"]):
        raise Problem("not_found", "Task not found")
    return json_reply(200, {"data": _document(call, task)})


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {"task_id": task.id, "status": _STATUSES[task.stage], "generated": []}
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "FAILED", "has_nsfw": [True]}
        case "failed":
            return document | {"status": "FAILED"}
        case None:
            pass
    if task.stage == "ended":
        document["generated"] = [call.link(picture("png", 1024, 1024, task.facts["seed"]), "image.png", task)]
    return document


VENDOR = Vendor(
    name="freepik",
    routes=(
        Route("POST", UPSCALER, _upscale),
        Route("GET", f"{UPSCALER}/{{id}}", _get),
        Route("POST", f"{SKIN}/{{mode}}", _enhance),
        Route("GET", f"{SKIN}/{{id}}", _get),
    ),
    authorize=keys.header_key("x-freepik-api-key"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
