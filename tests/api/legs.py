"""A catalog whose models have legs: a native partner, and the registered alternates `fal` and `wavespeed` beside it.

All of them are one fake partner, each below a path of its own; an alternate's file is the one that ships, at another
address and with one call more.
"""

import base64
import json
import re
from typing import Any, Final

from fairlead.providers.spec_files import SPECS
from fake_partner import SECRET, Behaviour, CatalogFolder, FakePartner, leg_text, reply, reply_json

NEVER_COOLS_DOWN: Final = "[cooldown]\nafter = 1000\n"
"""A partner that many tests make fail must not be left alone for that (docs/provider-files.md)."""
KEYS: Final = {
    **{f"FAIRLEAD_PROVIDER_{name}_KEY": SECRET for name in ("FAKE", "OTHER", "FAL", "WAVESPEED", "RUNWARE", "FILMING")},
    "FAIRLEAD_PROVIDER_FILMING_STORAGE": "gs://ours/films/",
}
PICTURE: Final = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
INLINE: Final = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
METERED: Final = 'at_most = "10"\nrequested = { product = ["/units"] }\nmeasured = { answer = "/usage/units" }'
FILMED: Final = (
    'at_most = "60"\nat_least = "1"\nrequested = { product = ["seconds(/clip)"], bound = true }\n'
    'measured = { answer = "/usage/units" }'
)
NATIVE: Final = "/json"
EDITS: Final = "/edits"
FAL: Final = "/fal/json"
WAVESPEED: Final = "/wavespeed/json"
_CALLS: Final = """
[calls.json]
protocol = "sync-json"
path = "/json"

[calls.hasty]
protocol = "sync-json"
path = "/hasty"
timeout = 1.0
"""
_RETRY: Final = "\n[retry]\ntimes = 0\n"
_EDITS: Final = """
[calls.edits]
protocol = "sync-json"
path = "/edits"
form = { files = [{ name = "image[]", at = "/image" }, { name = "image[]", at = "/image/*" }] }

"""
_OPERATIONS: Final = """
[[operations]]
name = "edit"
edit = true
when = [{ at = "/image" }]

[[operations]]
name = "generate"

"""
_ASSETS: Final = 'assets = { at = ["/data/*/url"], lifetime_hours = 1 }\n'
_NATIVE_LEG: Final = """
[[legs]]
provider = "fake"
calls = { edit = "edits", generate = "json" }

[[legs.rate_cards]]
version = "fake-1"
effective = 2020-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.01"
at_most = "4"
requested = { product = [{ at = "/n", otherwise = "1" }] }
cases = [{ operations = ["edit"], price = "0.015" }]

"""
_FAL_LEG: Final = """
[[legs]]
provider = "fal"
name = "fal-ai/many"
calls = { generate = "json" }

[[legs.rate_cards]]
version = "fal-1"
effective = 2020-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.02"

[legs.strict]
fields = ["/text", "/image_size/width", "/image_size/height", "/mood", "/model", "/anything/*"]

[legs.translation]
fields = [
    { from = "/prompt", to = "/text" },
    { from = "/size", to = ["/image_size/width", "/image_size/height"], glue = "x", kind = "integer" },
    { from = "/style", to = "/mood", values = { bright = "light" } },
]
constants = { "/sync_mode" = true }
dropped = { "/user" = "the provider keeps no users apart" }

[legs.translation.answer]
fields = [{ from = "/images/*/url", to = "/data/*/url" }]
constants = { "/created" = 0 }
require = ["/data/0/url"]

"""
_WAVESPEED_LEG: Final = """
[[legs]]
provider = "wavespeed"
name = "wavespeed-ai/many"
call = "json"

[[legs.rate_cards]]
version = "wavespeed-1"
effective = 2020-01-01

[[legs.rate_cards.components]]
unit = "image"
price = "0.03"
cases = [{ operations = ["edit"], price = "0.04" }]

[legs.rate_cards.components.strict]
cases = [{ operations = ["generate"], price = "0.03" }]

[legs.strict]
fields = ["/prompt", "/picture"]
operations = [{ name = "edit", when = [{ at = "/picture" }] }, { name = "generate" }]

[legs.translation]
fields = [{ from = "/prompt", to = "/prompt" }, { from = "/image", to = "/picture" }]

"""
_ROLES: Final = """
draft_of = "/content/*[type=draft_task]/draft_task/id"

[[operations]]
name = "image-to-video"
when = [{ at = "/content/*[role=first_frame]" }]

[[operations]]
name = "reference-to-video"
when = [{ at = "/content/*/role", equals = ["reference_image", "reference_video"] }]

[[operations]]
name = "text-to-video"

[[billed_as]]
name = "video-to-video"
when = [{ at = "/content/*/type", equals = ["video_url"] }]

[[billed_as]]
name = "image-to-video"
when = [{ at = "/content/*/type", equals = ["image_url"] }]

[[billed_as]]
name = "text-to-video"

"""
_ROLE_LEG: Final = """
[[legs]]
provider = "fake"
names = { image-to-video = "i2v", reference-to-video = "r2v", text-to-video = "t2v" }
call = "named"

[[legs.rate_cards]]
version = "fake-1"
effective = 2020-01-01

[[legs.rate_cards.components]]
unit = "clip"
price = "0.05"
cases = [{ operations = ["video-to-video"], price = "0.07" }, { operations = ["image-to-video"], price = "0.06" }]

"""
_NAMED: Final = """
[calls.named]
protocol = "submit-and-poll"
path = "/named/{model}"
handle = "/id"

[calls.named.poll]
path = "/named/tasks/{handle}"
every = 0.01
status = "/state"
succeeded = ["done"]

"""
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["prompt", "model"],
    "additionalProperties": False,
    "properties": {
        "prompt": {"type": "string", "minLength": 1},
        "model": {"type": "string"},
        "n": {"type": "integer", "minimum": 1, "maximum": 4},
        "size": {"type": "string"},
        "style": {"type": "string"},
        "user": {"type": "string"},
        "image": {"type": ["string", "array"]},
        "more": {"type": "object"},
        **{f"extra_{number:03d}": {"type": "string"} for number in range(100)},
    },
}


