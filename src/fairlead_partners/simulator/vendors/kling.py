"""Kling (api-singapore.klingai.com): tasks in an envelope of code and message; the key is a pair, signed into a JWT."""

import secrets
import time
import uuid
from collections.abc import Mapping

import jwt

from fairlead_partners.simulator import checks
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

ACCESS_KEY = "simulated-access"
SECRET_KEY = "simulated-secret-of-32-characters!!"  # noqa: S105 -- made up, and printed in PROTOCOL.md
_LEEWAY_SECONDS = 5

_FAULTS = frozenset({"refused", "failed", "stuck", "expired-link", "duplicate-webhook"})
_VIDEO_KINDS = (
    "text2video",
    "image2video",
    "multi-image2video",
    "omni-video",
    "video-extend",
    "lip-sync",
    "advanced-lip-sync",
    "motion-control",
    "effects",
    "avatar/image2video",
)
_IMAGE_KINDS = ("generations", "omni-image", "multi-image2image", "editing/expand")
_RISK = "Failure to pass the risk control system"
_KINDS = {
    "not_found": (404, 1203, "The requested resource does not exist"),
    "rate_limited": (429, 1302, "API requests are too fast and exceed the platform rate limit"),
    "refused": (400, 1301, "The platform's content security policy was triggered"),
}
_SERVER_CODES = {503: (5001, "Server temporarily unavailable"), 504: (5002, "Server internal timeout")}
_COMPLAINTS = {
    "Authorization is empty": 1001,
    "Authorization is invalid": 1002,
    "Authorization is not yet valid": 1003,
    "Authorization has expired": 1004,
}
_UNITS_OF_A_PICTURE, _UNITS_OF_4K = 8, 16
_RATES: Mapping[str, tuple[float, float]] = {"std": (0.6, 0.9), "pro": (0.8, 1.2), "4k": (3.0, 3.0)}
_OLDER_RATES: Mapping[str, tuple[float, float]] = {"std": (0.3, 0.3), "pro": (0.5, 1.0)}
"""Units of a second of a clip by `mode`: silent, and with sound."""
_PRO_UNLESS_ASKED = {"kling-video-o1", "kling-v3-omni"}


def _authorize(call: Call) -> str | None:
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    if not token.strip():
        return "Authorization is empty"
    try:
        claims = jwt.decode(
            token, SECRET_KEY, ["HS256"], options={"require": ["iss", "exp", "nbf"]}, leeway=_LEEWAY_SECONDS
        )
    except jwt.ImmatureSignatureError:
        return "Authorization is not yet valid"
    except jwt.ExpiredSignatureError:
        return "Authorization has expired"
    except jwt.PyJWTError:
        return "Authorization is invalid"
    return None if scheme.lower() == "bearer" and claims["iss"] == ACCESS_KEY else "Authorization is invalid"


def _problem(problem: Problem) -> Reply:
    if problem.kind == "unauthorized":
        code = _COMPLAINTS.get(problem.message, 1000)
        return _envelope(401, code, problem.message or "Authentication failed", None)
    if problem.kind == "invalid":
        return _envelope(problem.status or 400, 1201, problem.message or "Invalid request parameters", None)
    if problem.kind in _KINDS:
        status, code, message = _KINDS[problem.kind]
        return _envelope(problem.status or status, code, message, None, *retry_headers(problem))
    status = problem.status or 500
    code, message = _SERVER_CODES.get(status, (5000, "Server internal error"))
    return _envelope(status, code, message, None)


def _envelope(status: int, code: int, message: str, data: object, *headers: tuple[str, str]) -> Reply:
    body: dict[str, object] = {"code": code, "message": message, "request_id": str(uuid.uuid4())}
    if data is not None:
        body["data"] = data
    return json_reply(status, body, *headers)


