"""BytePlus ModelArk (ark.ap-southeast.bytepluses.com/api/v3): images, video tasks, chat."""

import secrets
import time
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.chat import ANSWER, completion, tokens
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_KINDS = {
    "unauthorized": (401, "AuthenticationError", "Unauthorized"),
    "not_found": (404, "NotFound", "NotFound"),
    "rate_limited": (429, "RateLimitExceeded.EndpointRPMExceeded", "TooManyRequests"),
    "invalid": (400, "InvalidParameter", "BadRequest"),
    "refused": (400, "InputTextSensitiveContentDetected", "BadRequest"),
    "refused_output": (400, "OutputImageSensitiveContentDetected", "BadRequest"),
}
_MESSAGES = {
    "unauthorized": "The API key in the request is missing or invalid.",
    "rate_limited": "The requests per minute limit of the associated endpoint for your account has been exceeded.",
    "refused": "The request failed because the input text may contain sensitive information.",
    "refused_output": "The request failed because the output image may contain sensitive information.",
}
_RATIOS = {"16:9", "4:3", "1:1", "3:4", "9:16", "21:9", "9:21", "adaptive"}
_PARTS = ("text", "image_url", "video_url", "audio_url", "draft_task")
_ROLES = {"first_frame", "last_frame", "reference_image", "reference_video", "reference_audio"}
_PIXELS = {"480p": (864, 496), "720p": (1248, 704), "1080p": (1920, 1088), "4k": (3840, 2160)}
_SEED_MAX = 4_294_967_295
_FRAMES_A_SECOND = 24
_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})


def _problem(problem: Problem) -> Reply:
    request = _request_id()
    status, code, type_ = _KINDS.get(problem.kind, (500, "InternalServiceError", "InternalServerError"))
    message = _MESSAGES.get(problem.kind) or problem.message or "The service encountered an unexpected internal error."
    if problem.kind == "invalid" and problem.code == "missing":
        code = "MissingParameter"
    error = {"code": code, "message": f"{message} Request id: {request}", "param": problem.field, "type": type_}
    return json_reply(problem.status or status, {"error": error}, ("x-request-id", request), *retry_headers(problem))


def _request_id() -> str:
    return "02" + str(time.time_ns())[:17] + secrets.token_hex(16)


def _images(call: Call) -> Reply:
    body = call.json()
    _check_images(body)
    if call.has("refused"):
        raise Problem("refused")
    if call.has("refused-output"):
        raise Problem("refused_output")
    if call.has("failed"):
        raise Problem("failed")
    width, height = _size(body.get("size"))
    media = picture(body.get("output_format") or "jpeg", width, height, call.seed())
    several = body.get("sequential_image_generation") == "auto"
    count = checks.integer(body, "sequential_image_generation_options.max_images", 1, 15, 1) if several else 1
    encoded = body.get("response_format") == "b64_json"
    size = f"{width}x{height}"
    data = [
        {"b64_json": media.base64(), "size": size} if encoded else {"url": call.link(media), "size": size}
        for _ in range(count)
    ]
    tokens = count * width * height // 256
    usage = {"generated_images": count, "output_tokens": tokens, "total_tokens": tokens}
    return json_reply(200, {"model": body["model"], "created": int(time.time()), "data": data, "usage": usage})


def _check_images(body: Mapping[str, object]) -> None:
    checks.text(body, "model", 200, required=True)
    checks.text(body, "prompt", 20_000, required=True)
    image = body.get("image")
    if image is not None and not isinstance(image, str):
        checks.items(body, "image", 14)
    checks.integer(body, "seed", -1, _SEED_MAX)
    checks.one_of(body, "response_format", {"url", "b64_json"})
    checks.one_of(body, "sequential_image_generation", {"auto", "disabled"})
    checks.one_of(body, "output_format", {"png", "jpeg"})
    checks.one_of(body, "watermark", {True, False})
    checks.number(body, "guidance_scale", 1, 10)
    if str(body["model"]).startswith("seededit"):
        checks.text(body, "image", 40_000_000, required=True)
    checks.text(body, "size", 20)


def _size(size: object) -> tuple[int, int]:
    named = {"1K": (1024, 1024), "1.5K": (1536, 1536), "2K": (2048, 2048), "3K": (3072, 3072), "4K": (4096, 4096)}
    if not isinstance(size, str) or size in named or size == "adaptive":
        return named.get(str(size), (2048, 2048))
    width, _, height = size.partition("x")
    if not width.isdigit() or not height.isdigit() or not 14 <= int(width) <= 8192 or not 14 <= int(height) <= 8192:
        raise Problem("invalid", f"The parameter `size` specified in the request is not valid: {size}.", field="size")
    return int(width), int(height)


def _submit(call: Call) -> Reply:
    body = call.json()
    _check_task(body)
    if call.has("refused"):
        raise Problem("refused")
    id_ = "cgt-" + time.strftime("%Y%m%d%H%M%S", time.gmtime()) + "-" + secrets.token_hex(5)
    task = call.submit(id_, body, seed=body.get("seed") if (body.get("seed") or -1) >= 0 else call.seed() % 99_999)
    call.notify(task, body.get("callback_url"), lambda: _document(call, task))
    return json_reply(200, {"id": task.id})


