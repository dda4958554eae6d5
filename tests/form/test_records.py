"""Values that belong together have names: a tuple of more than three of them is a record (CONTRIBUTING.md)."""

import ast
from collections.abc import Iterator
from typing import Final

from form.sources import Module, modules

_VALUES_MAX: Final = 3
_CONTRACTS: Final = {
    "fairlead.engine.nodes.colour.image_histogram",
    "fairlead.engine.nodes.video.get_video_components",
    "fairlead.engine.packs.shims.folder_paths.FolderPaths.get_save_image_path",
}
"""Functions whose results have that form by a contract: the outputs of nodes, and what node packs call."""


def test_tuple_of_more_than_three_values_is_a_record() -> None:
    """No annotation names the types of more than three values by their places."""
    assert {name for module in modules("src") for name in _long_tuples(module)} == _CONTRACTS


def _long_tuples(module: Module) -> Iterator[str]:
    """Where a module annotates a tuple of too many values, by the names of the classes and functions around it."""

    def look(node: ast.AST, name: str) -> Iterator[str]:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{name}.{node.name}"
        match node:
            case ast.Starred():  # the columns of a query, not a value
                return
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=types)) if len(types) > _VALUES_MAX:
                yield name
        for child in ast.iter_child_nodes(node):
            yield from look(child, name)

    return look(module.tree, module.dotted)
