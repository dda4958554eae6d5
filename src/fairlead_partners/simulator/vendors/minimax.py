"""MiniMax (api.minimax.io): Hailuo by version 1 with a file behind a second call, H3 by version 2 with a link.

Version 1 answers 200 to nearly everything and says in `base_resp` what happened; version 2 uses HTTP statuses.
"""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"})
_BASE_CODES = {
    "unauthorized": (1004, "login fail: Please carry the API secret key in the 'Authorization' field of the header"),
    "rate_limited": (1002, "rate limit"),
    "refused": (1026, "input new_sensitive"),
    "refused_output": (1027, "output new_sensitive"),
    "not_found": (2013, "invalid params, task_id or file_id does not exist"),
}
_KINDS = {
    "unauthorized": (401, "authorized_error", 1004),
    "rate_limited": (429, "rate_limit_error", 1002),
    "invalid": (400, "bad_request_error", 2013),
    "refused": (422, "content_policy_error", 1026),
    "not_found": (404, "not_found_error", 2013),
}
_PARTS = ("text", "image_url", "video_url", "audio_url")
_ROLES = {"first_frame", "last_frame", "reference_image", "reference_video", "reference_audio"}
_RATIOS = {"16:9", "9:16", "1:1", "4:3", "3:4", "21:9", "adaptive"}
_TOKENS_A_SECOND = 21_600


def _problem(problem: Problem) -> Reply:
    if problem.path.startswith("/v2/"):
        return _modern_problem(problem)
    if problem.status in (408, 413) or problem.status >= 500 or problem.kind in ("server_error", "failed"):
        return json_reply(problem.status or 500, {"base_resp": {"status_code": 1000, "status_msg": "unknown error"}})
    message = f"invalid params, {problem.message}"
    code, words = _BASE_CODES.get(problem.kind, (2013, message))
    status = 429 if problem.kind == "rate_limited" else 200
    return json_reply(status, {"base_resp": {"status_code": code, "status_msg": words}}, *retry_headers(problem))


def _modern_problem(problem: Problem) -> Reply:
    status, type_, code = _KINDS.get(problem.kind, (500, "api_error", 1000))
    status = problem.status or status
    words = _BASE_CODES[problem.kind][1] if problem.kind in _BASE_CODES else problem.message or "unknown error"
    error = {"type": type_, "message": f"{words} ({code})", "http_code": str(status)}
    body = {"type": "error", "error": error, "request_id": secrets.token_hex(16)}
    return json_reply(status, body, *retry_headers(problem))


def _base(code: int = 0, message: str = "success") -> dict[str, object]:
    return {"status_code": code, "status_msg": message}


def _submit(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 100, required=True)
    checks.text(body, "prompt", 2000, required=not body.get("first_frame_image") and not body.get("subject_reference"))
    checks.one_of(body, "duration", {6, 10})
    checks.one_of(body, "resolution", {"512P", "720P", "768P", "1080P"})
    checks.one_of(body, "prompt_optimizer", {True, False})
    if call.has("refused"):
        raise Problem("refused")
    task = call.submit(_number(), body, file=_number())
    call.memory.tasks.add_alias(task, f"file {task.facts['file']}")
    call.notify(task, body.get("callback_url"), lambda: _state(task))
    return json_reply(200, {"task_id": task.id, "base_resp": _base()})


