"""Stability (api.stability.ai): forms in; pictures and sounds out, as bytes or within JSON as `accept` has it."""

from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.forms import Form
from fairlead_partners.simulator.media import Media, mp3, picture, wav
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply, media_reply

RATIOS = {"16:9", "1:1", "21:9", "2:3", "3:2", "4:5", "5:4", "9:16", "9:21"}

_NAMES = {
    "unauthorized": "unauthorized",
    "invalid": "bad_request",
    "not_found": "not_found",
    "rate_limited": "rate_limit_exceeded",
    "refused": "content_moderation",
}
_REFUSED = (
    "Your request was flagged by our content moderation system, as a result your request was denied and you were "
    "not charged."
)


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "authorization: is missing or invalid",
            "rate_limited": "You have exceeded the rate limit of 150 requests within a 10 second period.",
            "refused": _REFUSED,
            "failed": "An unexpected error occurred during generation.",
            "server_error": "An internal error occurred.",
        },
    )
    name = _NAMES.get(problem.kind, "internal_error")
    errors = [f"{problem.field}: {message}" if problem.field else message]
    return error_reply(problem, {"id": identifier(), "name": name, "errors": errors}, {"refused": 403})


def _fields(call: Call) -> tuple[Form, dict[str, Any]]:
    if not call.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem("invalid", "must be multipart/form-data", field="content-type")
    form = call.form()
    fields: dict[str, Any] = dict(form.first())
    for name, value in fields.items():
        number = _number(value)
        if name in ("seed", "duration", "strength", "cfg_scale", "steps", "creativity") and number is not None:
            fields[name] = number
    return form, fields


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _accepts(call: Call, kind: str) -> bool:
    """Tell whether bytes are wanted, rather than JSON."""
    accept = call.headers.get("accept", "*/*").partition(";")[0].strip()
    if accept not in (f"{kind}/*", "*/*", "application/json"):
        raise Problem("invalid", f"must be one of '{kind}/*' or 'application/json'", field="accept")
    return accept != "application/json"


def _image(call: Call) -> Reply:
    form, fields = _fields(call)
    as_bytes = _accepts(call, "image")
    action = call.parameters["action"]
    if action.startswith("generate/"):
        checks.text(fields, "prompt", 10_000, required=True)
    elif "image" not in form.files:
        raise Problem("invalid", "is required", field="image", code="missing")
    checks.one_of(fields, "aspect_ratio", RATIOS)
    checks.integer(fields, "seed", 0, 4_294_967_294)
    checks.number(fields, "strength", 0, 1)
    format_ = checks.one_of(fields, "output_format", {"png", "jpeg", "webp"}, "png")
    seed = int(fields.get("seed") or call.seed())
    return _make(call, picture(format_, seed=seed), "image", seed, as_bytes=as_bytes)


def _audio(call: Call) -> Reply:
    form, fields = _fields(call)
    as_bytes = _accepts(call, "audio")
    checks.text(fields, "prompt", 10_000, required=True)
    if call.path.endswith("/audio-to-audio") and "audio" not in form.files:
        raise Problem("invalid", "is required", field="audio", code="missing")
    seconds = checks.number(fields, "duration", 1, 190, 30)
    checks.integer(fields, "seed", 0, 4_294_967_294)
    format_ = checks.one_of(fields, "output_format", {"mp3", "wav"}, "mp3")
    media = mp3(float(seconds)) if format_ == "mp3" else wav(float(seconds))
    return _make(call, media, "audio", int(fields.get("seed") or call.seed()), as_bytes=as_bytes)


def _make(call: Call, media: Media, key: str, seed: int, *, as_bytes: bool) -> Reply:
    finish = "CONTENT_FILTERED" if call.has("refused-output") else "SUCCESS"
    if as_bytes:
        return media_reply(media, ("finish-reason", finish), ("seed", str(seed)), ("x-request-id", identifier()))
    return json_reply(200, {key: media.base64(), "finish_reason": finish, "seed": seed})


def _creative(call: Call) -> Reply:
    form, fields = _fields(call)
    if "image" not in form.files:
        raise Problem("invalid", "is required", field="image", code="missing")
    checks.text(fields, "prompt", 10_000, required=True)
    checks.number(fields, "creativity", 0.1, 0.5)
    facts: Mapping[str, object] = {"output_format": fields.get("output_format") or "png"}
    return json_reply(200, {"id": call.submit(identifier().replace("-", ""), facts, seed=call.seed()).id})


def _result(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    as_bytes = _accepts(call, "image")
    if task.stage != "ended":
        return json_reply(202, {"id": task.id, "status": "in-progress"})
    finish = "SUCCESS" if rejection(task) is None else "CONTENT_FILTERED"
    media, seed = picture(task.request["output_format"], seed=task.facts["seed"]), task.facts["seed"]
    if as_bytes:
        return media_reply(media, ("finish-reason", finish), ("seed", str(seed)))
    return json_reply(200, {"result": media.base64(), "finish_reason": finish, "seed": seed})


VENDOR = Vendor(
    name="stability",
    routes=(
        Route("POST", "/v2beta/stable-image/upscale/creative", _creative),
        Route("POST", "/v2beta/stable-image/{action:path}", _image),
        Route("POST", "/v2beta/audio/stable-audio-2/text-to-audio", _audio),
        Route("POST", "/v2beta/audio/stable-audio-2/audio-to-audio", _audio),
        Route("GET", "/v2beta/results/{id}", _result),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed"}),
    raises=frozenset({"refused", "failed"}),
)
