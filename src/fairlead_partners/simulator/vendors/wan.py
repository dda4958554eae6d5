"""Wan and HappyHorse (dashscope-intl.aliyuncs.com): asynchronous tasks for videos and images."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import identifier, rejection
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

from . import dashscope

MEDIA_TYPES = {
    "first_frame",
    "last_frame",
    "driving_audio",
    "first_clip",
    "reference_image",
    "reference_video",
    "reference_audio",
    "video",
    "file",
    "link",
}

_SERVICES = "/api/v1/services/aigc"
_STATUSES = {"queued": "PENDING", "running": "RUNNING", "cancelled": "CANCELED", "ended": "SUCCEEDED"}


def _video(call: Call) -> Reply:
    body = _body(call)
    checks.one_of(body, "parameters.resolution", {"480P", "720P", "1080P"})
    checks.one_of(body, "parameters.shot_type", {"single", "multi"})
    checks.integer(body, "parameters.duration", -1, 30)
    dashscope.size(body, (1280, 720))
    model = str(body["model"])
    if "t2v" in model:
        checks.text(body, "input.prompt", 20_000, required=True)
    if model.startswith(("wan2.5-i2v", "wan2.6-i2v")):
        checks.text(body, "input.img_url", 40_000_000, required=True)
    _check_media(checks.items(body, "input.media", 20))
    return _create(call, body, kind="video", lacks=_lacks(model, body))


def _image(call: Call) -> Reply:
    body = _body(call)
    checks.text(body, "input.prompt", 20_000, required=True)
    if call.path.startswith(f"{_SERVICES}/image2image"):
        checks.items(body, "input.images", 3, required=True)
    dashscope.size(body, (1280, 1280))
    return _create(call, body, kind="image", lacks="")


def _body(call: Call) -> Mapping[str, object]:
    if call.headers.get("x-dashscope-async") != "enable":
        message = "current user api does not support synchronous calls."
        raise Problem("invalid", message, status=403, code="AccessDenied")
    body = call.json()
    checks.text(body, "model", 100, required=True)
    if not str(body["model"]).startswith(("wan", "happyhorse")):
        raise Problem("invalid", "Model not exist.", field="model")
    dashscope.parameters(body)
    return body


def _check_media(media: list[Any]) -> None:
    for one in media:
        kind = one.get("type") if isinstance(one, dict) else None
        if kind not in MEDIA_TYPES:
            raise Problem("invalid", f"Input should be a known media type: input.media.type {kind!r}.")
        checks.text(one, "url", 40_000_000, required=True)


def _lacks(model: str, body: Mapping[str, object]) -> str:
    """Name the field whose absence is noticed only by the task, as this vendor does."""
    references = checks.at(body, "input.reference_video_urls") or checks.at(body, "input.reference_urls")
    media = checks.at(body, "input.media")
    if model.startswith(("wan2.7", "happyhorse")) and "t2v" not in model and not media:
        return "input.media"
    if model.startswith("wan2.6-r2v") and not (media or references):
        return "input.reference_urls"
    return "input.prompt" if model.startswith("wan3") and not (media or checks.at(body, "input.prompt")) else ""


def _create(call: Call, body: Mapping[str, object], *, kind: str, lacks: str) -> Reply:
    task = call.submit(identifier(), body, kind=kind, lacks=lacks, seed=call.seed())
    return json_reply(200, {"output": {"task_id": task.id, "task_status": "PENDING"}, "request_id": identifier()})


def _query(call: Call) -> Reply:
    id_ = call.parameters["id"]
    task = call.memory.tasks.get(call.vendor, id_)
    if task is None:
        return json_reply(200, {"request_id": identifier(), "output": {"task_id": id_, "task_status": "UNKNOWN"}})
    document: dict[str, object] = {"request_id": identifier()}
    output = {"task_id": task.id, "task_status": _STATUSES[task.stage], "submit_time": _time(task.created)}
    if task.stage != "ended":
        return json_reply(200, document | {"output": output})
    output |= {"scheduled_time": _time(task.created), "end_time": _time(task.updated)}
    error = _error(task)
    if error is not None:
        return json_reply(200, document | {"output": output | {"task_status": "FAILED"} | error})
    outcome, usage = _video_outcome(call, task) if task.facts["kind"] == "video" else _image_outcome(call, task)
    return json_reply(200, document | {"output": output | outcome, "usage": usage})


def _error(task: Task) -> dict[str, str] | None:
    match rejection(task):
        case "refused":
            return {"code": "DataInspectionFailed", "message": dashscope.INPUT_REFUSED}
        case "refused-output":
            return {"code": "DataInspectionFailed", "message": dashscope.OUTPUT_REFUSED}
        case "failed":
            return {"code": "InternalError", "message": dashscope.FAILED}
        case None:
            pass
    if task.facts["lacks"]:
        return {"code": "InvalidParameter", "message": f"Field required: {task.facts['lacks']}"}
    return None


def _video_outcome(call: Call, task: Task) -> tuple[dict[str, object], dict[str, object]]:
    asked = checks.integer(task.request, "parameters.duration", -1, 30, 5)
    duration = asked if asked > 0 else 5
    given = 5 if any(one.get("type") == "video" for one in _media(task.request)) else 0
    sides = dashscope.size(task.request, (1280, 720))
    resolution = checks.at(task.request, "parameters.resolution") or f"{min(sides)}P"
    prompt = checks.at(task.request, "input.prompt") or ""
    outcome = {
        "orig_prompt": prompt,
        **({} if checks.at(task.request, "parameters.prompt_extend") is False else {"actual_prompt": prompt}),
        "video_url": call.link(clip(), "video.mp4", task),
    }
    usage = {
        "duration": given + duration,
        "size": f"{sides[0]}*{sides[1]}",
        "input_video_duration": given,
        "output_video_duration": duration,
        "video_count": 1,
        "SR": int(str(resolution).rstrip("P")),
    }
    return outcome, usage


def _media(request: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The clips and pictures that are given."""
    found = checks.items(request, "input.media")
    return [one for one in found if isinstance(one, Mapping)]


def _image_outcome(call: Call, task: Task) -> tuple[dict[str, object], dict[str, object]]:
    count = checks.integer(task.request, "parameters.n", 1, 6, 1)
    sides = dashscope.size(task.request, (1280, 1280))
    prompt = checks.at(task.request, "input.prompt")
    results = [
        {
            "orig_prompt": prompt,
            "actual_prompt": prompt,
            "url": call.link(picture("png", *sides, task.facts["seed"] + n), f"image-{n}.png", task),
        }
        for n in range(count)
    ]
    metrics = {"TOTAL": count, "FAILED": 0, "SUCCEEDED": count}
    return {"results": results, "task_metrics": metrics}, {"image_count": count, "size": f"{sides[0]}*{sides[1]}"}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _cancel(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if task.stage != "queued":
        raise Problem("invalid", "Failed to cancel the task, only PENDING tasks can be canceled.")
    task.cancel()
    return json_reply(200, {"request_id": identifier()})


VENDOR = Vendor(
    name="wan",
    routes=(
        Route("POST", f"{_SERVICES}/video-generation/video-synthesis", _video),
        Route("POST", f"{_SERVICES}/text2image/image-synthesis", _image),
        Route("POST", f"{_SERVICES}/image2image/image-synthesis", _image),
        Route("GET", "/api/v1/tasks/{id}", _query),
        Route("POST", "/api/v1/tasks/{id}/cancel", _cancel, creates=False),
    ),
    authorize=keys.bearer,
    problem=dashscope.problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
