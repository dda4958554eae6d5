"""fal (queue.fal.run): any app path is a queue; what an app answers is guessed from its name.

The queue accepts whatever it is given: a bad request, a refusal and a failure show only when the response is fetched.
"""

import uuid
from typing import Any

from fairlead.partners.simulator import checks, keys
from fairlead.partners.simulator.answers import retry_headers
from fairlead.partners.simulator.media import Media, clip, glb, mp3, picture
from fairlead.partners.simulator.tasks import Task
from fairlead.partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_FAULTS = frozenset(
    {"invalid", "refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}
)  # fmt: skip
_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 422}
_KIND_WORDS = {
    "model": ("3d", "hunyuan3d", "hyper3d", "meshy", "trellis", "tripo"),
    "audio": ("audio", "speech", "tts", "music", "sound", "eleven", "voice"),
    "video": (
        "video", "seedance", "kling", "veo", "wan", "sora", "minimax", "h3-max", "ray", "ltx", "hailuo", "luma", "sync",
        "aleph", "happyhorse", "grok-imagine-video",
    ),
}  # fmt: skip
_POLICY = "The content could not be processed because it contained material flagged by a content checker."
_SIZES = {
    "square_hd": (1024, 1024),
    "square": (512, 512),
    "portrait_4_3": (768, 1024),
    "portrait_16_9": (576, 1024),
    "landscape_4_3": (1024, 768),
    "landscape_16_9": (1024, 576),
}


def _problem(problem: Problem) -> Reply:
    status = problem.status or _STATUSES.get(problem.kind, 500)
    message = problem.message
    if problem.kind == "unauthorized":
        message = "Authentication is required to access this application."
        if "Incorrect" in problem.message:
            message = "Invalid API key: the provided key does not exist or was revoked."
    elif problem.kind == "not_found":
        message = "Request not found"
    return json_reply(status, {"detail": message}, *retry_headers(problem))


def _submit(call: Call) -> Reply:
    body = call.json()
    app = call.parameters["app"].strip("/")
    if app.count("/") < 1:
        raise Problem("not_found")
    task = call.submit(str(uuid.uuid4()), body, app=app, kind=_kind(app, body), seed=call.seed())
    call.notify(task, call.query.get("fal_webhook"), lambda: _webhook(call, task))
    return json_reply(200, {"status": "IN_QUEUE", **_addresses(call, task), "queue_position": 0})


def _kind(app: str, body: Any) -> str:
    if app.endswith(("-to-image", "/image", "/edit", "text-to-image", "upscaler")) and "video" not in app:
        return "image"
    for kind, words in _KIND_WORDS.items():
        if any(word in app for word in words):
            return kind
    return "video" if isinstance(body, dict) and "video_url" in body else "image"


def _addresses(call: Call, task: Task) -> dict[str, Any]:
    owner, name = task.facts["app"].split("/")[:2]
    base = f"/{owner}/{name}/requests/{task.id}"
    return {
        "request_id": task.id,
        "response_url": call.url(base),
        "status_url": call.url(f"{base}/status"),
        "cancel_url": call.url(f"{base}/cancel"),
    }


def _status(call: Call) -> Reply:
    task = _task(call)
    document = _addresses(call, task)
    if task.stage == "queued":
        return json_reply(202, {"status": "IN_QUEUE", **document, "queue_position": 0})
    if task.stage == "running":
        return json_reply(202, {"status": "IN_PROGRESS", **document, "logs": []})
    document |= {"status": "COMPLETED", "logs": [], "metrics": {"inference_time": 0.2}}
    if task.stage == "cancelled":
        document |= {"error": "Request was cancelled", "error_type": "client_cancelled"}
    elif _failure(task) is not None:
        document |= {"error": "Invalid status code: 422", "error_type": "bad_request"}
    return json_reply(200, document)


def _task(call: Call) -> Task:
    task = call.task(call.parameters["id"])
    if not task.facts["app"].startswith("/".join(call.parameters["app"].split("/")[:2])):
        raise Problem("not_found")
    return task


