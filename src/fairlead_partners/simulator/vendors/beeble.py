"""Beeble (api.beeble.ai): SwitchX jobs, with a code of its own for every mistake."""

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, JsonObject, Problem, Reply, Route, Vendor, json_reply

_STATUSES = {"queued": "in_queue", "running": "processing", "ended": "completed", "cancelled": "failed"}
_CODES = {
    "unauthorized": "INVALID_API_KEY",
    "invalid": "INVALID_REQUEST",
    "not_found": "JOB_NOT_FOUND",
    "rate_limited": "RATE_LIMIT_EXCEEDED",
}


def _problem(problem: Problem) -> Reply:
    code = problem.code if problem.code.isupper() else _CODES.get(problem.kind, "INTERNAL_ERROR")
    message = words_of(problem, {"unauthorized": "API key is missing or invalid", "rate_limited": "Too many requests"})
    return error_reply(problem, {"error": {"message": message, "code": code}})


def _start(call: Call) -> Reply:
    body = call.json()
    _check(body)
    task = call.submit(f"swx_{identifier().replace('-', '')}", body, seed=call.seed())
    call.notify(task, body.get("callback_url"), lambda: _document(call, task))
    return json_reply(201, _document(call, task))


def _check(body: JsonObject) -> None:
    if body.get("generation_type") not in ("image", "video"):
        raise Problem("invalid", 'generation_type must be "image" or "video"', code="INVALID_GENERATION_TYPE")
    if body.get("alpha_mode") not in ("auto", "fill", "custom", "select"):
        message = 'alpha_mode must be "auto", "fill", "custom", or "select"'
        raise Problem("invalid", message, code="INVALID_ALPHA_MODE")
    if not body.get("source_uri"):
        raise Problem("invalid", "source_uri is required", code="MISSING_SOURCE")
    if not (body.get("prompt") or body.get("reference_image_uri")):
        raise Problem("invalid", "prompt or reference_image_uri is required", code="MISSING_STYLE_INPUT")
    if body["alpha_mode"] in ("custom", "select") and not body.get("alpha_uri"):
        raise Problem("invalid", "alpha_uri is required for this alpha_mode", code="MISSING_ALPHA")
    if body.get("max_resolution", 1080) not in (720, 1080):
        raise Problem("invalid", "max_resolution must be 720 or 1080", code="INVALID_MAX_RESOLUTION")
    for name in ("source_uri", "alpha_uri", "reference_image_uri"):
        address = checks.text(body, name, 70_000_000)
        if address and not address.startswith(("https://", "http://", "beeble://uploads/", "data:")):
            raise Problem("invalid", f"{name} is not a valid URI", code="INVALID_URI")
    checks.text(body, "prompt", 2000)
    checks.integer(body, "seed", 0, 4_294_967_295)


def _get(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    ended = task.stage == "ended"
    document: dict[str, object] = {
        "id": task.id,
        "status": _STATUSES[task.stage],
        "progress": round(task.progress * 100),
        "generation_type": task.request["generation_type"],
        "alpha_mode": task.request["alpha_mode"],
        "output": None,
        "seed": task.request.get("seed") or task.facts["seed"],
        "error": None,
        "created_at": stamp(task.created),
        "modified_at": stamp(task.updated),
        "completed_at": stamp(task.updated) if ended else None,
    }
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "failed", "error": "The content was rejected by moderation."}
        case "failed":
            return document | {"status": "failed", "error": "Generation failed due to an internal error."}
        case None:
            pass
    if ended:
        media = clip() if document["generation_type"] == "video" else picture("png", seed=task.facts["seed"])
        names = ("render", "source", "alpha")
        document["output"] = {name: call.link(media, f"{name}.{media.extension}", task) for name in names}
    return document


VENDOR = Vendor(
    name="beeble",
    routes=(Route("POST", "/v1/switchx/generations", _start), Route("GET", "/v1/switchx/generations/{id}", _get)),
    authorize=keys.header_key("x-api-key"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
