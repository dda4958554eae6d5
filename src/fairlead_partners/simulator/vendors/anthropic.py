"""Anthropic (api.anthropic.com): messages, synchronous; a refusal is a stop reason inside a 200."""

import secrets
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.chat import ANSWER, tokens
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_KINDS = {
    "unauthorized": (401, "authentication_error"),
    "invalid": (400, "invalid_request_error"),
    "not_found": (404, "not_found_error"),
    "rate_limited": (429, "rate_limit_error"),
}
_TYPES = {413: "request_too_large", 529: "overloaded_error"}


def _problem(problem: Problem) -> Reply:
    status, word = _KINDS.get(problem.kind, (500, "api_error"))
    status = problem.status or status
    message = problem.message
    if problem.kind == "unauthorized":
        message = "invalid x-api-key" if "Incorrect" in message else "x-api-key header is required"
    elif problem.field:
        missing = problem.code == "missing"
        message = f"{problem.field}: Field required" if missing else f"{problem.field}: {message}"
    request = "req_" + secrets.token_hex(12)
    body = {"type": "error", "error": {"type": _TYPES.get(status, word), "message": message}, "request_id": request}
    return json_reply(status, body, ("request-id", request), *retry_headers(problem))


def _messages(call: Call) -> Reply:
    if not call.headers.get("anthropic-version"):
        raise Problem("invalid", "anthropic-version: header is required")
    body = call.json()
    model = checks.text(body, "model", 200, required=True)
    limit = checks.at(body, "max_tokens")
    checks.present(body, "max_tokens")
    checks.integer(body, "max_tokens", 1, 1_000_000)
    messages = checks.items(body, "messages", 100_000, required=True)
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant", "system"):
            raise Problem("invalid", "Input should be 'user' or 'assistant'", field=f"messages.{number}.role")
        checks.present(message, "content")
    checks.number(body, "temperature", 0, 1)
    if body.get("stream"):
        raise Problem("invalid", "the simulator does not stream", field="stream")
    return _answer(call, model, messages, limit)


def _answer(call: Call, model: str, messages: object, limit: int) -> Reply:
    refused = call.has("refused")
    made = 0 if refused else min(limit, len(ANSWER) // 4)
    stop = "refusal" if refused else "end_turn"
    body = {
        "id": "msg_" + secrets.token_hex(12),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if refused else [{"type": "text", "text": ANSWER}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens(messages),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": made,
            "service_tier": "standard",
        },
    }
    return json_reply(200, body, ("request-id", "req_" + secrets.token_hex(12)))


VENDOR = Vendor(
    name="anthropic",
    routes=(Route("POST", "/v1/messages", _messages),),
    authorize=keys.header_key("x-api-key"),
    problem=_problem,
    supports=frozenset({"refused"}),
)
