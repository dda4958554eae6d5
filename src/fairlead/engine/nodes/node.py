"""A node: its name, its inputs and outputs, and its function.

A node is declared by the signature of its function. Definitions, validation and `object_info` derive from it:

    @node("ImageInvert", "Invert Image", "image/color", outputs=(Output("IMAGE"),))
    def image_invert(image: Annotated[Array, socket("IMAGE")]) -> Array:
        return 1.0 - image

A parameter with a default (always None) is optional. Nothing is registered at import: a family lists its nodes.
"""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

F = TypeVar("F", bound=Callable[..., object])

_NO_OPTIONS: Final[Mapping[str, object]] = MappingProxyType({})


class Declared(msgspec.Struct, frozen=True):
    """The type of an input as editors know it, and its options: default, bounds, choices and how it is shown.

    `choices` is for the older form of a combo, whose type is the list of its choices itself. A `bare` one is described
    without options, as older nodes have it.
    """

    type: str
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    choices: tuple[object, ...] | None = None
    is_bare: bool = False


class Input(msgspec.Struct, frozen=True):
    """A declared input of a node."""

    name: str
    declared: Declared
    is_optional: bool = False

    @property
    def is_lazy(self) -> bool:
        """Whether the input is only computed when the node asks for it."""
        return bool(self.declared.options.get("lazy", False))


class Output(msgspec.Struct, frozen=True):
    """A declared output of a node; with `is_list` its value is a list whose items are passed on one by one."""

    type: str
    name: str | None = None
    is_list: bool | None = False


class Definition(msgspec.Struct, frozen=True):
    """Everything there is to know about a class of nodes."""

    name: str
    title: str
    category: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    run: Callable[..., object]
    hidden: Mapping[str, Any] = msgspec.field(default_factory=dict)
    is_output: bool = False
    is_input_list: bool = False
    is_experimental: bool = False
    is_deprecated: bool = False
    takes_context: bool = False
    fingerprint: Callable[..., object] | None = None
    """What the result depends on apart from the inputs, such as the bytes of a file.

    It and `validate` are given the constants they name, and the Context where they have a parameter `context`.
    """
    validate: Callable[..., Any] | None = None
    """Returns True, or a text that says what is wrong. Bounds and choices of the inputs it names are not checked."""
    needed: Callable[..., Any] | None = None
    """Names the lazy inputs that are needed, given those already computed (the others are None)."""
    takes_unknown: bool = False
    """Whether undeclared inputs are passed to the function as well."""
    is_idempotent: bool = True
    """Whether nodes with the same inputs may share one result."""
    takes_unknown_links: bool = False
    """Whether that holds for links only, while undeclared constants are left out."""
    shows_again: bool = False
    """Whether a node that is not an output node displays again what it displayed when its result is cached."""
    is_own: bool = False
    """Whether the node is one of ours, which use no event loop of their own and check for interruption."""
    told: Mapping[str, object] = msgspec.field(default_factory=dict)
    """Further properties of the class for editors, such as `description` (engine-wire, 2.4)."""


class Result(msgspec.Struct, frozen=True):
    """The result of a node with more than plain values.

    `ui` is shown to watchers of the job. `expand` is a graph in the API format that takes the node's place; `values`
    may then hold links into it ([node id, slot]).
    """

    values: tuple[Any, ...] = ()
    ui: Mapping[str, Any] = msgspec.field(default_factory=dict)
    expand: Mapping[str, object] | None = None


class Blocked(msgspec.Struct, frozen=True):
    """A value that blocks every node that would consume it; a message tells the job's watchers why."""

    message: str | None = None


def socket(type_: str, **options: object) -> Declared:
    """An input that takes a value of a type from another node."""
    return Declared(type_, options)


def bare_socket(type_: str) -> Declared:
    """The same, as older nodes declare it: without options."""
    return Declared(type_, is_bare=True)


def integer(default: int | None = None, low: int | None = None, high: int | None = None, **options: object) -> Declared:
    """A whole number within bounds."""
    return Declared("INT", _drop_absent(default=default, min=low, max=high) | options)


def number(
    default: float | None = None, low: float | None = None, high: float | None = None, **options: object
) -> Declared:
    """A number within bounds."""
    return Declared("FLOAT", _drop_absent(default=default, min=low, max=high) | options)


def text(default: str | None = None, **options: object) -> Declared:
    """A text."""
    return Declared("STRING", _drop_absent(default=default) | options)


def boolean(default: bool | None = None, **options: object) -> Declared:  # noqa: FBT001 -- reads as the others do
    """Yes or no."""
    return Declared("BOOLEAN", _drop_absent(default=default) | options)


def combo(*choices: object, **options: object) -> Declared:
    """One of some choices."""
    return Declared("COMBO", {**options, "options": list(choices)})


def old_combo(*choices: object, **options: object) -> Declared:
    """One of some choices, as older nodes declare it: its type is the list itself."""
    return Declared("COMBO", options, tuple(choices), is_bare=not options)


def node(
    name: str,
    title: str,
    category: str,
    *,
    outputs: tuple[Output, ...] = (),
    hidden: Mapping[str, object] = _NO_OPTIONS,
    is_output: bool = False,
    is_input_list: bool = False,
    is_experimental: bool = False,
    is_deprecated: bool = False,
    fingerprint: Callable[..., object] | None = None,
    validate: Callable[..., object] | None = None,
    needed: Callable[..., object] | None = None,
) -> Callable[[F], F]:
    """Declare a node by its function.

    A parameter named `context` receives the Context of the run; `**others` receives undeclared inputs.
    """

    def declare(run: F) -> F:
        inputs, takes_context = _inputs(run)
        takes_unknown = inspect.getfullargspec(run).varkw is not None
        definition = Definition(
            name, title, category, inputs, outputs, run, hidden, is_output, is_input_list, is_experimental,
            is_deprecated, takes_context, fingerprint, validate, needed, takes_unknown, is_own=True,
        )  # fmt: skip
        run.definition = definition  # type: ignore[attr-defined]
        return run

    return declare


def definition_of(run: Callable[..., object]) -> Definition:
    """The definition of a function that was declared as a node."""
    found: Definition = run.definition  # type: ignore[attr-defined]
    return found


def _inputs(run: Callable[..., object]) -> tuple[tuple[Input, ...], bool]:
    hints = get_type_hints(run, include_extras=True)
    inputs, takes_context = [], False
    for parameter in inspect.signature(run).parameters.values():
        if parameter.name == "context":
            takes_context = True
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        declared = next(arg for arg in get_args(hints[parameter.name]) if isinstance(arg, Declared))
        inputs.append(Input(parameter.name, declared, parameter.default is not inspect.Parameter.empty))
    return tuple(inputs), takes_context


def _drop_absent(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}
