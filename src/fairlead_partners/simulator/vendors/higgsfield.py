"""Higgsfield (platform.higgsfield.ai): the path names the application; requests are polled for at their status."""

from collections.abc import Mapping

from msgspec.structs import replace

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply
from fairlead_partners.simulator.work import App, Choice, Range

_KLING = App("video", seconds=Range("duration", 3, 15, 5), shots="multi_prompt", sound=("sound", True))
APPLICATIONS: Mapping[str, App] = {
    f"kling-video/v3.0/{mode}/{kind}-to-video": replace(
        _KLING,
        needs=("prompt", "image_url") if kind == "image" else (),
        pictures=("image_url",) if kind == "image" else (),
    )
    for mode in ("std", "pro", "4k")
    for kind in ("text", "image")
} | {
    "kling-video/v3.0-turbo/text-to-video": App(
        "video",
        seconds=Range("duration", 3, 15, 5),
        sound=("sound", True),
        quality=Choice("resolution", ("720p", "1080p"), "720p"),
        needs=("prompt",),
    ),
    "alibaba/wan-3.0/text-to-video": App(
        "video",
        seconds=Range("duration", 2, 30, 5),
        quality=Choice("resolution", ("480p", "720p", "1080p"), "1080p"),
        needs=("prompt",),
    ),
}
"""The applications that are known here; any other is answered 404, as one that does not exist."""

_STATUSES = {"queued": "queued", "running": "in_progress", "ended": "completed", "cancelled": "canceled"}


def _problem(problem: Problem) -> Reply:
    if problem.kind == "invalid" and not problem.status:
        kind = "missing" if problem.code == "missing" else "value_error"
        place = ["body", *problem.field.split(".")] if problem.field else ["body"]
        return json_reply(422, {"detail": [{"type": kind, "loc": place, "msg": problem.message}]})
    words = words_of(
        problem,
        {
            "unauthorized": "Invalid credentials",
            "rate_limited": "Too many requests",
            "server_error": "Internal server error",
        },
    )
    return error_reply(problem, {"detail": words})


def _key(call: Call) -> str | None:
    """Take a pair, in one header or in two."""
    given, _, pair = call.headers.get("authorization", "").partition(" ")
    if given.lower() == "key":
        id_, _, secret = pair.partition(":")
    else:
        id_, secret = call.headers.get("hf-api-key", ""), call.headers.get("hf-secret", "")
    return keys.check_key(id_) or keys.check_key(secret)


def _submit(call: Call) -> Reply:
    body, application = call.json(), call.parameters["application"]
    known = APPLICATIONS.get(application)
    if known is None:
        raise Problem("not_found", "Not found")
    checks.text(body, "prompt", 10_000, required=not (body.get("multi_shots") and body.get("multi_prompt")))
    checks.integer(body, "seed", 0, 2**32 - 1)
    checks.items(body, "image_urls", 20)
    call.made.append(known.work(body).document(application))
    task = call.submit(identifier(), body, application=application, seed=call.seed())
    call.notify(task, call.query.get("hf_webhook"), lambda: _document(call, task))
    return json_reply(200, _document(call, task))


def _status(call: Call) -> Reply:
    return json_reply(200, _document(call, _find_task(call)))


def _cancel(call: Call) -> Reply:
    task = _find_task(call)
    if task.stage != "queued":
        raise Problem("invalid", "Request is already in progress", status=400)
    task.cancel()
    return Reply(202, b"")


def _find_task(call: Call) -> Task:
    task = call.memory.tasks.get(call.vendor, call.parameters["id"])
    if task is None:
        raise Problem("not_found", "Request not found")
    return task


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
        "status": _STATUSES[task.stage],
        "request_id": task.id,
        "status_url": call.url(f"/requests/{task.id}/status"),
        "cancel_url": call.url(f"/requests/{task.id}/cancel"),
    }
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "nsfw"}
        case "failed":
            return document | {"status": "failed", "error": "Generation failed"}
        case None:
            return document | (
                {"video": {"url": call.link(clip(), "video.mp4", task)}} if task.stage == "ended" else {}
            )


VENDOR = Vendor(
    name="higgsfield",
    routes=(
        Route("GET", "/requests/{id}/status", _status),
        Route("POST", "/requests/{id}/cancel", _cancel, creates=False),
        Route("POST", "/{application:path}", _submit),
    ),
    authorize=_key,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
