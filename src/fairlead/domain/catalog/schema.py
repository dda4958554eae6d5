"""Input schemas (R-08, R-21): the document that is served is the document that calls are validated against."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonschema_rs
import msgspec

from fairlead.domain.faults import Violation

VIOLATIONS_MAX: Final = 50
"""At most this many failing fields are reported, so that an answer is not larger than a body of nonsense."""
_MESSAGE_MAX: Final = 300
_ECHO_MAX: Final = 200

_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "minimum": ("greater_than_equal", "ge"),
    "exclusiveMinimum": ("greater_than", "gt"),
    "maximum": ("less_than_equal", "le"),
    "exclusiveMaximum": ("less_than", "lt"),
    "minLength": ("string_too_short", "min_length"),
    "maxLength": ("string_too_long", "max_length"),
    "pattern": ("string_pattern_mismatch", "pattern"),
    "minItems": ("too_short", "min_length"),
    "maxItems": ("too_long", "max_length"),
    "multipleOf": ("multiple_of", "multiple_of"),
    "enum": ("enum", "expected"),
    "const": ("const", "expected"),
    "type": ("type", "expected"),
    "format": ("format", "format"),
}


class InputSchema:
    """A JSON Schema (draft 2020-12) for a model's body; whatever jsonschema_rs raises for one that cannot be used.

    Patterns are matched in linear time, so that no body can make a schema's expression run for long. It is compiled
    when it is made, so that a bad one is found, and again for the first body: that takes a tenth of a millisecond, and
    the compiled schemas would take more memory than all the rest of the catalog. The document is kept as text, which is
    a tenth of its dictionaries.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._text = msgspec.json.encode(document)
        properties = document.get("properties", {})
        self.defaults = {
            name: field["default"]
            for name, field in properties.items()
            if isinstance(field, Mapping) and "default" in field  # a schema may be a plain true or false
        }
        """The model's own values for top-level fields a caller leaves out."""
        self.declares_model = isinstance(properties.get("model"), Mapping)
        """Whether the body names the model, which the path has said already."""
        self._declared = frozenset(properties)
        self._is_open = not properties or document.get("additionalProperties", False) is not False
        _compile(document)

    @property
    def text(self) -> bytes:
        """The schema in JSON."""
        return self._text

    @property
    def document(self) -> dict[str, Any]:
        """The schema as it was written, in a copy of the caller's own."""
        document: dict[str, object] = msgspec.json.decode(self._text)
        return document

    @functools.cached_property
    def _validator(self) -> jsonschema_rs.Draft202012Validator:
        return _compile(self.document)

    @functools.cached_property
    def is_valid(self) -> Callable[[object], bool]:
        """Says whether a body has no violations. It is the validator's own function, as every run calls it."""
        return self._validator.is_valid

    def violations(self, body: object) -> tuple[Violation, ...]:
        """Every failing field of a body, at most VIOLATIONS_MAX of them; empty for a valid body."""
        if self.is_valid(body):
            return ()
        found: list[Violation] = []
        for error in self._validator.iter_errors(body):
            found.extend(_violations_of(error))
            if len(found) >= VIOLATIONS_MAX:
                break
        return tuple(found[:VIOLATIONS_MAX])

    def unknown_fields(self, body: Mapping[str, object]) -> tuple[Violation, ...]:
        """Top-level fields the schema does not declare (R-15); none for a schema that says it takes others."""
        if self._is_open:
            return ()
        return tuple(_unexpected_field(("body", name[:_ECHO_MAX])) for name in body if name not in self._declared)


def _compile(document: Mapping[str, object]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        dict(document), validate_formats=True, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


def _violations_of(error: jsonschema_rs.ValidationError) -> list[Violation]:
    """Translate one schema error; a missing or unexpected field is named in its own path."""
    path = ("body", *(step[:_ECHO_MAX] if isinstance(step, str) else step for step in error.instance_path))
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required():
            return [Violation((*path, str(kind.property)), "Field required", "missing")]
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties():
            return [_unexpected_field((*path, name[:_ECHO_MAX])) for name in kind.unexpected]
        case jsonschema_rs.ValidationErrorKind.UnevaluatedProperties():
            return [_unexpected_field((*path, name[:_ECHO_MAX])) for name in kind.unexpected]
        case _:
            keyword = kind.name
            name, bound = _BOUNDS.get(keyword, (keyword, None))
            ctx = {bound: kind.value} if bound is not None else None
            repeated = echo(error.instance)
            return [Violation(path, _message(error, bound), name, ctx, repeated, has_input=repeated is not None)]


def _message(error: jsonschema_rs.ValidationError, bound: str | None) -> str:
    """The validator's sentence, unless it repeats a large value: then one that names the rule alone."""
    if len(error.message) <= _MESSAGE_MAX:
        return error.message
    rule = f"{error.kind.name} {error.kind.value}" if bound is not None else error.kind.name
    return f"This value does not satisfy {rule}"[:_MESSAGE_MAX]


def _unexpected_field(path: tuple[str | int, ...]) -> Violation:
    return Violation(path, "Extra inputs are not permitted", "extra_forbidden")


def echo(value: object) -> object:
    """Repeat a small scalar; long texts (prompts, inline images) and containers stay out of the answer."""
    is_number = isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() <= _ECHO_MAX)
    if is_number or (isinstance(value, str) and len(value) <= _ECHO_MAX):
        return value
    return None


def strong_etag(content: bytes) -> str:
    """A strong entity tag over bytes: their quoted SHA-256 (decisions: schema document caching)."""
    return f'"{hashlib.sha256(content).hexdigest()}"'