def _response(call: Call) -> Reply:
    task = _task(call)
    if task.stage in ("queued", "running"):
        return json_reply(400, {"detail": "Request is still in progress"})
    if task.stage == "cancelled":
        document = {"detail": "Request was cancelled", "error_type": "client_cancelled"}
        return json_reply(499, document, ("x-fal-error-type", "client_cancelled"))
    failure = _failure(task)
    if failure is not None:
        status, detail = failure
        retryable = ("x-fal-retryable", "true" if status >= 500 else "false")
        return json_reply(status, {"detail": [detail]}, retryable, ("x-fal-request-id", task.id))
    return json_reply(200, _result(call, task), ("x-fal-request-id", task.id))


def _failure(task: Task) -> tuple[int, dict[str, Any]] | None:
    request = task.request
    if task.has("invalid") or ("prompt" in request and not isinstance(request["prompt"], str)):
        return 422, _detail("prompt", "Input should be a valid string", "string_type", request)
    if task.has("refused") or (task.has("refused-output") and task.facts["kind"] != "image"):
        return 422, _detail("prompt", _POLICY, "content_policy_violation", request)
    if task.has("failed"):
        return 500, _detail("", "Internal Server Error", "internal_server_error", request)
    return None


def _detail(field: str, message: str, kind: str, request: Any) -> dict[str, Any]:
    place = ["body", field] if field else ["body"]
    address = f"https://docs.fal.ai/errors#{kind}"
    return {"loc": place, "msg": message, "type": kind, "url": address, "input": dict(request)}


def _result(call: Call, task: Task) -> dict[str, Any]:
    seed = task.request.get("seed", task.facts["seed"])
    match task.facts["kind"]:
        case "video":
            return {"video": _file(call, task, clip()), "seed": seed}
        case "audio":
            return {"audio": _file(call, task, mp3(2.0)), "seed": seed}
        case "model":
            return {"model_mesh": _file(call, task, glb()), "seed": seed}
        case _:
            return _images(call, task, seed)


def _images(call: Call, task: Task, seed: object) -> dict[str, Any]:
    size = task.request.get("image_size")
    width, height = _SIZES.get(size, (1024, 1024)) if isinstance(size, str) else (1024, 1024)
    if isinstance(size, dict):
        width = checks.integer(size, "width", 14, 14_142, 512)
        height = checks.integer(size, "height", 14, 14_142, 512)
    format_ = task.request.get("output_format")
    count = checks.integer(task.request, "num_images", 1, 10, 1)
    images = []
    for number in range(count):
        media = picture(format_ if format_ in ("png", "webp") else "jpeg", width, height, task.facts["seed"] + number)
        file = _file(call, task, media, f"{number}.{media.extension}")
        images.append(file | {"width": width, "height": height})
    return {
        "images": images,
        "timings": {"inference": 0.2},
        "seed": seed,
        "has_nsfw_concepts": [task.has("refused-output")] * count,
        "prompt": task.request.get("prompt", ""),
    }


def _file(call: Call, task: Task, media: Media, name: str = "") -> dict[str, Any]:
    name = name or f"output.{media.extension}"
    return {
        "url": call.link(media, name, task),
        "content_type": media.content_type,
        "file_name": name,
        "file_size": len(media.content),
    }


def _webhook(call: Call, task: Task) -> dict[str, Any]:
    document: dict[str, Any] = {"request_id": task.id, "gateway_request_id": task.id}
    failure = _failure(task)
    if failure is not None:
        status, detail = failure
        return document | {
            "status": "ERROR",
            "error": f"Invalid status code: {status}",
            "payload": {"detail": [detail]},
        }
    return document | {"status": "OK", "payload": _result(call, task)}


def _cancel(call: Call) -> Reply:
    if _task(call).cancel():
        return json_reply(202, {"status": "CANCELLATION_REQUESTED"})
    return json_reply(400, {"status": "ALREADY_COMPLETED"})


VENDOR = Vendor(
    name="fal",
    routes=(
        Route("GET", "/{app:path}/requests/{id}/status", _status),
        Route("GET", "/{app:path}/requests/{id}", _response),
        Route("PUT", "/{app:path}/requests/{id}/cancel", _cancel, creates=False),
        Route("POST", "/{app:path}", _submit),
    ),
    authorize=keys.scheme("Key"),
    problem=_problem,
    supports=_FAULTS,
)
