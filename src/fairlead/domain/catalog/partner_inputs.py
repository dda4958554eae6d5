"""The inputs of a partner node, made from a model's schema (C-11).

Fields become widgets; pictures, sounds and clips become sockets; the fields of objects are shown one level deep. What
cannot be shown, such as lists of objects, is left to `extra_body`. Fields without a use here are not shown either:
callbacks, streaming, and the name of the model, which the node chooses.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.catalog.partner_declarations import EXTRA_BODY, MODEL_INPUT, NOT_SET, NodeInput
from fairlead.domain.catalog.partner_media import media_field
from fairlead.domain.catalog.partner_messages import Opening, opening_of
from fairlead.domain.pointers import Pointer, as_text

_HIDDEN: Final = re.compile(
    r"callback|webhook|idempotency|pubsub|cache_?key|storageuri|tool_c|logprobs|^(user|stream|sync|store|metadata"
    r"|container|cachedcontent|response_?format|responsemimetype|safety_identifier|external_task_id|outputfilename"
    r"|execution_expires_after|gcsuri|bytesbase64encoded|mimetype|maskmode)$",
    re.IGNORECASE,
)
_DEPRECATED: Final = "Deprecated"
_NAME_OF_MODEL: Final = frozenset({"model", "model_name", "model_id", "ai_model"})
_OPEN: Final = frozenset(
    {"input", "inputs", "instances", "parameters", "inference_params", "generation_config", "generationConfig"}
)
"""Objects that only group: their fields keep their plain names."""
_DEPTH_MAX: Final = 2
_CONTEXT: Final = "context"
"""The parameter by which functions of nodes get their context, which no input may be named."""
_LONG_TEXT: Final = 400
_PROSE: Final = re.compile(r"prompt|text|instruction|system", re.IGNORECASE)
_SEED: Final = re.compile(r"(^|_)seed$", re.IGNORECASE)
_TOKENS: Final = re.compile(r"tokens", re.IGNORECASE)
_TOKENS_DEFAULT: Final = 4096
_INTEGER_MAX: Final = 2**31 - 1
_SEED_MAX: Final = 2**32 - 1
_FINE: Final = 10
_LEAST_STEP: Final = 0.01
"""The distance of a number from an exclusive bound."""
_LABEL: Final = re.compile(r"[^A-Za-z0-9_]+")


class Field(msgspec.Struct, frozen=True):
    """A field of a schema: its place, its name, and whether a body must have it."""

    name: str
    at: Pointer
    schema: Mapping[str, object]
    is_required: bool
    above: str | None = None

    @property
    def tooltip(self) -> dict[str, str]:
        """Its description, as an option."""
        words = self.schema.get("description")
        return {"tooltip": words} if isinstance(words, str) and words else {}


def inputs_of(schema: Mapping[str, object] | None) -> Opening:
    """The inputs of a node for a schema, and the start of its bodies; without a schema there is only `extra_body`."""
    inputs: list[NodeInput] = []
    start: dict[str, object] = {}
    for field in _fields(schema or {}, (), None):
        opening = _read(field, 0)
        inputs += opening.inputs
        start.update(opening.start)
    inputs.sort(key=lambda one: one.is_optional)
    words = "More of the body, as a JSON object that is merged into it."
    extra = NodeInput(EXTRA_BODY, "STRING", "", {"default": "", "multiline": True, "tooltip": words}, is_optional=True)
    return Opening([*_with_unique_names(inputs), extra], start)


def _read(field: Field, depth: int) -> Opening:
    """The inputs for a field: of a conversation, a socket, a widget, its own fields, or none."""
    is_deprecated = str(field.schema.get("description", "")).startswith(_DEPRECATED)
    if _HIDDEN.search(field.name) or "const" in field.schema or is_deprecated:
        return Opening()
    if (opening := opening_of(field.name, field.at, field.schema, is_required=field.is_required)) is not None:
        return opening
    if (socket := media_field(field.name, field.at, field.schema, is_required=field.is_required)) is not None:
        return Opening([socket])
    plain = _plain(field.schema)
    if (widget := _widget(field, plain)) is not None:
        return Opening([widget])
    return _laid_open(field, plain, depth) if depth < _DEPTH_MAX else Opening()


def _laid_open(field: Field, schema: Mapping[str, Any], depth: int) -> Opening:
    """The fields of an object, or of the only or first item of a list that must have one."""
    at = field.at
    if schema.get("type") == "array" and field.is_required and isinstance(schema.get("items"), Mapping):
        schema, at = schema["items"], (*at, "0")
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), Mapping):
        return Opening()
    above = None if field.name in _OPEN else field.name
    inputs: list[NodeInput] = []
    start: dict[str, object] = {}
    for inner in _fields(schema, at, above, is_needed=field.is_required):
        opening = _read(inner, depth + 1)
        inputs += opening.inputs
        start.update(opening.start)
    return Opening(inputs, start)


def _fields(schema: Mapping[str, object], at: Pointer, above: str | None, *, is_needed: bool = True) -> Iterator[Field]:
    properties = schema.get("properties")
    needed, left_out = first_form(schema)
    required = (*_texts(schema.get("required")), *needed) if is_needed else ()
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        found = _by_pattern(schema, name) if isinstance(one, bool) else one
        if not isinstance(found, Mapping) or (name in _NAME_OF_MODEL and isinstance(one, Mapping)):
            continue  # the router fills in the name of the model
        if name not in left_out:
            yield Field(name, (*at, name), found, name in required, above)


def first_form(schema: Mapping[str, object]) -> tuple[Sequence[str], set[str]]:
    """Where a body has one of two forms: the fields that the usual one must have, and those of the other alone.

    Such a schema asks for the other form's field with `if`, forbids the usual one's then, and requires them else.
    """
    condition, then, usual = (_mapping(schema.get(word)) for word in ("if", "then", "else"))
    if "not" not in then or not usual:
        return (), set()
    others = set(_texts(condition.get("required")))
    companions = _mapping(schema.get("dependentRequired"))
    return _texts(usual.get("required")), others | {name for name, of in companions.items() if others & {*_texts(of)}}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> Sequence[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else ()


def _by_pattern(schema: Mapping[str, object], name: str) -> object:
    """The schema of a field that is described only by a pattern for names."""
    patterns = schema.get("patternProperties")
    found = patterns.get(f"^{name}$") if isinstance(patterns, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _plain(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """A schema without its alternatives: of several forms a node shows the text, else the first that is not null."""
    forms = [form for form in schema.get("anyOf") or schema.get("oneOf") or () if isinstance(form, Mapping)]
    if "type" in schema or not forms:
        return schema
    texts = [form for form in forms if form.get("type") == "string"]
    others = [form for form in forms if form.get("type") != "null"]
    return {**schema, **(texts or others or [{}])[0]}


def _widget(field: Field, schema: Mapping[str, object]) -> NodeInput | None:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    if isinstance(schema.get("enum"), list):
        return _choice(field, schema)
    match kind:
        case "boolean":
            return _number_or_boolean(field, "BOOLEAN", schema, {})
        case "integer":
            return _number_or_boolean(field, "INT", schema, _bounds(field, schema))
        case "number":
            bounds = _bounds(field, schema)
            is_fine = bounds["max"] - bounds["min"] <= _FINE
            return _number_or_boolean(field, "FLOAT", schema, {"step": 0.01 if is_fine else 0.1, **bounds})
        case "string":
            return _text(field, schema)
        case _:
            return None


def _choice(field: Field, schema: Mapping[str, Any]) -> NodeInput | None:
    choices = [one for one in schema["enum"] if isinstance(one, str | int | float) and not isinstance(one, bool)]
    if not choices:
        return None
    options: dict[str, object] = {"options": choices}
    omitted: list[object] = []
    if "default" in schema:
        options["default"] = schema["default"]
        omitted = [] if field.is_required else [schema["default"]]
    elif field.is_required:
        options["default"] = choices[0]
    else:
        options = {"options": [NOT_SET, *choices], "default": NOT_SET}
        omitted = [NOT_SET]
    return _input(field, "COMBO", options, omitted)


def _number_or_boolean(field: Field, type_: str, schema: Mapping[str, object], options: dict[str, object]) -> NodeInput:
    """A number or a boolean; an optional one without a default is a socket, which may stay empty."""
    is_seed = _SEED.search(field.name) is not None
    if is_seed:
        options["control_after_generate"] = True
    if schema.get("default") is not None:
        omitted = [] if field.is_required or is_seed else [schema["default"]]
        return _input(field, type_, {**options, "default": schema["default"]}, omitted)
    if is_seed or field.is_required:
        return _input(field, type_, {**options, "default": _beginning(field, type_, options)}, [])
    return _input(field, type_, {**options, "forceInput": True}, [])


def _beginning(field: Field, type_: str, options: Mapping[str, Any]) -> object:
    """The start value of a required number for which the schema has none."""
    if type_ == "BOOLEAN":
        return False
    if _TOKENS.search(field.name):
        return min(options["max"], max(options["min"], _TOKENS_DEFAULT))
    return max(options["min"], 0)


def _bounds(field: Field, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The least and the most, alternatives included; without a bound, the range of numbers that editors can show."""
    forms = [schema, *(form for form in schema.get("anyOf") or () if isinstance(form, Mapping))]
    least = [form[key] for form in forms for key in ("minimum", "const") if _is_number(form.get(key))]
    least += [form["exclusiveMinimum"] + _LEAST_STEP for form in forms if _is_number(form.get("exclusiveMinimum"))]
    most = [form[key] for form in forms for key in ("maximum", "const") if _is_number(form.get(key))]
    unbounded = _SEED_MAX if _SEED.search(field.name) else _INTEGER_MAX
    bounds: dict[str, object] = {
        "min": min(least) if least else (0 if unbounded == _SEED_MAX else -unbounded),
        "max": max(most) if most else unbounded,
    }
    return {**bounds, "step": schema["multipleOf"]} if _is_number(schema.get("multipleOf")) else bounds


