"""docs/registry.md names every route of the registry, every error of it, and every property of what is published."""

import re
from typing import Final

import msgspec
import pytest

from fairlead.api.registry.routes import ROUTES
from fairlead.domain.registry import Entry, NodeEntry, PublisherEntry, VersionEntry
from form.sources import DOCS, PACKAGE

_ROUTE: Final = re.compile(r"^\| `((?:GET|POST|PUT|DELETE) /\S+)` \|", re.MULTILINE)
_WORDED: Final = re.compile(r"_Worded\((?P<status>\d{3}|METHOD_NOT_ALLOWED), \"(?P<error>\w+)\"")


def _page() -> str:
    return (DOCS / "registry.md").read_text(encoding="utf-8")


def test_table_of_routes_is_that_of_the_code() -> None:
    """Each route has a row, and no row is of a route there is not."""
    assert set(_ROUTE.findall(_page())) == {f"{route.method} {route.path}" for route in ROUTES}


def test_every_error_is_described() -> None:
    """Each error stands in the row of its status, but for the one that nobody is left to read."""
    worded = _WORDED.findall((PACKAGE / "api/registry/errors.py").read_text(encoding="utf-8"))
    assert worded
    rows = [line for line in _page().splitlines() if line.startswith("| ")]
    missing = [
        (status, error)
        for status, error in worded
        if status != "499"
        and not any(
            line.startswith(f"| {status.replace('METHOD_NOT_ALLOWED', '405')} |") and f"`{error}`" in line
            for line in rows
        )
    ]
    assert missing == []


@pytest.mark.parametrize("entry", [PublisherEntry, NodeEntry, VersionEntry])
def test_every_property_is_described(entry: type[Entry]) -> None:
    """Each property that can be sent has a row."""
    names = [field.encode_name for field in msgspec.structs.fields(entry)]
    assert [name for name in names if f"\n| `{name}` |" not in _page()] == []
