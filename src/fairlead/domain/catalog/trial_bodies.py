"""Bodies to try a model with: what its schema requires, and of what it offers, what costs least."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Final

from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.partner_inputs import first_form

_WORDS: Final = "A red circle on white."
_TEXT_NAMES: Final = ("prompt", "text", "input", "instruction", "content", "object_name", "query")
"""What names of fields that take words have in them; a field of another name takes a link or an id."""
_WORDED: Final = ("prompt", "text", "content")
"""Fields that are given words where they are optional: what alone would be valid is often refused without."""
_TOKENS: Final = 64
"""A limit of this much has room for an answer, where a schema sets no narrower one; many vendors refuse a few."""
_CHOICES_MAX: Final = 24
_DEPTH_MAX: Final = 12


class NoTrialBodyError(Exception):
    """A field that is required takes what no schema can tell, such as a picture; the text names it."""


def trial_body(model: Model, price_of: Callable[[dict[str, object]], int | None]) -> dict[str, object]:
    """A small valid body for a model, the cheapest that its closed choices allow; NoTrialBodyError.

    `price_of` is the most that a body may cost, or None where a body cannot be run.
    """
    if model.input_schema is None:
        raise NoTrialBodyError("the model has no schema")
    document = model.input_schema.document
    body = _object(document, "", 0)
    if model.input_schema.declares_model:
        body["model"] = model.name
    if not model.input_schema.is_valid(body):
        found = model.input_schema.violations(body)
        raise NoTrialBodyError(f"/{'/'.join(map(str, found[0].loc[1:]))}: {found[0].msg}")
    return _cheapest(model, document, body, price_of)


def _cheapest(
    model: Model,
    document: Mapping[str, object],
    body: dict[str, object],
    price_of: Callable[[dict[str, object]], int | None],
) -> dict[str, object]:
    """The body with each field at the choice that lowers its price, one field after another."""
    schema, best, least = model.input_schema, body, price_of(body)
    properties = document.get("properties")
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        for choice in _choices(field) if isinstance(field, Mapping) and name != "model" else ():
            tried = {**best, name: choice}
            price = price_of(tried) if schema is None or schema.is_valid(tried) else None
            if price is not None and (least is None or price < least):
                best, least = tried, price
    return best


def _choices(field: Mapping[str, object]) -> Iterator[object]:
    """What a field may be, where that is a short list, a flag or a number with a lower bound."""
    listed = field.get("enum")
    if isinstance(listed, Sequence) and len(listed) <= _CHOICES_MAX:
        yield from listed
    elif field.get("type") == "boolean":
        yield from (False, True)
    elif field.get("type") in ("integer", "number"):
        yield from _numbers(field)


def _numbers(field: Mapping[str, object]) -> Iterator[int | float]:
    least, most = field.get("minimum"), field.get("maximum")
    floor = least if isinstance(least, int | float) else 1
    is_large = not isinstance(most, int | float) or most > 16 * _TOKENS
    yield max(floor, _TOKENS) if is_large else floor


def _value(schema: object, name: str, depth: int) -> object:
    """A value that a schema takes; NoTrialBodyError."""
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        raise NoTrialBodyError(f"{name} may be anything")
    for key in ("const", "default"):
        if key in schema:
            return deepcopy(schema[key])
    for key in ("enum", "examples"):
        listed = schema.get(key)
        if isinstance(listed, Sequence) and listed:
            return "user" if "user" in listed else deepcopy(listed[0])
    for key in ("oneOf", "anyOf", "allOf"):
        for variant in schema.get(key) or ():
            try:
                return _value({**schema, key: None, **variant}, name, depth + 1)
            except NoTrialBodyError:
                continue
    return _of_type(schema, name, depth)


def _of_type(schema: Mapping[str, object], name: str, depth: int) -> object:
    named = schema.get("type")
    types = named if isinstance(named, list) else [named]
    if "string" in types and not schema.get("format") and not schema.get("pattern") and _takes_words(name):
        longest = schema.get("maxLength")
        return _WORDS[:longest] if isinstance(longest, int) else _WORDS
    if "object" in types:
        return _object(schema, name, depth)
    if "array" in types:
        least = schema.get("minItems")
        number = max(least, 1) if isinstance(least, int) else 1
        return [_value(schema.get("items"), name, depth + 1) for _ in range(number)]
    if "integer" in types or "number" in types:
        return next(_numbers(schema))
    if "boolean" in types:
        return False
    raise NoTrialBodyError(f"{name} takes what a schema cannot tell")


def _object(schema: Mapping[str, object], name: str, depth: int) -> dict[str, object]:
    properties, required = schema.get("properties"), schema.get("required")
    needed, of_another_form = first_form(schema)
    fields = properties if isinstance(properties, Mapping) else {}
    made = {
        field: _value(fields.get(field), f"{name}/{field}", depth + 1)
        for field in (*(required if isinstance(required, Sequence) else ()), *needed)
        if field != "model" or depth > 0
    }
    for field in (one for one in _WORDED if one in fields and one not in made and one not in of_another_form):
        try:
            made[field] = _value(fields[field], f"{name}/{field}", depth + 1)
        except NoTrialBodyError:
            continue
    return made


def _takes_words(name: str) -> bool:
    last = name.rsplit("/", 1)[-1].lower()
    return any(word in last for word in _TEXT_NAMES) and not last.endswith(("url", "uri", "_id", "image", "video"))
