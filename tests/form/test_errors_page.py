"""docs/errors.md, or docs/router.md, describes every bucket."""

import ast
from typing import Final

from form.sources import DOCS, PACKAGE

_FAULTS: Final = PACKAGE / "domain" / "faults.py"
_BUCKETS: Final = 19


def test_every_bucket_is_described() -> None:
    """Each bucket stands on one of the two pages, spelled as on the wire."""
    pages = (DOCS / "errors.md", DOCS / "router.md")
    manual = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    assert sorted(name for name in _buckets() if f"`{name}`" not in manual) == []


def test_there_are_nineteen_buckets() -> None:
    """There are nineteen buckets."""
    assert len(_buckets()) == _BUCKETS


def _buckets() -> set[str]:
    """Read the buckets off the one table that names them, so that none can be forgotten here."""
    tree = ast.parse(_FAULTS.read_text(encoding="utf-8"))
    table = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "bucket")
    returned = (node.value for node in ast.walk(table) if isinstance(node, ast.Return))
    return {value.value for value in returned if isinstance(value, ast.Constant) and isinstance(value.value, str)}
