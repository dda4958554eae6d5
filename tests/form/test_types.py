"""`Any` switches the type checker off; how often it is written may only shrink."""

import ast
from typing import Final

from form.sources import modules

_ANY_MAX: Final = 298
"""How often annotations and aliases of `src` name `Any`, imports not counted. Lower it with each that goes."""


def test_any_is_named_no_more_often_than_before() -> None:
    """A value whose type is known has it: a document of a known form is a struct, a file is `IO[bytes]`."""
    named = sum(
        isinstance(node, ast.Name) and node.id == "Any" for module in modules("src") for node in ast.walk(module.tree)
    )
    assert named <= _ANY_MAX, "give what is new its type"
