"""Converts the declarations of packs: types that equal all others, options that are not JSON."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.engine.nodes.node import Declared, Input

ANY: Final = "*"
_NO_TYPE: Final = "\0no type is called this"
_DEPTH_MAX: Final = 32


class BadClassError(ValueError):
    """A class of nodes is malformed; the message says where."""


def declaration_of(spec: object) -> Declared:
    """The declaration of an input, `(type,)` or `(type, options)`; a type may be the list of choices itself.

    BadClassError when it is neither.
    """
    if not isinstance(spec, list | tuple) or not spec:
        raise BadClassError(f"an input is declared by its type and its options, and not by {spec!r:.100}")
    options = spec[1] if len(spec) > 1 and isinstance(spec[1], Mapping) else {}
    plain_options = {str(name): plain(value) for name, value in options.items()}
    if isinstance(spec[0], str):
        return Declared(type_name(spec[0]), plain_options, is_bare=len(spec) == 1)
    if not isinstance(spec[0], Iterable):
        raise BadClassError(f"{spec[0]!r:.100} is not a type of an input")
    return Declared("COMBO", plain_options, tuple(plain(choice) for choice in spec[0]), is_bare=len(spec) == 1)


def inputs_of(sections: Mapping[str, Any]) -> tuple[Input, ...]:
    """The inputs of the sections `required` and `optional`, in order. BadClassError names the input that is wrong."""
    found: dict[str, Input] = {}
    for section in ("required", "optional"):
        for name, spec in (sections.get(section) or {}).items():
            try:
                found.setdefault(str(name), Input(str(name), declaration_of(spec), section == "optional"))
            except BadClassError as error:
                raise BadClassError(f"input {name}: {error}") from error
    return tuple(found.values())


def type_name(type_: str) -> str:
    """A type as a plain text; packs make types that equal every other by overriding `!=`, which are wildcards."""
    return str.__str__(type_) if type_ != _NO_TYPE else ANY


def output_type(type_: object) -> Any:
    """The type of an output; a list of choices stays one. BadClassError for anything else."""
    if isinstance(type_, str):
        return type_name(type_)
    if isinstance(type_, list | tuple):
        return [plain(choice) for choice in type_]
    raise BadClassError(f"{type_!r:.100} is not a type of an output")


def plain(value: object, depth: int = 0) -> object:
    """A value as JSON: containers and numbers of other libraries become Python's, everything else a text."""
    if depth > _DEPTH_MAX:
        return None
    match value:
        case Mapping():
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() | range():
            return [plain(item, depth + 1) for item in value]
        case _ if hasattr(value, "item") and not getattr(value, "shape", (1,)):
            return plain(value.item(), depth + 1)
        case _:
            return _plain_scalar(value)


def _plain_scalar(value: Any) -> object:
    if value is None or isinstance(value, bool):
        return value
    own = next((kind for kind in (int, float) if isinstance(value, kind)), str)
    return own.__str__(value) if own is str and isinstance(value, str) else own(value)
