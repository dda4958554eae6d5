"""Kling's API of 2026 (api-singapore.klingai.com): the model in the path, an API key, tasks queried by their ids."""

import time
import uuid
from collections.abc import Collection, Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import rejection, retry_headers
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_STATUSES = {"queued": "submitted", "running": "processing", "ended": "succeeded", "cancelled": "failed"}
_KINDS = {
    "unauthorized": (401, 1002, "Authorization is invalid"),
    "not_found": (404, 1203, "The requested resource does not exist"),
    "rate_limited": (429, 1302, "API requests are too fast and exceed the platform rate limit"),
    "refused": (400, 1301, "The platform's content security policy was triggered"),
}
_SERVER_CODES = {503: (5001, "Server temporarily unavailable"), 504: (5002, "Server internal timeout")}
_UNITS = {
    "kling-3.0-turbo": {"720p": 0.8, "1080p": 1.0},
    "kling-4.0": {"720p": 1.12, "1080p": 1.68},
    "kling-4.0-flash": {"720p": 0.67},
}
"""What a second costs, by the model and the resolution, in the vendor's units; those of 4.0 fit what resellers ask."""
_SECONDS_MAX = {"kling-3.0-turbo": 15, "kling-4.0": 30, "kling-4.0-flash": 20}
_PROMPT_MAX = {"kling-3.0-turbo": 3072, "kling-4.0": 26_000, "kling-4.0-flash": 26_000}
_RATIOS = {"16:9", "9:16", "1:1"}
_FRAMES = {"kling-3.0-turbo": {"first_frame"}, "kling-4.0": {"first_frame", "middle_frame", "last_frame"}}


def _problem(problem: Problem) -> Reply:
    if problem.kind == "invalid":
        return _envelope(problem.status or 400, 1201, problem.message or "Invalid request parameters")
    if problem.kind in _KINDS:
        status, code, message = _KINDS[problem.kind]
        return _envelope(problem.status or status, code, message, None, *retry_headers(problem))
    status = problem.status or 500
    code, message = _SERVER_CODES.get(status, (5000, "Server internal error"))
    return _envelope(status, code, message)


def _envelope(status: int, code: int, message: str, data: object = None, *headers: tuple[str, str]) -> Reply:
    body: dict[str, object] = {"code": code, "message": message, "request_id": str(uuid.uuid4())}
    return json_reply(status, body if data is None else body | {"data": data}, *headers)


def _words(call: Call) -> Reply:
    body, model = call.json(), _model(call, _UNITS)
    checks.text(body, "prompt", _PROMPT_MAX[model], required=True)
    wide = {"21:9", "4:3", "3:4"} if model.startswith("kling-4.0") else set()
    checks.one_of(body, "settings.aspect_ratio", _RATIOS | wide)
    return _submit(call, body, model)


def _model(call: Call, known: Collection[str]) -> str:
    model = call.parameters["model"]
    if model not in known:
        raise Problem("not_found")
    return model


def _frame(call: Call) -> Reply:
    body, model = call.json(), _model(call, _FRAMES)
    contents = checks.items(body, "contents", 2 if model == "kling-3.0-turbo" else 11, required=True)
    kinds = [part.get("type") for part in contents if isinstance(part, Mapping)]
    if "first_frame" not in kinds:
        raise Problem("invalid", "contents needs a first_frame", field="contents")
    for part in contents:
        if not isinstance(part, Mapping) or part.get("type") not in {"prompt", *_FRAMES[model]}:
            raise Problem("invalid", "contents.type is not valid", field="contents")
        checks.present(part, "text" if part["type"] == "prompt" else "url")
        checks.text(part, "text", 2500 if model == "kling-3.0-turbo" else 26_000)
    return _submit(call, body, model)


def _submit(call: Call, body: Mapping[str, object], model: str) -> Reply:
    for name in ("settings", "options"):
        if not isinstance(body.get(name, {}), Mapping):
            raise Problem("invalid", f"{name} must be an object", field=name)
    checks.one_of(body, "settings.resolution", set(_UNITS[model]))
    checks.integer(body, "settings.duration", 3, _SECONDS_MAX[model])
    task = call.submit(str(time.time_ns()), body, model=model)
    call.notify(task, checks.at(body, "options.callback_url"), lambda: _document(call, task))
    return _envelope(200, 0, "SUCCEED", {"id": task.id, "status": "submitted", **_times(task)})


def _query(call: Call) -> Reply:
    ids = call.query.get("task_ids", "").split(",")
    tasks = [call.memory.tasks.get(call.vendor, id_) for id_ in ids[:100]]
    found = [_document(call, task) for task in tasks if task is not None]
    if not found:
        raise Problem("not_found")
    return _envelope(200, 0, "SUCCEED", found)


def _document(call: Call, task: Task) -> dict[str, object]:
    document = {"id": task.id, "status": _STATUSES[task.stage], "message": "", **_times(task)}
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "failed", "message": "Failure to pass the risk control system"}
        case "failed":
            return document | {"status": "failed", "message": "The generation failed because of an internal error"}
        case None:
            pass
    if task.stage != "ended":
        return document
    model = task.facts["model"]
    seconds = checks.integer(task.request, "settings.duration", 3, _SECONDS_MAX[model], 5)
    amount = seconds * _UNITS[model][checks.one_of(task.request, "settings.resolution", set(_UNITS[model]), "720p")]
    output = {"type": "video", "id": f"v{task.id}", "url": call.link(clip(), "video.mp4", task)}
    return document | {
        "outputs": [output | {"duration": str(seconds)}],
        "billing": [{"charge_type": "unit", "amount": f"{amount:g}", "package_type": "video"}],
    }


def _times(task: Task) -> dict[str, int]:
    return {"create_time": int(task.created * 1000), "update_time": int(task.updated * 1000)}


VENDOR = Vendor(
    name="kling-tasks",
    routes=(
        Route("POST", "/text-to-video/{model}", _words),
        Route("POST", "/image-to-video/{model}", _frame),
        Route("GET", "/tasks", _query),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
