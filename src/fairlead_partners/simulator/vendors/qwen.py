"""Qwen images (dashscope-intl.aliyuncs.com): one synchronous call with chat-like messages in and out."""

from typing import Any

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import identifier
from fairlead_partners.simulator.media import picture
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

from . import dashscope

IMAGES_MAX = 3
_LARGEST_OF_1K = 2_250_000


def _generate(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "model", 100, required=True)
    if not str(body["model"]).startswith("qwen-image"):
        raise Problem("invalid", "Model not exist.", field="model")
    dashscope.parameters(body)
    given = _check_messages(checks.items(body, "input.messages", 1, required=True))
    width, height = dashscope.size(body, (1328, 1328))
    count = checks.integer(body, "parameters.n", 1, 6, 1)
    links = [call.link(picture("png", width, height, call.seed() + n), f"image-{n}.png") for n in range(count)]
    content = [{"image": link} for link in links]
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    return json_reply(
        200,
        {
            "output": {"choices": [choice]},
            "usage": _usage(given, width, height, count),
            "request_id": identifier(),
        },
    )


def _usage(given: int, width: int, height: int, count: int) -> dict[str, object]:
    size = "1k" if width * height <= _LARGEST_OF_1K else "2k"
    usage = {
        "input_image_count": given,
        "output_width": width,
        "output_height": height,
        "output_image_count": count,
        "output_image_type": f"qima_output_{size}",
    }
    return usage | {"input_image_type": f"qima_input_{size}"} if given else usage


def _check_messages(messages: list[Any]) -> int:
    """Return how many pictures are given."""
    message = messages[0]
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or message.get("role") != "user":
        raise Problem("invalid", "input.messages[0] must be a user message with content.", field="input.messages")
    parts = [part for part in content if isinstance(part, dict)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    images = [part["image"] for part in parts if "image" in part]
    if len(texts) != 1 or not texts[0]:
        raise Problem("invalid", "Exactly one text is required in content.", field="input.messages")
    if len(images) > IMAGES_MAX:
        raise Problem("invalid", "The number of images in content must be between 1 and 3.", field="input.messages")
    return len(images)


VENDOR = Vendor(
    name="qwen",
    routes=(Route("POST", "/api/v1/services/aigc/multimodal-generation/generation", _generate),),
    authorize=keys.bearer,
    problem=dashscope.problem,
    supports=frozenset({"refused", "refused-output", "failed", "expired-link"}),
    raises=frozenset({"refused", "refused-output", "failed"}),
)
