"""Ideogram (api.ideogram.ai): one synchronous call a model; what moderation refuses can still be a success."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, stamp, words_of
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

ASPECT_RATIOS = {
    "1x1",
    "1x2",
    "2x1",
    "1x3",
    "3x1",
    "2x3",
    "3x2",
    "3x4",
    "4x3",
    "4x5",
    "5x4",
    "9x16",
    "16x9",
    "10x16",
    "16x10",
}
_QUALITIES = ("very_low", "low", "medium", "high")


def _problem(problem: Problem) -> Reply:
    words = words_of(
        problem,
        {
            "unauthorized": "Unauthorized",
            "rate_limited": "Too many requests. Please try again later.",
            "refused": "Prompt or provided image failed the safety checks",
            "failed": "Image generation failed",
            "server_error": "Internal server error",
        },
    )
    body = {"error": f"Invalid input: {words}" if problem.kind == "invalid" else words}
    return error_reply(problem, body, {"refused": 422})


def _generate(call: Call) -> Reply:
    body, is_v3 = _body(call), call.path.startswith("/v1/ideogram-v3/")
    if is_v3 or call.path.startswith("/v2/"):
        checks.text(body, "prompt", 10_000, required=True)
    elif not any(body.get(name) for name in ("text_prompt", "json_prompt")):
        raise Problem("invalid", "text_prompt or json_prompt is required", field="text_prompt", code="missing")
    checks.text(body, "text_prompt", 10_000)
    speeds = {"TURBO", "DEFAULT", "QUALITY"}
    checks.one_of(body, "rendering_speed", {*speeds, "FLASH"} if is_v3 else speeds)
    checks.one_of(
        body, "magic_prompt", {"auto", "on", "off"} if call.path.startswith("/v2/") else {"AUTO", "ON", "OFF"}
    )
    checks.one_of(body, "style_type", {"AUTO", "GENERAL", "REALISTIC", "DESIGN", "FICTION"})
    checks.one_of(body, "aspect_ratio", ASPECT_RATIOS)
    checks.one_of(body, "enable_copyright_detection", {True, False})
    checks.one_of(body, "quality", {*_QUALITIES, *map(str.upper, _QUALITIES)})
    if call.path.startswith("/v2/") and "resolution" in body and not call.path.endswith("p-image-ideogram"):
        raise Problem("invalid", "unknown field 'resolution'", field="resolution")
    checks.integer(body, "seed", 0, 2_147_483_647)
    count = checks.integer(body, "num_images", 1, 8, 1)
    _resolution(body)
    data = [_image(call, body, number) for number in range(count)]
    return json_reply(200, {"created": stamp(time.time()), "data": data} | _named(call, data))


def _named(call: Call, data: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What an answer says beside its pictures, which differs by the model."""
    if call.path.endswith("ideogram-4-5"):
        return {"generation_id": identifier(), "seed": data[0]["seed"]}
    return {"response_type": "url"} if call.path.startswith("/v1/ideogram-v4/") else {}


def _inpaint(call: Call) -> Reply:
    """Remake the part of a picture that a mask of the same size marks in black."""
    files = call.form().files
    for name in ("image", "mask"):
        if name not in files:
            raise Problem("invalid", f"{name} is required", field=name, code="missing")
    return _generate(call)


def _body(call: Call) -> Mapping[str, object]:
    """Read JSON, or a form whose numbers are written out."""
    if not call.headers.get("content-type", "").startswith("multipart/"):
        return call.json()
    fields: dict[str, Any] = dict(call.form().first())
    for name in ("seed", "num_images"):
        if fields.get(name, "").isdigit():
            fields[name] = int(fields[name])
    return fields


def _resolution(body: Mapping[str, object]) -> tuple[int, int]:
    named = {"": "1024x1024", "auto": "2048x2048", "source": "1024x1024", "1k": "1024x1024", "2k": "2048x2048"}
    asked = (checks.text(body, "size", 20) or checks.text(body, "resolution", 20)).lower()
    resolution = named.get(asked, asked)
    width, _, height = resolution.partition("x")
    if not (width.isdigit() and height.isdigit() and 256 <= int(width) <= 4096 and 256 <= int(height) <= 4096):
        raise Problem("invalid", f"resolution '{resolution}' is not supported", field="resolution")
    return int(width), int(height)


def _image(call: Call, body: Mapping[str, Any], number: int) -> dict[str, object]:
    width, height = _resolution(body)
    seed = (body.get("seed") or call.seed()) + number
    is_safe = not call.has("refused-output")
    return {
        "prompt": str(body.get("prompt") or body.get("text_prompt") or body.get("json_prompt")),
        "resolution": f"{width}x{height}",
        "is_image_safe": is_safe,
        "seed": seed,
        "url": call.link(picture("png", width, height, seed), f"image-{number}.png") if is_safe else None,
        "style_type": body.get("style_type") or "GENERAL",
    }


VENDOR = Vendor(
    name="ideogram",
    routes=(
        Route("POST", "/v1/{model}/generate", _generate),
        Route("POST", "/v1/ideogram-v3/inpaint", _inpaint),
        Route("POST", "/v2/image/generate/{model}", _generate),
    ),
    authorize=keys.header_key("api-key"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "expired-link"}),
    raises=frozenset({"refused", "failed"}),
)
