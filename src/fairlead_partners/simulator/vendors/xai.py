"""xAI (api.x.ai): images at once, videos by a request id that answers 202 while it is pending."""

from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

RATIOS = {"1:1", "16:9", "9:16", "4:3", "3:4", "3:2", "2:3", "2:1", "1:2", "19.5:9", "9:19.5", "20:9", "9:20", "auto"}
IMAGE_TICKS = 200_000_000
SECOND_TICKS = 500_000_000
MODERATED = "Generated image rejected by content moderation."

_CODES = {
    "unauthorized": "The caller does not have valid authentication credentials",
    "invalid": "Client specified an invalid argument",
    "not_found": "The requested resource was not found",
    "rate_limited": "Some resource has been exhausted",
    "refused": "Client specified an invalid argument",
    "refused_output": "Client specified an invalid argument",
}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "rate_limited": "Too many requests. Please retry after a short wait.",
            "refused": MODERATED,
            "refused_output": MODERATED,
            "failed": "The image could not be generated.",
        },
    )
    status = 422 if problem.code in ("missing", "type", "invalid_json") else 0
    if status:
        message = f"Failed to deserialize the JSON body into the target type: {message}"
    body = {"code": _CODES.get(problem.kind, "Internal error"), "error": message}
    return error_reply(problem, body, {"invalid": status} if status else None)


def _images(call: Call) -> Reply:
    body = call.json()
    _check(body)
    if call.path.endswith("/edits") and not (body.get("image") or body.get("images")):
        raise Problem("invalid", "missing field `image`", field="image", code="missing")
    count = checks.integer(body, "n", 1, 10, 1)
    format_ = checks.one_of(body, "response_format", {"url", "b64_json"}, "url")
    _raise_work_faults(call)
    pictures = [picture("jpeg", seed=call.seed() + number) for number in range(count)]
    data = [
        {"b64_json": made.base64()} if format_ == "b64_json" else {"url": call.link(made, f"image-{number}.jpg")}
        for number, made in enumerate(pictures)
    ]
    shared = {"mime_type": "image/jpeg", "revised_prompt": ""}
    return json_reply(
        200, {"data": [one | shared for one in data], "usage": {"cost_in_usd_ticks": count * IMAGE_TICKS}}
    )


def _raise_work_faults(call: Call) -> None:
    for name in ("refused", "refused-output"):
        if call.has(name):
            raise Problem("refused")
    if call.has("failed"):
        raise Problem("failed")


def _check(body: Mapping[str, object]) -> None:
    checks.text(body, "prompt", 8000, required=True)
    checks.text(body, "model", 100, required=True)
    checks.one_of(body, "aspect_ratio", RATIOS)
    checks.integer(body, "seed", 0, 2**63 - 1)


def _submit_video(call: Call) -> Reply:
    body = call.json()
    _check(body)
    checks.integer(body, "duration", 1, 15)
    checks.one_of(body, "resolution", {"480p", "720p", "1080p"})
    checks.items(body, "reference_images", 7)
    if body.get("image") is not None:
        checks.text(body, "image.url", 40_000_000, required=True)
    if call.path.endswith(("/edits", "/extensions")):
        checks.text(body, "video.url", 40_000_000, required=True)
    return json_reply(200, {"request_id": call.submit(identifier(), body).id})


def _video(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if task.stage != "ended":
        pending = {"status": "pending", "progress": round(task.progress * 100), "model": task.request["model"]}
        return json_reply(202, pending)
    return json_reply(200, _finish(call, task))


def _finish(call: Call, task: Task) -> dict[str, object]:
    duration = checks.integer(task.request, "duration", 1, 15, 8)
    model = task.request["model"]
    usage = {"cost_in_usd_ticks": duration * SECOND_TICKS}
    match rejection(task):
        case "refused":
            reason = "The prompt was rejected by content moderation."
            return {"status": "done", "block_reason": reason, "model": model, "usage": {"cost_in_usd_ticks": 0}}
        case "refused-output":
            video = {"url": "", "duration": duration, "respect_moderation": False}
            return {"status": "done", "video": video, "model": model, "usage": usage, "progress": 100}
        case "failed":
            error = {"code": "internal_error", "message": "Video generation failed due to an internal error."}
            return {
                "status": "failed",
                "video": {"duration": 0, "respect_moderation": True},
                "model": "",
                "error": error,
            }
        case None:
            url = call.link(clip(), "video.mp4", task)
            video = {"url": url, "duration": duration, "respect_moderation": True}
            return {"status": "done", "video": video, "model": model, "usage": usage, "progress": 100}


VENDOR = Vendor(
    name="xai",
    routes=(
        Route("POST", "/v1/images/generations", _images),
        Route("POST", "/v1/images/edits", _images),
        Route("POST", "/v1/videos/generations", _submit_video),
        Route("POST", "/v1/videos/edits", _submit_video),
        Route("POST", "/v1/videos/extensions", _submit_video),
        Route("GET", "/v1/videos/{id}", _video),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
