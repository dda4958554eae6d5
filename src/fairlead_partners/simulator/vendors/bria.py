"""Bria (engine.prod.bria-api.com/v2): one address an action; asynchronous unless `sync` is asked for."""

import json
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, status_of, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, JsonObject, Problem, ProblemKind, Reply, Route, Vendor, json_reply

IMAGE_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "add_object_by_text": ("image", "instruction"),
    "erase_by_text": ("image", "object_name"),
    "erase_foreground": ("image",),
    "erase": ("image", "mask"),
    "expand": ("image",),
    "gen_fill": ("image", "mask", "prompt"),
    "increase_resolution": ("image",),
    "relight": ("image", "light_type"),
    "remove_background": ("image",),
    "replace_background": ("image",),
    "replace_object_by_text": ("image", "instruction"),
    "reseason": ("image", "season"),
    "restore": ("image",),
}
"""What each action requires."""
VIDEO_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "erase": ("video", "mask"),
    "green_screen": ("video",),
    "remove_background": ("video",),
    "replace_background": ("video", "background_url"),
}

_REFUSED: Mapping[ProblemKind, str] = {
    "refused": "The input did not pass content moderation.",
    "refused_output": "The output did not pass content moderation.",
}
_STATUSES: Mapping[ProblemKind, int] = {"refused": 422, "refused_output": 422, "invalid": 422}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            **_REFUSED,
            "unauthorized": "Unauthorized: the api_token is missing or invalid.",
            "rate_limited": "Rate limit exceeded.",
            "failed": "The request could not be processed.",
            "server_error": "Internal server error.",
        },
    )
    error = {"code": status_of(problem, _STATUSES), "message": message, "details": problem.field}
    return error_reply(problem, {"error": error, "request_id": identifier()}, _STATUSES)


def _generate(call: Call) -> Reply:
    body = call.json()
    if not any(body.get(name) for name in ("prompt", "images", "structured_prompt")):
        raise Problem("invalid", "One of prompt, images or structured_prompt is required.", field="prompt")
    checks.text(body, "prompt", 10_000)
    checks.one_of(body, "aspect_ratio", {"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9"})
    checks.integer(body, "steps_num", 20, 50)
    return _accept(call, body, "image")


def _structure(call: Call) -> Reply:
    body = call.json()
    if not any(body.get(name) for name in ("prompt", "images", "instruction")):
        raise Problem("invalid", "One of prompt, images or instruction is required.", field="prompt")
    return _accept(call, body, "instruction" if "instruction" in call.path else "prompt")


def _edit(call: Call) -> Reply:
    body = call.json()
    checks.items(body, "images", 1, required=True)
    checks.one_of(body, "model_version", {"FIBO", "FIBO-edit"})
    if not (body.get("instruction") or body.get("structured_instruction")):
        raise Problem("invalid", "One of instruction or structured_instruction is required.", field="instruction")
    checks.number(body, "guidance_scale", 3, 5)
    checks.integer(body, "steps_num", 20, 50)
    return _accept(call, body, "image")


def _act(call: Call) -> Reply:
    body, action = call.json(), call.parameters["action"]
    kind = "video" if call.path.startswith("/v2/video/") else "image"
    required = (VIDEO_ACTIONS if kind == "video" else IMAGE_ACTIONS).get(action)
    if required is None:
        raise Problem("not_found", "Not found.")
    checks.present(body, *required)
    checks.integer(body, "seed", 0, 2_147_483_647)
    checks.one_of(body, "desired_increase", {2, 4})
    checks.one_of(body, "mask_type", {"manual", "automatic"})
    checks.one_of(body, "season", {"spring", "summer", "autumn", "winter"})
    checks.one_of(body, "green_shade", {"broadcast_green", "chroma_green", "blue_screen"})
    return _accept(call, body, kind)


def _accept(call: Call, body: JsonObject, kind: str) -> Reply:
    is_sync = checks.one_of(body, "sync", {True, False}, default=False)
    task = call.submit(identifier().replace("-", ""), body, kind=kind, seed=call.seed())
    if not is_sync:
        return json_reply(202, {"request_id": task.id, "status_url": call.url(f"/v2/status/{task.id}")})
    if call.has("refused-output"):
        raise Problem("refused_output")
    if call.has("failed"):
        raise Problem("failed")
    return json_reply(200, {"result": _outcome(call, task), "request_id": task.id})


def _status(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    document: dict[str, object] = {"status": "IN_PROGRESS", "request_id": task.id}
    if task.stage != "ended":
        return json_reply(200, document)
    match rejection(task):
        case "refused" | "refused-output":
            error = {"code": 422, "message": _REFUSED["refused_output"], "details": "visual_output_content_moderation"}
            return json_reply(200, document | {"status": "ERROR", "error": error})
        case "failed":
            error = {"code": 500, "message": "The request could not be processed.", "details": ""}
            return json_reply(200, document | {"status": "ERROR", "error": error})
        case None:
            return json_reply(200, document | {"status": "COMPLETED", "result": _outcome(call, task)})


def _outcome(call: Call, task: Task) -> dict[str, object]:
    seed, kind = task.facts["seed"], task.facts["kind"]
    structured = json.dumps({"short_description": "A simulated picture."})
    if kind == "video":
        return {"video_url": call.link(clip(), "video.mp4", task)}
    if kind in ("prompt", "instruction"):
        return {f"structured_{kind}": structured, "seed": seed}
    url = call.link(picture("png", 1024, 1024, seed), "image.png", task)
    return {"image_url": url, "seed": seed, "structured_prompt": structured}


VENDOR = Vendor(
    name="bria",
    routes=(
        Route("POST", "/v2/image/generate", _generate),
        Route("POST", "/v2/structured_prompt/generate", _structure),
        Route("POST", "/v2/structured_instruction/generate", _structure),
        Route("POST", "/v2/image/edit", _edit),
        Route("POST", "/v2/image/edit/{action}", _act),
        Route("POST", "/v2/video/edit/{action}", _act),
        Route("GET", "/v2/status/{id}", _status),
    ),
    authorize=keys.header_key("api_token"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
    raises=frozenset({"refused"}),
)
