"""Recraft (external.api.recraft.ai): images at once, much like OpenAI's, with styles and vectors."""

import time
from collections.abc import Mapping
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, words_of
from fairlead_partners.simulator.media import Media, picture, vector
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

STYLES = {"realistic_image", "digital_illustration", "vector_illustration", "icon", "logo_raster", "any"}
IMAGE_CREDITS = 40

_CODES = {
    "unauthorized": "unauthorized",
    "invalid": "invalid_request_parameter",
    "not_found": "not_found",
    "rate_limited": "too_many_requests",
    "refused": "prompt_violates_content_policy",
    "refused_output": "image_violates_content_policy",
    "failed": "generation_failed",
}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "Unauthorized",
            "refused": "The prompt was rejected by our content policy.",
            "refused_output": "The generated image was rejected by our content policy.",
            "failed": "The image could not be generated.",
            "rate_limited": "Too many requests",
        },
    )
    return error_reply(problem, {"code": _CODES.get(problem.kind, "internal_error"), "message": message})


def _generate(call: Call) -> Reply:
    return _images(call, call.json())


def _image_to_image(call: Call) -> Reply:
    """Remake a picture by words; `strength` says how far from it the result may be."""
    body = _with_pictures(call, "image")
    checks.present(body, "strength")
    checks.number(body, "strength", 0, 1)
    return _images(call, body)


def _inpaint(call: Call) -> Reply:
    """Remake the part of a picture that a mask of the same size marks in white."""
    return _images(call, _with_pictures(call, "image", "mask"))


def _with_pictures(call: Call, *names: str) -> Mapping[str, object]:
    """Read a form with files, or JSON with links to them in `<name>_url`; forms have no nested fields."""
    if not call.headers.get("content-type", "").startswith("multipart/"):
        body = call.json()
        for name in names:
            checks.text(body, f"{name}_url", 40_000_000, required=True)
        return body
    form = call.form()
    fields: dict[str, Any] = dict(form.first())
    for name in names:
        if name not in form.files:
            raise Problem("invalid", f"{name} is required", field=name, code="missing")
    if "controls" in fields:
        raise Problem("invalid", "controls is not an object", field="controls", code="type")
    try:
        numbers: dict[str, object] = {"n": int(fields.get("n", "1"))}
        if "strength" in fields:
            numbers["strength"] = float(fields["strength"])
    except ValueError:
        raise Problem("invalid", "strength or n is not a number", field="strength", code="type") from None
    return fields | numbers


def _images(call: Call, body: Mapping[str, object]) -> Reply:
    checks.text(body, "prompt", 10_000, required=True)
    model = checks.text(body, "model", 60) or "recraftv3"
    if not model.startswith(("recraftv", "refm")):
        raise Problem("invalid", f"model '{model}' is not supported", field="model", code="enum")
    checks.one_of(body, "style", STYLES)
    if model.startswith("recraftv4") and "styles" not in model and (body.get("style") or body.get("style_id")):
        raise Problem("invalid", "style is not supported by this model", field="style")
    if "_styles" in model and not body.get("style_id"):
        raise Problem("invalid", "style_id is required by this model", field="style_id", code="missing")
    count = checks.integer(body, "n", 1, 6, 1)
    format_ = checks.one_of(body, "response_format", {"url", "b64_json"}, "url")
    is_vector = "vector" in model or body.get("style") in {"vector_illustration", "icon"}
    images = [_file(body, is_vector, call.seed() + number) for number in range(count)]
    data = [
        {"image_id": identifier()}
        | (
            {"b64_json": made.base64()}
            if format_ == "b64_json"
            else {"url": call.link(made, f"image-{number}.{made.extension}")}
        )
        for number, made in enumerate(images)
    ]
    return json_reply(200, {"created": int(time.time()), "credits": count * IMAGE_CREDITS, "data": data})


def _file(body: Mapping[str, object], is_vector: bool, seed: int) -> Media:  # noqa: FBT001 -- one of three plain facts
    size = checks.text(body, "size", 20) or "1024x1024"
    width, _, height = size.replace(":", "x").partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise Problem("invalid", f"size '{size}' is not supported", field="size", code="enum")
    if is_vector:
        return vector()
    # A ratio such as 16:9 is a size too.
    scale = 128 if ":" in size else 1
    return picture("webp", int(width) * scale, int(height) * scale, seed)


def _style(call: Call) -> Reply:
    form = call.form()
    checks.one_of(form.first(), "style", STYLES)
    checks.present(form.first(), "style")
    if not form.files:
        raise Problem("invalid", "at least one image is required", field="file", code="missing")
    return json_reply(200, {"id": identifier(), "credits": IMAGE_CREDITS})


VENDOR = Vendor(
    name="recraft",
    routes=(
        Route("POST", "/v1/images/generations", _generate),
        Route("POST", "/v1/images/imageToImage", _image_to_image),
        Route("POST", "/v1/images/inpaint", _inpaint),
        Route("POST", "/v1/styles", _style),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "expired-link"}),
    raises=frozenset({"refused", "refused-output", "failed"}),
)
