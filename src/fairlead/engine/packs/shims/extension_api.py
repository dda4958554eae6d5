"""`comfy_api` as packs import it: what a pack in the schema form is, and what its nodes ask of the engine."""

from typing import Any, Final

from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.packs.shims.progress import tell_progress
from fairlead.engine.packs.shims.schema_form import ComfyNode


class ComfyExtension:
    """A pack: the classes of nodes it has."""

    async def on_load(self) -> None:
        """Get ready before the classes are asked for."""

    async def get_node_list(self) -> list[type[ComfyNode]]:
        """The classes."""
        raise NotImplementedError(f"{type(self).__name__} has no get_node_list")


class ExecutionSync:
    """What a node reports about its execution."""

    def set_progress(
        self, value: float, max_value: float, node_id: str | None = None, preview_image: object = None, **_: object
    ) -> None:
        """Report the node's progress, perhaps with a preview."""
        del node_id  # it is the node that is being executed
        tell_progress(value, max_value, preview_image, current_context())


class Execution(ExecutionSync):
    """The same, to be awaited."""

    async def set_progress(self, *args: Any, **options: Any) -> None:  # type: ignore[override]
        """Report the node's progress, perhaps with a preview."""
        super().set_progress(*args, **options)


class NodeReplacement:
    """Which nodes take the place of others: a matter of editors."""

    async def register(self, *_: object, **__: object) -> None:
        """Take a replacement, which nobody asks for."""


class ComfyAPI:
    """What a pack asks of the engine."""

    Execution: Final = Execution
    execution: Final = Execution()
    node_replacement: Final = NodeReplacement()


class ComfyAPISync:
    """The same for code that does not await."""

    Execution: Final = ExecutionSync
    execution: Final = ExecutionSync()
