"""fal (queue.fal.run): every app is a queue; what an app makes of a body is in its entry of `APPS`.

The queue accepts whatever it is given: a bad request, a refusal and a failure show only when the response is fetched.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead_partners.simulator import keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import Media, clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply
from fairlead_partners.simulator.work import App, Choice, Range, Work

_FAULTS = frozenset(
    {"invalid", "refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}
)  # fmt: skip
_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 422}
_POLICY = "The content could not be processed because it contained material flagged by a content checker."
_SIZES = {
    "square_hd": (1024, 1024),
    "square": (512, 512),
    "portrait_4_3": (768, 1024),
    "portrait_16_9": (576, 1024),
    "landscape_4_3": (1024, 768),
    "landscape_16_9": (1024, 576),
}


_SIZE = App("image", size="image_size", sizes={**_SIZES, "auto": (2048, 2048)}, default_size=(1024, 768))
_EDIT = replace(_SIZE, default_size=(2048, 2048), needs=("image_urls",), pictures=("image_urls",))
_GEMINI = App(
    "image",
    outputs=Range("num_images", 1, 4, 1),
    quality=Choice("resolution", ("0.5K", "1K", "2K", "4K"), "1K"),
    extras=("enable_web_search",),
)
_IDEOGRAM = App(
    "image",
    outputs=Range("num_images", 1, 8, 1),
    quality=Choice("rendering_speed", ("TURBO", "BALANCED", "QUALITY"), "BALANCED"),
)
_GPT = replace(
    _SIZE, outputs=Range("num_images", 1, 10, 1), quality=Choice("quality", ("low", "medium", "high", "auto"), "high")
)
_KLING = App(
    "video",
    seconds=Range("duration", 3, 15, 5),
    shots="multi_prompt",
    sound=("generate_audio", True),
    extras=("voice_ids", "elements"),
)
_SEEDANCE = App(
    "video",
    seconds=Range("duration", 4, 15, 15, auto=15),
    quality=Choice("resolution", ("480p", "720p", "1080p", "4k"), "720p"),
    sound=("generate_audio", True),
)
_H3 = App("video", seconds=Range("duration", 5, 15, 5), quality=Choice("resolution", ("480P", "768P", "1080P"), "768P"))
_CRYSTAL = "clarityai/crystal-upscaler"
_PATINA = "fal-ai/patina"
_MAPS = ("basecolor", "normal", "roughness", "metalness", "height")
_MEGAPIXEL = 1_000_000
_STYLES = ("any", "realistic_image", "digital_illustration", "vector_illustration", "vector_illustration/engraving")
APPS: Mapping[str, App] = {
    "fal-ai/flux-2-pro": _SIZE,
    "fal-ai/flux-2-pro/edit": _EDIT,
    "fal-ai/gemini-3-pro-image-preview": _GEMINI,
    "fal-ai/gemini-3-pro-image-preview/edit": replace(_GEMINI, needs=("image_urls",), pictures=("image_urls",)),
    **{f"fal-ai/{name}": _GEMINI for name in ("nano-banana-2", "nano-banana-pro")},
    **{
        f"fal-ai/{name}/edit": replace(_GEMINI, needs=("image_urls",), pictures=("image_urls",))
        for name in ("nano-banana-2", "nano-banana-pro")
    },
    "fal-ai/ideogram/v3": replace(_SIZE, outputs=_IDEOGRAM.outputs, quality=_IDEOGRAM.quality),
    "fal-ai/ideogram/v3/edit": replace(_IDEOGRAM, needs=("image_url", "mask_url"), pictures=("image_url",)),
    "openai/gpt-image-2": _GPT,
    "openai/gpt-image-2/edit": replace(_EDIT, outputs=_GPT.outputs, quality=_GPT.quality),
    "fal-ai/recraft/v3/text-to-image": replace(_SIZE, quality=Choice("style", _STYLES, "realistic_image")),
    _CRYSTAL: App("image", needs=("image_url",), pictures=("image_url",)),
    "fal-ai/kling-video/v3/pro/text-to-video": _KLING,
    "fal-ai/kling-video/v3/pro/image-to-video": replace(
        _KLING, needs=("start_image_url",), pictures=("start_image_url",)
    ),
    "minimax/h3-max/text-to-video": _H3,
    "minimax/h3-max/image-to-video": replace(_H3, needs=("image_url",), pictures=("image_url",)),
    "minimax/h3-max/reference-to-video": replace(
        _H3, pictures=("reference_image_urls",), clips=("reference_video_urls",)
    ),
    "minimax/h3-max-turbo/text-to-video": _H3,
    "minimax/h3-max-turbo/image-to-video": replace(_H3, needs=("image_url",), pictures=("image_url",)),
    _PATINA: App("image", needs=("image_url",), pictures=("image_url",)),
    "wan/v2.6/text-to-video": App(
        "video", seconds=Range("duration", 5, 15, 5), quality=Choice("resolution", ("720p", "1080p"), "1080p")
    ),
    "bytedance/seedance-2.0/text-to-video": _SEEDANCE,
    "bytedance/seedance-2.0/image-to-video": replace(_SEEDANCE, needs=("image_url",), pictures=("image_url",)),
    "bytedance/seedance-2.0/reference-to-video": replace(_SEEDANCE, pictures=("image_urls",), clips=("video_urls",)),
}
"""The apps that are known here; any other is answered 404, as one that does not exist."""


def _problem(problem: Problem) -> Reply:
    status = problem.status or _STATUSES.get(problem.kind, 500)
    message = problem.message
    if problem.kind == "unauthorized":
        message = "Authentication is required to access this application."
        if "Incorrect" in problem.message:
            message = "Invalid API key: the provided key does not exist or was revoked."
    elif problem.kind == "not_found":
        message = problem.message or "Request not found"
    return json_reply(status, {"detail": message}, *retry_headers(problem))


def _submit(call: Call) -> Reply:
    body = call.json()
    app = call.parameters["app"].strip("/")
    known = APPS.get(app)
    if known is None:
        raise Problem("not_found", f"Application '{app[:80]}' not found")
    work: Work | Problem
    try:
        work = known.work(body)
        if app == _PATINA:
            work = replace(work, outputs=len(_maps(body)))
        call.made.append(work.document(app))
    except Problem as problem:
        work = problem
    task = call.submit(str(uuid.uuid4()), body, app=app, work=work, kind=known.kind, seed=call.seed())
    call.notify(task, call.query.get("fal_webhook"), lambda: _webhook(call, task))
    return json_reply(200, {"status": "IN_QUEUE", **_addresses(call, task), "queue_position": 0})


def _addresses(call: Call, task: Task) -> dict[str, object]:
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
    return json_reply(200, _result(call, task), ("x-fal-request-id", task.id), *_billed_units(task))


def _billed_units(task: Task) -> tuple[tuple[str, str], ...]:
    """Tell what is billed, in units of the app's price, where how much it is shows nowhere else."""
    work = task.facts["work"]
    megapixels = work.width * work.height * work.outputs / _MEGAPIXEL
    match task.facts["app"]:
        case app if app == _CRYSTAL:
            units = megapixels
        case app if app == _PATINA:
            units = 1 + megapixels
        case _:
            return ()
    return (("x-fal-billable-units", f"{units:.6f}"),)


