"""Fields of a schema that take pictures, sounds and clips: how they are recognised, and media encoded (C-11)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead.domain.catalog.partner_declarations import MaskColour, Media, NodeInput, Spelling
from fairlead.domain.pointers import Pointer, as_text

_SPELLED: Final = re.compile(r"base64|\bdata uris?\b|\bdata: uris?\b|\blinks?\b|as a link", re.IGNORECASE)
_NAMES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("MASK", re.compile(r"mask|(^|_)alpha_uri$", re.IGNORECASE)),
    ("IMAGE", re.compile(r"image|img|picture|photo|frame", re.IGNORECASE)),
    ("VIDEO", re.compile(r"video|clip", re.IGNORECASE)),
    ("AUDIO", re.compile(r"audio|sound", re.IGNORECASE)),
)
_SOUND: Final = re.compile(r"\bthe sound\b", re.IGNORECASE)
_EITHER: Final = re.compile(r"picture, or (the|a) clip|clip[^.]*, or a picture", re.IGNORECASE)
_BLACK: Final = re.compile(r"black where it is (to be )?edited", re.IGNORECASE)
_TRANSPARENT: Final = re.compile(r"transparent areas say where", re.IGNORECASE)
_WRAPPING: Final = frozenset(
    {"url", "uri", "image", "data", "bytesBase64Encoded", "Base64", "Url", "gcsUri", "mimeType", "mime_type",
     "media_type", "generation_id", "tag", "weight", "strength"}
)  # fmt: skip
"""The fields of an object that only wraps a picture."""
_TYPE_FIELDS: Final = ("mimeType", "mime_type", "media_type")
_BYTES_FIELDS: Final = ("bytesBase64Encoded", "data", "Base64")
_LINK_FIELDS: Final = ("url", "uri", "image", "Url")
_CONTENT_TYPES: Final = {"IMAGE": "image/png", "MASK": "image/png", "VIDEO": "video/mp4", "AUDIO": "audio/wav"}
_LIST_MAX: Final = 16
_MASK: Final = "mask"
"""A field of this name is written like the picture beside it, unless it says otherwise."""


def media_field(name: str, at: Pointer, schema: Mapping[str, object], *, is_required: bool) -> NodeInput | None:
    """The socket for a field that takes media; None for any other field."""
    one, most = _item(schema)
    kind = _kind(name, schema, one)
    if kind is None:
        return None
    wrapped = _unwrap(one, kind)
    if wrapped is None:
        return None
    template, value_at, leaf = wrapped
    spelling = _spelling(leaf, schema) or (Spelling.BASE64 if name == _MASK else None)
    if spelling is None or "enum" in leaf:
        return None
    longest = leaf.get("maxLength")
    media = Media(
        spelling=spelling,
        most=1 if kind in ("VIDEO", "AUDIO", "IMAGE,VIDEO") else most or 1,
        mask=_mask(schema, leaf) if kind == "MASK" else None,
        longest=longest if isinstance(longest, int) and spelling is not Spelling.LINK else None,
        may_be_link="http" in str(leaf.get("pattern", "")),
    )
    words = schema.get("description") or leaf.get("description")
    return NodeInput(
        name=name,
        type=kind,
        at=as_text(at if most is None else (*at, "-")),
        options={"tooltip": words} if isinstance(words, str) else {},
        is_optional=not is_required,
        template=template,
        value_at=value_at,
        media=media,
    )


def _item(schema: Mapping[str, Any]) -> tuple[Mapping[str, object], int | None]:
    """How one picture is written, and how many a list may hold."""
    forms = [form for form in schema.get("anyOf") or schema.get("oneOf") or () if isinstance(form, Mapping)]
    objects = [form for form in forms if form.get("type") == "object"]
    lists = [form for form in forms if form.get("type") == "array" and _is_text(form.get("items"))]
    texts = [form for form in forms if _is_text(form)]
    if forms and not lists and texts:
        return texts[0], None
    if objects and not lists:
        return objects[0], None
    found = lists[0] if lists else schema
    items = found.get("items")
    if found.get("type") == "array" and isinstance(items, Mapping):
        most = found.get("maxItems", _LIST_MAX)
        return items, most if isinstance(most, int) else _LIST_MAX
    return schema, None


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def _kind(name: str, schema: Mapping[str, object], one: Mapping[str, object]) -> str | None:
    words = " ".join(str(found.get("description", "")) for found in (schema, one))
    if _EITHER.search(words):
        return "IMAGE,VIDEO"
    if found := next((kind for kind, pattern in _NAMES if pattern.search(name)), None):
        return found
    if _is_text(one) and not _SPELLED.search(words):
        return None
    if "picture" in words.lower():
        return "IMAGE"
    return "AUDIO" if _SOUND.search(words) else None


def _unwrap(one: Mapping[str, Any], kind: str) -> tuple[object, str, Mapping[str, object]] | None:
    """The object around a picture, the picture's place in it, and its schema; None where the object holds more."""
    if _is_text(one):
        return None, "", one
    properties = one.get("properties")
    if one.get("type") != "object" or not isinstance(properties, Mapping):
        return None
    fixed = {
        name: field["const"] for name, field in properties.items() if isinstance(field, Mapping) and "const" in field
    }
    if not _WRAPPING.issuperset(properties.keys() - fixed.keys()):
        return None
    links = [field for field in _LINK_FIELDS if _is_text(properties.get(field))]
    inline = [field for field in _BYTES_FIELDS if _is_text(properties.get(field))]
    leaf = next((field for field in links if "data:" in str(properties[field])), None)
    leaf = leaf or next(iter(inline), None) or next(iter(links), None)
    if leaf is None:
        return None
    template: dict[str, object] = {**fixed, leaf: ""}
    if leaf in inline:
        template |= {field: _CONTENT_TYPES[kind] for field in _TYPE_FIELDS if field in properties}
    for field in one.get("required") or ():
        if field not in template and field not in ("strength", "weight"):
            return None
        template.setdefault(field, 1)
    return template, f"/{leaf}", properties[leaf]


def _spelling(leaf: Mapping[str, object], schema: Mapping[str, object]) -> Spelling | None:
    """How media are encoded in a text field; None for one that takes no media."""
    pattern = str(leaf.get("pattern", ""))
    words = f"{leaf.get('description', '')} {schema.get('description', '')}".lower()
    if "data:" in pattern:
        return Spelling.DATA_URI
    if "http" in pattern:
        return Spelling.LINK
    if "base64" in words and "data uri" not in words:
        return Spelling.BASE64
    if "data uri" in words or "data: uri" in words:
        return Spelling.DATA_URI
    return Spelling.LINK if re.search(r"\blinks?\b", words) else None


def _mask(schema: Mapping[str, object], leaf: Mapping[str, object]) -> MaskColour:
    words = f"{schema.get('description', '')} {leaf.get('description', '')}"
    if _TRANSPARENT.search(words):
        return MaskColour.ALPHA
    return MaskColour.BLACK if _BLACK.search(words) else MaskColour.WHITE
