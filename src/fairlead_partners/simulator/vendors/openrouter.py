"""OpenRouter (openrouter.ai/api): chat completions, and the errors of the provider behind them."""

import time
from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, status_of, words_of
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.vendor import Call, Problem, ProblemKind, Reply, Route, Vendor, json_reply

TEXT = "This is a simulated answer."
PROVIDER = "Simulated"
TOKEN_DOLLARS = 0.000001

_STATUSES: Mapping[ProblemKind, int] = {"refused": 403, "failed": 502}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "No auth credentials found",
            "refused": "Your chosen model requires moderation and your input was flagged",
            "failed": "Provider returned error",
            "rate_limited": "Rate limit exceeded",
            "server_error": "Internal Server Error",
        },
    )
    error: dict[str, object] = {"code": status_of(problem, _STATUSES), "message": message}
    if problem.kind == "refused":
        flagged = {
            "reasons": ["violence"],
            "flagged_input": "...",
            "provider_name": PROVIDER,
            "model_slug": "simulated",
        }
        error["metadata"] = flagged
    if problem.kind == "failed":
        error["metadata"] = {"raw": "The model failed.", "provider_name": PROVIDER}
    return error_reply(problem, {"error": error}, _STATUSES)


def _complete(call: Call) -> Reply:
    body = call.json()
    model = checks.text(body, "model", 200, required=True)
    messages = checks.items(body, "messages", 1000, required=True)
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in (
            "system",
            "developer",
            "user",
            "assistant",
            "tool",
        ):
            raise Problem("invalid", "messages: each needs a known role", field="messages")
    checks.integer(body, "max_tokens", 1, 10_000_000)
    checks.number(body, "temperature", 0, 2)
    checks.number(body, "top_p", 0, 1)
    if body.get("stream"):
        raise Problem("invalid", "stream is not simulated", field="stream")
    usage = _usage(call)
    return json_reply(
        200,
        {
            "id": f"gen-{identifier()}",
            "provider": PROVIDER,
            "model": model,
            "object": "chat.completion",
            "created": int(time.time()),
            "choices": [_choice(call, body)],
            "usage": usage,
        },
    )


def _choice(call: Call, body: Mapping[str, object]) -> dict[str, object]:
    is_filtered = call.has("refused-output")
    message: dict[str, object] = {"role": "assistant", "content": "" if is_filtered else TEXT, "refusal": None}
    if "image" in checks.items(body, "modalities", 5) and not is_filtered:
        image = picture("png", seed=call.seed())
        url = f"data:{image.content_type};base64,{image.base64()}"
        message["images"] = [{"type": "image_url", "image_url": {"url": url}, "index": 0}]
    reason = "content_filter" if is_filtered else "stop"
    return {"index": 0, "message": message, "finish_reason": reason, "native_finish_reason": reason, "logprobs": None}


def _usage(call: Call) -> dict[str, object]:
    prompt, completion = max(1, len(call.body) // 4), 6
    total = prompt + completion
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "cost": round(total * TOKEN_DOLLARS, 9),
    }


VENDOR = Vendor(
    name="openrouter",
    routes=(Route("POST", "/api/v1/chat/completions", _complete),),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed"}),
    raises=frozenset({"refused", "failed"}),
)
