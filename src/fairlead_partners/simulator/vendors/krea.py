"""Krea (api.krea.ai): every model is one submit address; jobs are polled for by id."""

from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, words_of
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

RATIOS = {"1:1", "4:3", "3:2", "16:9", "2.35:1", "4:5", "2:3", "9:16"}

_STATUSES = {"queued": "queued", "running": "processing", "ended": "completed", "cancelled": "cancelled"}


def _problem(problem: Problem) -> Reply:
    words = words_of(
        problem,
        {
            "unauthorized": "Unauthorized",
            "rate_limited": "Too many requests. Please slow down.",
            "server_error": "Internal server error",
        },
    )
    return error_reply(problem, {"error": words})


def _submit(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "prompt", 10_000, required=True)
    checks.present(body, "aspect_ratio", "resolution")
    checks.one_of(body, "aspect_ratio", RATIOS)
    checks.one_of(body, "resolution", {"1K"})
    checks.one_of(body, "creativity", {"raw", "low", "medium", "high"})
    checks.number(body, "seed", 0, 2**53)
    _check_strengths(checks.items(body, "moodboards", 1), "moodboards", -0.5, 1.5)
    _check_strengths(checks.items(body, "image_style_references", 10), "image_style_references", -2, 2)
    _check_strengths(checks.items(body, "styles", 10), "styles", -2, 2)
    task = call.submit(identifier(), body, seed=call.seed())
    call.notify(task, call.headers.get("x-webhook-url"), lambda: _document(call, task))
    return json_reply(200, _document(call, task))


def _check_strengths(given: list[object], name: str, low: float, high: float) -> None:
    for one in given:
        if not isinstance(one, Mapping):
            raise Problem("invalid", f"'{name}' must be an array of objects.", field=name, code="type")
        checks.number(one, "strength", low, high)


def _get(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _delete(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if not task.cancel():
        raise Problem("invalid", "Only queued or processing jobs can be cancelled.")
    return json_reply(200, _document(call, task))


def _document(call: Call, task: Task) -> dict[str, object]:
    ended = task.stage == "ended"
    document: dict[str, object] = {
        "job_id": task.id,
        "status": _STATUSES[task.stage],
        "created_at": stamp(task.created),
        "completed_at": stamp(task.updated) if ended else None,
        "result": None,
    }
    match rejection(task):
        case "refused" | "refused-output":
            error = "Content moderation: the request was flagged as NSFW."
            return document | {"status": "failed", "result": {"error": error}}
        case "failed":
            return document | {"status": "failed", "result": {"error": "The generation service returned an error."}}
        case None:
            pass
    if ended:
        document["result"] = {"urls": [call.link(picture("png", seed=task.facts["seed"]), "image.png", task)]}
    return document


VENDOR = Vendor(
    name="krea",
    routes=(
        Route("POST", "/generate/image/{model:path}", _submit),
        Route("GET", "/jobs/{id}", _get),
        Route("DELETE", "/jobs/{id}", _delete),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
