"""Pruna (api.pruna.ai): predictions of the model that a header names, polled for or waited for."""

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

RATIOS = {"16:9", "9:16", "4:3", "3:4", "3:2", "2:3", "1:1"}

_STATUSES = {"queued": "starting", "running": "processing", "ended": "succeeded", "cancelled": "canceled"}
_TITLES = {
    "unauthorized": "Unauthorized",
    "invalid": "Bad Request",
    "not_found": "Not Found",
    "rate_limited": "Too Many Requests",
}
_REJECTIONS = {
    "refused": "The input was flagged by the safety checker.",
    "refused-output": "The output was flagged by the safety checker.",
    "failed": "The prediction failed.",
}


def _problem(problem: Problem) -> Reply:
    message = words_of(problem, {"unauthorized": "Invalid API key", "rate_limited": "Rate limit exceeded"})
    return error_reply(problem, {"error": _TITLES.get(problem.kind, "Internal Server Error"), "message": message})


def _predict(call: Call) -> Reply:
    body = call.json()
    model = call.parameters.get("model") or call.headers.get("model", "")
    if not model:
        raise Problem("invalid", "The Model header is required", field="Model", code="missing")
    if not isinstance(body.get("input"), dict):
        raise Problem("invalid", "input must be an object", field="input", code="missing")
    _check(body["input"])
    task = call.submit(identifier().replace("-", "")[:26], body, model=model, seed=call.seed())
    prediction = {"id": task.id, "model": model, "input": body["input"]}
    prediction["get_url"] = call.url(f"/v1/predictions/status/{task.id}")
    if call.headers.get("try-sync", "").lower() == "true" and not call.has("stuck"):
        rejected = next((name for name in _REJECTIONS if call.has(name)), None)
        return json_reply(200, prediction | _finish(call, task, rejected))
    return json_reply(201, prediction)


def _check(given: dict[str, object]) -> None:
    checks.text(given, "prompt", 5000, required=True)
    checks.integer(given, "duration", 1, 20)
    checks.one_of(given, "resolution", {"720p", "1080p"})
    checks.one_of(given, "fps", {24, 48})
    checks.one_of(given, "aspect_ratio", RATIOS)
    checks.integer(given, "seed", 0, 2_147_483_647)
    for name in ("draft", "save_audio", "prompt_upsampling"):
        checks.one_of(given, name, {True, False})
    if given.get("draft") and given.get("fps") == 48 and given.get("resolution") == "1080p":
        raise Problem("invalid", "48 fps is not available with draft at 1080p", field="fps")


def _status(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if task.stage == "ended":
        return json_reply(200, _finish(call, task, rejection(task)))
    return json_reply(200, {"status": _STATUSES[task.stage], "message": "Generation in progress"})


def _finish(call: Call, task: Task, rejected: str | None) -> dict[str, object]:
    if rejected is not None:
        words = _REJECTIONS[rejected]
        return {"status": "failed", "message": words, "error": words}
    media = clip() if "video" in task.facts["model"] else picture("jpeg", seed=task.facts["seed"])
    return {"status": "succeeded", "generation_url": call.link(media, f"output.{media.extension}", task)}


VENDOR = Vendor(
    name="pruna",
    routes=(
        Route("POST", "/v1/predictions", _predict),
        Route("POST", "/v1/predictions/{model}", _predict),
        Route("GET", "/v1/predictions/status/{id}", _status),
    ),
    authorize=keys.header_key("apikey"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
