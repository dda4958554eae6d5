"""Nodes of packs in the older form: classes in a mapping, their inputs and outputs in attributes (V1)."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fairlead.engine.nodes.context import NoSuchFileError
from fairlead.engine.nodes.interface import spec_of
from fairlead.engine.nodes.node import Blocked, Definition, Input, Output, Result
from fairlead.engine.nodes.node_context import NodeContext, current_context
from fairlead.engine.packs.calling import as_result, complete, converter, hidden_values, node_id, with_hidden
from fairlead.engine.packs.declarations import BadClassError, inputs_of, output_type, plain
from fairlead.engine.packs.folders import PackFolders
from fairlead.engine.packs.shims.graph_builder import numbered_graphs

_INSTANCES_MAX: Final = 1_000
_UPLOADS: Final = frozenset({"image_upload", "audio_upload", "video_upload", "file_upload"})
_FILLED_IN: Final = frozenset(
    {
        "PROMPT", "DYNPROMPT", "EXTRA_PNGINFO", "UNIQUE_ID", "AUTH_TOKEN_COMFY_ORG", "API_KEY_COMFY_ORG",
        "COMFY_USAGE_SOURCE",
    }
)  # fmt: skip
_ANY_NAME: Final = "\0no input is called this"
_SELF_NAMES: Final = frozenset({"self", "s", "cls"})
_TOLD: Final[Mapping[str, str]] = MappingProxyType(
    {"API_NODE": "api_node", "DEV_ONLY": "dev_only", "ESSENTIALS_CATEGORY": "essentials_category"}
)


def definition_of_class(name: str, kind: Any, title: str, module: str, folders: PackFolders) -> Definition:
    """The definition of a class. BadClassError where the class is malformed."""
    method = getattr(kind, "FUNCTION", None)
    if not isinstance(method, str) or not callable(getattr(kind, method, None)):
        raise BadClassError("its FUNCTION names no method")
    sections = kind.INPUT_TYPES()
    if not isinstance(sections, Mapping):
        raise BadClassError("its INPUT_TYPES does not return a dict")
    outputs, (hidden, unseen) = _outputs(kind), _hidden_inputs(sections.get("hidden") or {})
    inputs = (*inputs_of(sections), *unseen)
    optional = sections.get("optional")
    takes_anything = optional is not None and _ANY_NAME in optional  # some packs return True for every name
    old = _OldClass(kind, inputs, outputs, hidden, folders)
    check = inspect.getattr_static(kind, "check_lazy_status", None)
    return Definition(
        name,
        title,
        str(getattr(kind, "CATEGORY", "")),
        inputs,
        outputs,
        old.run_concurrently if inspect.iscoroutinefunction(getattr(kind, method)) else old.run,
        hidden,
        is_output=bool(getattr(kind, "OUTPUT_NODE", False)),
        is_input_list=old.is_input_list,
        is_experimental=bool(getattr(kind, "EXPERIMENTAL", False)),
        is_deprecated=bool(getattr(kind, "DEPRECATED", False)),
        fingerprint=_check(kind, "IS_CHANGED", hidden),
        validate=_check(kind, "VALIDATE_INPUTS", hidden),
        needed=None if check is None else old.lazy_check(kind.check_lazy_status, check),
        takes_unknown=takes_anything,
        is_idempotent=not getattr(kind, "NOT_IDEMPOTENT", False),
        takes_unknown_links=_takes_any(getattr(kind, method)),
        shows_again=bool(getattr(kind, "HAS_INTERMEDIATE_OUTPUT", False)),
        told=_describe(kind, module) | (_sections(inputs, hidden, unseen) if unseen else {}),
    )


class _OldClass:
    """A class, and its instances: one for each node, for as long as the host lives, as packs keep things in them."""

    def __init__(
        self,
        kind: Any,
        inputs: tuple[Input, ...],
        outputs: tuple[Output, ...],
        hidden: Mapping[str, object],
        folders: PackFolders,
    ) -> None:
        self._kind = kind
        self._outputs = outputs
        self._hidden_inputs = hidden
        self._folders = folders
        self._uploads = [input_.name for input_ in inputs if _UPLOADS.intersection(input_.declared.options)]
        self._converted = converter(inputs)
        self._instances: OrderedDict[str, object] = OrderedDict()
        self.is_input_list: Final = bool(getattr(kind, "INPUT_IS_LIST", False))

    def run(self, **inputs: object) -> Result | Blocked:
        """Call the method for the node that is being executed."""
        context = current_context()
        with numbered_graphs():
            given = complete(self._method(context)(**self._arguments(inputs, context)))
        return as_result(given, self._outputs, self._folders, context)

    async def run_concurrently(self, **inputs: object) -> Result | Blocked:
        """The same for a method that is a coroutine."""
        context = current_context()
        with numbered_graphs():
            given = await self._method(context)(**self._arguments(inputs, context))
        return as_result(given, self._outputs, self._folders, context)

    def lazy_check(self, function: Callable[..., object], static: object) -> Callable[..., object]:
        """The class's own function for needed lazy inputs, called on the node's instance."""
        signature = inspect.signature(function)
        if inspect.isfunction(static):  # an ordinary method, seen from the class
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        takes_any = _takes_any(function)

        def ask(**values: object) -> object:
            known = {**self._hidden_values(), **self._converted(values)}
            chosen = {name: value for name, value in known.items() if takes_any or name in signature.parameters}
            return self._instance(current_context()).check_lazy_status(**chosen)

        ask.__signature__ = signature  # type: ignore[attr-defined]
        return ask

    def _method(self, context: NodeContext | None) -> Callable[..., Any]:
        found: Callable[..., object] = getattr(self._instance(context), self._kind.FUNCTION)
        return found

    def _instance(self, context: NodeContext | None) -> Any:
        id_ = node_id(context)
        if id_ not in self._instances:
            self._instances[id_] = self._kind()
            while len(self._instances) > _INSTANCES_MAX:
                self._instances.popitem(last=False)
        return self._instances[id_]

    def _arguments(self, inputs: Mapping[str, Any], context: NodeContext | None) -> dict[str, object]:
        for name in self._uploads:
            if context is not None and isinstance(inputs.get(name), str):
                self._stage(inputs[name], context)
        return {**self._converted(inputs), **self._hidden_values()}

    def _hidden_values(self) -> dict[str, object]:
        values = hidden_values(self._hidden_inputs)
        return {name: [value] for name, value in values.items()} if self.is_input_list else values

    def _stage(self, name: str, context: NodeContext) -> None:
        """Link an upload to where packs look for it."""
        try:
            self._folders.stage(name, context)
        except NoSuchFileError:
            return  # the node reports a missing file itself, as it may find the name elsewhere


def _check(kind: object, name: str, hidden: Mapping[str, object]) -> Callable[..., object] | None:
    """A check of a class. Some forget `@classmethod`, and get the class as their first argument."""
    function = getattr(kind, name, None)
    if not callable(function):
        return None
    first = next(iter(inspect.signature(function).parameters), None)
    if inspect.isfunction(inspect.getattr_static(kind, name)) and first in _SELF_NAMES:
        return with_hidden(function.__get__(kind), hidden)
    return with_hidden(function, hidden)


def _takes_any(function: Callable[..., object]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _outputs(kind: object) -> tuple[Output, ...]:
    types = getattr(kind, "RETURN_TYPES", ())
    if not isinstance(types, list | tuple):
        raise BadClassError("its RETURN_TYPES is not a tuple; one type needs a comma behind it")
    names = _sequence(getattr(kind, "RETURN_NAMES", None))
    lists = _sequence(getattr(kind, "OUTPUT_IS_LIST", None))
    return tuple(
        Output(
            output_type(type_),
            str(names[index]) if index < len(names) else None,
            bool(lists[index]) if index < len(lists) else False,
        )
        for index, type_ in enumerate(types)
    )


def _hidden_inputs(section: Mapping[str, object]) -> tuple[dict[str, Any], tuple[Input, ...]]:
    """The hidden inputs that every node gets, and those that are ordinary inputs, only not shown.

    The latter are set by packs in the graphs they make, such as the turns of a loop.
    """
    filled = {str(name): kind for name, kind in section.items() if isinstance(kind, str) and kind in _FILLED_IN}
    others = {name: (kind,) if isinstance(kind, str) else kind for name, kind in section.items() if name not in filled}
    return filled, inputs_of({"optional": others})


def _sections(inputs: tuple[Input, ...], hidden: Mapping[str, Any], unseen: tuple[Input, ...]) -> dict[str, object]:
    """The inputs for editors, without those that are not shown."""
    names = {input_.name for input_ in unseen}
    sections = {
        section: {
            input_.name: spec_of(input_.declared)
            for input_ in inputs
            if input_.name not in names and input_.is_optional == (section == "optional")
        }
        for section in ("required", "optional")
    }
    sections["hidden"] = {**hidden, **{input_.name: spec_of(input_.declared) for input_ in unseen}}
    return {"input": sections, "input_order": {section: list(found) for section, found in sections.items()}}


def _sequence(value: object) -> Sequence[object]:
    """A tuple of values; a single value may stand alone, as `("name")` is not a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _describe(kind: object, module: str) -> dict[str, object]:
    told: dict[str, object] = {
        "description": plain(getattr(kind, "DESCRIPTION", "")),
        "python_module": module,
        "has_intermediate_output": bool(getattr(kind, "HAS_INTERMEDIATE_OUTPUT", False)),
        "search_aliases": plain(list(_sequence(getattr(kind, "SEARCH_ALIASES", None)))),
    }
    tooltips = getattr(kind, "OUTPUT_TOOLTIPS", None)
    if tooltips is not None:
        told["output_tooltips"] = plain(list(_sequence(tooltips)))
    return told | {key: plain(getattr(kind, name)) for name, key in _TOLD.items() if hasattr(kind, name)}