def storing(url: str) -> str:
    """The part of a provider file of a partner that writes into storage, which is read at an address."""
    return f'[storage]\nat = "/parameters/storageUri"\nscheme = "gs"\nread_from = "{url}/storage"\n\n'


def fill_legs(catalog: CatalogFolder, url: str) -> None:
    """Write the partners and the models with legs."""
    catalog.add_provider(url, tail=_EDITS + _NAMED + NEVER_COOLS_DOWN)
    catalog.add_provider(url, "other", tail=NEVER_COOLS_DOWN)
    catalog.add_provider(url, "filming", tail=storing(url) + NEVER_COOLS_DOWN)
    for name in ("fal", "wavespeed", "runware"):
        shipped = (SPECS / f"{name}.toml").read_text("utf-8")
        moved = re.sub(r'(?m)^base_url = ".*"$', f'base_url = "{url}/{name}"', shipped)
        catalog.write(f"providers/{name}.toml", moved + _CALLS + NEVER_COOLS_DOWN + _RETRY)
    many = _NATIVE_LEG + _FAL_LEG + _WAVESPEED_LEG
    add(catalog, "fake/many-1", _ASSETS + _OPERATIONS + many, SCHEMA)
    add(catalog, "fake/fal-only-1", _OPERATIONS + _NATIVE_LEG + _FAL_LEG, SCHEMA)
    add(catalog, "fake/refusing-1", leg_text() + leg_text("fal", price="0.02"), charges="yes")
    add(catalog, "fake/hasty-1", leg_text(call="hasty") + leg_text("fal", price="0.02"))
    add(catalog, "other/json-1", leg_text("other") + leg_text("fal", price="0.02"))
    add(catalog, "fake/pinned-1", leg_text() + leg_text("higgsfield", "generate"))
    add(catalog, "fake/dearer-1", leg_text(price="1") + leg_text("fal", price="2"))
    stale = ("effective", "stale_after = 2026-01-31\neffective")
    add(catalog, "fake/stale-1", leg_text().replace(*stale))
    add(catalog, "fake/stale-2", leg_text(component=METERED).replace(*stale))
    add(catalog, "fake/filmed-1", leg_text(component=FILMED))
    add(catalog, "fake/marked-1", leg_text() + leg_text("fal", price="0.02"))
    add(catalog, "fake/bytes-1", leg_text(call="bytes"))
    add(catalog, "fake/task-1", leg_text(call="task"))
    add(catalog, "fake/roles-1", _ROLES + _ROLE_LEG)
    add(catalog, "fake/costly-1", leg_text(price="5"))
    add(catalog, "fake/cheap-1", leg_text(price="4.99999999"))
    declared = {"type": "object", "properties": {"prompt": {"type": "string"}}}
    both = leg_text() + leg_text("fal", price="0.02")
    add(catalog, "fake/undeclared-1", both, declared)
    add(catalog, "fake/open-1", both, {**declared, "additionalProperties": True})
    add(catalog, "fake/closed-1", both, {**declared, "additionalProperties": False})
    add(catalog, "fake/unauthored-1", both)
    add(catalog, "fake/long-1", _OPERATIONS + _NATIVE_LEG + _FAL_LEG)
    videos = 'assets = { at = ["/response/videos/*/gcsUri"], lifetime_hours = 24 }\n'
    add(catalog, "fake/veo-1", videos + leg_text())
    add(catalog, "filming/veo-1", videos + leg_text("filming"))


def add(catalog: CatalogFolder, model_id: str, tables: str, schema: Any = None, *, charges: str = "no") -> None:
    """Write a model file out of its tables, and its schema when it has one."""
    stem = model_id.replace("/", "--")
    named = ""
    if schema is not None:
        catalog.write(f"models/{stem}.input.json", json.dumps(schema))
        named = f'input_schema = "{stem}.input.json"\n'
    head = f'id = "{model_id}"\ntitle = "A model with legs"\ncharges_on_policy_rejection = "{charges}"\n{named}'
    catalog.write(f"models/{stem}.toml", f"{head}{tables}")


def images(url: str = "https://cdn.example/a.png") -> Behaviour:
    """The answer of fal: one picture, and a field of its own."""
    return reply_json({"images": [{"url": url}], "seed": 5})


def native(url: str = "https://cdn.example/a.png", **more: Any) -> Behaviour:
    """The answer of the native partner: one picture."""
    return reply_json({"created": 1, "data": [{"url": url}], **more})


def at_ease(partner: FakePartner) -> None:
    """Let every leg succeed, each with an answer that tells who gave it."""
    for path, leg in ((NATIVE, "native"), (EDITS, "edits"), (WAVESPEED, "wavespeed")):
        partner.script(path, reply_json({"leg": leg}))
    partner.script(FAL, images())
    partner.script("/hasty", reply(200, b'{"leg":"native"}'))
    partner.script("/fal/hasty", reply(200, b'{"leg":"fal"}'))
