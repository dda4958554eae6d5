"""ElevenLabs (api.elevenlabs.io): speech, sound and music, where the answer is the sound itself; and transcripts."""

import re
import secrets
from collections.abc import Mapping

from fairlead_partners.simulator import checks
from fairlead_partners.simulator.answers import retry_headers
from fairlead_partners.simulator.keys import check_key
from fairlead_partners.simulator.media import Media, mp3, pcm, wav
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, details, json_reply, media_reply

_SEED_MAX = 4_294_967_295
_VOICES_MAX = 10
_CHARACTERS_A_SECOND = 15
_MUSIC_SECONDS_MAX = 10.0
_TRANSCRIBED_SECONDS = 12.5
"""How long every recording is here: nothing is listened to."""
_FORMAT = re.compile(r"(mp3|pcm|wav|opus|ulaw|alaw)_(\d{4,6})(?:_(\d{2,3}))?")
_STATUSES = {
    "unauthorized": (401, "invalid_api_key"),
    "not_found": (404, "not_found"),
    "rate_limited": (429, "too_many_concurrent_requests"),
    "refused": (403, "content_against_policy"),
    "failed": (500, "generation_failed"),
}
_AGAINST_POLICY = "We are sorry but text you are trying to use may violate our Terms of Service and has been blocked."


def _authorize(call: Call) -> str | None:
    key = call.headers.get("xi-api-key", "")
    if not key:
        return "Neither authorization header nor xi-api-key received, please provide one."
    return check_key(key) and "Invalid API key"


def _problem(problem: Problem) -> Reply:
    if problem.kind == "invalid" and problem.status in (0, 422):
        return json_reply(422, {"detail": details(problem)})
    status, word = _STATUSES.get(problem.kind, (500, "internal_server_error"))
    if problem.message.startswith("Neither"):
        word = "needs_authorization"
    message = problem.message or "The generation failed; please try again."
    if problem.kind == "refused":
        message = _AGAINST_POLICY
    return json_reply(
        problem.status or status, {"detail": {"status": word, "message": message}}, *retry_headers(problem)
    )


def _dialogue(call: Call) -> Reply:
    body = call.json()
    inputs = checks.items(body, "inputs", 1000, required=True)
    for number, line in enumerate(inputs):
        if not isinstance(line, Mapping):
            raise Problem("invalid", "Input should be a valid dictionary", field=f"inputs.{number}", code="type")
        for name in ("text", "voice_id"):
            if not isinstance(line.get(name), str) or not line[name]:
                raise Problem("invalid", "Field required", field=f"inputs.{number}.{name}", code="missing")
    if len({line["voice_id"] for line in inputs}) > _VOICES_MAX:
        raise Problem("invalid", f"At most {_VOICES_MAX} unique voice ids are allowed.", field="inputs", code="range")
    checks.number(body, "settings.stability", 0, 1)
    _check(body)
    return _speak(call, sum(len(line["text"]) for line in inputs))


def _speech(call: Call) -> Reply:
    body = call.json()
    words = checks.text(body, "text", 40_000, required=True)
    _check(body)
    return _speak(call, len(words))


def _check(body: Mapping[str, object]) -> None:
    checks.text(body, "model_id", 100)
    checks.text(body, "language_code", 10)
    checks.integer(body, "seed", 0, _SEED_MAX)
    checks.one_of(body, "apply_text_normalization", {"auto", "on", "off"})
    checks.items(body, "pronunciation_dictionary_locators", 3)


def _sound(call: Call) -> Reply:
    body = call.json()
    words = checks.text(body, "text", 10_000, required=True)
    seconds = checks.number(body, "duration_seconds", 0.5, 30, 2)
    checks.number(body, "prompt_influence", 0, 1)
    checks.one_of(body, "loop", {True, False})
    return _audio(call, seconds, len(words))


def _music(call: Call) -> Reply:
    body = call.json()
    words = checks.text(body, "prompt", 4_100)
    if bool(words) == bool(body.get("composition_plan")):
        raise Problem("invalid", "Either prompt or composition_plan must be given.", field="prompt", code="missing")
    length = checks.integer(body, "music_length_ms", 3_000, 600_000, 10_000)
    checks.text(body, "model_id", 100)
    return _audio(call, min(length / 1000, _MUSIC_SECONDS_MAX), len(words))


def _transcript(call: Call) -> Reply:
    form = call.form()
    fields = form.first()
    if not fields.get("model_id"):
        raise Problem("invalid", "Field required", field="model_id", code="missing")
    if ("file" in form.files) + bool(fields.get("source_url")) + bool(fields.get("cloud_storage_url")) != 1:
        raise Problem("invalid", "Provide exactly one of file and source_url.", field="file", code="missing")
    words = [
        {"text": text, "start": start, "end": start + 0.5, "type": "word", "speaker_id": "speaker_0", "logprob": -0.01}
        for start, text in ((0.0, "Simulated"), (0.6, "speech."))
    ]
    return json_reply(
        200,
        {
            "language_code": "eng",
            "language_probability": 0.98,
            "text": "Simulated speech.",
            "words": words,
            "transcription_id": secrets.token_hex(10),
            "audio_duration_secs": _TRANSCRIBED_SECONDS,
        },
    )


def _speak(call: Call, characters: int) -> Reply:
    return _audio(call, max(0.5, characters / _CHARACTERS_A_SECOND), characters)


def _audio(call: Call, seconds: float, characters: int) -> Reply:
    name = call.query.get("output_format") or "mp3_44100_128"
    match = _FORMAT.fullmatch(name)
    if match is None:
        raise Problem("invalid", f"Unknown output_format '{name[:40]}'", field="output_format", code="enum")
    headers = (
        ("request-id", secrets.token_hex(10)),
        ("history-item-id", secrets.token_hex(10)),
        ("character-cost", str(characters)),
    )
    return media_reply(_media(match[1], seconds, int(match[2])), *headers)


def _media(kind: str, seconds: float, rate: int) -> Media:
    if kind == "wav":
        return wav(seconds, rate)
    return mp3(seconds) if kind == "mp3" else pcm(seconds, rate)


VENDOR = Vendor(
    name="elevenlabs",
    routes=(
        Route("POST", "/v1/text-to-dialogue", _dialogue),
        Route("POST", "/v1/text-to-dialogue/stream", _dialogue),
        Route("POST", "/v1/text-to-speech/{voice_id}", _speech),
        Route("POST", "/v1/text-to-speech/{voice_id}/stream", _speech),
        Route("POST", "/v1/sound-generation", _sound),
        Route("POST", "/v1/music", _music),
        Route("POST", "/v1/speech-to-text", _transcript),
    ),
    authorize=_authorize,
    problem=_problem,
    supports=frozenset({"refused", "failed"}),
    raises=frozenset({"refused", "failed"}),
)
