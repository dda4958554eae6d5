"""Vendors that answer with the result at once: success, refusal, mistakes and keys, over HTTP."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from partners.simulator.pointers import agrees, at

BEARER = {"authorization": "Bearer key"}
UUID = "0f1b2c3d-4e5f-4a6b-8c7d-0123456789ab"


@dataclass(frozen=True)
class Vendor:
    """How one vendor is called, and what it answers; pointers are dotted, the empty one is the status."""

    path: str
    body: dict[str, Any]
    link: str
    refused: Mapping[str, Any]
    failed: Mapping[str, Any]
    lacks: str
    invalid: Mapping[str, Any]
    unauthorized: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=lambda: BEARER)
    is_form: bool = False


VENDORS = {
    "qwen": Vendor(
        path="/api/v1/services/aigc/multimodal-generation/generation",
        body={
            "model": "qwen-image-3.0",
            "input": {"messages": [{"role": "user", "content": [{"text": "a boat"}]}]},
            "parameters": {"size": "1328*1328", "n": 1},
        },
        link="output.choices.0.message.content.0.image",
        refused={"": 400, "code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."},
        failed={"": 500, "code": "InternalError"},
        lacks="input",
        invalid={"": 400, "code": "InvalidParameter"},
        unauthorized={"": 401, "code": "InvalidApiKey"},
    ),
    "ideogram": Vendor(
        path="/v1/ideogram-v4/generate",
        body={"text_prompt": "a boat", "resolution": "2048x1024", "rendering_speed": "TURBO"},
        headers={"api-key": "key"},
        link="data.0.url",
        refused={"": 422, "error": "Prompt or provided image failed the safety checks"},
        failed={"": 500, "error": "Image generation failed"},
        lacks="text_prompt",
        invalid={"": 400, "error": "Invalid input: text_prompt or json_prompt is required"},
        unauthorized={"": 401, "error": "Unauthorized"},
    ),
    "xai": Vendor(
        path="/v1/images/generations",
        body={"model": "grok-imagine-image", "prompt": "a boat", "n": 2, "aspect_ratio": "16:9"},
        link="data.1.url",
        refused={"": 400, "error": "Generated image rejected by content moderation."},
        failed={"": 500, "code": "Internal error"},
        lacks="prompt",
        invalid={"": 422, "code": "Client specified an invalid argument"},
        unauthorized={"": 401, "code": "The caller does not have valid authentication credentials"},
    ),
    "heygen": Vendor(
        path="/v3/voices/speech",
        body={"text": "Hello from here", "voice_id": "d2f4f24783d04e22ab49ee8fdc3715e0", "speed": 1.5},
        headers={"x-api-key": "key"},
        link="data.audio_url",
        refused={"": 400, "error.code": "content_policy_violation"},
        failed={"": 500, "error.code": "generation_failed"},
        lacks="voice_id",
        invalid={"": 400, "error.code": "invalid_parameter", "error.param": "voice_id"},
        unauthorized={"": 401, "error.code": "unauthorized"},
    ),
    "recraft": Vendor(
        path="/v1/images/generations",
        body={"prompt": "a boat", "model": "recraftv3", "style": "digital_illustration", "size": "1024x1024"},
        link="data.0.url",
        refused={"": 400, "code": "prompt_violates_content_policy"},
        failed={"": 500, "code": "generation_failed"},
        lacks="prompt",
        invalid={"": 400, "code": "invalid_request_parameter"},
        unauthorized={"": 401, "code": "unauthorized"},
    ),
    "stability": Vendor(
        path="/v2beta/stable-image/generate/core",
        body={"prompt": "a boat", "aspect_ratio": "16:9", "output_format": "webp", "seed": "7"},
        is_form=True,
        headers={**BEARER, "accept": "image/*"},
        link="",
        refused={"": 403, "name": "content_moderation"},
        failed={"": 500, "name": "internal_error"},
        lacks="prompt",
        invalid={"": 400, "name": "bad_request", "errors.0": "prompt: Missing required parameter: 'prompt'."},
        unauthorized={"": 401, "name": "unauthorized"},
    ),
    "openrouter": Vendor(
        path="/api/v1/chat/completions",
        body={"model": "openai/gpt-5", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0.5},
        link="choices.0.message.content",
        refused={"": 403, "error.code": 403, "error.metadata.reasons.0": "violence"},
        failed={"": 502, "error.code": 502, "error.message": "Provider returned error"},
        lacks="messages",
        invalid={"": 400, "error.code": 400},
        unauthorized={"": 401, "error.message": "No auth credentials found"},
    ),
    "gemini-interactions": Vendor(
        path="/v1beta/interactions",
        body={"model": "gemini-omni-1.1-flash", "input": "a boat", "response_format": {"delivery": "uri"}},
        headers={"x-goog-api-key": "key"},
        link="steps.0.content.0.uri",
        refused={"": 200, "status": "failed", "error.code": "content_blocked"},
        failed={"": 200, "status": "failed", "error.code": "internal_error"},
        lacks="model",
        invalid={"": 400, "error.status": "INVALID_ARGUMENT"},
        unauthorized={"": 403, "error.status": "PERMISSION_DENIED"},
    ),
}
SYNCHRONOUS = pytest.mark.parametrize("name", VENDORS)


def call(
    simulator: Any, name: str, fault: str = "", lacks: str = "", headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """Send the vendor's own example, with a fault or without a field."""
    facts = VENDORS[name]
    body = {key: value for key, value in facts.body.items() if key != lacks}
    if fault:
        body["note"] = f"[[fault:{fault}]]"
    sent, path = dict(facts.headers if headers is None else headers), f"/{name}{facts.path}"
    client: httpx.Client = simulator.client
    if facts.is_form:
        return client.post(path, files={key: (None, value) for key, value in body.items()}, headers=sent)
    return client.post(path, json=body, headers=sent)


