"""Runway (api.dev.runwayml.com/v1): tasks, with an API version demanded in a header."""

import datetime as dt
import re
import uuid
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"})
_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 400}
_VIDEO_RATIOS = {
    "1280:720", "720:1280", "1104:832", "832:1104", "960:960", "1584:672", "1280:768", "768:1280", "848:480", "640:480",
}  # fmt: skip
_TURBO_RATIOS = {"1280:720", "720:1280", "1104:832", "832:1104", "960:960", "1584:672"}
_RATIO = re.compile(r"\d{3,4}:\d{3,4}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SEED_MAX = 4_294_967_295
_CREDITS_A_SECOND = 5
_CLIP_CREDITS = 140
_SMALL_CREDITS, _LARGE_CREDITS = 5, 8
_FAILURES = {
    "refused": ("SAFETY.INPUT.TEXT", "Text content moderation failure: the prompt was rejected."),
    "refused-output": ("SAFETY.OUTPUT.VIDEO", "The generated output did not pass content moderation."),
    "failed": ("INTERNAL.BAD_OUTPUT.CODE01", "An unexpected error occurred."),
}
_ISSUES = {"missing": "invalid_type", "enum": "invalid_value", "range": "too_big", "too_long": "too_big"}
_DOCUMENTATION = "https://docs.dev.runwayml.com/api"


def _problem(problem: Problem) -> Reply:
    status = problem.status or _STATUSES.get(problem.kind, 500)
    body: dict[str, object] = {"error": problem.message}
    if problem.kind == "unauthorized":
        body = {"error": "The API key provided is not valid.", "docUrl": _DOCUMENTATION}
    elif problem.kind == "rate_limited":
        body = {"error": "You exceeded your rate limit."}
    elif problem.kind == "not_found":
        body = {"error": "An asset or task with that ID was not found."}
    elif problem.kind == "invalid" and problem.field:
        code = _ISSUES.get(problem.code, "custom")
        issue = {"code": code, "path": problem.field.split("."), "message": problem.message}
        body = {"error": "Validation of body failed", "issues": [issue], "docUrl": _DOCUMENTATION}
    return json_reply(status, body, *retry_headers(problem))


def _require_version(call: Call) -> None:
    if _DATE.fullmatch(call.headers.get("x-runway-version", "")) is None:
        raise Problem("invalid", "The X-Runway-Version header is missing or invalid; send 2024-11-06.")


def _body(call: Call) -> Mapping[str, Any]:
    _require_version(call)
    body = call.json()
    checks.text(body, "model", 100, required=True)
    checks.text(body, "promptText", 1000)
    checks.integer(body, "seed", 0, _SEED_MAX)
    return body


def _image_to_video(call: Call) -> Reply:
    body = _body(call)
    checks.present(body, "promptImage", "ratio")
    images = body["promptImage"]
    if not isinstance(images, str):
        for number, image in enumerate(checks.items(body, "promptImage", 2)):
            if not isinstance(image, Mapping):
                raise Problem("invalid", "Invalid input: expected object", field=f"promptImage.{number}", code="type")
            checks.present(image, "uri")
            checks.one_of(image, "position", {"first"} if body["model"] == "gen4_turbo" else {"first", "last"})
    checks.one_of(body, "ratio", _TURBO_RATIOS if body["model"] == "gen4_turbo" else _VIDEO_RATIOS)
    seconds = checks.integer(body, "duration", 2, 10, 5)
    return _submit(call, body, "video", seconds * _CREDITS_A_SECOND)


def _text_to_video(call: Call) -> Reply:
    body = _body(call)
    checks.present(body, "promptText", "ratio")
    seconds = checks.integer(body, "duration", 2, 10, 5)
    return _submit(call, body, "video", seconds * _CREDITS_A_SECOND)


def _video_to_video(call: Call) -> Reply:
    body = _body(call)
    checks.present(body, "videoUri")
    checks.items(body, "references", 5)
    checks.items(body, "keyframes", 5)
    return _submit(call, body, "video", _CLIP_CREDITS)


def _text_to_image(call: Call) -> Reply:
    body = _body(call)
    checks.present(body, "promptText", "ratio")
    if _RATIO.fullmatch(checks.text(body, "ratio")) is None:
        raise Problem("invalid", "Invalid option: expected one of '1024:1024'|'1920:1080'", field="ratio", code="enum")
    checks.items(body, "referenceImages", 3)
    return _submit(call, body, "image", _SMALL_CREDITS if "720" in body["ratio"].split(":") else _LARGE_CREDITS)


def _submit(call: Call, body: Mapping[str, object], kind: str, cost: int) -> Reply:
    return json_reply(200, {"id": call.submit(str(uuid.uuid4()), body, kind=kind, credits=cost).id})


def _query(call: Call) -> Reply:
    _require_version(call)
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    statuses = {"queued": "PENDING", "running": "RUNNING", "ended": "SUCCEEDED", "cancelled": "CANCELLED"}
    created = dt.datetime.fromtimestamp(task.created, dt.UTC).isoformat(timespec="milliseconds")
    document: dict[str, object] = {
        "id": task.id,
        "status": statuses[task.stage],
        "createdAt": created.replace("+00:00", "Z"),
    }
    if task.stage == "running":
        return document | {"progress": task.progress}
    if task.stage != "ended":
        return document
    for fault, (code, failure) in _FAILURES.items():
        if task.has(fault):
            exact = code.replace("VIDEO", task.facts["kind"].upper())
            return document | {"status": "FAILED", "failure": failure, "failureCode": exact}
    media = clip() if task.facts["kind"] == "video" else picture("png", 1024, 1024, 3)
    return document | {"output": [call.link(media, task=task)], "cost": {"credits": task.facts["credits"]}}


def _delete(call: Call) -> Reply:
    _require_version(call)
    task = call.task(call.parameters["id"])
    if not task.cancel():
        call.memory.tasks.forget(task)
    return Reply(204, b"")


VENDOR = Vendor(
    name="runway",
    routes=(
        Route("POST", "/v1/image_to_video", _image_to_video),
        Route("POST", "/v1/text_to_video", _text_to_video),
        Route("POST", "/v1/video_to_video", _video_to_video),
        Route("POST", "/v1/text_to_image", _text_to_image),
        Route("GET", "/v1/tasks/{id}", _query),
        Route("DELETE", "/v1/tasks/{id}", _delete),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
