"""HeyGen (api.heygen.com): Starfish speech, one synchronous call that answers with the address of a file."""

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, words_of
from fairlead_partners.simulator.media import mp3
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

CHARACTERS_PER_SECOND = 15.0

_CODES = {
    "unauthorized": "unauthorized",
    "invalid": "invalid_parameter",
    "not_found": "not_found",
    "rate_limited": "rate_limit_exceeded",
    "refused": "content_policy_violation",
    "failed": "generation_failed",
}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "Unauthorized",
            "refused": "The text violates our content policy.",
            "failed": "Speech generation failed.",
            "rate_limited": "Rate limit exceeded",
        },
    )
    error = {"code": _CODES.get(problem.kind, "internal_error"), "message": message, "param": problem.field or None}
    return error_reply(problem, {"error": error})


def _speak(call: Call) -> Reply:
    body = call.json()
    text = checks.text(body, "text", 5000, required=True)
    checks.text(body, "voice_id", 100, required=True)
    checks.one_of(body, "input_type", {"text", "ssml"})
    speed = checks.number(body, "speed", 0.5, 2.0, 1.0)
    checks.text(body, "language", 20)
    checks.text(body, "locale", 20)
    duration = round(max(1.0, len(text) / CHARACTERS_PER_SECOND / speed), 2)
    data: dict[str, object] = {
        "audio_url": call.link(mp3(duration), "speech.mp3"),
        "duration": duration,
        "request_id": identifier(),
        "word_timestamps": _timestamps(text, duration),
    }
    if call.path.startswith("/v1/"):
        return json_reply(200, {"error": None, "data": data})
    return json_reply(200, {"data": data})


def _timestamps(text: str, duration: float) -> list[dict[str, object]]:
    words = text.split()
    step = duration / max(1, len(words))
    return [
        {"word": word, "start": round(number * step, 3), "end": round((number + 1) * step, 3)}
        for number, word in enumerate(words)
    ]


VENDOR = Vendor(
    name="heygen",
    routes=(Route("POST", "/v3/voices/speech", _speak), Route("POST", "/v1/audio/text_to_speech", _speak)),
    authorize=keys.either(keys.header_key("x-api-key"), keys.bearer),
    problem=_problem,
    supports=frozenset({"refused", "failed", "expired-link"}),
    raises=frozenset({"refused", "failed"}),
)