@SYNCHRONOUS
def test_answer_has_the_result_in_it(simulator: Any, name: str) -> None:
    """A call is answered with a link that can be fetched, with a text, or with the file itself."""
    answer = call(simulator, name)
    assert answer.status_code == 200, answer.text
    if not VENDORS[name].link:
        assert answer.headers["content-type"] in ("image/webp", "video/mp4")
        assert len(answer.content) > 20
        return
    result = at(answer.json(), VENDORS[name].link)
    assert result, answer.text
    if result.startswith("http"):
        assert simulator.client.get(result).status_code == 200


@SYNCHRONOUS
def test_moderation_refuses_in_the_vendors_own_words(simulator: Any, name: str) -> None:
    """A refused input is answered as the vendor's documents say."""
    agrees(call(simulator, name, "refused"), VENDORS[name].refused)


@SYNCHRONOUS
def test_failure_is_told_in_the_vendors_own_words(simulator: Any, name: str) -> None:
    """What could not be made has the vendor's status and shape."""
    agrees(call(simulator, name, "failed"), VENDORS[name].failed)


@SYNCHRONOUS
def test_missing_field_is_refused_with_the_vendors_validation_error(simulator: Any, name: str) -> None:
    """A body without something required is answered in the vendor's shape."""
    agrees(call(simulator, name, lacks=VENDORS[name].lacks), VENDORS[name].invalid)


@SYNCHRONOUS
def test_call_without_a_key_is_unauthorized(simulator: Any, name: str) -> None:
    """No key, no work."""
    agrees(call(simulator, name, headers={}), VENDORS[name].unauthorized)


def test_unsafe_image_is_a_success_without_an_address(simulator: Any) -> None:
    """Ideogram tells of a withheld picture inside its success."""
    agrees(call(simulator, "ideogram", "refused-output"), {"": 200, "data.0.is_image_safe": False, "data.0.url": None})


def test_ideogram_3_takes_a_form(simulator: Any) -> None:
    """The third version reads multipart, numbers and all."""
    form = {"prompt": (None, "a boat"), "num_images": (None, "2"), "aspect_ratio": (None, "16x9")}
    answer = simulator.client.post("/ideogram/v1/ideogram-v3/generate", files=form, headers={"api-key": "key"})
    assert len(answer.json()["data"]) == 2


def test_filtered_content_is_a_success_that_says_so(simulator: Any) -> None:
    """Stability blurs what it filters, and says it in a header."""
    answer = call(simulator, "stability", "refused-output")
    assert (answer.status_code, answer.headers["finish-reason"]) == (200, "CONTENT_FILTERED")


def test_stability_answers_with_json_when_asked(simulator: Any) -> None:
    """The picture is then base64 under its own name."""
    answer = call(simulator, "stability", headers={**BEARER, "accept": "application/json"}).json()
    assert (answer["finish_reason"], answer["seed"]) == ("SUCCESS", 7)
    assert base64.b64decode(answer["image"])[8:12] == b"WEBP"


def test_stability_wants_a_form(simulator: Any) -> None:
    """JSON is refused, as is an `accept` of something else."""
    answer = simulator.client.post(f"/stability{VENDORS['stability'].path}", json={"prompt": "a"}, headers=BEARER)
    agrees(answer, {"": 400, "errors.0": "content-type: must be multipart/form-data"})
    agrees(call(simulator, "stability", headers={**BEARER, "accept": "text/html"}), {"": 400, "name": "bad_request"})


def test_stability_makes_sounds(simulator: Any) -> None:
    """Its audio is bytes of the format that was asked for."""
    form = {"prompt": (None, "rain"), "duration": (None, "2"), "output_format": (None, "wav")}
    path = "/stability/v2beta/audio/stable-audio-2/text-to-audio"
    answer = simulator.client.post(path, files=form, headers={**BEARER, "accept": "audio/*"})
    assert (answer.headers["content-type"], answer.content[:4]) == ("audio/wav", b"RIFF")


def test_filtered_completion_has_no_text(simulator: Any) -> None:
    """OpenRouter says it in the finish reason."""
    expected = {"": 200, "choices.0.finish_reason": "content_filter", "choices.0.message.content": ""}
    agrees(call(simulator, "openrouter", "refused-output"), expected)


def test_recraft_draws_vectors(simulator: Any) -> None:
    """A vector model answers with SVG."""
    body = {"prompt": "a boat", "model": "recraftv4_vector"}
    answer = simulator.client.post("/recraft/v1/images/generations", json=body, headers=BEARER).json()
    assert simulator.client.get(answer["data"][0]["url"]).headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    ("name", "path", "change"),
    [
        ("heygen", "speed", 3.0),
        ("heygen", "text", "a" * 5001),
        ("recraft", "style", "cubism"),
        ("recraft", "n", 7),
        ("ideogram", "rendering_speed", "FAST"),
        ("ideogram", "seed", -1),
        ("xai", "n", 11),
        ("xai", "aspect_ratio", "5:1"),
        ("openrouter", "temperature", 2.5),
        ("qwen", "parameters", {"size": "large"}),
        ("gemini-interactions", "response_format", {"duration": "11s"}),
    ],
)
def test_value_out_of_bounds_is_refused(simulator: Any, name: str, path: str, change: Any) -> None:
    """Enumerations, ranges and lengths are checked."""
    facts = VENDORS[name]
    body = {**facts.body, path: change}
    answer = simulator.client.post(f"/{name}{facts.path}", json=body, headers=dict(facts.headers))
    assert answer.status_code == 400, answer.text
