"""Gemini and Imagen on Vertex AI: generateContent and predict, synchronous; refusals are successes by their status."""

import secrets
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, google
from fairlead_partners.simulator.chat import ANSWER, tokens
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_MODEL = "publishers/google/models/{model}"
_PLACED = "/v1/projects/{project}/locations/{location}/" + _MODEL
_IMAGE_TOKENS = {"gemini-2.5-flash-image": 1290}
"""What a picture of 1K has, where it is not 1,120 (the vendor's price list)."""
_SIDES = {"512": 512, "1K": 1024, "2K": 2048, "4K": 4096}
_RATIOS = {"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9", "1:4", "4:1", "1:8", "8:1"}
_FAULTS = frozenset({"refused", "refused-output", "failed"})
_BLOCKED = "The prompt was blocked because it contained prohibited content."
_IMAGE_SAFETY = (
    "Unable to show the generated image. All images were filtered out because they violated Google's Generative AI "
    "Prohibited Use policy. You will not be charged for blocked images. Try rephrasing the prompt."
)


def _generate(call: Call) -> Reply:
    body = call.json()
    _check(body)
    model = call.parameters["model"]
    images = _wants_image(model, body)
    given = tokens(body["contents"])
    answer: dict[str, object] = {"modelVersion": model, "responseId": secrets.token_urlsafe(16)}
    if call.has("refused"):
        answer["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": _BLOCKED}
        answer["usageMetadata"] = _usage(given, 0, "TEXT")
        return json_reply(200, answer)
    ended = _early_end(call, images=images)
    if ended is not None:
        answer["candidates"] = [ended]
        answer["usageMetadata"] = _usage(given, 0, "TEXT")
        return json_reply(200, answer)
    parts = _parts(call, body, images=images)
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    answer["candidates"] = [candidate]
    made = (_IMAGE_TOKENS.get(model, 1120), "IMAGE") if images else (9, "TEXT")
    answer["usageMetadata"] = _usage(given, *made)
    return json_reply(200, answer)


def _check(body: Mapping[str, object]) -> None:
    for number, content in enumerate(checks.items(body, "contents", required=True)):
        if not isinstance(content, Mapping) or not isinstance(content.get("parts"), list) or not content["parts"]:
            message = "Unable to submit request because it must have a non-empty parts field."
            raise Problem("invalid", message, field=f"contents[{number}].parts")
        if content.get("role") not in (None, "user", "model"):
            raise Problem("invalid", "Please use a valid role: user, model.", field=f"contents[{number}].role")
    checks.number(body, "generationConfig.temperature", 0, 2)
    checks.number(body, "generationConfig.topP", 0, 1)
    checks.integer(body, "generationConfig.maxOutputTokens", 1, 1_000_000)
    checks.one_of(body, "generationConfig.imageConfig.imageSize", set(_SIDES))
    checks.one_of(body, "generationConfig.imageConfig.aspectRatio", _RATIOS)
    for modality in checks.items(body, "generationConfig.responseModalities", 3):
        if modality not in ("TEXT", "IMAGE", "AUDIO"):
            raise Problem("invalid", "Invalid value at 'generation_config.response_modalities'.")


def _wants_image(model: str, body: Mapping[str, object]) -> bool:
    modalities = checks.items(body, "generationConfig.responseModalities")
    return "IMAGE" in modalities if modalities else "image" in model or "banana" in model


def _early_end(call: Call, *, images: bool) -> dict[str, object] | None:
    """Return a candidate without content, when moderation or bad luck left it so."""
    if call.has("refused-output"):
        if images:
            return {"finishReason": "IMAGE_SAFETY", "finishMessage": _IMAGE_SAFETY, "index": 0}
        rating = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
        return {"finishReason": "SAFETY", "safetyRatings": [rating], "index": 0}
    if call.has("failed"):
        return {"finishReason": "NO_IMAGE" if images else "OTHER", "index": 0}
    return None


def _parts(call: Call, body: Mapping[str, object], *, images: bool) -> list[dict[str, Any]]:
    words = {"text": ANSWER}
    if not images:
        return [words]
    side = _SIDES[checks.at(body, "generationConfig.imageConfig.imageSize") or "1K"]
    width, _, height = str(checks.at(body, "generationConfig.imageConfig.aspectRatio") or "1:1").partition(":")
    scale = side / max(int(width), int(height))
    media = picture("png", round(int(width) * scale), round(int(height) * scale), call.seed())
    image = {"inlineData": {"mimeType": media.content_type, "data": media.base64()}}
    return [image] if checks.items(body, "generationConfig.responseModalities") == ["IMAGE"] else [words, image]


def _usage(given: int, made: int, modality: str) -> dict[str, object]:
    usage: dict[str, object] = {
        "promptTokenCount": given,
        "totalTokenCount": given + made,
        "trafficType": "ON_DEMAND",
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": given}],
    }
    if made:
        usage["candidatesTokenCount"] = made
        usage["candidatesTokensDetails"] = [{"modality": modality, "tokenCount": made}]
    return usage


def _predict(call: Call) -> Reply:
    body = call.json()
    instances = checks.items(body, "instances", 1, required=True)
    if not isinstance(instances[0], Mapping) or not instances[0].get("prompt"):
        raise Problem("invalid", "Text prompt is required.", field="instances[0].prompt")
    count = checks.integer(body, "parameters.sampleCount", 1, 8, 4)
    checks.one_of(body, "parameters.aspectRatio", {"1:1", "3:4", "4:3", "9:16", "16:9"})
    if call.has("refused"):
        message = f"Image generation failed with the following error: {google.BLOCKED_PROMPT} Support codes: 42876398"
        raise Problem("refused", message)
    if call.has("failed"):
        raise Problem("failed", "Internal error encountered.")
    if call.has("refused-output"):
        explained = checks.at(body, "parameters.includeRaiReason") is True
        return json_reply(200, {"predictions": [{"raiFilteredReason": _IMAGE_SAFETY}]} if explained else {})
    format_ = checks.text(body, "parameters.outputOptions.mimeType") or "image/png"
    media = picture("jpeg" if format_ == "image/jpeg" else "png", 1024, 1024, call.seed())
    prediction = {"mimeType": media.content_type, "bytesBase64Encoded": media.base64()}
    return json_reply(200, {"predictions": [prediction] * count})


VENDOR = Vendor(
    name="vertexai",
    routes=(
        Route("POST", _PLACED + ":generateContent", _generate),
        Route("POST", f"/v1/{_MODEL}:generateContent", _generate),
        Route("POST", "/v1beta/models/{model}:generateContent", _generate),
        Route("POST", _PLACED + ":predict", _predict),
    ),
    authorize=google.authorize,
    problem=google.problem_reply,
    supports=_FAULTS,
)
