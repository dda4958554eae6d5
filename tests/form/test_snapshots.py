"""The public schema snapshots are those of the catalog."""

from pathlib import Path

import pytest

from catalog_samples import shipped_catalog
from fairlead.operations.catalog import write_snapshots
from fairlead.server.installation import SNAPSHOTS


@pytest.mark.req("R-09")
def test_snapshots_are_current(tmp_path: Path) -> None:
    """The snapshots in the package are what `make docs` would write now."""
    write_snapshots(shipped_catalog(), tmp_path)
    assert _contents(SNAPSHOTS) == _contents(tmp_path), "run `make docs`"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}
