"""Seed Audio of BytePlus (voice.ap-southeast-1.bytepluses.com): one synchronous call with the sound in its answer."""

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.media import mp3, pcm, wav
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_STATUSES = {"unauthorized": 401, "not_found": 404, "rate_limited": 429, "invalid": 400, "refused": 400}
_MESSAGES = {
    "unauthorized": "The API key in the request is missing or invalid.",
    "rate_limited": "The requests per minute limit has been exceeded.",
    "refused": "The request failed because the input text may contain sensitive information.",
}


def _problem(problem: Problem) -> Reply:
    status = problem.status or _STATUSES.get(problem.kind, 500)
    message = _MESSAGES.get(problem.kind) or problem.message or "The service encountered an unexpected internal error."
    number = 45_000_001 if problem.kind == "invalid" else 55_000_000
    return json_reply(status, {"code": number, "message": message}, *retry_headers(problem))


def _audio(call: Call) -> Reply:
    body = call.json()
    checks.one_of(body, "model", {"seed-audio-1.0", "seed-audio-1.0-multilingual"})
    checks.present(body, "model")
    words = checks.text(body, "text_prompt", 3000, required=True)
    checks.items(body, "references", 3)
    format_ = checks.one_of(body, "audio_config.format", {"wav", "mp3", "pcm", "ogg_opus"}, "wav")
    rates = {8000, 16_000, 24_000, 32_000, 44_100, 48_000}
    rate = checks.one_of(body, "audio_config.sample_rate", rates, 24_000)
    for name, low, high in (("speech_rate", -50, 100), ("loudness_rate", -50, 100), ("pitch_rate", -12, 12)):
        checks.integer(body, f"audio_config.{name}", low, high)
    if call.has("refused") or call.has("refused-output"):
        raise Problem("refused")
    if call.has("failed"):
        raise Problem("failed")
    seconds = min(120.0, max(1.0, len(words) / 15))
    media = wav(seconds, rate) if format_ == "wav" else mp3(seconds) if format_ == "mp3" else pcm(seconds, rate)
    answer = {
        "code": 0,
        "message": "ok",
        "audio": media.base64(),
        "url": call.link(media),
        "duration": round(seconds, 3),
        "original_duration": round(seconds, 3),
    }
    return json_reply(200, answer)


VENDOR = Vendor(
    name="byteplus-voice",
    routes=(Route("POST", "/api/v3/tts/create", _audio),),
    authorize=keys.header_key("x-api-key"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "expired-link"}),
    raises=frozenset({"refused"}),
)