def _number() -> str:
    return str(time.time_ns() // 10_000) + str(secrets.randbelow(90) + 10)


def _query(call: Call) -> Reply:
    return json_reply(200, _state(call.task(call.query.get("task_id", ""))))


def _state(task: Task) -> dict[str, object]:
    statuses = {"queued": "Queueing", "running": "Processing", "ended": "Success", "cancelled": "Fail"}
    state: dict[str, object] = {"task_id": task.id, "status": statuses[task.stage], "file_id": "", "base_resp": _base()}
    if task.stage != "ended":
        return state
    if task.has("refused-output"):
        return state | {"status": "Fail", "base_resp": _base(1027, "output new_sensitive")}
    if task.has("failed"):
        return state | {"status": "Fail", "base_resp": _base(1000, "unknown error")}
    return state | {"file_id": task.facts["file"], "video_width": 1366, "video_height": 768}


def _retrieve(call: Call) -> Reply:
    task = call.task(f"file {call.query.get('file_id', '')}")
    if task.stage != "ended" or task.has("refused-output") or task.has("failed"):
        raise Problem("not_found")
    file = {
        "file_id": int(task.facts["file"]),
        "bytes": len(clip().content),
        "created_at": int(task.created),
        "filename": "output_aigc.mp4",
        "purpose": "video_generation",
        "download_url": call.link(clip(), "output_aigc.mp4", task),
    }
    return json_reply(200, {"file": file, "base_resp": _base()})


def _submit_modern(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 100, required=True)
    words = _check_parts(body)
    if not words:
        raise Problem("invalid", "content must contain one non-empty text item", field="content", code="missing")
    checks.present(body, "duration", "resolution")
    checks.integer(body, "duration", 4, 15)
    checks.one_of(body, "resolution", {"480P", "768P", "2K", "480p", "768p", "2k"})
    checks.one_of(body, "ratio", _RATIOS)
    checks.one_of(body, "aigc_watermark", {True, False})
    if call.has("refused"):
        raise Problem("refused")
    task = call.submit(_number(), body, words=words)
    call.notify(task, body.get("callback_url"), lambda: _document(call, task))
    return json_reply(200, {"task_id": task.id})


def _check_parts(body: Mapping[str, object]) -> str:
    words = ""
    for number, part in enumerate(checks.items(body, "content", 13, required=True)):
        if not isinstance(part, Mapping) or part.get("type") not in _PARTS:
            raise Problem("invalid", f"content[{number}].type is not valid", field="content", code="enum")
        checks.one_of(part, "role", _ROLES)
        if part["type"] == "text":
            words = checks.text(part, "text", 7000, required=True)
        elif not checks.at(part, f"{part['type']}.url"):
            raise Problem("invalid", f"content[{number}].{part['type']}.url is required", field="content")
    return words


def _query_modern(call: Call) -> Reply:
    return json_reply(200, _document(call, call.task(call.parameters["id"])))


def _document(call: Call, task: Task) -> dict[str, object]:
    statuses = {"queued": "queued", "running": "running", "ended": "succeeded", "cancelled": "cancelled"}
    request = task.request
    document: dict[str, object] = {
        "id": task.id,
        "model": request["model"],
        "status": statuses[task.stage],
        "task_type": "generation",
        "modality": "video",
        "resolution": request["resolution"],
        "duration": request["duration"],
        "ratio": request.get("ratio") or "16:9",
        "created_at": int(task.created),
        "updated_at": int(task.updated),
    }
    if task.stage != "ended":
        return {"task": document}
    if task.has("refused-output"):
        error = {"code": "1027", "message": "output new_sensitive"}
        return {"task": document | {"status": "failed", "error": error}}
    if task.has("failed"):
        return {"task": document | {"status": "failed", "error": {"code": "1000", "message": "unknown error"}}}
    content = {"url": call.link(clip(), "video.mp4", task), "prompt": task.facts["words"]}
    return {"task": document | {"content": content, "error": None, "usage": _usage(request)}}


def _delete_modern(call: Call) -> Reply:
    """Cancel what is queued, and delete what has ended."""
    task = call.task(call.parameters["id"])
    if task.stage in ("running", "cancelled"):
        raise Problem("invalid", f"task is {task.stage} and cannot be cancelled or deleted")
    action = "cancelled" if task.cancel() else "deleted"
    if action == "deleted":
        call.memory.tasks.forget(task)
    return json_reply(200, {"task_id": task.id, "action": action})


def _usage(request: Mapping[str, Any]) -> dict[str, object]:
    kinds = [part["type"] for part in request["content"]]
    given = 5 * kinds.count("video_url")
    return {
        "total_tokens": request["duration"] * _TOKENS_A_SECOND,
        "total_seconds": given + request["duration"],
        "input_seconds": given,
        "output_seconds": request["duration"],
        "input_image_count": kinds.count("image_url"),
    }


VENDOR = Vendor(
    name="minimax",
    routes=(
        Route("POST", "/v1/video_generation", _submit),
        Route("GET", "/v1/query/video_generation", _query),
        Route("GET", "/v1/files/retrieve", _retrieve),
        Route("POST", "/v2/video_generation", _submit_modern),
        Route("GET", "/v2/query/video_generation/{id}", _query_modern),
        Route("DELETE", "/v2/video_generation/{id}", _delete_modern),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
