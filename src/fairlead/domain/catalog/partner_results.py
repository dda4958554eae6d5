"""Where the answers of a model have their results, and of which kinds they are (C-11).

A model lists the links of its answers (R-36); its output schema describes the rest. Where a place does not show the
kind of its content, the names of model, operations and inputs decide between pictures, clips and sounds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.partner_declarations import Found, Kind, NodeOutput, Place
from fairlead.domain.pointers import Pointer, as_text, find_all, parse_pointer

_DEPTH_MAX: Final = 8
_WORDS: Final[Mapping[Kind, re.Pattern[str]]] = {
    Kind.FILE: re.compile(r"model_urls|3ds|mesh"),
    Kind.IMAGE: re.compile(r"image|picture|frame|preview|thumbnail|photo"),
    Kind.VIDEO: re.compile(r"video|clip|movie"),
    Kind.AUDIO: re.compile(r"audio|sound|speech"),
}
"""Words that show the kind of a result, in this order: a place `last_frame_url` of a video model is a picture."""
_MAKES_CLIPS: Final = re.compile(r"video|\bclips?\b|t2v|i2v")
_PICTURE_MODEL: Final = re.compile(r"image")
_INLINE: Final = frozenset({"b64_json", "bytesBase64Encoded"})
_NO_RESULT: Final = re.compile(r"status|cancel|webhook|callback|progress|preview_task")
_NAMES: Final[Mapping[Kind, str]] = {
    Kind.IMAGE: "image",
    Kind.VIDEO: "video",
    Kind.AUDIO: "audio",
    Kind.STRING: "text",
    Kind.FILE: "file",
}
_TALKING: Final[Mapping[str, Sequence[Place]]] = {
    "choices": (Place("/choices/*/message/content", Kind.STRING, Found.TEXT),),
    "candidates": (
        Place("/candidates/*/content/parts/*/inlineData/data", Kind.IMAGE, Found.BASE64),
        Place("/candidates/*/content/parts/*/text", Kind.STRING, Found.TEXT),
    ),
    "steps": (
        Place("/steps/*/content/*[type=video]/data", Kind.VIDEO, Found.BASE64),
        Place("/steps/*/content/*[type=text]/text", Kind.STRING, Found.TEXT),
    ),
    "text": (Place("/text", Kind.STRING, Found.TEXT),),
    "content": (Place("/content/*[type=text]/text", Kind.STRING, Found.TEXT),),
    "output": (Place("/output/*/content/*[type=output_text]/text", Kind.STRING, Found.TEXT),),
}
"""Answers in the forms of the large language APIs, recognized by a top-level field: their schemas are not that deep."""


def places_of(model: Model) -> tuple[Place, ...]:
    """Where the answers of a model have its results, the most specific first."""
    media_type, schema = _answer(model)
    if schema is None and media_type is not None and (kind := _kind_of_type(media_type)) is not None:
        return (Place("", kind, Found.WHOLE),)
    schema = schema if isinstance(schema, Mapping) else {}
    places = list(_link_places(model, schema))
    places += [Place(as_text(at), kind, Found.BASE64) for at in _inline(schema) for kind in _kinds(model, at)]
    properties = _properties_of(schema)
    known = _TALKING.keys() & properties.keys()
    is_pictured = _PICTURE_MODEL.search(model.name) is not None
    for name in sorted(known):
        if name in ("content", "output") and not _is_array_of_objects(properties[name]):
            continue
        places += [place for place in _TALKING[name] if place.kind is not Kind.IMAGE or is_pictured]
    return tuple(dict.fromkeys(places))


def _properties_of(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The top-level fields of an answer, of all its forms where it may have several."""
    forms = schema.get("anyOf")
    every = [schema, *(one for one in (forms if isinstance(forms, list) else ()) if isinstance(one, Mapping))]
    return {
        name: one
        for form in reversed(every)
        if isinstance(found := form.get("properties"), Mapping)
        for name, one in found.items()
    }


def outputs_of(places: Sequence[Place]) -> tuple[NodeOutput, ...]:
    """The outputs of a node with results at such places: one for each kind, the kind of the first place first.

    A text beside media comes last; where nothing is known of a model's answers, they are whole, as JSON.
    """
    kinds = list(dict.fromkeys(place.kind for place in places))
    kinds.sort(key=lambda kind: kind is Kind.STRING)
    return tuple(NodeOutput(kind, _NAMES[kind]) for kind in kinds) or (NodeOutput(Kind.STRING, "json"),)