def _failure(task: Task) -> tuple[int, dict[str, object]] | None:
    request = task.request
    if task.has("invalid") or ("prompt" in request and not isinstance(request["prompt"], str)):
        return 422, _detail("prompt", "Input should be a valid string", "string_type", request)
    if task.has("refused") or (task.has("refused-output") and task.facts["kind"] != "image"):
        return 422, _detail("prompt", _POLICY, "content_policy_violation", request)
    if isinstance(task.facts["work"], Problem):
        problem = task.facts["work"]
        return 422, _detail(problem.field, problem.message, "value_error", request)
    if task.has("failed"):
        return 500, _detail("", "Internal Server Error", "internal_server_error", request)
    return None


def _detail(field: str, message: str, kind: str, request: Any) -> dict[str, object]:
    place = ["body", field] if field else ["body"]
    address = f"https://docs.fal.ai/errors#{kind}"
    return {"loc": place, "msg": message, "type": kind, "url": address, "input": dict(request)}


def _result(call: Call, task: Task) -> dict[str, object]:
    seed = task.request.get("seed", task.facts["seed"])
    match task.facts["kind"]:
        case "video":
            return {"video": _file(call, task, clip()), "seed": seed}
        case _:
            return _images(call, task, seed)


def _images(call: Call, task: Task, seed: object) -> dict[str, object]:
    format_ = task.request.get("output_format")
    work = task.facts["work"]
    width, height, count = work.width, work.height, work.outputs
    maps = _maps(task.request) if task.facts["app"] == _PATINA else ()
    images = []
    for number in range(count):
        media = picture(format_ if format_ in ("png", "webp") else "jpeg", width, height, task.facts["seed"] + number)
        file = _file(call, task, media, f"{number}.{media.extension}")
        images.append(file | {"width": width, "height": height})
    for image, name in zip(images, maps, strict=False):
        image["map_type"] = name
    return {
        "images": images,
        "timings": {"inference": 0.2},
        "seed": seed,
        "has_nsfw_concepts": [task.has("refused-output")] * count,
        "prompt": task.request.get("prompt", ""),
    }


def _maps(request: Mapping[str, object]) -> tuple[str, ...]:
    """Return the maps of a material that are asked for: all, unless they are named."""
    named = request.get("maps")
    return tuple(str(name) for name in named) if isinstance(named, list) and named else _MAPS


def _file(call: Call, task: Task, media: Media, name: str = "") -> dict[str, object]:
    name = name or f"output.{media.extension}"
    return {
        "url": call.link(media, name, task),
        "content_type": media.content_type,
        "file_name": name,
        "file_size": len(media.content),
    }


def _webhook(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {"request_id": task.id, "gateway_request_id": task.id}
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
