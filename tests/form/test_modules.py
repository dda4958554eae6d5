"""Every module says what it is, holds something, and shows what it imports."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from form.sources import SOURCE, Function, Module, modules, without_docstring

_PACKAGES: Final = frozenset({"fairlead", "fairlead_partners"})
_EXCUSED_IMPORT: Final = re.compile(r"# noqa: PLC0415 -- \S")


def test_every_module_has_a_docstring() -> None:
    """Each module opens with the sentence that places it."""
    assert [module.name for module in modules("src") if not ast.get_docstring(module.tree)] == []


def test_every_package_has_code() -> None:
    """Somewhere below every package folder is a module with more in it than a docstring."""
    folders = {module.path.parent for module in modules("src")}
    filled = {
        folder
        for module in modules("src")
        if without_docstring(module.tree.body)
        for folder in (module.path.parent, *module.path.parents)
    }
    assert sorted(str(folder.relative_to(SOURCE)) for folder in folders - filled) == []


def test_no_import_of_the_project_is_hidden() -> None:
    """An import inside a function or under TYPE_CHECKING hides a knot; one that must be there says why."""
    hidden = [
        module.place(statement.lineno)
        for module in modules("src")
        for statement in _hidden_imports(module)
        if _is_of_the_project(statement) and not _EXCUSED_IMPORT.search(module.comments.get(statement.lineno, ""))
    ]
    assert hidden == [], "move these to the head of the module, or add `# noqa: PLC0415 -- why`"


def _hidden_imports(module: Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(node)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _imports(node)
            case _:
                pass  # anything else is in sight


def _imports(node: Function | ast.If) -> Iterator[ast.Import | ast.ImportFrom]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom))


def _is_of_the_project(statement: ast.Import | ast.ImportFrom) -> bool:
    match statement:
        case ast.ImportFrom(level=level, module=name):
            return level > 0 or (name or "").partition(".")[0] in _PACKAGES
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in _PACKAGES for alias in names)