def _text(field: Field, schema: Mapping[str, object]) -> NodeInput:
    longest = schema.get("maxLength", _LONG_TEXT)
    is_long = isinstance(longest, int) and longest >= _LONG_TEXT and _PROSE.search(field.name) is not None
    default = schema.get("default", "")
    options = {"default": default, **({"multiline": True} if is_long else {})}
    omitted = [] if field.is_required else list(dict.fromkeys(["", default]))
    return _input(field, "STRING", options, omitted)


def _input(field: Field, type_: str, options: Mapping[str, object], omitted: Sequence[object]) -> NodeInput:
    name = field.name if field.above is None else f"{field.above}_{field.name}"
    return NodeInput(
        name=_LABEL.sub("_", name),
        type=type_,
        at=as_text(field.at),
        options={**options, **field.tooltip},
        is_optional=not field.is_required,
        omitted=omitted,
    )


def _with_unique_names(inputs: Sequence[NodeInput]) -> Iterator[NodeInput]:
    """The inputs with unique names: one whose name is taken is named after its place."""
    taken = {MODEL_INPUT, EXTRA_BODY, _CONTEXT}
    for one in inputs:
        name = one.name if one.name not in taken else _LABEL.sub("_", f"body{one.at}")
        if name not in taken:
            taken.add(name)
            yield one if name == one.name else msgspec.structs.replace(one, name=name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
