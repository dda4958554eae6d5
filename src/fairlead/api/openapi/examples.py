"""An example of each body and answer of the document, made of its schema: what it must have, and nothing more.

A type that is better shown by something else has `examples` in its schema, the first of which is taken.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

_DEPTH_MAX: Final = 20
_PLACE: Final = "#/components/schemas/"
_BY_PATTERN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "^-?[0-9]+([.][0-9]+)?$": "0.75",
        "^blake3:[0-9a-f]{64}$": f"blake3:{'af1349b9f5f9a1a6' * 4}",
        "^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$": "studio",
    }
)
_BY_FORMAT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "uuid": "01a1fbeb-c6d2-7143-afed-d161f20a8e96",
        "date-time": "2026-11-21T04:00:00.000Z",
        "date": "2026-11-21",
        "uri": "https://media.example/made",
    }
)
_BY_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "action": "create_key",
        "address": "mara@studio.example",
        "canonical_id": "bfl/flux-2-pro",
        "category": "image",
        "class_type": "SaveImage",
        "content_type": "image/png",
        "currency": "USD",
        "dir": "workflows",
        "download_url": "https://media.example/archives/1",
        "email": "mara@studio.example",
        "file_path": "photo.png",
        "filename": "evening_00001_.png",
        "hint": "…x4Qz",
        "id": "studio",
        "label": "laptop",
        "license": "MIT",
        "model": "bfl/flux-2-pro",
        "month": "2026-11",
        "name": "Evening light",
        "node_id": "4",
        "path": "workflows/evening.json",
        "pricing_as_of": "2026-11-21T04:00:00.000Z",
        "provider": "bfl",
        "publisher_id": "studio",
        "subscription": "pro",
        "version": "1.0.0",
        "workspace": "studio",
    }
)
"""Texts of members that say more than their names would."""


def example_of(schema: object, components: Mapping[str, object], name: str = "text", depth: int = 0) -> object:
    """A value that a schema accepts; `name` is that of the member which has it, `depth` how far within others it is."""
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return None
    match schema:
        case {"examples": [first, *_]} | {"enum": [first, *_]} | {"const": first}:
            return first
        case {"$ref": str(place)}:
            return example_of(components.get(place.removeprefix(_PLACE)), components, name, depth + 1)
        case {"anyOf": [*choices]}:
            shown = next((one for one in choices if isinstance(one, Mapping) and one.get("type") != "null"), None)
            return example_of(shown, components, name, depth)
        case _:
            return _of_type(schema, components, name, depth)


def _of_type(schema: Mapping[str, object], components: Mapping[str, object], name: str, depth: int) -> object:
    match schema.get("type"):
        case "object":
            return _members(schema, components, depth)
        case "array":
            return _entries(schema, components, name, depth)
        case "string":
            return _text(schema, name)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return None


def _members(schema: Mapping[str, object], components: Mapping[str, object], depth: int) -> Mapping[str, object]:
    """The members that an object must have; of one that must have none, the first that it may have."""
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, Mapping):
        return {}
    shown = required if isinstance(required, list) and required else [*members][:1]
    return {name: example_of(members[name], components, name, depth + 1) for name in shown}


def _entries(schema: Mapping[str, object], components: Mapping[str, object], name: str, depth: int) -> Sequence[object]:
    first = schema.get("prefixItems")
    entries = first if isinstance(first, list) else [schema.get("items")]
    return [example_of(entry, components, name, depth + 1) for entry in entries]


def _text(schema: Mapping[str, object], name: str) -> str:
    """A text of a pattern or a format that is known here, else one that goes with the member's name."""
    pattern, form = str(schema.get("pattern")), str(schema.get("format"))
    text = _BY_FORMAT.get(form) or _BY_PATTERN.get(pattern) or _BY_NAME.get(name) or name.replace("_", " ")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text *= 1 + least // len(text)
    return text[:most] if isinstance(most, int) else text