def _check_task(body: Mapping[str, object]) -> None:
    checks.text(body, "model", 200, required=True)
    for number, part in enumerate(checks.items(body, "content", 50, required=True)):
        if not isinstance(part, Mapping) or part.get("type") not in _PARTS:
            raise Problem("invalid", "content.type is not valid.", field=f"content[{number}].type")
        checks.present(part, str(part["type"]))
        checks.text(part, "text", 4096)
        checks.one_of(part, "role", _ROLES)
    if checks.at(body, "duration") != -1:
        checks.integer(body, "duration", 2, 30)
    checks.one_of(body, "ratio", _RATIOS)
    checks.one_of(body, "resolution", set(_PIXELS))
    checks.one_of(body, "service_tier", {"default", "flex"} if "seedance-1" in str(body["model"]) else {"default"})
    checks.one_of(body, "output_format", {"mp4", "mov"})
    checks.one_of(body, "generate_audio", {True, False})
    checks.one_of(body, "watermark", {True, False})
    checks.integer(body, "seed", -1, _SEED_MAX)
    checks.integer(body, "execution_expires_after", 3600, 259_200)


def _query(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    request = task.request
    statuses = {"queued": "queued", "running": "running", "cancelled": "cancelled", "ended": "succeeded"}
    document: dict[str, object] = {
        "id": task.id,
        "model": request["model"],
        "status": statuses[task.stage],
        "error": None,
        "created_at": int(task.created),
        "updated_at": int(task.updated),
        "service_tier": request.get("service_tier") or "default",
        "execution_expires_after": request.get("execution_expires_after") or 172_800,
    }
    if task.stage != "ended":
        return document
    if task.has("refused-output") or task.has("failed"):
        return document | {"status": "failed", "error": _failure(task)}
    return document | _outcome(call, task)


def _failure(task: Task) -> dict[str, str]:
    if task.has("refused-output"):
        message = "The request failed because the output video may contain sensitive information."
        return {"code": "OutputVideoSensitiveContentDetected", "message": f"{message} Request id: {_request_id()}"}
    return {"code": "InternalServiceError", "message": "The service encountered an unexpected internal error."}


def _outcome(call: Call, task: Task) -> dict[str, object]:
    request = task.request
    seconds = request.get("duration") or 5
    seconds = 5 if seconds == -1 else seconds
    resolution = request.get("resolution") or "720p"
    width, height = _PIXELS[resolution]
    tokens = seconds * width * height * _FRAMES_A_SECOND // 1024
    content = {"video_url": call.link(clip(), "video.mp4", task)}
    if request.get("return_last_frame"):
        content["last_frame_url"] = call.link(picture("png", 64, 64), "last_frame.png", task)
    return {
        "content": content,
        "usage": {"completion_tokens": tokens, "total_tokens": tokens},
        "seed": task.facts["seed"],
        "resolution": resolution,
        "ratio": request.get("ratio") or "16:9",
        "duration": seconds,
        "framespersecond": _FRAMES_A_SECOND,
        "generate_audio": request.get("generate_audio", True),
    }


def _cancel(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if task.stage == "running":
        raise Problem("invalid", f"The task {task.id} is running and cannot be cancelled.", status=409)
    if not task.cancel():
        call.memory.tasks.forget(task)
    return json_reply(200, {})


def _chat(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 200, required=True)
    messages = checks.items(body, "messages", required=True)
    if call.has("refused"):
        raise Problem("refused")
    if call.has("failed"):
        raise Problem("failed")
    answer = completion(_request_id(), body["model"], messages, filtered=call.has("refused-output"))
    return json_reply(200, answer)


def _respond(call: Call) -> Reply:
    body = call.json()
    model = checks.text(body, "model", 200, required=True)
    checks.present(body, "input")
    if call.has("refused"):
        raise Problem("refused")
    if call.has("failed"):
        raise Problem("failed")
    is_filtered, given = call.has("refused-output"), tokens(body["input"])
    part = {"type": "output_text", "text": "" if is_filtered else ANSWER, "annotations": []}
    message = {"id": "msg_" + _request_id(), "type": "message", "role": "assistant", "content": [part]}
    made = tokens(part["text"])
    answer = {
        "id": "resp_" + _request_id(),
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "incomplete" if is_filtered else "completed",
        "incomplete_details": {"reason": "content_filter"} if is_filtered else None,
        "error": None,
        "output": [message | {"status": "incomplete" if is_filtered else "completed"}],
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": made,
            "total_tokens": given + made,
        },
    }
    return json_reply(200, answer)


VENDOR = Vendor(
    name="byteplus",
    routes=(
        Route("POST", "/api/v3/images/generations", _images),
        Route("POST", "/api/v3/contents/generations/tasks", _submit),
        Route("GET", "/api/v3/contents/generations/tasks/{id}", _query),
        Route("DELETE", "/api/v3/contents/generations/tasks/{id}", _cancel),
        Route("POST", "/api/v3/chat/completions", _chat),
        Route("POST", "/api/v3/responses", _respond),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
