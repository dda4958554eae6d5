"""OpenAI (api.openai.com): images, edits, chat completions, responses, speech, transcriptions; all synchronous."""

import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.chat import ANSWER, completion, tokens
from fairlead_partners.simulator.forms import Form
from fairlead_partners.simulator.media import mp3, picture, wav
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply, media_reply

_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "server_error": 500, "failed": 500}
_TYPES = {"rate_limited": "requests", "server_error": "server_error", "failed": "server_error"}
_CODES = {
    "missing": "missing_required_parameter",
    "enum": "invalid_value",
    "type": "invalid_type",
    "range": "invalid_value",
    "too_long": "string_above_max_length",
    "invalid_json": None,
    "invalid_form": None,
    "unknown_url": None,
}
_SAFETY = (
    "Your request was rejected by the safety system. If you believe this is an error, contact us at help.openai.com "
    "and include the request ID {id}. safety_violations=[{violation}]."
)
_INVALID_PROMPT = (
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy. "
    "Please try again with a different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting"
)
_AGAINST_POLICY = "Your request was rejected as a result of our safety system."
_CHARACTERS_A_SECOND = 15
_SPEECH_RATE = 24_000
_SIZE = re.compile(r"(\d{2,4})x(\d{2,4})")
_FAULTS = frozenset({"refused", "refused-output", "failed", "expired-link"})
_NUMBERS = frozenset({"n", "output_compression"})


def _problem(problem: Problem) -> Reply:
    kind = problem.kind
    error = {
        "message": problem.message or "The server had an error while processing your request. Sorry about that!",
        "type": _TYPES.get(kind, "invalid_request_error"),
        "param": problem.field or None,
        "code": _CODES.get(problem.code, problem.code or None),
    }
    if kind == "unauthorized":
        error["code"] = "invalid_api_key" if "Incorrect" in problem.message else None
    elif kind == "rate_limited":
        error["code"] = "rate_limit_exceeded"
    elif problem.code == "moderation_blocked":
        error["type"] = "image_generation_user_error"
    status = problem.status or _STATUSES.get(kind, 400)
    return json_reply(status, {"error": error}, ("x-request-id", _id("req_")), *retry_headers(problem))


def _id(prefix: str) -> str:
    return prefix + secrets.token_hex(16)


def _generate(call: Call) -> Reply:
    body = call.json()
    _check_image(body)
    return _images(call, body, input_images=0)


def _edit(call: Call) -> Reply:
    if call.headers.get("content-type", "").lower().startswith("application/json"):
        body = call.json()
        images = len(checks.items(body, "images", 16, required=True))
    else:
        form = call.form()
        body = {name: int(value) if name in _NUMBERS else value for name, value in _fields(form).items()}
        images = len(form.files.get("image", ())) + len(form.files.get("image[]", ()))
        if not images:
            raise Problem("invalid", "Missing required parameter: 'image'.", field="image", code="missing")
        if images > 16:
            raise Problem("invalid", "Too many images: at most 16 are allowed.", field="image", code="too_long")
    _check_image(body)
    return _images(call, body, input_images=images)


def _fields(form: Form) -> Mapping[str, str]:
    fields = form.first()
    for name in _NUMBERS & fields.keys():
        if not fields[name].isdigit():
            raise Problem("invalid", f"Invalid type for '{name}': expected an integer.", field=name, code="type")
    return fields


def _check_image(body: Mapping[str, object]) -> None:
    checks.text(body, "model", 200, required=True)
    checks.text(body, "prompt", 32_000, required=True)
    checks.integer(body, "n", 1, 10)
    checks.one_of(body, "quality", {"low", "medium", "high", "xhigh", "max", "auto", "standard", "hd"})
    checks.one_of(body, "background", {"transparent", "opaque", "auto"})
    checks.one_of(body, "moderation", {"low", "auto"})
    checks.one_of(body, "output_format", {"png", "webp", "jpeg"})
    checks.one_of(body, "response_format", {"url", "b64_json"})
    checks.integer(body, "output_compression", 0, 100)
    size = checks.text(body, "size")
    if size not in {"", "auto"} and _SIZE.fullmatch(size) is None:
        message = f"Invalid value: '{size}'. Supported values are: '1024x1024', '1024x1536', '1536x1024', and 'auto'."
        raise Problem("invalid", message, field="size", code="enum")


def _images(call: Call, body: Mapping[str, Any], *, input_images: int) -> Reply:
    for fault, violation in (("refused", "sexual"), ("refused-output", "violence")):
        if call.has(fault):
            message = _SAFETY.format(id=_id("req_"), violation=violation)
            raise Problem("refused", message, code="moderation_blocked")
    if call.has("failed"):
        raise Problem("failed")
    size = _SIZE.fullmatch(str(body.get("size") or ""))
    width, height = (int(size[1]), int(size[2])) if size else (1024, 1024)
    count, format_ = checks.integer(body, "n", 1, 10, 1), body.get("output_format") or "png"
    answer = {
        "created": int(time.time()),
        "background": body.get("background") or "opaque",
        "data": [_image(call, body, format_, width, height, number) for number in range(count)],
        "output_format": format_,
        "quality": body.get("quality") or "high",
        "size": f"{width}x{height}",
        "usage": _image_usage(body, input_images, count),
    }
    return json_reply(200, answer, ("x-request-id", _id("req_")))


