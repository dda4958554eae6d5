"""Alibaba Model Studio (dashscope-intl.aliyuncs.com): what wan and qwen have in common, which is how it says no."""

import re
from collections.abc import Mapping

from fairlead_partners.simulator import checks
from fairlead_partners.simulator.answers import error_reply, identifier, words_of
from fairlead_partners.simulator.vendor import Problem, Reply

INPUT_REFUSED = "Input data may contain inappropriate content."
OUTPUT_REFUSED = "Output data may contain inappropriate content."
FAILED = "An internal error has occured, please try again later or contact service support."

_SIZE = re.compile(r"([1-9]\d{1,4})\*([1-9]\d{1,4})")
_CODES = {
    "unauthorized": "InvalidApiKey",
    "invalid": "InvalidParameter",
    "not_found": "InvalidURL",
    "rate_limited": "Throttling.RateQuota",
    "refused": "DataInspectionFailed",
    "refused_output": "DataInspectionFailed",
}


def problem(problem: Problem) -> Reply:
    """Say no: a code, a message and a request id at the top of the body."""
    message = words_of(
        problem,
        {
            "unauthorized": "Invalid API-key provided.",
            "rate_limited": "Requests rate limit exceeded, please try again later.",
            "refused": INPUT_REFUSED,
            "refused_output": OUTPUT_REFUSED,
            "failed": FAILED,
            "server_error": FAILED,
        },
    )
    code = "AccessDenied" if problem.code == "AccessDenied" else _CODES.get(problem.kind, "InternalError")
    return error_reply(problem, {"code": code, "message": message, "request_id": identifier()})


def size(parameters: Mapping[str, object], default: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height of `parameters.size`, written as `1280*720`."""
    text = checks.text(parameters, "parameters.size", 20)
    if not text:
        return default
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Problem("invalid", f"The size does not match the allowed size: {text}.", field="parameters.size")
    return int(match[1]), int(match[2])


def parameters(body: Mapping[str, object]) -> None:
    """Check what every model takes under `parameters`."""
    for name in ("input", "parameters"):
        if not isinstance(body.get(name, {}), Mapping):
            raise Problem("invalid", f"{name} must be an object.", field=name, code="type")
    checks.integer(body, "parameters.seed", 0, 2_147_483_647)
    checks.integer(body, "parameters.n", 1, 6)
    checks.one_of(body, "parameters.watermark", {True, False})
    checks.one_of(body, "parameters.prompt_extend", {True, False})
    checks.text(body, "input.negative_prompt", 5000)