def _submit(call: Call) -> Reply:
    body = call.json()
    _check(call.path, body)
    if call.faults.get("refused") == "1301":
        raise Problem("refused")
    id_ = str(time.time_ns() // 1000) + str(secrets.randbelow(900) + 100)
    task = call.submit(id_, body, path=call.path, video=secrets.token_hex(8))
    call.notify(task, body.get("callback_url"), lambda: _data(call, task))
    data = {
        "task_id": task.id,
        "task_status": "submitted",
        "task_info": {"external_task_id": body.get("external_task_id")},
        "created_at": _milliseconds(task.created),
        "updated_at": _milliseconds(task.created),
    }
    return _envelope(200, 0, "SUCCEED", data)


def _check(path: str, body: Mapping[str, object]) -> None:
    checks.text(body, "prompt", 2500, required=path.endswith(("text2video", "images/generations")) and not _shots(body))
    checks.text(body, "negative_prompt", 2500)
    if path.endswith("/videos/image2video") and not (body.get("image") or body.get("image_tail")):
        raise Problem("invalid", "image and image_tail cannot be both empty", field="image")
    if path.endswith("/video-extend"):
        checks.present(body, "video_id")
    if path.endswith("/avatar/image2video"):
        checks.present(body, "image")
    if path.endswith("/videos/lip-sync"):
        checks.present(body, "input")
    checks.one_of(body, "mode", {"std", "pro", "4k"})
    checks.one_of(body, "duration", {str(seconds) for seconds in range(3, 16)})
    checks.one_of(body, "aspect_ratio", {"16:9", "9:16", "1:1", "4:3", "3:4", "3:2", "2:3", "21:9", "auto"})
    checks.number(body, "cfg_scale", 0, 1)
    checks.one_of(body, "sound", {"on", "off"})
    checks.integer(body, "n", 1, 9)
    checks.one_of(body, "resolution", {"1k", "2k", "4k"})
    checks.one_of(body, "result_type", {"single", "series"})


def _shots(body: Mapping[str, object]) -> bool:
    return bool(body.get("multi_shot")) and bool(body.get("multi_prompt"))


def _query(call: Call) -> Reply:
    task = call.task(call.parameters["id"])
    if not call.path.startswith(task.facts["path"]):
        raise Problem("not_found")
    return _envelope(200, 0, "SUCCEED", _data(call, task))


def _data(call: Call, task: Task) -> dict[str, object]:
    statuses = {"queued": "submitted", "running": "processing", "ended": "succeed", "cancelled": "failed"}
    data: dict[str, object] = {
        "task_id": task.id,
        "task_status": statuses[task.stage],
        "task_status_msg": "",
        "task_info": {"external_task_id": task.request.get("external_task_id")},
        "created_at": _milliseconds(task.created),
        "updated_at": _milliseconds(task.updated),
    }
    if task.stage != "ended":
        return data
    if task.has("refused"):
        return data | {"task_status": "failed", "task_status_msg": _RISK, "final_unit_deduction": "0"}
    if task.has("failed"):
        message = "The generation failed because of an internal error, please try again"
        return data | {"task_status": "failed", "task_status_msg": message, "final_unit_deduction": "0"}
    return data | {"task_result": _result(call, task), "final_unit_deduction": _units(task)}


def _result(call: Call, task: Task) -> dict[str, object]:
    if task.facts["path"].startswith("/v1/images/"):
        media = picture("png", 1024, 1024, call.seed())
        images = [
            {"index": number, "url": call.link(media, f"{number}.png", task)} for number in range(_pictures(task))
        ]
        is_series = task.request.get("result_type") == "series"
        return {"result_type": "series" if is_series else "single", "series_images" if is_series else "images": images}
    duration = task.request.get("duration") or "5"
    return {"videos": [{"id": task.facts["video"], "url": call.link(clip(), "video.mp4", task), "duration": duration}]}


def _pictures(task: Task) -> int:
    if task.request.get("result_type") == "series":
        return checks.integer(task.request, "series_amount", 2, 9, 4)
    return checks.integer(task.request, "n", 1, 9, 1)


def _units(task: Task) -> str:
    """Return the price in Kling's units, as text: those of clips by the second, those of pictures each."""
    request = task.request
    if task.facts["path"].startswith("/v1/images/"):
        return str(_pictures(task) * (_UNITS_OF_4K if request.get("resolution") == "4k" else _UNITS_OF_A_PICTURE))
    seconds, model = int(request.get("duration") or 5), str(request.get("model_name"))
    rates = _OLDER_RATES if model.startswith("kling-v2") else _RATES
    usual = "pro" if model in _PRO_UNLESS_ASKED else "std"
    return f"{seconds * rates[request.get('mode') or usual][request.get('sound') == 'on']:g}"


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _routes() -> tuple[Route, ...]:
    paths = [f"/v1/videos/{kind}" for kind in _VIDEO_KINDS] + [f"/v1/images/{kind}" for kind in _IMAGE_KINDS]
    submits = [Route("POST", path, _submit) for path in paths]
    return (*submits, *(Route("GET", path + "/{id}", _query) for path in paths))


VENDOR = Vendor(name="kling", routes=_routes(), authorize=_authorize, problem=_problem, supports=_FAULTS)
