"""Fields that hold texts and media side by side, as parts of a message: their inputs, and the start of a body.

Vendors of language and video models share these forms; a schema is recognized by its shape.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.catalog.partner_declarations import Media, NodeInput, Spelling
from fairlead.domain.pointers import Pointer, as_text

_IMAGES_MAX: Final = 8
_KINDS: Final = {"image": "IMAGE", "video": "VIDEO", "audio": "AUDIO"}
_ROLES: Final = {"first_frame": "IMAGE", "last_frame": "IMAGE", "reference_image": "IMAGE", "base_video": "VIDEO",
                 "reference_video": "VIDEO", "reference_audio": "AUDIO"}  # fmt: skip
_TYPES: Final = {"IMAGE": "image/png", "VIDEO": "video/mp4", "AUDIO": "audio/wav"}


class Opening(msgspec.Struct, frozen=True):
    """Inputs, and the start of a body by its top-level fields."""

    inputs: Sequence[NodeInput] = ()
    start: Mapping[str, object] = msgspec.field(default_factory=dict)


def opening_of(name: str, at: Pointer, schema: Mapping[str, object], *, is_required: bool) -> Opening | None:
    """The inputs of a field that is a conversation; None for any other field."""
    for made in (_messages, _contents, _instruction, _parts, _interaction, _media_list):
        opening = made(name, at, schema, is_required)
        if opening is not None:
            return opening
    return None


def _messages(name: str, at: Pointer, schema: Mapping[str, object], is_required: bool) -> Opening | None:  # noqa: FBT001 -- the readers share one signature
    """`messages` with roles: a prompt of the user's, pictures, and where there is such a role, the system's words."""
    items = _items(schema)
    roles = _choices(_property(items, "role"))
    if name != "messages" or "user" not in roles or not is_required:
        return None
    parts = (*at, "0", "content", "-")
    told = str(items)
    if "'image'" in told and "'image_url'" not in told and "'source'" not in told:
        prompt: dict[str, object] = {"text": ""}
        most = _property(items, "content").get("maxItems", _IMAGES_MAX + 1) - 1  # one is the text
        image = _picture(parts, {"image": ""}, "/image", Spelling.DATA_URI, most)
    elif "'image_url'" in told:
        prompt = {"type": "text", "text": ""}
        template = {"type": "image_url", "image_url": {"url": ""}}
        image = _picture(parts, template, "/image_url/url", Spelling.DATA_URI)
    else:
        prompt = {"type": "text", "text": ""}
        template = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
        image = _picture(parts, template, "/source/data", Spelling.BASE64)
    inputs = [_prompt(parts, prompt), image]
    if "system" in roles:
        front = (*at, "+")
        inputs.append(_words("system", front, {"role": "system", "content": ""}, "/content", is_optional=True))
    return Opening(inputs, _nest(at, [{"role": "user", "content": []}]))


def _contents(name: str, at: Pointer, schema: Mapping[str, object], is_required: bool) -> Opening | None:  # noqa: FBT001 -- as above
    """`contents` of `parts`: a prompt and pictures."""
    if name != "contents" or "parts" not in _properties(_items(schema)) or not is_required:
        return None
    parts = (*at, "0", "parts", "-")
    template = {"inlineData": {"mimeType": "image/png", "data": ""}}
    image = _picture(parts, template, "/inlineData/data", Spelling.BASE64)
    return Opening([_prompt(parts, {"text": ""}), image], _nest(at, [{"role": "user", "parts": []}]))


def _instruction(name: str, at: Pointer, schema: Mapping[str, object], _required: bool) -> Opening | None:  # noqa: FBT001 -- as above
    """`systemInstruction`, a text in one part."""
    if name != "systemInstruction" or "parts" not in _properties(schema):
        return None
    return Opening([_words("system", at, {"parts": [{"text": ""}]}, "/parts/0/text", is_optional=True)])


def _parts(_name: str, at: Pointer, schema: Mapping[str, object], is_required: bool) -> Opening | None:  # noqa: FBT001 -- as above
    """A list of texts and media by `type`, each picture, clip and sound perhaps with a `role`."""
    items = _items(schema)
    types = _choices(_property(items, "type"))
    if "text" not in types or "image_url" not in types or not is_required:
        return None
    inputs = [_prompt((*at, "-"), {"type": "text", "text": ""})]
    for role in _choices(_property(items, "role")):
        kind = _ROLES.get(role)
        if kind is not None and (type_ := f"{kind.lower()}_url") in types:
            template = {"type": type_, type_: {"url": ""}, "role": role}
            inputs.append(_socket(role, kind, (*at, "-"), template, f"/{type_}/url", Spelling.DATA_URI))
    return Opening(inputs, _nest(at, []))


def _interaction(name: str, at: Pointer, schema: Mapping[str, Any], is_required: bool) -> Opening | None:  # noqa: FBT001 -- as above
    """A text, or a list of parts with `data` of a `mime_type`."""
    lists = [form for form in schema.get("anyOf") or () if isinstance(form, Mapping) and form.get("type") == "array"]
    told = str(lists)
    if name != "input" or not is_required or "'mime_type'" not in told or "'data'" not in told:
        return None
    inputs = [_prompt((*at, "-"), {"type": "text", "text": ""})]
    for type_, kind in _KINDS.items():
        if f"'{type_}'" in told:
            template = {"type": type_, "data": "", "mime_type": _TYPES[kind]}
            inputs.append(_socket(type_, kind, (*at, "-"), template, "/data", Spelling.BASE64))
    return Opening(inputs, _nest(at, []))


def _media_list(_name: str, at: Pointer, schema: Mapping[str, object], is_required: bool) -> Opening | None:  # noqa: FBT001 -- as above
    """A list of media with a `type` and a `url`, no texts. Where it must not be empty, the first kind must be given."""
    items = _items(schema)
    types = _choices(_property(items, "type"))
    url = _property(items, "url")
    if schema.get("type") != "array" or not isinstance(url, Mapping) or not types:
        return None
    spelling = Spelling.DATA_URI if "data:" in str(url.get("pattern", "")) else Spelling.LINK
    inputs = [
        _socket(type_, kind, (*at, "-"), {"type": type_, "url": ""}, "/url", spelling)
        for type_ in types
        if (kind := {**_ROLES, **_KINDS}.get(type_)) is not None
    ]
    if is_required and schema.get("minItems") and inputs:
        inputs[0] = msgspec.structs.replace(inputs[0], is_optional=False)
    return Opening(inputs, _nest(at, []) if is_required else {}) if inputs else None


def _prompt(at: Pointer, template: Mapping[str, object]) -> NodeInput:
    return _words("prompt", at, template, "/text", is_optional=False)


def _words(name: str, at: Pointer, template: Mapping[str, object], value_at: str, *, is_optional: bool) -> NodeInput:
    options = {"default": "", "multiline": True}
    omitted = ("",) if is_optional else ()
    return NodeInput(name, "STRING", as_text(at), options, is_optional, template, value_at, None, omitted)


def _picture(
    at: Pointer, template: Mapping[str, object], value_at: str, spelling: Spelling, most: int = _IMAGES_MAX
) -> NodeInput:
    return _socket("images", "IMAGE", at, template, value_at, spelling, most=most)


def _socket(
    name: str, type_: str, at: Pointer, template: Mapping[str, object], value_at: str, spelling: Spelling, most: int = 0
) -> NodeInput:
    many = _IMAGES_MAX if type_ == "IMAGE" and name.startswith(("reference", "image")) else 1
    media = Media(spelling, most or many, may_be_link=spelling is Spelling.DATA_URI)
    return NodeInput(name, type_, as_text(at), {}, True, template, value_at, media)  # noqa: FBT003 -- is_optional


def _nest(at: Pointer, value: Any) -> dict[str, object]:
    for part in reversed(at):
        value = {part: value}
    return dict(value)


def _items(schema: Mapping[str, object]) -> Mapping[str, object]:
    items = schema.get("items")
    return items if isinstance(items, Mapping) else {}


def _properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _property(schema: Mapping[str, object], name: str) -> Any:
    return _properties(schema).get(name)


def _choices(schema: object) -> Sequence[str]:
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    return [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
