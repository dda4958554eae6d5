"""Moonvalley (api.moonvalley.ai/v1): prompts, one address a kind, polled for by id."""

from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "text-to-video": ("prompt_text",),
    "image-to-video": ("prompt_text", "image_url"),
    "text-to-image": ("prompt_text",),
    "video-to-video": ("prompt_text", "video_url", "control_type"),
    "video-to-video/resize": ("video_url",),
}

_STATUSES = {"queued": "pending", "running": "processing", "ended": "completed", "cancelled": "canceled"}


def _problem(problem: Problem) -> Reply:
    if problem.kind == "invalid" and not problem.status:
        kind = "missing" if problem.code == "missing" else "value_error"
        place = ["body", *problem.field.split(".")] if problem.field else ["body"]
        return json_reply(422, {"detail": [{"type": kind, "loc": place, "msg": problem.message}]})
    message = words_of(problem, {"unauthorized": "Invalid API key", "rate_limited": "Rate limit exceeded"})
    return error_reply(problem, {"detail": message})


def _submit(call: Call) -> Reply:
    body, kind = call.json(), call.parameters["kind"]
    required = REQUIRED.get(kind)
    if required is None:
        raise Problem("not_found", "Not Found")
    checks.present(body, *required)
    checks.text(body, "prompt_text", 10_000)
    checks.one_of(body, "control_type", {"motion_control", "pose_control"})
    for name, low, high in (("width", 64, 4096), ("height", 64, 4096), ("steps", 1, 100), ("num_frames", 1, 1000)):
        checks.integer(body, f"inference_params.{name}", low, high)
    checks.number(body, "inference_params.guidance_scale", 0, 20)
    checks.integer(body, "inference_params.seed", 0, 4_294_967_295)
    task = call.submit(identifier(), body, kind=kind, seed=call.seed())
    call.notify(task, body.get("webhook_url"), lambda: _document(call, task))
    return json_reply(200, _document(call, task))


def _get(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
        "id": task.id,
        "status": _STATUSES[task.stage],
        "prompt_text": task.request.get("prompt_text"),
        "inference_params": task.request.get("inference_params") or {},
        "model_params": {},
        "frame_conditioning": {},
        "meta": {},
        "output_url": None,
        "error": None,
    }
    match rejection(task):
        case "refused" | "refused-output":
            error = {"code": "content_moderation", "message": "The prompt violates the content policy."}
            return document | {"status": "error", "error": error}
        case "failed":
            return document | {"status": "error", "error": {"code": "internal_error", "message": "Inference failed."}}
        case None:
            pass
    if task.stage == "ended":
        is_image = task.facts["kind"] == "text-to-image"
        media = picture("png", seed=task.facts["seed"]) if is_image else clip()
        document["output_url"] = call.link(media, f"output.{media.extension}", task)
    return document


VENDOR = Vendor(
    name="moonvalley",
    routes=(Route("POST", "/v1/prompts/{kind:path}", _submit), Route("GET", "/v1/prompts/{id}", _get)),
    authorize=keys.either(keys.header_key("x-api-key"), keys.bearer),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
