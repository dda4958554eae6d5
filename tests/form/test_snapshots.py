"""The public schema snapshots are those of the catalog."""

from pathlib import Path

import pytest

from fairlead.operations.catalog import read_catalog, write_snapshots
from fairlead.server.installation import SNAPSHOTS, authored_flag, catalog_folders, provider_files
from fairlead.server.settings import read_settings


@pytest.mark.req("R-09")
def test_snapshots_are_current(tmp_path: Path) -> None:
    """The snapshots in the package are what `make docs` would write now."""
    settings = read_settings({})
    write_snapshots(
        read_catalog(catalog_folders(settings), provider_files(settings), authored_flag(settings)), tmp_path
    )
    assert _contents(SNAPSHOTS) == _contents(tmp_path), "run `make docs`"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}
