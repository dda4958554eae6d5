"""The catalog folder that is measured with: one partner, one model with an authored schema and a rate card."""

import json
from pathlib import Path
from typing import Any, Final

MODEL: Final = "bench/picture"
QUICK_MODEL: Final = "bench/quick-picture"
SUBMITTED_MODEL: Final = "bench/submitted-picture"
PRICE: Final = "0.0061943"
"""What one run of any of the models costs in dollars, rounded as the books round: a picture and its megapixels."""

ANSWER: Final[dict[str, Any]] = {
    "id": "01890000-0000-7000-8000-000000000000",
    "created": 1767225600,
    "seed": 42,
    "images": [{"url": "https://partner.example/pictures/1.png", "width": 1024, "height": 1024}],
    "usage": {"images": 1, "megapixels": 1.048576},
}

BODY: Final[dict[str, Any]] = {
    "prompt": "A lighthouse on a cliff at dusk, heavy sea, long exposure, muted colours, film grain",
    "negative_prompt": "people, text, watermark",
    "width": 1024,
    "height": 1024,
    "steps": 28,
    "guidance": 4.5,
    "seed": 42,
    "style": "photo",
    "output_format": "png",
    "tags": ["sea", "dusk", "lighthouse"],
    "camera": {"lens_mm": 35, "aperture": 8},
    "safety": "strict",
    "strength": 0.6,
    "sharpen": False,
    "reference": "order-2026-000123",
}

_PROVIDER: Final = """\
provider = "bench"
title = "The partner of the benchmarks"
base_url = "{base_url}"

[auth]
scheme = "none"

[calls.picture]
protocol = "sync-json"
path = "/pictures"
require = ["/images/0/url"]

[calls.quick-picture]
protocol = "sync-json"
path = "/quick-pictures"
require = ["/images/0/url"]

[calls.submitted-picture]
protocol = "submit-and-poll"
path = "/submitted-pictures"
handle = "/id"
require = ["/images/0/url"]

[calls.submitted-picture.poll]
path = "/submitted-pictures/{{handle}}"
status = "/status"
pending = ["pending"]
succeeded = ["succeeded"]
failed = ["failed"]
every = 1.0
give_up_after = 3600
"""

_MODEL: Final = """\
id = "{id}"
title = "A picture"
charges_on_policy_rejection = "no"
input_schema = "input.json"

[[legs]]
provider = "bench"
call = "{call}"

[[legs.rate_cards]]
version = "bench-1"
effective = 2026-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.002"

[[legs.rate_cards.components]]
unit = "megapixel"
price = "0.004"
at_most = "4.194304"
requested = {{ product = ["/width", "/height"], scale = "0.000001" }}
measured = {{ answer = "/usage/megapixels" }}
"""


def write_catalog(folder: Path, partner_port: int) -> Path:
    """Write the catalog of a partner on this machine into a folder."""
    providers, models = folder / "providers", folder / "models"
    for made in (providers, models):
        made.mkdir(parents=True)
    (providers / "bench.toml").write_text(_PROVIDER.format(base_url=f"http://127.0.0.1:{partner_port}"), "utf-8")
    (models / "input.json").write_text(json.dumps(input_schema(), indent=2), "utf-8")
    for model in (MODEL, QUICK_MODEL, SUBMITTED_MODEL):
        name = model.partition("/")[2]
        (models / f"{name}.toml").write_text(_MODEL.format(id=model, call=name), "utf-8")
    return folder


def input_schema() -> dict[str, Any]:
    """A schema of twenty fields of the kinds that models have."""
    text: dict[str, Any] = {"type": "string", "maxLength": 2000}
    size: dict[str, Any] = {"type": "integer", "minimum": 64, "maximum": 2048, "default": 1024}
    share: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
    camera = {"lens_mm": {"type": "integer", "minimum": 8, "maximum": 600}, "aperture": {"type": "number"}}
    return {
        "type": "object",
        "required": ["prompt"],
        "additionalProperties": False,
        "properties": {
            "prompt": {**text, "minLength": 1},
            "negative_prompt": text,
            "width": size,
            "height": size,
            "steps": {"type": "integer", "minimum": 1, "maximum": 100, "default": 28},
            "guidance": {"type": "number", "minimum": 0, "maximum": 20, "default": 4.5},
            "seed": {"type": "integer", "minimum": 0, "maximum": 4294967295},
            "style": {"enum": ["photo", "drawing", "painting", "render"]},
            "output_format": {"enum": ["png", "jpeg", "webp"], "default": "png"},
            "tags": {"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 40}},
            "camera": {"type": "object", "additionalProperties": False, "properties": camera},
            "safety": {"enum": ["strict", "normal", "off"]},
            "strength": share,
            "sharpen": {"type": "boolean", "default": False},
            "reference": {"type": "string", "pattern": "^[a-z0-9-]+$", "maxLength": 64},
            "quality": {"enum": ["draft", "standard", "high"]},
            "image": {"type": "string", "pattern": "^data:image/", "maxLength": 22500000},
            "mask": {"type": "string", "pattern": "^data:image/", "maxLength": 22500000},
            "mask_blur": share,
            "count": {"const": 1},
        },
    }


def compact(value: dict[str, Any]) -> str:
    """A document as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))
