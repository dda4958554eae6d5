"""Nodes of packs in the schema form (V3): classes that describe themselves and have class methods."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fairlead.engine.nodes.node import Blocked, Definition, Output, Result
from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.packs.calling import as_result, complete, converter, hidden_values, made_result
from fairlead.engine.packs.declarations import BadClassError, inputs_of, plain, type_name
from fairlead.engine.packs.folders import PackFolders
from fairlead.engine.packs.shims.graph_builder import numbered_graphs
from fairlead.engine.packs.shims.schema_form import ComfyNode, Hidden, HiddenHolder, NodeOutput, Schema
from fairlead.engine.packs.shims.schema_types import sections_of


def definition_of_schema(kind: type[ComfyNode], module: str, folders: PackFolders) -> Definition:
    """A class as a definition. BadClassError when what it says about itself cannot be used."""
    schema = kind.GET_SCHEMA()
    if not isinstance(schema, Schema):
        raise BadClassError("its define_schema does not return a Schema")
    name: object = schema.node_id
    if not isinstance(name, str) or not name:
        raise BadClassError("its node_id is not a name")
    inputs = inputs_of(sections_of(schema.inputs or ()))
    outputs = tuple(
        Output(type_name(output.get_io_type()), output.display_name or output.id, bool(output.is_output_list))
        for output in schema.outputs or ()
    )
    hidden = {Hidden(kind).name: [Hidden(kind).value] for kind in _hidden_inputs_of(schema)}
    node = _NewClass(kind, hidden, outputs, folders, converter(inputs))
    is_lazy = any(input_.is_lazy for input_ in inputs)
    return Definition(
        name,
        str(schema.display_name or name),
        str(schema.category),
        inputs,
        outputs,
        node.run_concurrently if inspect.iscoroutinefunction(kind.execute) else node.run,
        hidden,
        is_output=bool(schema.is_output_node),
        is_input_list=bool(schema.is_input_list),
        is_experimental=bool(schema.is_experimental),
        is_deprecated=bool(schema.is_deprecated),
        fingerprint=node.check("fingerprint_inputs"),
        validate=node.check("validate_inputs"),
        needed=node.check("check_lazy_status") if is_lazy else None,
        takes_unknown=bool(schema.accept_all_inputs),
        is_idempotent=not schema.not_idempotent,
        shows_again=bool(schema.has_intermediate_output),
        told=_describe(schema, module),
    )


class _NewClass:
    """A class whose methods are called on a copy of it that has the hidden inputs of the node."""

    def __init__(
        self,
        kind: type[ComfyNode],
        hidden: Mapping[str, object],
        outputs: tuple[Output, ...],
        folders: PackFolders,
        converted: Callable[[Mapping[str, object]], dict[str, object]],
    ) -> None:
        self._kind = kind
        self._hidden = hidden
        self._outputs = outputs
        self._folders = folders
        self._converted = converted

    def run(self, **inputs: object) -> Result | Blocked:
        """Execute a node."""
        with numbered_graphs():
            return self._result(complete(self._copy().execute(**self._converted(inputs))))

    async def run_concurrently(self, **inputs: object) -> Result | Blocked:
        """The same for a method that is a coroutine."""
        with numbered_graphs():
            return self._result(await self._copy().execute(**self._converted(inputs)))

    def check(self, name: str) -> Callable[..., object] | None:
        """A check of the class; None when it has none."""
        function = getattr(self._kind, name, None)
        if function is None:
            return None

        def check(**values: object) -> object:
            return getattr(self._copy(), name)(**self._converted(values))

        check.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return check

    def _copy(self) -> Any:
        """Nodes keep no state on their class: attributes are set on a copy that lives as long as the call."""
        return type(self._kind.__name__, (self._kind,), {"hidden": HiddenHolder(hidden_values(self._hidden))})

    def _result(self, given: object) -> Result | Blocked:
        context = current_context()
        if not isinstance(given, NodeOutput):
            return as_result(given, self._outputs, self._folders, context)
        ui = given.ui.as_dict() if hasattr(given.ui, "as_dict") else given.ui or {}
        if given.block_execution is not None:
            blocked = Blocked(given.block_execution)
            return made_result(blocked, ui, None, self._outputs, self._folders, context)
        if ui and not given.args and given.expand is None:
            return as_result({"ui": ui}, self._outputs, self._folders, context)
        return made_result(given.args, ui, given.expand, self._outputs, self._folders, context)


def _hidden_inputs_of(schema: Schema) -> list[Hidden]:
    """The hidden inputs a class asks for, and those of all classes that write files."""
    asked = [*(schema.hidden or ())]
    return [*asked, *([Hidden.prompt, Hidden.extra_pnginfo] if schema.is_output_node else [])]


def _describe(schema: Schema, module: str) -> dict[str, object]:
    return {
        "display_name": schema.display_name,
        "description": plain(schema.description or ""),
        "python_module": module,
        "has_intermediate_output": bool(schema.has_intermediate_output),
        "search_aliases": plain(list(schema.search_aliases or ())),
        "output_tooltips": [plain(output.tooltip) for output in schema.outputs or ()],
        "output_matchtypes": [output.template_id for output in schema.outputs or ()],
        "deprecated": bool(schema.is_deprecated),
        "experimental": bool(schema.is_experimental),
        "dev_only": bool(schema.is_dev_only),
        "api_node": bool(schema.is_api_node),
        "essentials_category": plain(schema.essentials_category),
        "price_badge": plain(schema.price_badge.as_dict() if hasattr(schema.price_badge, "as_dict") else None),
    }
