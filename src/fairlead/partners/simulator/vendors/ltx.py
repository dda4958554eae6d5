"""LTX (api.ltx.video): one synchronous call that answers with the MP4 itself."""

from collections.abc import Mapping
from typing import Any

from fairlead.partners.simulator import checks, keys
from fairlead.partners.simulator.answers import error_reply, identifier, said
from fairlead.partners.simulator.media import clip
from fairlead.partners.simulator.vendor import Call, Problem, ProblemKind, Reply, Route, Vendor, media_reply

DURATIONS = {2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20}
RESOLUTIONS = {
    "1280x720",
    "720x1280",
    "1920x1080",
    "1080x1920",
    "2560x1440",
    "1440x2560",
    "3840x2160",
    "2160x3840",
}
CAMERAS = {"dolly_in", "dolly_out", "dolly_left", "dolly_right", "jib_up", "jib_down", "static", "focus_shift"}

_TYPES = {
    "unauthorized": "authentication_error",
    "invalid": "invalid_request_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "refused": "content_filtered_error",
    "refused_output": "content_filtered_error",
}


def _problem(problem: Problem) -> Reply:
    message = said(
        problem,
        {
            "unauthorized": "Invalid API key",
            "rate_limited": "Rate limit exceeded. Please retry later.",
            "refused": "Content was rejected by safety filters",
            "refused_output": "Generated content was rejected by safety filters",
            "failed": "Video generation failed",
            "server_error": "An internal error occurred",
        },
    )
    error = {"type": _TYPES.get(problem.kind, "api_error"), "message": message}
    statuses: Mapping[ProblemKind, int] = {"refused": 422, "refused_output": 422}
    return error_reply(problem, {"type": "error", "error": error}, statuses)


def _text_to_video(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "prompt", 10_000, required=True)
    return _video(body)


def _image_to_video(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "image_uri", 40_000_000, required=True)
    checks.text(body, "prompt", 10_000)
    return _video(body)


def _video(body: Mapping[str, Any]) -> Reply:
    model = checks.text(body, "model", 60, required=True)
    if not model.startswith("ltx-"):
        raise Problem("invalid", f"model '{model}' is not supported", field="model", code="enum")
    checks.present(body, "duration", "resolution")
    checks.one_of(body, "duration", DURATIONS)
    checks.one_of(body, "resolution", RESOLUTIONS)
    checks.one_of(body, "fps", {24, 25, 48, 50})
    checks.one_of(body, "generate_audio", {True, False})
    checks.one_of(body, "camera_motion", CAMERAS)
    return media_reply(clip(), ("x-request-id", identifier()))


VENDOR = Vendor(
    name="ltx",
    routes=(
        Route("POST", "/v1/text-to-video", _text_to_video),
        Route("POST", "/v1/image-to-video", _image_to_video),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed"}),
    raises=frozenset({"refused", "refused-output", "failed"}),
)
