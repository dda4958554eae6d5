"""How parts are joined: by constructors and through messaging, never by observations or by what is set later."""

import ast
from typing import Final

from form.sources import modules

_WEB_SERVER: Final = {"web", "web_server", "sockets"}
"""These build upon a web server whose parts are set so."""


def test_only_observing_hears_observations() -> None:
    """No behaviour hangs on an observation: nothing outside `observing` takes one."""
    others = [module for module in modules("src/fairlead") if ".observing." not in module.dotted]
    assert others
    assert [module.name for module in others if any(_hears(node) for node in ast.walk(module.tree))] == []


def test_wiring_sets_nothing_after_construction() -> None:
    """What a part needs is given to its constructor: wiring sets no attribute of another object."""
    wiring = [module for module in modules("src/fairlead/server") if module.path.stem not in _WEB_SERVER]
    assert wiring
    assert [module.name for module in wiring if any(_sets(node) for node in ast.walk(module.tree))] == []


def _hears(node: ast.AST) -> bool:
    return isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id == "Observation"


def _sets(node: ast.AST) -> bool:
    """Whether an attribute of something other than `self` is set."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "self")
