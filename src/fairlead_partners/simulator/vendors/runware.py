"""Runware (api.runware.ai/v1): one address, an array of tasks in, and what became of each out."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, status_of, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, JsonObject, Problem, Reply, Route, Vendor, json_reply
from fairlead_partners.simulator.work import App, Choice, Range, Work

KINDS = {
    "imageInference": "image",
    "imageUpscale": "image",
    "upscale": "image",
    "removeBackground": "image",
    "imageBackgroundRemoval": "image",
    "videoInference": "video",
}
"""What each type of task makes."""

_IMAGES = App(
    "image",
    outputs=Range("numberResults", 1, 20, 1),
    pictures=("seedImage", "inputs.referenceImages"),
    extras=("lora", "controlNet", "embeddings", "ipAdapters", "advancedFeatures", "refiner", "webhookURL"),
)
MODELS: Mapping[str, App] = {
    "bfl:2@1": _IMAGES,
    "bfl:5@1": _IMAGES,
    "openai:gpt-image@2": replace(
        _IMAGES, quality=Choice("providerSettings.openai.quality", ("low", "medium", "high", "auto"), "auto")
    ),
    "klingai:5@3": App("video", seconds=Range("duration", 1, 60, 5)),
}
"""The models that are known here, by their AIR; any other is an invalid `model`."""

TASKS_MAX = 100
COSTS = {"image": 0.0026, "video": 0.14}

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_CODES = {
    "unauthorized": "invalidApiKey",
    "not_found": "taskNotFound",
    "rate_limited": "rateLimitExceeded",
    "refused": "invalidProviderContent",
    "refused_output": "invalidProviderContent",
    "failed": "providerError",
}
_WORDS = {
    "refused": "Invalid content detected. The provider's content moderation rejected the request.",
    "refused-output": "Invalid content detected. The provider's content moderation rejected the output.",
    "failed": "The provider could not complete the task.",
}
_DOCUMENTATION = "https://runware.ai/docs/platform/errors"


def _problem(problem: Problem) -> Reply:
    return error_reply(problem, {"errors": [_error(problem, {})]})


def _error(problem: Problem, task: Mapping[str, object]) -> dict[str, Any]:
    message = words_of(
        problem,
        {
            "unauthorized": "Invalid API key. Get one at https://my.runware.ai/signup",
            "refused": _WORDS["refused"],
            "failed": _WORDS["failed"],
            "rate_limited": "Too many requests.",
            "server_error": "Internal server error.",
        },
    )
    default = "missingParameter" if problem.code == "missing" else "invalidParameter"
    error = {"code": _CODES.get(problem.kind, "internalError"), "message": message}
    if problem.kind == "invalid":
        error["code"] = default
        error["documentation"] = _DOCUMENTATION
    if problem.kind == "unauthorized":
        return error | {"parameter": "apiKey", "type": "string", "taskType": "authentication"}
    if problem.field:
        error["parameter"] = problem.field
    return error | {name: task[name] for name in ("taskType", "taskUUID") if isinstance(task.get(name), str)}


def _key(call: Call) -> str | None:
    """Take the key from the header, or from a task `authentication` that comes first."""
    complaint = keys.bearer(call)
    if complaint is None or not call.body.lstrip().startswith(b"["):
        return complaint
    tasks = call.value()
    first = tasks[0] if tasks and isinstance(tasks[0], dict) else {}
    return keys.check_key(str(first.get("apiKey") or "")) if first.get("taskType") == "authentication" else complaint


def _run(call: Call) -> Reply:
    given = call.value()
    if not isinstance(given, list) or not given or len(given) > TASKS_MAX:
        raise Problem("invalid", f"The request must be an array of 1 to {TASKS_MAX} tasks.")
    data: list[dict[str, object]] = []
    errors: list[dict[str, object]] = []
    status = 200
    for task in given:
        try:
            made, failures = _task(call, task if isinstance(task, dict) else {})
            data += made
            errors += failures
        except Problem as problem:
            status = status_of(problem)
            errors.append(_error(problem, task if isinstance(task, dict) else {}))
    body: dict[str, object] = {"data": data} if data or not errors else {}
    # An error among results does not change the status; a request of errors only has the last one's.
    return json_reply(200 if data else status, body | ({"errors": errors} if errors else {}))


def _task(call: Call, task: JsonObject) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    type_ = checks.text(task, "taskType", 60, required=True)
    if type_ in ("authentication", "ping"):
        return [{"taskType": type_, "pong": True} if type_ == "ping" else {"taskType": type_}], []
    uuid = checks.text(task, "taskUUID", 36, required=True)
    if _UUID.fullmatch(uuid) is None:
        raise Problem("invalid", "'taskUUID' must be a UUID v4.", field="taskUUID")
    if type_ == "getResponse":
        return _response(call, uuid)
    if type_ not in KINDS:
        raise Problem("invalid", f"Invalid value for 'taskType': {type_!r}.", field="taskType")
    _check(task, KINDS[type_])
    kind = KINDS[type_]
    delivery = checks.one_of(task, "deliveryMethod", {"sync", "async"}, "async" if kind == "video" else "sync")
    work = _work(task, kind)
    call.made.append(work.document(str(task.get("model") or type_)))
    made = call.submit(uuid, task, kind=kind, work=work, seed=task.get("seed") or call.seed())
    if delivery == "async":
        return [{"taskType": type_, "taskUUID": uuid}], []
    for fault in ("refused", "refused-output", "failed"):
        if call.has(fault):
            raise Problem("failed" if fault == "failed" else "refused", status=500 if fault == "failed" else 400)
    return _results(call, made), []


def _check(task: JsonObject, kind: str) -> None:
    if str(task["taskType"]).endswith("Inference"):
        checks.text(task, "model", 200, required=True)
        checks.text(task, "positivePrompt", 100_000)
        if not any(
            task.get(name) for name in ("positivePrompt", "seedImage", "frameImages", "referenceImages", "inputs")
        ):
            raise Problem("invalid", "'positivePrompt' is required.", field="positivePrompt", code="missing")
    for side in ("width", "height"):
        checks.integer(task, side, 64, 8192)
    checks.integer(task, "numberResults", 1, 20)
    checks.one_of(task, "outputType", {"URL", "base64Data", "dataURI"})
    formats = {"image": {"JPG", "PNG", "WEBP"}, "video": {"MP4", "WEBM"}}
    checks.one_of(task, "outputFormat", formats[kind])
    checks.one_of(task, "includeCost", {True, False})
    checks.integer(task, "seed", 0, 2**63 - 1)


def _work(task: JsonObject, kind: str) -> Work:
    """Return what a task makes; Problem `invalid` for a model that is not known, or of another kind."""
    if not str(task["taskType"]).endswith("Inference"):
        return App("image", pictures=("inputImage",)).work(task)
    known = MODELS.get(task["model"])
    if known is None or known.kind != kind:
        raise Problem("invalid", f"No {kind} model has the AIR {task['model'][:80]!r}.", field="model")
    return known.work(task)


def _response(call: Call, uuid: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    task = call.memory.tasks.get(call.vendor, uuid)
    if task is None:
        raise Problem("not_found", f"No task was found with taskUUID '{uuid}'.", field="taskUUID")
    named = {"taskType": task.request["taskType"], "taskUUID": uuid}
    rejected = rejection(task)
    if rejected is not None:
        code = _CODES["failed" if rejected == "failed" else "refused"]
        return [], [{"code": code, "status": "error", "message": _WORDS[rejected], **named}]
    if task.stage != "ended":
        return [{**named, "status": "processing"}], []
    return [one | {"status": "success"} for one in _results(call, task)], []


def _results(call: Call, task: Task) -> list[dict[str, object]]:
    return [_result(call, task, number) for number in range(task.facts["work"].outputs)]


def _result(call: Call, task: Task, number: int) -> dict[str, object]:
    kind, seed = task.facts["kind"], task.facts["seed"] + number
    work = task.facts["work"]
    format_ = str(task.request.get("outputFormat") or "JPG").lower()
    media = clip() if kind == "video" else picture(format_, work.width, work.height, seed)
    result = {
        "taskType": task.request["taskType"],
        "taskUUID": task.id,
        f"{kind}UUID": identifier(),
        "seed": seed,
    }
    if kind == "image":
        result["NSFWContent"] = False
    if task.request.get("includeCost"):
        result["cost"] = COSTS[kind]
    match task.request.get("outputType"):
        case "base64Data":
            return result | {f"{kind}Base64Data": media.base64()}
        case "dataURI":
            return result | {f"{kind}DataURI": f"data:{media.content_type};base64,{media.base64()}"}
        case _:
            return result | {f"{kind}URL": call.link(media, f"{kind}-{number}.{media.extension}", task)}


VENDOR = Vendor(
    name="runware",
    routes=(Route("POST", "/v1", _run),),
    authorize=_key,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
