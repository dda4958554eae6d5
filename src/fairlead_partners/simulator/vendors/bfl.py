"""Black Forest Labs (api.bfl.ai): every model is one submit address; results are polled for at `polling_url`.

A submit with a webhook names no `polling_url`. FLUX.3 and the tools below `flux-tools` say what they cost at the end.
"""

import math
import uuid
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, details, json_reply

_STATUSES = {"invalid": 422, "not_found": 404, "rate_limited": 429, "unauthorized": 403}
_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})
_PROMPTED = ("flux-2", "flux-3", "flux-pro-1.1", "flux-kontext", "flux-tools/vto", "flux-tools/video-edit")
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "flux-pro-1.0-fill": ("image",),
    "flux-pro-1.0-expand": ("image",),
    "flux-tools/erase-v1": ("image", "mask"),
    "flux-tools/vto-v1": ("person", "garment"),
    "flux-tools/video-edit-v1": ("video",),
    "flux-tools/video-upscale-v1": ("input_video",),
}
_MODES: Mapping[str | None, tuple[str, ...]] = {
    "t2v": (),
    "i2v": ("keyframes",),
    "v2v": ("start_video",),
    "draft_enhance": ("draft_cache",),
}
_CREDITS = {"hd": (17, 41), "fhd": (29, 53), "qhd": (40, 65), "uhd": (80, 95)}
"""What a second of a clip costs, and what one that goes on with another."""
_COSTS = {"flux-tools/video-upscale-v1": 700.0, "flux-tools/video-edit-v1": 15.0, "flux-tools/vto-v1": 3.75}
_AREA_COSTS = {"flux-2-pro": (3.0, 1.5), "flux-2-max": (7.0, 3.0)}
"""What the first megapixel costs, and a further one made or given (the vendor's list of FLUX.2)."""


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
    where = (
        {"status": "Pending", "webhook_url": body["webhook_url"]}
        if body.get("webhook_url")
        else {"polling_url": call.url(f"/v1/get_result?id={task.id}")}
    )
    return json_reply(
        200,
        {
            "id": task.id,
            **where,
            "cost": _cost(task),
            "input_mp": sum(1.0 for name in body if name.startswith("input_image") and body[name]),
            "output_mp": round(width * height / 1_000_000, 2),
        },
    )


def _check(model: str, body: Any) -> None:
    checks.text(body, "prompt", 32_000, required=model.startswith(_PROMPTED) and body.get("mode") != "draft_enhance")
    checks.present(body, *_REQUIRED.get(model, ()))
    if model == "flux-3-video":
        mode = checks.one_of(body, "mode", set(_MODES))
        checks.present(body, "mode", *_MODES.get(mode, ()))
        checks.one_of(body, "resolution", set(_CREDITS))
        if checks.at(body, "duration") != "auto":
            checks.integer(body, "duration", 5, 15 if mode == "v2v" else 20)
    elif model == "flux-3-image":
        checks.one_of(body, "resolution", {"768sq", "1k", "1.5k", "2k", "4k"})
    checks.one_of(body, "creativity", {0, 1})
    checks.number(body, "upscale_factor", 1.5, 3)
    checks.integer(body, "dilate_pixels", 0, 25)
    checks.integer(body, "width", 64, 2048)
    checks.integer(body, "height", 64, 2048)
    checks.one_of(body, "output_format", {"jpeg", "png", "webp", "mp4"})
    checks.integer(body, "safety_tolerance", 0, 6)
    checks.integer(body, "seed", 0, 2**63)
    checks.text(body, "input_image", 40_000_000)


def _cost(task: Task) -> float:
    """What the vendor takes for a task, in credits of a cent."""
    request, model = task.request, task.facts["model"]
    if model != "flux-3-video":
        return _COSTS.get(model) or _cost_by_area(model, request)
    seconds = request.get("duration", "auto")
    seconds = 5 if seconds == "auto" else seconds
    mode = request["mode"]
    if request.get("draft"):
        return seconds * (12.0 if mode == "v2v" else 6.0)
    resolution = request.get("resolution") or ("fhd" if mode == "draft_enhance" else "hd")
    return seconds * float(_CREDITS[resolution][mode == "v2v"])


def _cost_by_area(model: str, request: Mapping[str, object]) -> float:
    """FLUX.2: the first megapixel made, each further one begun, and each that is given, here one a picture."""
    first, further = _AREA_COSTS.get(model, (3.0, 0.0))
    width, height = _size(request)
    given = sum(1 for name in request if name.startswith("input_image") and request[name])
    return first + further * (math.ceil(width * height / 2**20) - 1 + given)


def _size(body: Any) -> tuple[int, int]:
    return checks.integer(body, "width", 64, 2048, 1024), checks.integer(body, "height", 64, 2048, 1024)


def _result(call: Call) -> Reply:
    id_ = call.query.get("id", "")
    task = call.memory.tasks.get(call.vendor, id_)
    if task is None:
        return json_reply(404, {"id": id_, "status": "Task not found", "result": None, "progress": None})
    return json_reply(200, _document(call, task))


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
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
    document |= {"status": "Ready", "result": _outcome(call, task)}
    return document | {"cost": _cost(task)} if task.facts["model"].startswith(("flux-3", "flux-tools/")) else document


def _outcome(call: Call, task: Task) -> dict[str, object]:
    if "video" in task.facts["model"]:
        media = clip()
    else:
        format_ = task.request.get("output_format") or "jpeg"
        media = picture(format_ if format_ in ("png", "webp") else "jpeg", *_size(task.request), task.facts["seed"])
    start = task.created
    draft = {"draft_cache": call.link(media, "draft.bin", task)} if task.request.get("draft") else {}
    return {
        "sample": call.link(media, f"sample.{media.extension}", task),
        "prompt": task.request.get("prompt", ""),
        "seed": task.facts["seed"],
        "start_time": start,
        "end_time": task.updated,
        "duration": round(task.updated - start, 3),
        **draft,
    }


VENDOR = Vendor(
    name="bfl",
    routes=(
        Route("GET", "/v1/get_result", _result),
        Route("POST", "/v1/{model:path}", _submit),
    ),
    authorize=keys.header_key("x-key"),
    problem=_problem,
    supports=_FAULTS,
)