def links_of(places: Sequence[Place], answer: object) -> tuple[str, ...]:
    """The web links an answer has as results, each once."""
    found = (
        value
        for place in places
        if place.found is Found.LINK
        for _, value in find_all(answer, parse_pointer(place.at))
        if isinstance(value, str) and value.startswith(("https://", "http://"))
    )
    return tuple(dict.fromkeys(found))


def main_kind(places: Sequence[Place]) -> Kind:
    """What a node is for: the kind of its first output."""
    return outputs_of(places)[0].kind


def _answer(model: Model) -> tuple[str | None, object]:
    """The media type of a model's answers and their schema, as its OpenAPI document has them."""
    try:
        document = msgspec.json.decode(model.openapi.content)
        post = document["paths"][f"/v2/models/{model.id}"]["post"]
        media_type, answer = next(iter(post["responses"]["200"]["content"].items()))
    except (msgspec.DecodeError, KeyError, TypeError, StopIteration, AttributeError):
        return None, None
    return media_type, answer.get("schema")


def _kind_of_type(media_type: str) -> Kind | None:
    major = media_type.partition("/")[0].upper()
    return Kind(major) if major in {"IMAGE", "VIDEO", "AUDIO"} else None


def _link_places(model: Model, schema: Mapping[str, object]) -> Iterator[Place]:
    """The links: those the model lists, or where it lists none the addresses of its output schema."""
    listed = model.assets.at or tuple(at for at, one in _strings(schema, ()) if one.get("format") == "uri")
    unclear = 0
    for at in listed:
        if _NO_RESULT.search(at[-1].lower()):
            continue
        told = _kind_by_name(at)
        unclear += told is None
        if told is None and unclear > 1:
            continue  # the first of several is the result, the others are what it was made from
        for kind in (told,) if told is not None else _of_model(model):
            yield Place(as_text(at), kind, Found.LINK)


def _inline(schema: Mapping[str, object]) -> Iterator[Pointer]:
    for at, one in _strings(schema, ()):
        if one.get("contentEncoding") == "base64" or at[-1] in _INLINE:
            yield at


def _kinds(model: Model, at: Pointer) -> tuple[Kind, ...]:
    told = _kind_by_name(at)
    return (told,) if told is not None else _of_model(model)


def _kind_by_name(at: Pointer) -> Kind | None:
    """The kind that the last parts of a place show, the innermost first."""
    for part in reversed(at):
        for kind, words in _WORDS.items():
            if words.search(part.lower()):
                return kind
    return None


def _of_model(model: Model) -> tuple[Kind, ...]:
    """What a model makes, judged by names: its own, its operations', and those of its inputs."""
    operations = {operation.name for operation in model.operations}
    if {"image", "video"} <= operations:
        return (Kind.IMAGE, Kind.VIDEO)
    if _WORDS[Kind.AUDIO].search(model.name):
        return (Kind.AUDIO,)
    if _PICTURE_MODEL.search(model.name) and not _MAKES_CLIPS.search(model.name):
        return (Kind.IMAGE,)
    schema = model.input_schema.document if model.input_schema is not None else {}
    told = " ".join((model.name, *operations, *_input_words(schema))).lower()
    return (Kind.VIDEO,) if _MAKES_CLIPS.search(told) else (Kind.IMAGE,)


def _input_words(schema: Mapping[str, object]) -> Iterator[str]:
    properties = schema.get("properties")
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        yield name
        if isinstance(one, Mapping):
            yield str(one.get("description", ""))
        if name == "duration":
            yield "video"


def _strings(schema: object, above: Pointer) -> Iterator[tuple[Pointer, Mapping[str, object]]]:
    """Every text of a schema by its place."""
    if not isinstance(schema, Mapping) or len(above) > _DEPTH_MAX:
        return
    properties = schema.get("properties")
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        yield from _strings(one, (*above, name))
    if "items" in schema:
        yield from _strings(schema["items"], (*above, "*"))
    kinds = schema.get("type")
    if above and (kinds == "string" or (isinstance(kinds, list) and "string" in kinds)):
        yield above, schema


def _is_array_of_objects(schema: object) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type") != "array":
        return False
    items = schema.get("items")
    return isinstance(items, Mapping) and items.get("type") == "object"