def _image(
    call: Call, body: Mapping[str, Any], format_: str, width: int, height: int, number: int
) -> dict[str, object]:
    media = picture(format_, width, height, call.seed() + number)
    if body["model"].startswith("dall-e") and body.get("response_format") != "b64_json":
        return {"url": call.link(media), "revised_prompt": body["prompt"]}
    return {"b64_json": media.base64()}


_TOKENS = {"low": 272, "high": 4160, "hd": 4160, "xhigh": 4160, "max": 4160}
"""The tokens of a square picture by its quality; those of a medium one are 1056."""


def _image_usage(body: Mapping[str, object], input_images: int, count: int) -> dict[str, object]:
    text, images = tokens(body["prompt"]), 323 * input_images
    output = _TOKENS.get(str(body.get("quality")), 1056) * count
    return {
        "input_tokens": text + images,
        "input_tokens_details": {"image_tokens": images, "text_tokens": text},
        "output_tokens": output,
        "output_tokens_details": {"image_tokens": output, "text_tokens": 0},
        "total_tokens": text + images + output,
    }


def _text_faults(call: Call) -> None:
    if call.has("refused"):
        raise Problem("refused", _INVALID_PROMPT, code="invalid_prompt")


def _chat(call: Call) -> Reply:
    body = call.json()
    model = checks.text(body, "model", 200, required=True)
    messages = checks.items(body, "messages", required=True)
    checks.number(body, "temperature", 0, 2)
    if body.get("stream"):
        raise Problem("invalid", "The simulator does not stream.", field="stream", code="unsupported_value")
    _text_faults(call)
    if call.has("failed"):
        raise Problem("failed")
    answer = completion(_id("chatcmpl-"), model, messages, filtered=call.has("refused-output"))
    return json_reply(200, answer, ("x-request-id", _id("req_")))


def _respond(call: Call) -> Reply:
    body = call.json()
    model = checks.text(body, "model", 200, required=True)
    checks.present(body, "input")
    checks.integer(body, "max_output_tokens", 16, 1_000_000)
    _text_faults(call)
    part: dict[str, object] = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    if call.has("refused-output"):
        part = {"type": "refusal", "refusal": "I'm sorry, but I can't assist with that request."}
    output = [{"id": _id("msg_"), "type": "message", "status": "completed", "role": "assistant", "content": [part]}]
    given, made = tokens(body["input"]), tokens(ANSWER)
    usage = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
    failed = call.has("failed")
    error = {"code": "server_error", "message": "The model failed to generate a response."}
    answer = {
        "id": _id("resp_"),
        "object": "response",
        "service_tier": "flex" if body.get("service_tier") == "flex" else "default",
        "created_at": int(time.time()),
        "status": "failed" if failed else "completed",
        "error": error if failed else None,
        "incomplete_details": None,
        "model": model,
        "output": [] if failed else output,
        "usage": None if failed else usage,
        "metadata": {},
    }
    return json_reply(200, answer, ("x-request-id", _id("req_")))


def _audio_faults(call: Call) -> None:
    for fault in ("refused", "refused-output"):
        if call.has(fault):
            raise Problem("refused", _AGAINST_POLICY, code="content_policy_violation")
    if call.has("failed"):
        raise Problem("failed")


def _speak(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 200, required=True)
    checks.text(body, "voice", 100, required=True)
    words = checks.text(body, "input", 4096, required=True)
    checks.number(body, "speed", 0.25, 4)
    format_ = checks.one_of(body, "response_format", {"mp3", "wav", "flac", "aac", "opus"}, "mp3")
    _audio_faults(call)
    seconds = max(0.5, len(words) / _CHARACTERS_A_SECOND)
    media = wav(seconds, _SPEECH_RATE) if format_ == "wav" else mp3(seconds)
    return media_reply(media, ("x-request-id", _id("req_")))


def _transcribe(call: Call) -> Reply:
    form = call.form()
    fields, sounds = form.first(), form.files.get("file", ())
    model = checks.text(fields, "model", 200, required=True)
    if not sounds:
        raise Problem("invalid", "Missing required parameter: 'file'.", field="file", code="missing")
    if fields.get("response_format") not in (None, "json"):
        raise Problem("invalid", "The simulator answers JSON.", field="response_format", code="unsupported_value")
    _audio_faults(call)
    made = tokens(ANSWER)
    usage: dict[str, object] = {"type": "duration", "seconds": 2}
    if model != "whisper-1":
        usage = {
            "type": "tokens",
            "input_tokens": 20,
            "input_token_details": {"audio_tokens": 20, "text_tokens": 0},
            "output_tokens": made,
            "total_tokens": 20 + made,
        }
    return json_reply(200, {"text": ANSWER, "usage": usage}, ("x-request-id", _id("req_")))


VENDOR = Vendor(
    name="openai",
    routes=(
        Route("POST", "/v1/images/generations", _generate),
        Route("POST", "/v1/images/edits", _edit),
        Route("POST", "/v1/chat/completions", _chat),
        Route("POST", "/v1/responses", _respond),
        Route("POST", "/v1/audio/speech", _speak),
        Route("POST", "/v1/audio/transcriptions", _transcribe),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=_FAULTS,
)
